"""Write docs/evidence/benchmarks.md from what the benchmarks left in build/bench/results.

    python benchmarks/write_page.py

The numbers, and whether each aim was met, come from the results; nothing is typed in by hand.
"""

from __future__ import annotations

import json
import statistics
import sys
from fractions import Fraction
from typing import Any

from bench_boundary import LARGE
from harness import (
    QUIET_LOAD,
    RESULTS,
    ROOT,
    Pair,
    cpu_of,
    million,
    peak_of,
    wall_of,
)
from page_text import bullet, median, paragraph, seconds, shown, table, verdict

PAGE = ROOT / "docs" / "evidence" / "benchmarks.md"
NEEDED = ("startup", "boundary", "mist", "evaluate", "grid", "profile")

#: Seconds the paper reports for EW-DPMT on a grid of this size, and the kernel time aimed at.
PAPER_SECONDS, KERNEL_SECONDS = 11_335, 0.1

HEAD = """# Speed and memory

<!-- Written by `make bench`; edit benchmarks/write_page.py. -->

Whole processes, from start to exit, two commands in turn (A B A B …) after one run of each that
warms the caches. A **ratio** is calibkit's figure over the other's in the same round: the median,
and the smallest and largest in brackets; below 1 calibkit is faster, or smaller. Wall time is what
a user waits. Processor time is that of all threads and suffers less where other work shares the
machine. Whether an aim is met is judged by the median of the wall time."""

SORT = """## A boundary against sorting the rows

The yardstick is a Python process that reads the same three columns with polars and sorts the rows
by score: `polars.read_parquet(file, columns=[…]).sort("score")`. calibkit reads, checks, hashes,
sorts, counts and proves the optimum over every distinct score in 11 uncertainty levels
(`--precision 0.7 --uncertainty-bins 11`). Scores and uncertainties are float32. In *distinct*
nearly every row has a score of its own; *counts* is what `calibkit simulate posterior` writes, with
many rows to a score. *Net of start-up* takes off what both sides need without data (calibkit on
1,000 rows, `import polars`), measured in the same rounds, in processor time; a dash where noise
is as large as what is left."""

MIST = """## MIST against scikit-learn

The paper's isotonic method, whole process, same file: levels by numpy, one isotonic regression a
level by scikit-learn, one cut for all levels. `IsotonicRegression` is the class as one would use
it; `isotonic_regression` is its bare pooling, on rows that numpy sorted and gathered before."""

EVALUATE = """## Metrics against scikit-learn and a plain script

`calibkit evaluate` with AUC, average precision, log loss, Brier, ECE, MCE and CORP, all with intervals,
whole process, on *distinct*. scikit-learn: its functions for the first four and the calibration curve,
no intervals. The script: numpy, one sort, DeLong's interval, standard errors of the losses, ECE and
MCE, no CORP; arrays given up as soon as they have served. At 1 million rows start-up is most of the
time."""

GRID = """## The paper's methods on one grid

Time inside the process after a first call (compilation and loading excluded), on a grid of {levels}
x {bins} equal-mass bins, precision >= {bound}: the median of the calls."""

PROFILE = """## Where the time goes

`make profile` prints this: one run on {rows} (*distinct*), clocks inside the process. A step does
not contain those below it. Seconds on the wall, then of the processors; *memory* is by how much the
step raised the peak. The start of the interpreter is not in it. Load before: {load:.1f}."""


def read() -> dict[str, dict[str, Any]]:
    """Return the results by name; all must come from the same machine and sources."""
    missing = [name for name in NEEDED if not (RESULTS / f"{name}.json").is_file()]
    if missing:
        sys.exit(f"no results of {', '.join(missing)}: run `make bench`.")
    found = {
        name: json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8")) for name in NEEDED
    }
    machines = [one["machine"] for one in found.values()]
    if any(machine != machines[0] for machine in machines):
        sys.exit("the results are of different machines or sources: run `make bench` again.")
    return found


def machine_lines(found: dict[str, dict[str, Any]]) -> str:
    """Return what the numbers depend on."""
    about = found["boundary"]["machine"]

    def listed(versions: dict[str, str]) -> str:
        return ", ".join(f"{name} {version}" for name, version in versions.items())

    loads = [
        pair["load"]
        for name in ("startup", "boundary", "mist", "evaluate")
        for pair in found[name]["pairs"]
    ]
    loads += [found[name]["load"] for name in ("grid", "profile")]
    lines = [
        f"Machine: {about['processor']}, {about['cores']} cores, {about['memory']}, "
        f"{about['system']}.",
        f"calibkit and polars: {listed(about['versions'])}; nothing but calibkit's run-time "
        "dependencies is installed there.",
        f"scikit-learn: {listed(about['development'])}.",
    ]
    if about["versions"].keys() & {"scipy", "scikit-learn"}:
        lines[1] = f"Everything: {listed(about['versions'])}."
        del lines[2]
    busy = sum(load > QUIET_LOAD for load in loads)
    if busy:
        lines.append(
            f"**The machine was busy**: the one-minute load was above {QUIET_LOAD} before {busy} of "
            f"{len(loads)} measurements (up to {max(loads):.1f}; the benchmark itself counts as up "
            f"to {about['cores']}). That is not neutral: polars sorts with all cores, most steps of "
            "calibkit use one, so other work takes more from polars and may flatter calibkit's "
            "ratios of wall time. Whether an aim is met has to be settled on a quiet machine."
        )
    return "\n".join(map(bullet, lines))


def startup_section(pairs: list[Pair], start: Pair) -> str:
    """Return the section about start-up."""
    rows = []
    for pair in pairs:
        wall = median(pair, "ours", wall_of)
        limit = pair.facts["seconds"]
        best = min(one.wall for one in pair.ours)
        rows.append(
            [
                *(pair.name, f"{wall:.2f} s", f"{best:.2f} s", f"{limit:g} s"),
                *(verdict(wall, limit), f"{median(pair, 'ours', cpu_of):.2f} s"),
                shown(pair.ratio(wall_of)),
            ]
        )
    header = [
        "command",
        "median",
        "best",
        "aim",
        "",
        "processors",
        "ratio to `import polars, numba`",
    ]
    ours, peer = (median(start, side, cpu_of) for side in ("ours", "peer"))
    text = (
        f"A boundary on 1,000 rows takes {seconds(start, wall_of)} against `import polars` alone, "
        f"{ours:.2f} s / {peer:.2f} s of the processors; the profile below says what it consists "
        "of."
    )
    return f"## Start-up\n\n{table(header, rows)}\n\n{paragraph(text)}"


def bare(pair: Pair) -> str:
    """Return the ratio of processor times net of start-up."""
    ratio = pair.net(cpu_of)
    return "—" if ratio is None else f"{ratio:.2f}"


def sort_section(pairs: list[Pair]) -> str:
    """Return the section about boundaries and sorting."""
    header = ["", "calibkit / polars", "wall", "aim", "", "processors", "net of start-up", "memory"]
    rows = []
    for pair in pairs:
        wall = pair.ratio(wall_of)
        assert pair.limit is not None
        rows.append(
            [
                *(pair.name, seconds(pair, wall_of), shown(wall), f"{pair.limit:g}"),
                *(verdict(wall.median, pair.limit), shown(pair.ratio(cpu_of))),
                *(bare(pair), shown(pair.ratio(peak_of))),
            ]
        )
    remarks = [bullet(sort_remark(pair)) for pair in pairs]
    if not any(pair.limit == LARGE for pair in pairs):
        remarks.append(bullet("50 million rows were not measured: `make bench LARGE=1` does that."))
    return "\n\n".join([SORT, table(header, rows), "\n".join(remarks)])


def sort_remark(pair: Pair) -> str:
    """Return an honest sentence about a ratio."""
    assert pair.limit is not None
    wall, cpu, peak = pair.ratio(wall_of), pair.ratio(cpu_of), pair.ratio(peak_of)
    text = f"{pair.name}: "
    if wall.high <= pair.limit:
        text += f"{wall.median:.2f} meets {pair.limit:g} in every round"
    elif wall.median <= pair.limit:
        text += f"{wall.median:.2f} meets {pair.limit:g}, though not in every round"
    else:
        text += f"{wall.median:.2f} misses {pair.limit:g}"
    text += f"; {cpu.median:.2f} of the processor time."
    if pair.memory_limit is not None:
        text += (
            f" Peak memory {median(pair, 'ours', peak_of) / 1e6:.0f} MB against "
            f"{median(pair, 'peer', peak_of) / 1e6:.0f} MB: {peak.median:.2f}, "
            f"{verdict(peak.median, pair.memory_limit)} (aim: {pair.memory_limit:g})."
        )
    return text


def mist_section(pairs: list[Pair]) -> str:
    """Return the section about MIST."""
    header = [
        "",
        "calibkit / scikit-learn",
        "times as fast",
        "in processor time",
        "memory",
        "same thresholds",
    ]
    rows, remarks = [], []
    for pair in pairs:
        wall, cpu = pair.ratio(wall_of), pair.ratio(cpu_of)
        rows.append(
            [
                pair.name,
                seconds(pair, wall_of),
                f"{1 / wall.median:.1f} ({1 / wall.high:.1f}–{1 / wall.low:.1f})",
                f"{1 / cpu.median:.1f}",
                shown(pair.ratio(peak_of)),
                "yes" if pair.facts["same_thresholds"] else "**no**",
            ]
        )
        if pair.limit is not None:
            remarks.append(
                f"{pair.name}: {1 / wall.median:.1f} times as fast; aimed at were "
                f"{1 / pair.limit:g} times: {verdict(wall.median, pair.limit)}."
            )
        elif wall.median > 1:
            remarks.append(f"{pair.name}: scikit-learn is faster.")
    return "\n\n".join([MIST, table(header, rows), "\n".join(map(bullet, remarks))])


def evaluate_section(pairs: list[Pair]) -> str:
    """Return the section about metrics."""
    header = ["", "calibkit / other", "times as fast", "in processor time", "memory", "same values"]
    rows, remarks = [], []
    for pair in pairs:
        wall, cpu, peak = pair.ratio(wall_of), pair.ratio(cpu_of), pair.ratio(peak_of)
        rows.append(
            [
                *(pair.name, seconds(pair, wall_of)),
                f"{1 / wall.median:.1f} ({1 / wall.high:.1f}–{1 / wall.low:.1f})",
                *(f"{1 / cpu.median:.1f}", shown(peak)),
                "yes" if pair.facts["same_values"] else "**no**",
            ]
        )
        if pair.limit is not None:
            text = f"{pair.name}: {wall.median:.2f} of the time; aim: at most {pair.limit:g}, "
            text += f"{verdict(wall.median, pair.limit)}."
            if pair.memory_limit is not None:
                met = verdict(peak.median, pair.memory_limit)
                text += f" Memory: at most {pair.memory_limit:g}, {met}."
            remarks.append(text)
    return "\n\n".join([EVALUATE, table(header, rows), "\n".join(map(bullet, remarks))])


def grid_section(found: dict[str, Any]) -> str:
    """Return the section about grids."""
    grids = found["grids"]
    names = [name for name, one in grids[0].items() if isinstance(one, dict)]
    rows = [[f"`{name}`", *(grid_cell(grid[name]) for grid in grids)] for name in names]
    header = ["method", *(f"grid of {million(grid['rows'])}" for grid in grids)]
    took = statistics.median(grids[0]["ew-dpmt"]["seconds"])
    exact = grids[0]["exact"]["true_positives"]
    bound = Fraction(found["bound"])
    short = [
        f"`{name}`"
        for name in names
        if any(_has_result(grid[name]) and _misses(grid[name], bound) for grid in grids)
    ]
    remarks = [
        f"`ew-dpmt` takes {took:.3f} s: {verdict(took, KERNEL_SECONDS)} (aim: under "
        f"{KERNEL_SECONDS:g} s). The paper reports {PAPER_SECONDS:,} s for a grid of this size, on "
        "another machine and on other data.",
        f"`exact` finds {exact:,} true positives on the first grid. On the true counts the bound is "
        f"missed by {', '.join(short) or 'no method'}, whose true positives do not compare.",
        "`frontier` is every boundary that no other beats in precision and recall, not one.",
    ]
    head = GRID.format(levels=found["levels"], bins=found["bins"], bound=found["bound"])
    return "\n\n".join([head, table(header, rows), "\n".join(map(bullet, remarks))])


def _has_result(one: Any) -> bool:
    return isinstance(one, dict) and "true_positives" in one


def _misses(one: dict[str, Any], bound: Fraction) -> bool:
    return bool(one["true_positives"] < bound * one["selected"])


def grid_cell(one: dict[str, Any]) -> str:
    """Return a cell of the table of grid methods."""
    if "skipped" in one:
        return "refused: " + one["skipped"].split(", more than")[0]
    took = f"{statistics.median(one['seconds']):.4f} s"
    if "points" in one:
        return f"{took}, {one['points']:,} boundaries"
    return f"{took}, {one['true_positives']:,} of {one['selected']:,} rows"


def profile_section(found: dict[str, Any]) -> str:
    """Return the profile."""
    profiles = found["profiles"]
    names = list(dict.fromkeys(step[0] for steps in profiles.values() for step in steps))
    by_name = [{step[0]: step[1:] for step in steps} for steps in profiles.values()]
    rows = [[name, *(profile_cell(steps.get(name)) for steps in by_name)] for name in names]
    sums = []
    for steps in by_name:
        totals = [sum(step[k] for step in steps.values()) for k in range(4)]
        sums.append(profile_cell(totals))
    header = ["step", *("no folds" if folds == "0" else f"{folds} folds" for folds in profiles)]
    head = PROFILE.format(rows=million(found["rows"]), load=found["load"])
    return "\n\n".join([head, table(header, [*rows, ["together", *sums]])])


def profile_cell(step: list[float] | None) -> str:
    """Return wall, processor time and memory of a step."""
    if step is None:
        return ""
    wall, user, system, rise = step
    return f"{wall:.3f} s, {user + system:.3f} s" + (
        f", {rise / 1024:+.0f} MB" if rise >= 512 else ""
    )


def page() -> str:
    """Return the whole page."""
    found = read()
    pairs = {
        name: [Pair.from_dict(pair) for pair in found[name]["pairs"]]
        for name in ("startup", "boundary", "mist", "evaluate")
    }
    start, *sorts = pairs["boundary"]
    sections = [
        HEAD,
        machine_lines(found),
        sort_section(sorts),
        startup_section(pairs["startup"], start),
        mist_section(pairs["mist"]),
        evaluate_section(pairs["evaluate"]),
        grid_section(found["grid"]),
        profile_section(found["profile"]),
    ]
    return "\n\n".join(sections) + "\n"


def main() -> None:
    PAGE.write_text(page(), encoding="utf-8")
    print(f"{PAGE.relative_to(ROOT)} written.")


if __name__ == "__main__":
    main()
