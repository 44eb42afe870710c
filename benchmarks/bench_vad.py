"""`calibkit vad` on three members against polars that computes their logits and covariances.

polars streams the file, its sums rounded in whatever order they come; calibkit checks every value,
sums without rounding, fingerprints the rows and writes a model.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script, to

ROUNDS = 5

#: The ratio of wall times aimed at, at the full number of rows.
LIMIT = 1.6


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure at a tenth of the rows and at all, each less start-up."""
    start = datasets.members(options.python, 100)

    def ours(file: str) -> list[str]:
        return calibkit(options.python, "vad", file, *to("vad.json"))

    def peer(file: str) -> list[str]:
        return peer_script(options.python, "polars_covariances.py", file)

    for rows in (options.rows // 10, options.rows):
        path = datasets.members(options.python, rows)
        yield compare(
            f"{million(rows)}, 3 members",
            ours(path),
            peer(path),
            rounds=options.rounds,
            limit=LIMIT if rows == options.rows else None,
            starts=(ours(start), peer(start)),
            floor=harness.reading(options.python, path),
            why="polars does not look at the values and rounds its sums; calibkit loads kernels too, "
            "checks every value, sums without rounding and fingerprints the rows",
            kind="vad",
        )
