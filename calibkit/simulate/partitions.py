"""Scores of a model that memorised its training rows, and so used a simple pattern too little."""

from __future__ import annotations

import math
from typing import Any, Final

import numpy as np
import polars as pl

from calibkit.numerics.hashes import stream
from calibkit.options.simulate import PartitionsOptions
from calibkit.simulate.streams import simulated

COLUMNS: Final = ("id", "label", "score", "feature_pattern", "feature_noise", "true_positivity")

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

    Durfee, Gupta, Basu, "Heterogeneous calibration", sections 3.1 and 3.2.  On new rows the AUC is
    .830 at weight 1.8, .852 at 3.6 and at most .853, at 4 ln 3.
    """
    seed = options.seed

    def block(number: int, size: int, kept: object) -> dict[str, Any]:
        label = stream(seed, _LABEL, number).random(size) < 0.5
        side = np.where(label, 1.0, -1.0)
        random = stream(seed, _SCORE, number)
        away = random.standard_normal(size)
        if options.kind == "training":
            # A third of the rows lies on the steep side, where the other class is.
            hard = random.random(size) < 1.0 / 3.0
            away = np.abs(away) * np.where(hard, -_STEEP, _SPREAD)
            linear = side * (1.0 + away)
        else:
            linear = side + _SPREAD * away
        agrees = stream(seed, _PATTERN_STREAM, number).random(size) < _PATTERN
        pattern = np.where(agrees, label, ~label)
        truth = 2.0 * linear / _SPREAD**2 + math.log(3.0) * np.where(pattern, 1.0, -1.0)
        return {
            "label": label.astype(np.int8),
            "score": 1.0 / (1.0 + np.exp(-(linear + options.weight * (pattern - 0.5)))),
            "feature_pattern": pattern.astype(np.int8),
            "feature_noise": stream(seed, _NOISE, number).standard_normal(size),
            "true_positivity": 1.0 / (1.0 + np.exp(-truth)),
        }

    return simulated(options, COLUMNS, block)
