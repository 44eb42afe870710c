"""Start-up as whole processes: the help, small runs, cold and warm, and what importing costs.

Each command runs in turn with ``import polars, numba``, the floor of programs that compile as they run;
calibkit loads what was compiled without numba.  Cold is the first run after an installation or an
update: no kernel is compiled yet.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from typing import Any

import harness
from harness import Pair, calibkit, compare

ROUNDS = 9

#: Seconds that the help and a small run may take.
HELP, RUN = 0.3, 1.0
#: Commands that are started cold as well, and how often they are started warm.
WARM = 2


def boundary_on_sample(python: str) -> list[str]:
    """Return the small run."""
    sample = str(harness.ROOT / "sample_data" / "calib.parquet")
    output = str(harness.FOLDER / "boundary.json")
    return calibkit(python, "boundary", sample, "--precision", "0.7", "-q", "-o", output)


def starts(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure the pairs."""
    python = options.python
    for name, seconds, command in (
        ("`calibkit --help`", HELP, calibkit(python, "--help")),
        ("`calibkit boundary` on the sample data", RUN, boundary_on_sample(python)),
    ):
        peer = [python, "-c", "import polars, numba"]
        yield compare(name, command, peer, rounds=options.rounds, seconds=seconds)


def small_runs(python: str) -> dict[str, list[str]]:
    """Return a small run of each command that computes."""
    sample = str(harness.ROOT / "sample_data" / "calib.parquet")

    def to(name: str) -> tuple[str, str, str]:
        return "-q", "-o", str(harness.FOLDER / name)

    model = str(harness.FOLDER / "small-platt.json")
    platt = ("calibrate", sample, "--method", "platt", *to("small-platt.json"))
    return {
        "boundary": boundary_on_sample(python),
        "calibrate": calibkit(python, *platt),
        "apply": calibkit(python, "apply", model, sample, *to("small.parquet")),
        "evaluate": calibkit(python, "evaluate", sample, *to("small-metrics.json")),
    }


def cold_and_warm(options: argparse.Namespace) -> list[dict[str, Any]]:
    """Measure each small run with an empty cache of kernels, and then with a full one."""
    found = []
    for name, command in small_runs(options.python).items():
        with tempfile.TemporaryDirectory() as cache:
            cold = harness.run(command, XDG_CACHE_HOME=cache)
            warm = [harness.run(command, XDG_CACHE_HOME=cache) for _ in range(WARM)]
        found.append({"name": name, "cold": cold, "warm": warm})
        print(f"{name}: cold {cold.wall:.2f} s, warm {min(run.wall for run in warm):.2f} s")
    return found


def results(options: argparse.Namespace) -> dict[str, Any]:
    """Measure start-up, and small runs cold and warm."""
    return {"pairs": list(starts(options)), "cold": cold_and_warm(options)}
