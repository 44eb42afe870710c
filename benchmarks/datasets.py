"""Generated score files, kept under build/bench: columns score, uncertainty (float32) and label.

*distinct*: a noisy logit of the true positivity, with noise that varies from row to row and is
reported as the uncertainty.  Nearly every row has a score of its own, which is the hard case for a
tally of distinct scores.

*counts*: what ``calibkit simulate posterior`` writes.  Its scores are ratios of small whole
numbers, so that many rows share one.

*several*: the same with two more uncertainties, a rough copy of the first and one that says nothing.

    python benchmarks/datasets.py KIND ROWS FILE     write the file *distinct* or *several*
"""

from __future__ import annotations

import sys
from pathlib import Path

from harness import FOLDER, calibkit, run

BLOCK = 1_000_000
COLUMNS = "score,uncertainty,label"


def distinct(python: str, rows: int) -> str:
    """Return a file of scores that are nearly all distinct."""
    path = FOLDER / f"distinct-{rows}.parquet"
    if not path.is_file():
        _make([python, __file__, "distinct", str(rows)], path)
    return str(path)


def several(python: str, rows: int) -> str:
    """Return the file *distinct* with the columns ``spread`` and ``age`` beside its uncertainty."""
    path = FOLDER / f"several-{rows}.parquet"
    if not path.is_file():
        _make([python, __file__, "several", str(rows)], path)
    return str(path)


def counts(python: str, rows: int) -> str:
    """Return a file as ``calibkit simulate posterior`` writes it."""
    path = FOLDER / f"counts-{rows}.parquet"
    if not path.is_file():
        options = ("--rows", str(rows), "--dtype", "float32", "--keep", COLUMNS, "--seed", "1")
        _make(calibkit(python, "simulate", "posterior", *options, "-q", "-o"), path)
    return str(path)


def members(python: str, rows: int) -> str:
    """Return a file of three replicate scores, as ``calibkit simulate selection`` writes it."""
    path = FOLDER / f"members-{rows}.parquet"
    if not path.is_file():
        options = ("--rows", str(rows), "--keep", "score_*", "--seed", "1")
        _make(calibkit(python, "simulate", "selection", *options, "-q", "-o"), path)
    return str(path)


def _make(command: list[str], path: Path) -> None:
    """Run a command that writes a file; a file that is there is whole."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    made = path.with_name(f"new-{path.name}")
    run([*command, str(made)])
    made.rename(path)


def _write(kind: str, rows: int, path: str) -> None:
    import numpy as np
    import polars as pl

    score, uncertainty = np.empty(rows, np.float32), np.empty(rows, np.float32)
    label = np.empty(rows, np.int8)
    for block, start in enumerate(range(0, rows, BLOCK)):
        size = min(BLOCK, rows - start)
        random = np.random.default_rng([1, block])
        own = slice(start, start + size)
        truth = random.beta(0.5, 1.5, size)
        noise = random.gamma(2.0, 0.5, size)
        logit = np.log(truth) - np.log1p(-truth) + noise * random.standard_normal(size)
        score[own] = 1.0 / (1.0 + np.exp(-logit))
        uncertainty[own] = noise
        label[own] = random.random(size) < truth
    frame = pl.DataFrame({"score": score, "uncertainty": uncertainty, "label": label})
    if kind == "several":
        random = np.random.default_rng(2)
        rough = uncertainty * np.exp(0.5 * random.standard_normal(rows, np.float32))
        frame = frame.with_columns(spread=rough, age=random.random(rows, np.float32))
    frame.write_parquet(path)


if __name__ == "__main__":
    _write(sys.argv[1], int(sys.argv[2]), sys.argv[3])
