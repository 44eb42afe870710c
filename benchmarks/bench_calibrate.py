"""`calibkit calibrate --apply` against other packages that fit and predict in one process.

The packages run in the environment of this script: scikit-learn, and netcal and venn-abers where
they are installed (at a tenth or a hundredth of the rows, for which they take long enough).
Venn-Abers is also put beside reading and sorting the file with polars, and the choice of a method
beside one that is given.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script, to

ROUNDS = 2

#: How many times faster than scikit-learn it should be, at the full number of rows.
TIMES = 5.0
#: How many times as long as `platt` the choice among all methods should take at most.
CHOICE = 4.0
SMALL = 1_000


@dataclass(frozen=True)
class Peer:
    """A method by another package, and by how much fewer rows it is tried on."""

    method: str
    package: str
    module: str
    fewer: int = 10


PEERS = (
    Peer("isotonic", "scikit-learn", "sklearn", 1),
    Peer("platt", "scikit-learn", "sklearn", 1),
    Peer("platt", "netcal", "netcal"),
    Peer("beta", "netcal", "netcal"),
    Peer("histogram", "netcal", "netcal"),
    Peer("venn-abers", "venn-abers", "venn_abers", 100),
)


def fit(python: str, path: str, method: str) -> list[str]:
    """Return the command that fits a calibrator on a file."""
    return calibkit(python, "calibrate", path, "--method", method, *to("cal.json"))


def fit_and_apply(python: str, path: str, method: str) -> list[str]:
    """Return the command that fits a calibrator and applies it to the same file."""
    return [*fit(python, path, method), "--apply", str(harness.FOLDER / "calibrated.parquet")]


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure each method whose package is there."""
    python = options.python
    small = datasets.distinct(python, SMALL)
    for one in PEERS:
        if find_spec(one.module) is None:
            continue
        rows = options.rows // one.fewer
        path = datasets.distinct(python, rows)

        def peer(file: str, one: Peer = one) -> list[str]:
            output = str(harness.FOLDER / "peer.parquet")
            how = f"{one.method}-netcal" if one.module == "netcal" else one.method
            return peer_script(sys.executable, "calibrators.py", how, file, output)

        yield compare(
            f"{million(rows)}, {one.method}, {one.package}",
            fit_and_apply(python, path, one.method),
            peer(path),
            rounds=options.rounds,
            limit=1 / TIMES if one.fewer == 1 else None,
            starts=(fit_and_apply(python, small, one.method), peer(small)),
            floor=harness.reading(python, path, "score", "label"),
            why="it starts, reads, and writes the rows with the calibrated column",
            kind="calibrate",
        )
    path = datasets.distinct(python, options.rows)
    yield compare(
        f"{million(options.rows)}, venn-abers, sorting by polars",
        fit(python, path, "venn-abers"),
        peer_script(python, "polars_sort.py", path),
        rounds=options.rounds,
        kind="calibrate",
    )
    yield compare(
        f"{million(options.rows)}, auto, platt",
        fit(python, path, "auto"),
        fit(python, path, "platt"),
        rounds=options.rounds,
        limit=CHOICE,
        kind="calibrate",
    )
