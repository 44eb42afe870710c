"""The nights of watch.md: how many of 128 labelled alerts are positive."""

from __future__ import annotations

import numpy as np

BOUND, ALPHA, ALERTS = 0.7, 0.05, 128
NIGHTS, AFTER, PAST = 365, 90, 0.75

#: Precisions of whole years in which an alarm is false.
YEARS = [0.7, 0.72]

#: Nights at a precision of .75 before the fall, and the precision from then on.
FALLS = [(0, 0.6), (0, 0.65), (200, 0.6), (200, 0.65)]


def year(precision: float, seed: int) -> np.ndarray:
    """Return the positive alerts of each night of a year."""
    return np.random.default_rng([20, seed]).binomial(ALERTS, precision, NIGHTS)


def fall(before: int, precision: float, seed: int) -> np.ndarray:
    """Return the positive alerts of each night, so many before a fall and `AFTER` from then on."""
    draw = np.random.default_rng([21, seed])
    past = draw.binomial(ALERTS, PAST, before)
    return np.concatenate([past, draw.binomial(ALERTS, precision, AFTER)])
