"""`calibkit boundary --method mist` against the same by scikit-learn's isotonic regression.

scikit-learn runs in the environment of this script.  Both must find the same thresholds.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator

import datasets
import harness
from bench_boundary import COLUMNS, LEVELS, PRECISION, SMALL, boundary
from harness import Pair, compare, million, peer_script, reading

ROUNDS = 3

#: How many times faster it should be than `IsotonicRegression`, at the full number of rows.
TIMES = 10.0


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure both ways of using scikit-learn, at a tenth of the rows and at all."""
    small = datasets.distinct(options.python, SMALL)
    start = boundary(options.python, small, 0, "--method", "mist")
    for rows in (options.rows // 10, options.rows):
        path = datasets.distinct(options.python, rows)
        for how, name in (("class", "IsotonicRegression"), ("function", "isotonic_regression")):
            output = str(harness.FOLDER / f"mist-{how}.json")
            peer = peer_script(
                sys.executable, "sklearn_mist.py", how, path, PRECISION, str(LEVELS), output
            )
            none = [sys.executable, "-c", "import polars, sklearn.isotonic"]
            aimed = how == "class" and rows == options.rows
            yield compare(
                f"{million(rows)}, `{name}`",
                boundary(options.python, path, 0, "--method", "mist"),
                peer,
                rounds=options.rounds,
                limit=1 / TIMES if aimed else None,
                starts=(start, none) if aimed else None,
                floor=reading(options.python, path, *COLUMNS) if aimed else None,
                why="the rest is one sort of all rows, which both sides need",
                judge=lambda model, theirs: {
                    "same_thresholds": model["score_thresholds"] == theirs
                },
                kind="mist",
            )
