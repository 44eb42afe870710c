"""The smooth calibration error of `calibkit evaluate` against relplot.

relplot runs in the environment of this script.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from typing import Any

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script, to

ROUNDS = 3

#: Rows of the file that shows what starting takes.
FEW = 1_000


def smooth(python: str, path: str) -> list[str]:
    """Return the command that computes the error, without an interval as relplot."""
    more = ("--metrics", "smooth_ece", "--no-intervals", *to("smooth.json"))
    return calibkit(python, "evaluate", path, *more)


def apart(metrics: Any, theirs: Any) -> dict[str, float]:
    """Return how far the two errors are from each other."""
    found = metrics["metrics"]["score"]["all"]["smooth_ece"]
    return {"apart": found - theirs["smooth_ece"]}


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure both at a tenth of the rows and at all."""
    python, output = options.python, str(harness.FOLDER / "relplot.json")
    few = datasets.distinct(python, FEW)
    for rows in (options.rows // 10, options.rows):
        path = datasets.distinct(python, rows)
        yield compare(
            f"{million(rows)}, relplot",
            smooth(python, path),
            peer_script(sys.executable, "relplot_smooth.py", path, output),
            rounds=options.rounds,
            starts=(
                smooth(python, few),
                peer_script(sys.executable, "relplot_smooth.py", few, output),
            ),
            judge=apart,
            kind="smooth",
        )
