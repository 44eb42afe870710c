"""`calibkit boundary` over three uncertainties against the same over one: `auto`, and levels given."""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import datasets
from harness import Pair, calibkit, compare, million, to

ROUNDS = 1

PRECISION = "0.7"
#: The ratio of times aimed at.
LIMIT = 3.0


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure the default method, and the optimum over a number of levels without choice."""
    python, path = options.python, datasets.several(options.python, options.rows)
    levels = ("--method", "exact", "--uncertainty-bins", "7", "--folds", "0")
    for name, more in (("auto", ()), ("7 levels, no folds", levels)):
        yield compare(
            f"{million(options.rows)}, {name}, three uncertainties against one",
            *(
                calibkit(
                    python,
                    *("boundary", path, "--precision", PRECISION, "--uncertainty", columns),
                    *(*more, *to("several.json")),
                )
                for columns in ("uncertainty,spread,age", "uncertainty")
            ),
            rounds=options.rounds,
            limit=LIMIT,
            kind="several",
        )
