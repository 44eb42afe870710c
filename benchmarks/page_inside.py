"""The sections of the page that look inside, or at how things grow: grids, growth, the profile."""

from __future__ import annotations

import statistics
from fractions import Fraction
from typing import Any

from harness import million, peak_of, wall_of
from page_text import runs_of, verdict
from pages import bullets, table

#: Seconds the paper reports for EW-DPMT on a grid of this size, and the kernel time aimed at.
PAPER_SECONDS, KERNEL_SECONDS = 11_335, 0.1

GRID = """## The paper's methods on one grid

Time inside the process after a first call (compilation and loading excluded), on a grid of {levels}
x {bins} equal-mass bins, precision >= {bound}: the median of the calls."""

GROWTH = (
    """Whole processes of calibkit alone, start-up included: seconds on the wall and peak memory."""
)

PROFILE = """## Where the time goes

`make profile` prints this: one run on {rows} (*distinct*), clocks inside the process. A step does
not contain those below it. Seconds on the wall, then of the processors; *memory* is by how much the
step raised the peak. The start of the interpreter is not in it."""


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
    return "\n\n".join([head, table(header, rows), "\n".join(map(bullets, remarks))])


def _has_result(one: Any) -> bool:
    return isinstance(one, dict) and "true_positives" in one


def _misses(one: dict[str, Any], bound: Fraction) -> bool:
    return bool(one["true_positives"] < bound * one["selected"])


def grid_cell(one: dict[str, Any]) -> str:
    """Return a cell of the table of grid methods."""
    if "skipped" in one:
        return "refused: " + one["skipped"].partition(": ")[2].partition(", more than")[0]
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
    head = PROFILE.format(rows=million(found["rows"]))
    return "\n\n".join([head, table(header, [*rows, ["together", *sums]])])


def profile_cell(step: list[float] | None) -> str:
    """Return wall, processor time and memory of a step."""
    if step is None:
        return ""
    wall, user, system, rise = step
    return f"{wall:.3f} s, {user + system:.3f} s" + (
        f", {rise / 1024:+.0f} MB" if rise >= 512 else ""
    )


def growth_section(found: dict[str, Any]) -> str:
    """Return how time and memory grow."""
    parts = ["## Growth", GROWTH]
    for what, series in found["series"].items():
        rows = [[one["name"], *map(growth_cell, one["runs"])] for one in series]
        sizes = series[0]["sizes"]
        parts.append(table([what, *(f"{size:,}" for size in sizes)], rows))
    return "\n\n".join(parts)


def growth_cell(runs: list[dict[str, float]]) -> str:
    """Return the median of wall time and of peak memory."""
    some = runs_of(runs)
    wall, peak = (statistics.median(map(of, some)) for of in (wall_of, peak_of))
    return f"{wall:.2f} s, {peak / 1e6:.0f} MB"
