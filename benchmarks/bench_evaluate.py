"""`calibkit evaluate` against scikit-learn's functions and a plain numpy script.

AUC, average precision, log loss, Brier, ECE, MCE and CORP with intervals; scikit-learn without
intervals, CORP and ECE, the script without CORP.  scikit-learn runs in the environment of this script.
All must find the same values.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script, to

ROUNDS = 3

METRICS = (
    "auc",
    "average_precision",
    "log_loss",
    "brier",
    "ece",
    "mce",
    "miscalibration",
    "discrimination",
    "brier_uncertainty",
)

#: Ratios aimed at: to scikit-learn and to the script at the full number of rows; to the script at a
#: tenth of them, where start-up is much of the time; and of memory.
SKLEARN, SCRIPT, TENTH, MEMORY = 0.12, 0.4, 1.3, 1.0

SMALL = 1_000
WHY = {
    "scikit-learn": "the rest is one sort, CORP and the intervals, which scikit-learn has not",
    "numpy script": "the script imports numpy and polars alone and neither checks values nor "
    "computes CORP and its intervals",
}


def evaluate(python: str, path: str) -> list[str]:
    """Return the command that evaluates a file."""
    return calibkit(python, "evaluate", path, "--metrics", ",".join(METRICS), *to("metrics.json"))


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure both peers, at a tenth of the rows and at all."""
    python = options.python
    for rows in (options.rows // 10, options.rows):
        path, full = datasets.distinct(python, rows), rows == options.rows
        starts = evaluate(python, datasets.distinct(python, SMALL)), [python, "-c", "import polars"]
        for peer, name, where, limit in (
            ("sklearn_metrics.py", "scikit-learn", sys.executable, SKLEARN if full else None),
            ("numpy_metrics.py", "numpy script", python, SCRIPT if full else TENTH),
        ):
            output = str(harness.FOLDER / f"{Path(peer).stem}.json")
            yield compare(
                f"{million(rows)}, {name}",
                evaluate(python, path),
                peer_script(where, peer, path, output),
                rounds=options.rounds,
                limit=limit,
                memory_limit=MEMORY if full else None,
                starts=starts,
                floor=harness.reading(python, path, "score", "label"),
                why=WHY[name],
                judge=_same,
                kind="evaluate",
            )


def _same(metrics: Any, theirs: Any) -> dict[str, bool]:
    """Return whether the last runs found the same values."""
    found = metrics["metrics"]["score"]["all"]
    both = found.keys() & theirs
    return {"same_values": all(math.isclose(found[k], theirs[k], rel_tol=1e-9) for k in both)}
