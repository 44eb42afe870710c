"""MIST (one isotonic regression a level, one global cut) by numpy and scikit-learn.

    python sklearn_mist.py class|function FILE PRECISION LEVELS OUTPUT

``class`` fits `IsotonicRegression` on the rows of a level.  ``function`` sorts the rows and gathers
equal scores by numpy first and calls `isotonic_regression`, which does the pooling alone.  Either
way the blocks of equal fitted value of all levels are taken by falling value while the precision of
all that is taken stays at or above the bound.  Writes the score thresholds of the levels as JSON.
"""

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from sklearn.isotonic import IsotonicRegression, isotonic_regression

Array = NDArray[Any]
Blocks = tuple[Array, Array, Array, Array]


def blocks_by_class(score: Array, label: Array) -> Blocks:
    """Return the lowest score, fitted value, rows and positive rows of each block."""
    # In float32 it would take scores for equal that differ by less than 1e-6.
    fitted = IsotonicRegression().fit(score.astype(np.float64), label)
    knots, values = fitted.X_thresholds_, fitted.y_thresholds_
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    lowest = knots[first].astype(score.dtype)
    block = np.searchsorted(lowest, score, side="right") - 1
    rows = np.bincount(block, minlength=first.size)
    hits = np.bincount(block, weights=label, minlength=first.size)
    return lowest, values[first], rows, hits


def blocks_by_function(score: Array, label: Array) -> Blocks:
    """Return the same, on sorted and gathered scores."""
    order = np.argsort(score)
    score, label = score[order], label[order]
    starts = np.flatnonzero(np.append(True, score[1:] != score[:-1]))
    rows = np.diff(np.append(starts, score.size))
    hits = np.add.reduceat(label, starts, dtype=np.int64)
    values = isotonic_regression(hits / rows, sample_weight=rows)
    first = np.flatnonzero(np.append(True, values[1:] != values[:-1]))
    return (
        score[starts[first]],
        values[first],
        np.add.reduceat(rows, first),
        np.add.reduceat(hits, first),
    )


def main(how: str, path: str, bound: float, levels: int, output: str) -> None:
    frame = pl.read_parquet(path, columns=["score", "uncertainty", "label"])
    score, label = frame["score"].to_numpy(), frame["label"].to_numpy()
    uncertainty = frame["uncertainty"].to_numpy()
    ranks = [j * score.size // levels for j in range(1, levels)]
    edges = np.partition(uncertainty, ranks)[ranks]
    level = np.searchsorted(edges, uncertainty, side="right").astype(np.uint8)
    fit = blocks_by_class if how == "class" else blocks_by_function
    found = [fit(score[level == k], label[level == k]) for k in range(levels)]
    lowest, value, rows, hits = (np.concatenate(one) for one in zip(*found, strict=True))
    level_of = np.repeat(np.arange(levels), [one[0].size for one in found])
    order = np.argsort(-value, kind="stable")
    met = np.cumsum(hits[order]) >= bound * np.cumsum(rows[order]) - 1e-9
    taken = order[: met.size if met.all() else int(np.argmin(met))]
    thresholds = np.full(levels, np.inf)
    np.minimum.at(thresholds, level_of[taken], lowest[taken].astype(np.float64))
    listed = [float(one) if np.isfinite(one) else None for one in thresholds]
    Path(output).write_text(json.dumps(listed), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]), int(sys.argv[4]), sys.argv[5])
