"""Label histograms: `alpha-cal` on features against scipy, `evaluate` on a million histograms.

scipy runs in the environment of this script, on the same objective in numpy.  Both must reach the
same objective.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import datasets
import harness
from datasets import CLASSES
from harness import MILLION, Pair, calibkit, compare, million, peer_script, to

ROUNDS = 3

ROWS, FEATURES = 100_000, 64

#: Rows of the file that shows what starting takes.
FEW = 200

#: How many times faster than scipy the whole fit should be.
TIMES = 2.5


def fits(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure the fit on features."""
    path, few = (datasets.histograms(options.python, rows, FEATURES) for rows in (ROWS, FEW))

    def ours(file: str) -> list[str]:
        more = ("--features", "feature_*", *to("alpha.json"))
        return calibkit(options.python, "alpha-cal", file, *more)

    def peer(file: str) -> list[str]:
        output = str(harness.FOLDER / "scipy-alpha.json")
        return peer_script(sys.executable, "scipy_alpha.py", file, output)

    yield compare(
        f"{ROWS:,} rows, {CLASSES} classes, {FEATURES} features",
        ours(path),
        peer(path),
        rounds=options.rounds,
        limit=1 / TIMES,
        starts=(ours(few), peer(few)),
        floor=harness.reading(options.python, path),
        why="scipy takes few iterations on these rows: start-up and reading weigh on both sides",
        judge=lambda found, known: {
            "objective_above_scipy": found["objective"] - known["objective"]
        },
        kind="raters",
    )


def results(options: argparse.Namespace) -> dict[str, Any]:
    """Measure the fit on features, and metrics."""
    return {"pairs": list(fits(options)), "evaluation": evaluation(options)}


def evaluation(options: argparse.Namespace) -> list[dict[str, object]]:
    """Measure all metrics of a million histograms, with and without intervals."""
    path = datasets.histograms(options.python, MILLION, 0)
    found = []
    for name, more in (("with intervals", []), ("without", ["--no-intervals"])):
        command = calibkit(
            options.python,
            *("evaluate", path, "--probs", "prob_*", "--counts", "count_*", *more),
            *to("raters.json"),
        )
        runs = harness.repeated(command, options.rounds)
        found.append({"name": f"{million(MILLION)}, {name}", "runs": runs})
    return found
