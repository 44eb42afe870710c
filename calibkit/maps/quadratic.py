"""Quadratic calibration: a logistic regression on 1, z and z squared, z the logit of the score.

E. Berta, D. Holzmüller, M. Jordan, F. Bach, Structured matrix scaling for multi-class calibration,
2025, fit it freely; here it may fall nowhere between the lowest and the highest score of the rows, and
goes on as a line beyond them.
"""

from __future__ import annotations

import numpy as np

from calibkit.maps.method import Float64s, Found, Method
from calibkit.maps.points import Points
from calibkit.maps.rising_logit import fit_rising_logit, rising_logit_program, write_rising_logit
from calibkit.options.maps import MapOptions


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit a quadratic logit whose slope is at least 0 at both ends, by maximum likelihood.

    A slope that goes over in a line from one end to the other is that of a quadratic function.
    """
    return fit_rising_logit(points, _ends, options.workers)


def _ends(x: Float64s, positive: Float64s, negative: Float64s) -> Float64s:
    """Return the lowest and the highest score that has weight."""
    held = x[positive + negative > 0]
    return np.unique(held[[0, -1]])


METHOD = Method(fit, write_rising_logit, rising_logit_program, lambda _: True, takes_logits=True)
