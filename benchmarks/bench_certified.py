"""`calibkit boundary --confidence` against MAPIE: a boundary whose precision is certified.

MAPIE, where the environment of this script has it, tests a hundred thresholds on one score; calibkit
a path of boundaries over score and uncertainty.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script

ROUNDS = 2

PRECISION, CONFIDENCE = "0.7", "0.9"


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure at a tenth of the rows."""
    if find_spec("mapie") is None:
        return
    rows = options.rows // 10
    path = datasets.distinct(options.python, rows)
    output = str(harness.FOLDER / "certified.json")
    more = ("--precision", PRECISION, "--confidence", CONFIDENCE, "-q", "-o", output)
    yield compare(
        f"{million(rows)}, MAPIE, 100 thresholds",
        calibkit(options.python, "boundary", path, *more),
        peer_script(sys.executable, "mapie_precision.py", path, PRECISION, CONFIDENCE),
        rounds=options.rounds,
        kind="certified",
    )
