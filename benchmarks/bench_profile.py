"""Where the time goes: `profile_boundary.py` on the main file, several times; the medians."""

from __future__ import annotations

import argparse
import statistics
from pathlib import Path
from typing import Any

import datasets
import harness

ROUNDS = 5

FOLDS = (0, 5)


def profile(options: argparse.Namespace, folds: int) -> list[list[Any]]:
    """Return step, wall, user and system seconds and kilobytes added to the peak (medians)."""
    path = datasets.distinct(options.python, options.rows)
    script = str(Path(__file__).with_name("profile_boundary.py"))
    command = [options.python, script, "--folds", str(folds), "--json", path]
    rounds = [harness.answer(command)["steps"] for _ in range(options.rounds + 1)][1:]
    return [
        [steps[0][0], *(statistics.median(step[k] for step in steps) for k in (1, 2, 3, 4))]
        for steps in zip(*rounds, strict=True)
    ]


def results(options: argparse.Namespace) -> dict[str, Any]:
    """Return the profiles by number of folds."""
    found = {str(folds): profile(options, folds) for folds in FOLDS}
    for folds, steps in found.items():
        print(f"{harness.million(options.rows)}, {folds} folds")
        for name, wall, user, system, rise in steps:
            print(f"  {name:<32}{wall:>7.3f} s{user + system:>7.3f} s{rise / 1024:>+7.0f} MB")
    return {"rows": options.rows, "profiles": found}
