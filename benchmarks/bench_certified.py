"""`calibkit boundary --confidence` against the same fit without it, and against MAPIE.

MAPIE, where the environment of this script has it, tests a hundred thresholds on one score; calibkit
a path of boundaries over score and uncertainty.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import datasets
from harness import Pair, calibkit, compare, million, peer_script, to

ROUNDS = 2

PRECISION, CONFIDENCE = "0.7", "0.9"
#: The ratio aimed at of the time with a certificate to that without.
LIMIT = 2.0


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure what a certificate adds, and MAPIE at a tenth of the rows."""
    certify = ("--confidence", CONFIDENCE)

    def boundary(path: str, *more: str) -> list[str]:
        given = ("boundary", path, "--precision", PRECISION)
        return calibkit(options.python, *given, *more, *to("certified.json"))

    path = datasets.distinct(options.python, options.rows)
    yield compare(
        f"{million(options.rows)}, with a certificate against without",
        boundary(path, *certify),
        boundary(path),
        rounds=options.rounds,
        limit=LIMIT,
        kind="certificate",
    )
    if find_spec("mapie") is None:
        return
    rows = options.rows // 10
    path = datasets.distinct(options.python, rows)
    yield compare(
        f"{million(rows)}, MAPIE, 100 thresholds",
        boundary(path, *certify),
        peer_script(sys.executable, "mapie_precision.py", path, PRECISION, CONFIDENCE),
        rounds=options.rounds,
        kind="certified",
    )
