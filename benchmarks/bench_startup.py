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
from harness import Pair, calibkit, compare, to

ROUNDS = 9

#: Ratios to the import aimed at: of the help, the version, a small run and a model shown.
HELP, VERSION, RUN, SHOW = 0.35, 0.05, 1.15, 0.35
#: Seconds that the first boundary after an installation may take.
FIRST = 6.0
#: Commands that are started cold as well, and how often they are started warm.
WARM = 2

SAMPLE = str(harness.ROOT / "sample_data" / "calib.parquet")


def boundary_on_sample(python: str) -> list[str]:
    """Return the small run."""
    return calibkit(python, "boundary", SAMPLE, "--precision", "0.7", *to("boundary.json"))


def starts(options: argparse.Namespace) -> Iterator[Pair]:
    """Measure the pairs."""
    python = options.python
    for name, limit, command in (
        ("`calibkit --help`", HELP, calibkit(python, "--help")),
        ("`calibkit --version`", VERSION, calibkit(python, "--version")),
        ("`calibkit boundary` on the sample data", RUN, boundary_on_sample(python)),
        ("`calibkit show` of that", SHOW, calibkit(python, "show", *to("boundary.json")[-1:])),
    ):
        peer = [python, "-c", "import polars, numba"]
        yield compare(name, command, peer, rounds=options.rounds, limit=limit)


def small_runs(python: str) -> dict[str, list[str]]:
    """Return a small run of each command that computes."""
    model = str(harness.FOLDER / "small-platt.json")
    platt = ("calibrate", SAMPLE, "--method", "platt", *to("small-platt.json"))
    return {
        "boundary": boundary_on_sample(python),
        "calibrate": calibkit(python, *platt),
        "apply": calibkit(python, "apply", model, SAMPLE, *to("small.parquet")),
        "evaluate": calibkit(python, "evaluate", SAMPLE, *to("small-metrics.json")),
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
