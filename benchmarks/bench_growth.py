"""How time and memory grow: with rows, uncertainty levels, features and classes.

Whole processes of calibkit alone, start-up included; one run to warm up, then the rounds.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from typing import Any

import datasets
import harness
from harness import calibkit, to

ROUNDS = 2

LEVELS = (1, 3, 11, 33)
FEATURES = (5, 10, 20)
CLASSES = (3, 10, 30)
#: Rows of the files with features and with classes.
FEW = 100_000

Command = Callable[[Any], list[str]]


def commands(python: str) -> dict[str, Command]:
    """Return the command of each method that grows with rows, given their number."""
    output = to("growth.json")

    def on(data: Callable[[str, int], str], *options: str) -> Command:
        return lambda rows: calibkit(python, options[0], data(python, rows), *options[1:], *output)

    exact = ("boundary", "--method", "exact", "--precision", "0.7", "--uncertainty-bins", "11")
    return {
        "boundary, exact": on(datasets.distinct, *exact),
        "boundary, auto": on(datasets.distinct, "boundary", "--precision", "0.7"),
        "calibrate, isotonic": on(datasets.distinct, "calibrate", "--method", "isotonic"),
        "calibrate, platt": on(datasets.distinct, "calibrate", "--method", "platt"),
        "evaluate": on(datasets.distinct, "evaluate"),
        "vad, 3 members": on(datasets.members, "vad"),
    }


def measured(name: str, sizes: Sequence[int], command: Command, rounds: int) -> dict[str, Any]:
    """Run a command at each size; return the runs by size."""
    runs = [harness.repeated(command(size), rounds) for size in sizes]
    best = [min(run.wall for run in some) for some in runs]
    print(f"{name}: " + ", ".join(f"{s:,} {w:.2f} s" for s, w in zip(sizes, best, strict=True)))
    return {"name": name, "sizes": list(sizes), "runs": runs}


def results(options: argparse.Namespace) -> dict[str, Any]:
    """Return all series by what grows."""
    python, rounds = options.python, options.rounds
    rows = [options.rows // 1000, options.rows // 100, options.rows // 10, options.rows]
    output = to("growth.json")
    middle = datasets.distinct(python, options.rows // 10)

    def levels(count: int) -> list[str]:
        more = ("--method", "exact", "--folds", "0", "--uncertainty-bins", str(count))
        return calibkit(python, "boundary", middle, "--precision", "0.7", *more, *output)

    def features(count: int) -> list[str]:
        path = datasets.features(python, FEW)
        names = ",".join(f"feature_{j}" for j in range(count))
        size = ("--max-depth", "4", "--min-leaf", "1000", "--shrinkage", "0")
        return calibkit(python, "hetcal", path, "--features", names, *size, *output)

    def classes(count: int) -> list[str]:
        path = datasets.histograms(python, FEW, 0, count)
        return calibkit(python, "alpha-cal", path, *output)

    series = {
        "rows": [measured(name, rows, one, rounds) for name, one in commands(python).items()],
        "uncertainty levels": [
            measured(f"boundary, exact, {options.rows // 10:,} rows", LEVELS, levels, rounds)
        ],
        "features": [measured(f"hetcal, depth 4, {FEW:,} rows", FEATURES, features, rounds)],
        "classes": [measured(f"alpha-cal, {FEW:,} rows", CLASSES, classes, rounds)],
    }
    return {"series": series}
