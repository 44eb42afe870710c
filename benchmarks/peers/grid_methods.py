"""Time the methods on one grid inside one process, compilation excluded, and print JSON.

    python grid_methods.py FILE LEVELS BINS PRECISION REPEATS

Each method runs once to load its kernels, then REPEATS times.  A method whose table would be too
large says why instead.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

from calibkit.errors import UsageError
from calibkit.files.sources import open_source
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.goals import Totals
from calibkit.methods.boundary.solvers import grid_methods
from calibkit.methods.boundary.solvers.frontier import precision_recall_frontier
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.shared import ColumnOptions
from calibkit.summaries.binning import fit_grid
from calibkit.summaries.score_rows import read_score_rows


def timed(task: Callable[[], Any], repeats: int) -> tuple[list[float], Any]:
    """Return the seconds of each run but the first, and the result."""
    result = task()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = task()
        seconds.append(time.perf_counter() - start)
    return seconds, result


def main(path: str, levels: int, bins: int, precision: str, repeats: int) -> None:
    rows = read_score_rows(open_source([path]), ColumnOptions())
    grid = fit_grid(rows, levels, bins)
    counts = grid.positive, grid.total
    totals = Totals(int(grid.total.sum()), int(grid.positive.sum()))
    goal = GOALS["precision"](decimal_bound(precision, "precision"), totals)
    found: dict[str, Any] = {"rows": totals.rows, "positives": totals.positives}
    for name, method in METHODS.items():
        solver = method.take
        if solver is None:
            continue
        try:
            seconds, take = timed(lambda solver=solver: solver(*counts, goal), repeats)
        except UsageError as error:
            found[name] = {"skipped": str(error)}
            continue
        hits, selected = grid_methods.evaluate(*counts, take)
        found[name] = {"seconds": seconds, "true_positives": hits, "selected": selected}
    tally = grid.as_tally()
    seconds, best = timed(lambda: METHODS["exact"].find(tally, goal), repeats)
    found["exact"] = {
        "seconds": seconds,
        "true_positives": best.true_positives,
        "selected": best.selected,
    }
    seconds, frontier = timed(lambda: precision_recall_frontier(*counts), min(repeats, 3))
    found["frontier"] = {"seconds": seconds, "points": int(frontier.selected.size)}
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1], *map(int, sys.argv[2:4]), sys.argv[4], int(sys.argv[5]))
