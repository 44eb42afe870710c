"""Write docs/evidence/methods_speed.md from the benchmarks of the methods.

    python benchmarks/write_methods_page.py

What was not measured is left out, and said to be.
"""

from __future__ import annotations

import sys
from typing import Any

from harness import QUIET_LOAD, Pair, Spread, cpu_of, peak_of, wall_of
from page_reasons import reasons
from page_text import (
    are_alike,
    disturbance,
    environment,
    pairs_of,
    ratios,
    read,
    runs_of,
    write,
)
from pages import bullets, paragraph

HEAD = """# Speed of the other methods

<!-- Written by `make bench-methods`; edit benchmarks/write_methods_page.py. -->

Whole processes, two commands in turn; see [benchmarks](benchmarks.md) for how a ratio is to be read.
Below 1 calibkit is faster, or smaller."""

SECTIONS = {
    "calibrate": (
        "calibrate and apply",
        "`calibkit calibrate --apply` against a script that reads the same file, fits and predicts by "
        "the package named, and writes the same columns. `auto` is beside `platt`, fit alone.",
    ),
    "vad": (
        "vad",
        "Against a polars process that computes the logits of three members and their covariances "
        "(which polars streams, and sums in whatever order).",
    ),
    "hetcal": (
        "hetcal",
        "A tree of depth 4 against scikit-learn's tree with a logistic regression in each leaf "
        "(calibkit grows five more trees, to cross-fit its maps), "
        "boosted partitions against LightGBM with as many trees and, on fewer rows, against MCGrad, "
        "and applying a tree against reading the file with polars.",
    ),
    "certified": (
        "boundary --confidence",
        "A boundary whose precision is certified (at least 0.7, confidence 0.9) against the same "
        "fit without a certificate, and against MAPIE's control of the precision of one threshold.",
    ),
    "smooth": (
        "evaluate --metrics smooth_ece",
        "The smooth calibration error without an interval. calibkit smooths every score and solves for "
        "the bandwidth to 1e-6; relplot puts scores on a grid first, so the two differ in the third "
        "digit.",
    ),
    "raters": (
        "alpha-cal",
        "100,000 rows, 10 classes, 64 features, against scipy's L-BFGS-B on the same objective in "
        "numpy; both processes start, read and fit.",
    ),
}


def section(name: str, found: dict[str, Any]) -> str:
    """Return the section of one benchmark."""
    title, text = SECTIONS[name]
    pairs = pairs_of(found)
    parts = [f"## {title}", paragraph(text), ratios(pairs, "other")]
    about = [line for pair in pairs if (line := without_start(pair))]
    about += [evaluation(one) for one in found.get("evaluation", [])]
    items = [*map(bullets, about), *reasons(pairs)]
    if items:
        parts.append("\n".join(items))
    return "\n\n".join(parts)


def without_start(pair: Pair) -> str:
    """Return the ratio of processor time less start-up; empty where too little is left for one."""
    ratio = pair.net(cpu_of)
    if ratio is None:
        return ""
    return f"{pair.name}, less what either side takes to start: {ratio:.2f} of the processor time."


def evaluation(one: dict[str, Any]) -> str:
    """Return what metrics of label histograms take."""
    runs = runs_of(one["runs"])
    wall, peak = (Spread.of([of(run) for run in runs]) for of in (wall_of, peak_of))
    return (
        f"All metrics of label histograms, {one['name']}: {wall.median:.1f} s "
        f"({wall.low:.1f}–{wall.high:.1f}), {peak.median / 2**20:.0f} MB at most."
    )


def main() -> None:
    """Write the whole page."""
    found = read(SECTIONS)
    if not found or not are_alike(found):
        sys.exit("no results, or of different machines or sources: run `make bench-methods` again.")
    loads = [pair["load"] for one in found.values() for pair in one["pairs"]]
    machine = next(iter(found.values()))["machine"]
    remarks = environment(machine, "The others") + disturbance(loads, QUIET_LOAD)
    missing = [name for name in SECTIONS if name not in found]
    if missing:
        remarks.append(bullets(f"Not measured on this machine: {', '.join(missing)}."))
    parts = (section(name, one) for name, one in found.items())
    write("methods_speed", HEAD, "\n".join(remarks), *parts)


if __name__ == "__main__":
    main()
