"""Write docs/evidence/benchmarks.md from what the benchmarks left in build/bench/results.

    python benchmarks/write_page.py

The numbers, and whether each aim was met, come from the results; nothing is typed in by hand.
"""

from __future__ import annotations

import sys
from typing import Any

from harness import QUIET_LOAD
from page_inside import grid_section, growth_section, profile_section
from page_pairs import evaluate_section, mist_section, sort_section, startup_section
from page_text import are_alike, disturbance, environment, pairs_of, read, write

PAIRED = ("startup", "boundary", "mist", "evaluate")
NEEDED = (*PAIRED, "grid", "growth", "profile")

HEAD = """# Speed and memory

<!-- Written by `make bench`; edit benchmarks/write_page.py. -->

Whole processes, from start to exit, two commands in turn (A B A B …) after one run of each that
warms the caches. A **ratio** is calibkit's figure over the other's in the same round: the median,
and the smallest and largest in brackets; below 1 calibkit is faster, or smaller. Wall time is what
a user waits. Processor time is that of all threads and suffers less where other work shares the
machine. Whether an aim is met is judged by the median of the wall time."""


def results() -> dict[str, dict[str, Any]]:
    """Return the results by name; all must come from the same machine and sources."""
    found = read(NEEDED)
    missing = [name for name in NEEDED if name not in found]
    if missing:
        sys.exit(f"no results of {', '.join(missing)}: run `make bench`.")
    if not are_alike(found):
        sys.exit("the results are of different machines or sources: run `make bench` again.")
    return found


def machine_lines(found: dict[str, dict[str, Any]]) -> str:
    """Return what the numbers depend on."""
    loads = [pair["load"] for name in PAIRED for pair in found[name]["pairs"]]
    loads += [found[name]["load"] for name in NEEDED[len(PAIRED) :]]
    about = environment(found["boundary"]["machine"], "scikit-learn")
    return "\n".join(about + disturbance(loads, QUIET_LOAD))


def main() -> None:
    """Write the whole page."""
    found = results()
    pairs = {name: pairs_of(found[name]) for name in PAIRED}
    start, *sorts = pairs["boundary"]
    write(
        "benchmarks",
        HEAD,
        machine_lines(found),
        sort_section(sorts),
        startup_section(pairs["startup"], start, found["startup"]["cold"]),
        mist_section(pairs["mist"]),
        evaluate_section(pairs["evaluate"]),
        grid_section(found["grid"]),
        growth_section(found["growth"]),
        profile_section(found["profile"]),
    )


if __name__ == "__main__":
    main()
