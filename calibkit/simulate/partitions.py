"""Scores of a model that memorised its training rows, and so used a simple pattern too little."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Final

import numpy as np
import polars as pl

from calibkit.numerics.streams import stream
from calibkit.options.simulate import PartitionsOptions
from calibkit.simulate.streams import BLOCK_ROWS, block_sizes, kept_columns

COLUMNS: Final = ("id", "label", "score", "feature_pattern", "feature_noise", "true_positivity")

#: The weight of the pattern that is best for the order of new rows; on training rows it is 1.8.
BEST_WEIGHT: Final = 4.0 * math.log(3.0)

_SPREAD: Final = 2.0
_STEEP: Final = 1.0
_PATTERN: Final = 0.75

# Numbers of the random streams of a block; part of what a seed means.
_LABEL, _SCORE, _PATTERN_STREAM, _NOISE = range(4)


def simulate(options: PartitionsOptions) -> pl.DataFrame:
    """Return labelled scores of a model that is over-confident on the rows it was trained on.

    Labels are balanced.  On new rows a linear score f is normal with mean 1 for positives, -1 for
    negatives, and standard deviation 2.  On the training rows the side towards the other class is
    steeper (standard deviation 1, a third of the rows): the hard ones were memorised.  A binary
    pattern, independent of f given the label, is 1 for three quarters of the positives and a
    quarter of the negatives.  The model's score is the probability of ``f + weight (pattern - 1/2)``;
    1.8 is the weight that the training rows ask for, new rows ask for more.

    Raises
    ------
    UsageError
        For a column that there is not.

    Notes
    -----
    Durfee, Gupta, Basu, "Heterogeneous calibration", sections 3.1 and 3.2.  On new rows the AUC is
    .830 at weight 1.8, .852 at 3.6 and at most .853, at 4 ln 3.
    """
    columns = kept_columns(COLUMNS, options.kept)
    return pl.concat([frame.select(columns) for frame in _blocks(options)], rechunk=True)


def _blocks(options: PartitionsOptions) -> Iterator[pl.DataFrame]:
    seed = options.seed
    for block, size in block_sizes(options.rows):
        label = stream(seed, _LABEL, block).random(size) < 0.5
        side = np.where(label, 1.0, -1.0)
        random = stream(seed, _SCORE, block)
        away = random.standard_normal(size)
        if options.kind == "training":
            # A third of the rows lies on the steep side, where the other class is.
            hard = random.random(size) < 1.0 / 3.0
            away = np.abs(away) * np.where(hard, -_STEEP, _SPREAD)
            linear = side * (1.0 + away)
        else:
            linear = side + _SPREAD * away
        agrees = stream(seed, _PATTERN_STREAM, block).random(size) < _PATTERN
        pattern = np.where(agrees, label, ~label)
        truth = 2.0 * linear / _SPREAD**2 + math.log(3.0) * np.where(pattern, 1.0, -1.0)
        start = block * BLOCK_ROWS + 1
        yield pl.DataFrame(
            {
                "id": np.arange(start, start + size, dtype=np.int64),
                "label": label.astype(np.int8),
                "score": _probability(linear + options.weight * (pattern - 0.5)),
                "feature_pattern": pattern.astype(np.int8),
                "feature_noise": stream(seed, _NOISE, block).standard_normal(size),
                "true_positivity": _probability(truth),
            }
        )


def _probability(linear: np.ndarray) -> np.ndarray:
    return np.asarray(1.0 / (1.0 + np.exp(-linear)))
