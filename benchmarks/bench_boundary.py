"""`calibkit boundary` on raw scores against reading and sorting the same columns with polars.

Float32 scores, K = 11 uncertainty levels, every distinct score a candidate; without and with the
default cross-validation; and with everything by default.  Start-up is measured apart, on 1,000 rows,
against importing polars.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script, to

ROUNDS = 5

LEVELS, PRECISION, FOLDS = 11, "0.7", 5
SMALL = 1_000
COLUMNS = ("score", "uncertainty", "label")
WHY = (
    "polars sorts with all processors and stops there; calibkit loads kernels too, checks the values, "
    "forms the levels, sorts, counts and proves the optimum (see the profile below)"
)

#: Ratios aimed at: without folds, with folds, five times the rows; and of peak memory.
PLAIN, FOLDED, LARGE, MEMORY = 1.0, 1.7, 0.7, 0.9
#: Those of what people run, all but the bound by default: time and memory.
DEFAULT, DEFAULT_MEMORY = 2.5, 1.5

#: From the interpreter and a file to a command.
Command = Callable[[str, str], list[str]]


def boundary(python: str, path: str, folds: int, *more: str) -> list[str]:
    """Return the command that fits a boundary on a file."""
    options = ("--precision", PRECISION, "--uncertainty-bins", str(LEVELS), "--folds", str(folds))
    # Named, so that the benchmark stays the same whatever the default is.
    more = more or ("--method", "exact")
    return calibkit(python, "boundary", path, *options, *more, *to("boundary.json"))


def by_default(python: str, path: str) -> list[str]:
    """Return the command that fits the boundary that calibkit chooses."""
    return calibkit(python, "boundary", path, "--precision", PRECISION, *to("default.json"))


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure all pairs."""
    python, rounds = options.python, options.rounds
    small = datasets.distinct(python, SMALL)
    starts = boundary(python, small, 0), [python, "-c", "import polars"]
    yield compare(
        f"start-up: {SMALL:,} rows against `import polars`",
        *starts,
        rounds=2 * rounds,
        kind="start",
    )

    def sorting(
        rows: int, data: Callable[[str, int], str], what: str, fit: Command, **more: Any
    ) -> Pair:
        path = data(python, rows)
        return compare(
            f"{million(rows)}, {data.__name__}, {what}",
            fit(python, path),
            peer_script(python, "polars_sort.py", path),
            floor=harness.reading(python, path, *COLUMNS),
            why=WHY,
            kind="sort",
            **{"rounds": rounds, "starts": starts, **more},
        )

    plain, folded = partial(boundary, folds=0), partial(boundary, folds=FOLDS)
    for data in (datasets.distinct, datasets.counts):
        yield sorting(options.rows, data, "no folds", plain, limit=PLAIN, memory_limit=MEMORY)
        yield sorting(options.rows, data, f"{FOLDS} folds", folded, limit=FOLDED)
    aims = {"limit": DEFAULT, "memory_limit": DEFAULT_MEMORY}
    own = (by_default(python, small), starts[1])
    yield sorting(options.rows, datasets.distinct, "all defaults", by_default, starts=own, **aims)
    if options.large:
        rows, fewer = 5 * options.rows, max(3, rounds // 2)
        yield sorting(rows, datasets.distinct, "no folds", plain, limit=LARGE, rounds=fewer)
