"""`calibkit boundary` on raw scores against reading and sorting the same columns with polars.

Float32 scores, K = 11 uncertainty levels, every distinct score a candidate; without and with the
default cross-validation; and with everything by default.  Start-up is measured apart, on 1,000 rows,
against importing polars.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script

ROUNDS = 5

LEVELS, PRECISION, FOLDS = 11, "0.7", 5
SMALL = 1_000
COLUMNS = ("score", "uncertainty", "label")
WHY = (
    "polars sorts with all processors and stops there; calibkit loads kernels too, checks the values, "
    "forms the levels, sorts, counts and proves the optimum (see the profile below)"
)

#: Ratios aimed at: without folds, with folds, five times the rows; and of peak memory.
PLAIN, FOLDED, LARGE, MEMORY = 1.2, 1.7, 0.7, 1.2
#: Those of what people run, all but the bound by default: time and memory.
DEFAULT, DEFAULT_MEMORY = 2.5, 1.5


def boundary(python: str, path: str, folds: int, *more: str) -> list[str]:
    """Return the command that fits a boundary on a file."""
    options = ("--precision", PRECISION, "--uncertainty-bins", str(LEVELS), "--folds", str(folds))
    # Named, so that the benchmark stays the same whatever the default is.
    more = more or ("--method", "exact")
    output = str(harness.FOLDER / "boundary.json")
    return calibkit(python, "boundary", path, *options, *more, "-q", "-o", output)


def by_default(python: str, path: str) -> list[str]:
    """Return the command that fits the boundary that calibkit chooses."""
    output = str(harness.FOLDER / "default.json")
    return calibkit(python, "boundary", path, "--precision", PRECISION, "-q", "-o", output)


def sort(python: str, path: str) -> list[str]:
    """Return the command that reads and sorts a file."""
    return peer_script(python, "polars_sort.py", path)


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
    for data in ("distinct", "counts"):
        path = getattr(datasets, data)(python, options.rows)
        for folds, limit in ((0, PLAIN), (FOLDS, FOLDED)):
            yield compare(
                f"{million(options.rows)}, {data}, {f'{folds} folds' if folds else 'no folds'}",
                boundary(python, path, folds),
                sort(python, path),
                rounds=rounds,
                limit=limit,
                memory_limit=MEMORY if not folds else None,
                starts=starts,
                floor=harness.reading(python, path, *COLUMNS),
                why=WHY,
                kind="sort",
            )
    path = datasets.distinct(python, options.rows)
    yield compare(
        f"{million(options.rows)}, distinct, all defaults",
        by_default(python, path),
        sort(python, path),
        rounds=rounds,
        limit=DEFAULT,
        memory_limit=DEFAULT_MEMORY,
        starts=(by_default(python, small), starts[1]),
        floor=harness.reading(python, path, *COLUMNS),
        why=WHY,
        kind="sort",
    )
    if options.large:
        path = datasets.distinct(python, 5 * options.rows)
        yield compare(
            f"{million(5 * options.rows)}, distinct, no folds",
            boundary(python, path, 0),
            sort(python, path),
            rounds=max(3, rounds // 2),
            limit=LARGE,
            starts=starts,
            floor=harness.reading(python, path, *COLUMNS),
            why=WHY,
            kind="sort",
        )
