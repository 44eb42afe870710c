"""Where the time of one `calibkit boundary` goes, from inside the process.

    python benchmarks/profile_boundary.py [--folds F] [--json] [FILE]

Runs the command in this process with a clock around the functions of `STEPS`; a step's time does
not hold that of the steps inside it.  Without FILE: 10 million rows, made where they are missing.
Processor time counts all threads; system time is mostly the price of fresh pages; memory is by how
much a step raised the peak.
"""

from __future__ import annotations

import argparse
import functools
import json
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any

#: Step, module, attribute (of a class: Class.method), in the order in which they are shown.
STEPS = (
    ("open the file", "calibkit.files.sources", "open_source"),
    ("read the columns", "calibkit.columns.rows", "read_rows"),
    ("check the values", "calibkit.summaries.score_rows", "read_score_rows"),
    ("quantiles of uncertainty", "calibkit.summaries.binning", "quantile_edges"),
    ("level of each row", "calibkit.summaries.binning", "assign"),
    ("keys of the scores", "calibkit.summaries.tally", "_falling_keys"),
    ("pack keys and tags", "calibkit_kernels.sorting", "pack"),
    ("sort", "calibkit_kernels.sorting", "sort_pairs"),
    ("group equal scores", "calibkit.summaries.tally", "_count_plain"),
    ("quantiles of score", "calibkit.summaries.edges", "falling_quantiles"),
    ("hash of the rows", "calibkit.summaries.score_rows", "data_hash"),
    ("other counts of the rows", "calibkit.methods.boundary.solvers.summary", "summarise"),
    ("prefixes with a positive", "calibkit.summaries.tally", "Tally.points"),
    ("isotonic blocks", "calibkit.methods.boundary.solvers.prefixes", "isotonic_blocks"),
    ("search", "calibkit.methods.boundary.solvers.prefixes", "solve"),
    ("one threshold for all levels", "calibkit.methods.boundary.result.fit", "score_only"),
    ("deal rows to folds", "calibkit.summaries.tally", "Tally.deal"),
    ("fit and judge the folds", "calibkit.methods.boundary.result.figures", "cross_validate"),
    ("model and figures", "calibkit.methods.boundary.result.fit", "fit_summary"),
)
IMPORTS, STARTING, REST = "import the libraries", "load the first kernel", "all else"


class Clock:
    """Adds up wall, user and system seconds of nested steps, and by how much each raised the peak.

    Only the calls of the main thread count.
    """

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}
        self.rise: dict[str, int] = {}
        self._running = [REST]
        self._last = self._now()
        self._highest = self._peak()

    @staticmethod
    def _peak() -> int:
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    @staticmethod
    def _now() -> tuple[float, float, float]:
        used = resource.getrusage(resource.RUSAGE_SELF)
        return time.perf_counter(), used.ru_utime, used.ru_stime

    def turn(self) -> None:
        """Book the time since the last turn on the running step."""
        now, step = self._now(), self._running[-1]
        spent = self.spent.setdefault(step, [0.0, 0.0, 0.0])
        for k in range(3):
            spent[k] += now[k] - self._last[k]
        peak = self._peak()
        self.rise[step] = self.rise.get(step, 0) + peak - self._highest
        self._highest, self._last = peak, now

    @contextmanager
    def step(self, name: str) -> Iterator[None]:
        """Book what runs inside on a step."""
        self.turn()
        self._running.append(name)
        try:
            yield
        finally:
            self.turn()
            self._running.pop()

    def watch(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with the clock around it."""

        @functools.wraps(function)
        def watched(*args: Any, **kwargs: Any) -> Any:
            if threading.current_thread() is not threading.main_thread():
                return function(*args, **kwargs)
            with self.step(name):
                return function(*args, **kwargs)

        return watched


def put_clocks(clock: Clock) -> None:
    """Replace the functions of `STEPS`, wherever they were imported to."""
    for name, module, attribute in STEPS:
        owner: Any = import_module(module)
        *inside, last = attribute.split(".")
        for part in inside:
            owner = getattr(owner, part)
        plain = getattr(owner, last)
        watched = clock.watch(name, plain)
        setattr(owner, last, watched)
        for other in list(sys.modules.values()):
            if getattr(other, "__name__", "").startswith("calibkit") and not inside:
                for key, value in list(vars(other).items()):
                    if value is plain:
                        setattr(other, key, watched)


def first_kernel() -> None:
    """Call a kernel on next to nothing: the first call sets up what loads them."""
    import numpy as np

    from calibkit_kernels.draws import mix

    mix(np.uint64(1))


def measure(path: str, folds: int, output: str) -> dict[str, Any]:
    """Run the command under the clock; return the steps in order with their times and rises."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the command itself does
    clock = Clock()
    with clock.step(IMPORTS):
        main = import_module("calibkit_cli.main")
        for module in (
            "calibkit.methods.boundary.result.fit",
            "calibkit.files.paths",
            "calibkit.methods.boundary.run",
        ):
            import_module(module)
    put_clocks(clock)
    with clock.step(STARTING):
        first_kernel()
    command = f"--method exact --precision 0.7 --uncertainty-bins 11 --folds {folds} -q -o".split()
    if main.run(["boundary", path, *command, output]):
        sys.exit(f"calibkit boundary {path} failed")
    clock.turn()
    order = [IMPORTS, STARTING, *(name for name, _, _ in STEPS), REST]
    steps = [[name, *clock.spent[name], clock.rise[name]] for name in order if name in clock.spent]
    return {"steps": steps}


def print_table(found: dict[str, Any]) -> None:
    """Print the steps, one a line."""
    print(f"{'step':<32}{'wall':>8}{'user':>8}{'system':>8}{'memory':>12}")
    for name, wall, user, system, rise in found["steps"]:
        print(f"{name:<32}{wall:>7.3f}s{user:>7.3f}s{system:>7.3f}s{rise / 1024:>+9.0f} MB")
    wall, user, system = (sum(step[k] for step in found["steps"]) for k in (1, 2, 3))
    print(f"{'together':<32}{wall:>7.3f}s{user:>7.3f}s{system:>7.3f}s")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", nargs="?", metavar="FILE")
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    root = Path(__file__).resolve().parent.parent
    sys.path[:0] = [str(root / floor) for floor in (".", "kernels", "cli")]
    if options.file is None:
        import datasets

        options.file = datasets.distinct(sys.executable, 10_000_000)
    found = measure(options.file, options.folds, str(root / "build" / "bench" / "boundary.json"))
    if options.json:
        print(json.dumps(found))
    else:
        print_table(found)


if __name__ == "__main__":
    main()
