"""Studies by simulation: one function, many seeds, and what has been done is not done again."""

from __future__ import annotations

import hashlib
import multiprocessing
import os
import pickle
import sys
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import TypeVar

from pages import ROOT

Cell = TypeVar("Cell", bound=Hashable)
Result = TypeVar("Result")

#: Where results of a study that was stopped are kept, and how often, in seconds.
KEPT, EVERY = ROOT / "build" / "evidence", 60.0


def monte_carlo(
    function: Callable[[Cell, int], Result],
    cells: Sequence[Cell],
    replications: int | Callable[[Cell], int],
    *,
    first: int = 0,
    processes: int | None = None,
) -> dict[Cell, list[Result]]:
    """Return what a function gives for each cell under the seeds from `first` on, in their order.

    A result depends on its cell and seed alone, so the number of processes changes nothing.  Results
    are kept in build/evidence while the study goes on: one that was stopped goes on where it was, as
    long as the sources of product and study are the same.  How far it is, is told on standard error.
    """
    count = replications if callable(replications) else lambda _: replications
    tasks = [(cell, seed) for cell in cells for seed in range(first, first + count(cell))]
    path = KEPT / f"{function.__module__}-{function.__qualname__}-{_digest(tasks)}.pickle"
    done: dict[tuple[Cell, int], Result] = {}
    if path.is_file():
        done = pickle.loads(path.read_bytes())
    left = [task for task in tasks if task not in done]
    saved = time.monotonic()
    # Forked workers would inherit locks of polars; one thread each, for there is one a processor.
    os.environ |= {"POLARS_MAX_THREADS": "1", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        cells_left, seeds_left = [cell for cell, _ in left], [seed for _, seed in left]
        for task, result in zip(left, pool.map(function, cells_left, seeds_left), strict=True):
            done[task] = result
            if time.monotonic() - saved > EVERY:
                _keep(path, done)
                print(f"{len(done):,} of {len(tasks):,}", file=sys.stderr, flush=True)
                saved = time.monotonic()
    path.unlink(missing_ok=True)
    return {cell: [done[one] for one in tasks if one[0] == cell] for cell in cells}


def _keep(path: Path, done: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(".new")
    new.write_bytes(pickle.dumps(done))
    new.replace(path)


def _digest(tasks: object) -> str:
    """Return a digest of the tasks and of all sources."""
    digest = hashlib.sha256(repr(tasks).encode())
    folders = ("calibkit", "kernels", "docs/evidence")
    for source in sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py")):
        digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
