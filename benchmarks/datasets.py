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

from harness import calibkit, made

BLOCK = 1_000_000
COLUMNS = "score,uncertainty,label"


def distinct(python: str, rows: int) -> str:
    """Return a file of scores that are nearly all distinct."""
    return made(f"distinct-{rows}.parquet", [python, __file__, "distinct", str(rows)])


def several(python: str, rows: int) -> str:
    """Return the file *distinct* with the columns ``spread`` and ``age`` beside its uncertainty."""
    return made(f"several-{rows}.parquet", [python, __file__, "several", str(rows)])


def counts(python: str, rows: int) -> str:
    """Return a file as ``calibkit simulate posterior`` writes it."""
    options = ("--rows", str(rows), "--dtype", "float32", "--keep", COLUMNS, "--seed", "1")
    command = calibkit(python, "simulate", "posterior", *options, "-q", "-o")
    return made(f"counts-{rows}.parquet", command)


def members(python: str, rows: int) -> str:
    """Return a file of three replicate scores, as ``calibkit simulate selection`` writes it."""
    options = ("--rows", str(rows), "--keep", "score_*", "--seed", "1")
    command = calibkit(python, "simulate", "selection", *options, "-q", "-o")
    return made(f"members-{rows}.parquet", command)


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
