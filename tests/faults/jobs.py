"""The commands that write, each with a small input."""

from __future__ import annotations

from pathlib import Path

from tests.conftest import every_role, make
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
    every_role(ROWS, 11).write_parquet(rows)
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
