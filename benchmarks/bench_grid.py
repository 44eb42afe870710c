"""The paper's dynamic programmes and the exact search on one grid of 11 x 1000 bins.

Time inside the process, after a first call that loads the kernels.  A grid of a tenth of the rows
serves the methods whose tables are as small for any number of rows, one of a hundredth
VW-DPMT, whose table is as long as there are rows.
"""

from __future__ import annotations

import argparse
import statistics
from typing import Any

import datasets
from harness import answer, million, peer_script

ROUNDS = 7

LEVELS, BINS, PRECISION = 11, 1000, "0.7"


def results(options: argparse.Namespace) -> dict[str, Any]:
    """Return what each method took on both grids."""
    grids = []
    for rows in (options.rows // 10, options.rows // 100):
        path = datasets.distinct(options.python, rows)
        size = (str(LEVELS), str(BINS), PRECISION, str(options.rounds))
        found = answer(peer_script(options.python, "grid_methods.py", path, *size))
        grids.append(found)
        print(f"{LEVELS} x {BINS} bins of {million(rows)}")
        for name, one in found.items():
            if isinstance(one, dict):
                seconds = one.get("seconds")
                text = f"{statistics.median(seconds):8.4f} s" if seconds else one["skipped"]
                print(f"  {name:<16}{text}")
    return {"grids": grids, "levels": LEVELS, "bins": BINS, "bound": PRECISION}
