"""Run benchmarks by name and keep their results for the pages: ``bench.py boundary mist``.

Each is a module ``bench_NAME`` with ``ROUNDS`` and either ``pairs``, which yields what was measured in
turn, or ``results``, which returns what its section needs.
"""

from __future__ import annotations

import argparse
import sys
from importlib import import_module

import harness
from harness import MILLION


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="+", metavar="NAME")
    parser.add_argument(
        "--python",
        default=sys.executable,
        help="the interpreter that runs calibkit and polars; best one with nothing but calibkit's "
        "run-time dependencies: an environment with scipy starts numba more slowly",
    )
    parser.add_argument("--rows", type=int, default=10 * MILLION, help="rows of the main run")
    parser.add_argument("--large", action="store_true", help="with five times the rows, too")
    parser.add_argument("--rounds", type=int, help="pairs of runs; by default as many as fit each")
    given = parser.parse_args()
    for name in given.names:
        module = import_module(f"bench_{name}")
        options = argparse.Namespace(**{**vars(given), "rounds": given.rounds or module.ROUNDS})
        harness.FOLDER.mkdir(parents=True, exist_ok=True)
        watch = harness.Watch()
        if hasattr(module, "pairs"):
            found = {"pairs": list(module.pairs(options))}
        else:
            found = module.results(options)
        harness.save(name, options.python, load=watch.others(), **found)


if __name__ == "__main__":
    main()
