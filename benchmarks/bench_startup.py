"""Start-up as whole processes: the help, a small run, and what importing the libraries costs.

    python benchmarks/bench_startup.py [--python PATH] [--rounds N]

Each command runs in turn with ``import polars, numba``, the floor of anything that uses both.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator

import harness
from harness import Pair, calibkit, compare

#: Seconds that the help and a small run may take.
HELP, RUN = 0.3, 1.0


def pairs(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure the pairs."""
    python = options.python
    sample = str(harness.ROOT / "sample_data" / "calib.parquet")
    output = str(harness.FOLDER / "boundary.json")
    small = ("boundary", sample, "--precision", "0.7", "-q", "-o", output)
    harness.FOLDER.mkdir(parents=True, exist_ok=True)
    for name, seconds, command in (
        ("`calibkit --help`", HELP, calibkit(python, "--help")),
        ("`calibkit boundary` on the sample data", RUN, calibkit(python, *small)),
    ):
        peer = [python, "-c", "import polars, numba"]
        yield compare(name, command, peer, rounds=options.rounds, seconds=seconds)


def main() -> None:
    options = harness.arguments(__doc__, rounds=11)
    harness.save("startup", options.python, pairs=list(pairs(options)))


if __name__ == "__main__":
    main()
