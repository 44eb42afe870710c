"""The smooth calibration error of `calibkit evaluate` against relplot.

relplot runs in the environment of this script.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script

ROUNDS = 3

#: Rows of the file that shows what starting takes.
FEW = 1_000


def smooth(python: str, path: str) -> list[str]:
    """Return the command that computes the error, without an interval as relplot."""
    output = str(harness.FOLDER / "smooth.json")
    more = ("--metrics", "smooth_ece", "--no-intervals", "-q", "-o", output)
    return calibkit(python, "evaluate", path, *more)


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure both at a tenth of the rows and at all."""
    python, output = options.python, str(harness.FOLDER / "relplot.json")
    few = datasets.distinct(python, FEW)
    for rows in (options.rows // 10, options.rows):
        path = datasets.distinct(python, rows)
        ours = smooth(python, path)
        pair = compare(
            f"{million(rows)}, relplot",
            ours,
            peer_script(sys.executable, "relplot_smooth.py", path, output),
            rounds=options.rounds,
            starts=(
                smooth(python, few),
                peer_script(sys.executable, "relplot_smooth.py", few, output),
            ),
            kind="smooth",
        )
        found, known = (json.loads(Path(file).read_text("utf-8")) for file in (ours[-1], output))
        apart = found["metrics"]["score"]["all"]["smooth_ece"] - known["smooth_ece"]
        yield replace(pair, facts=pair.facts | {"apart": apart})
