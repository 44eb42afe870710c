"""Start-up as whole processes: the help, a small run, and what importing the libraries costs.

    python benchmarks/bench_startup.py [--rounds N]

Prints the best and the median of several rounds, in turn, so that all see the same machine.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CALIBKIT = [sys.executable, "-m", "calibkit_cli.main"]
FLOORS = os.pathsep.join(str(ROOT / floor) for floor in (".", "kernels", "cli"))


def seconds(command: list[str]) -> float:
    environment = {**os.environ, "PYTHONPATH": FLOORS}
    start = time.perf_counter()
    subprocess.run(command, env=environment, capture_output=True, check=True)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    rounds = parser.parse_args().rounds
    with tempfile.TemporaryDirectory() as folder:
        model = str(Path(folder) / "boundary.json")
        sample = str(ROOT / "sample_data" / "calib.parquet")
        commands = {
            "import polars, numba": [sys.executable, "-c", "import polars, numba"],
            "calibkit --help": [*CALIBKIT, "--help"],
            "calibkit boundary (cached)": [
                *CALIBKIT, "boundary", sample, "--precision", "0.7", "-o", model,
            ],
        }  # fmt: skip
        for command in commands.values():  # fill the caches
            seconds(command)
        times: dict[str, list[float]] = {name: [] for name in commands}
        for _ in range(rounds):
            for name, command in commands.items():
                times[name].append(seconds(command))
    print(f"{'whole process':<28}{'best':>9}{'median':>9}")
    for name, found in times.items():
        print(f"{name:<28}{min(found):>7.2f} s{statistics.median(found):>7.2f} s")


if __name__ == "__main__":
    main()
