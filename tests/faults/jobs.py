"""The commands that write, each with a small input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import polars as pl

from tests.conftest import make
from tests.faults.harness import Job

ROWS = 5000


FITS = {
    "boundary": ("boundary", "--precision", "0.5", "--method", "exact"),
    "calibrate": ("calibrate",),
    "vad": ("vad", "--members", "score_*"),
    "hetcal": ("hetcal", "--features", "x,g", "--max-depth", "2", "--min-leaf", "300"),
    "alpha-cal": ("alpha-cal", "--features", "x"),
}


def jobs(folder: Path, fits: list[str] | None = None) -> tuple[list[Job], Path]:
    """Write inputs and models of some fits (None: all) into a folder; return jobs and their rows."""
    rows = folder / "rows.parquet"
    _frame().write_parquet(rows)
    found = []
    for name, (command, *options) in FITS.items():
        if fits is not None and name not in fits:
            continue
        found.append(Job(name, (command, "ROWS", *options, "-q", "-o", "OUT"), f"{name}.json"))
        model = str(make(folder / f"{name}.json", command, rows, *options))
        for suffix in ("parquet", "csv") if name == "boundary" else ("parquet",):
            words = ("apply", model, "ROWS", "-q", "-o", "OUT")
            found.append(Job(f"apply, {name} {suffix}", words, f"rows.{suffix}"))
    bins = ("bin", "ROWS", "--uncertainty-bins", "3", "--score-bins", "500", "-q", "-o", "OUT")
    metrics = ("evaluate", "ROWS", "--by", "g", "-q", "-o", "OUT")
    state = ("boundary", "ROWS", *FITS["boundary"][1:], "--partial", "-q", "-o", "OUT")
    made = ("simulate", "posterior", "--rows", str(ROWS), "-q", "-o", "OUT")
    return [
        *found,
        Job("bin", bins, "grid.parquet"),
        Job("evaluate", metrics, "metrics.json"),
        Job("simulate", made, "made.parquet"),
        Job("boundary --partial", state, "part.state"),
    ], rows


def _frame() -> pl.DataFrame:
    random = np.random.default_rng(11)
    score = random.uniform(0.02, 0.98, ROWS)
    shares = random.dirichlet([1.0, 2.0], ROWS)
    votes = random.binomial(3, shares[:, 0])
    return pl.DataFrame(
        {
            "id": np.arange(ROWS),
            "score": score,
            "uncertainty": random.gamma(2.0, 1.0, ROWS),
            "label": (random.random(ROWS) < score).astype(np.int64),
            "g": random.choice(["a", "b"], ROWS),
            "x": random.normal(size=ROWS),
            **{f"score_{k}": score ** (1 + k / 9) for k in range(3)},
            **{f"prob_{k}": shares[:, k] for k in range(2)},
            "count_0": votes,
            "count_1": 3 - votes,
        }
    )
