"""`calibkit calibrate` and `apply` against other packages that fit and predict in one process.

    python benchmarks/bench_calibrate.py [--python PATH] [--rows N] [--rounds N]

The packages run in the environment of this script: scikit-learn, and netcal and venn-abers where
they are installed (at a tenth of the rows, for which they take long enough).  Ours are two processes,
each with its start-up and a file to read.  Venn-Abers is also put beside reading and sorting the file
with polars.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Iterator
from importlib.util import find_spec

import datasets
import harness
from harness import Pair, calibkit, compare, million, peer_script

#: How many times faster than scikit-learn it should be, at the full number of rows.
TIMES = 5.0
SMALL = 1_000
#: The package of each method, and whether it is tried at a tenth of the rows only.
PACKAGES = {
    "isotonic": ("sklearn", False),
    "platt": ("sklearn", False),
    "beta": ("netcal", True),
    "histogram": ("netcal", True),
    "venn-abers": ("venn_abers", True),
}


def fit(python: str, path: str, method: str) -> list[str]:
    """Return the command that fits a calibrator on a file."""
    output = str(harness.FOLDER / "cal.json")
    return calibkit(python, "calibrate", path, "--method", method, "-q", "-o", output)


def fit_and_apply(python: str, path: str, method: str) -> list[str]:
    """Return the command that fits a calibrator and applies it to the same file."""
    first = fit(python, path, method)
    output = str(harness.FOLDER / "calibrated.parquet")
    then = calibkit(python, "apply", first[-1], path, "--keep", "label", "-q", "-o", output)
    return ["sh", "-c", f"{shlex.join(first)} && {shlex.join(then)}"]


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure each method whose package is there."""
    python = options.python
    small = datasets.distinct(python, SMALL)
    for method, (package, slow) in PACKAGES.items():
        if find_spec(package) is None:
            continue
        rows = options.rows // 10 if slow else options.rows
        path = datasets.distinct(python, rows)

        def peer(file: str, method: str = method) -> list[str]:
            output = str(harness.FOLDER / "peer.parquet")
            return peer_script(sys.executable, "calibrators.py", method, file, output)

        yield compare(
            f"{million(rows)}, {method}, {package}",
            fit_and_apply(python, path, method),
            peer(path),
            rounds=options.rounds,
            limit=None if slow else 1 / TIMES,
            starts=(fit_and_apply(python, small, method), peer(small)),
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


def main() -> None:
    options = harness.arguments(__doc__, rounds=3)
    harness.save("calibrate", options.python, pairs=list(pairs(options)))


if __name__ == "__main__":
    main()
