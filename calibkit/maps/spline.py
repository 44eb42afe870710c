"""Spline calibration: a rising spline of the logit of the score, its knots at quantiles.

The logit is a sum of I-splines with coefficients of at least 0 and a line beyond the outer knots.  Few
rows give a line, the curve comes with more: that its slope changes by about as much as it is, from the
first knot to the last, is expected with the weight of one such observation (a random walk; G. Wahba,
Improper priors, spline smoothing and the problem of guarding against model errors in regression, 1978).
"""

from __future__ import annotations

from typing import Final

import numpy as np

from calibkit.maps.method import Float64s, Found, Method
from calibkit.maps.points import Points
from calibkit.maps.rising_logit import fit_rising_logit, rising_logit_program, write_rising_logit
from calibkit.options.maps import MapOptions

#: How many knots there are: more than a curve needs, for the penalty and not their number smooths it.
_COUNT: Final = 12
#: The share of rows, half of the weight in each class, beyond each outer knot.
_BEYOND: Final = 0.05
#: How far the slope is expected to stray, as a share of itself: see `fit_rising_spline`.
_BEND: Final = 1.0


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit the spline by penalised likelihood.

    Raises
    ------
    DataError
        As `calibkit.maps.rising_logit.fit_rising_logit`.
    """
    return fit_rising_logit(points, _places, options.workers, _BEND)


def _places(x: Float64s, positive: Float64s, negative: Float64s) -> Float64s:
    """Return distinct quantiles of scores, each class half of the weight.

    They lie where scores of both classes do, so that each slope moves rows of both.
    """
    share = np.cumsum(positive / np.add.reduce(positive) + negative / np.add.reduce(negative))
    wanted = np.linspace(_BEYOND, 1.0 - _BEYOND, _COUNT) * share[-1]
    places = np.minimum(np.searchsorted(share, wanted), x.size - 1)
    low, high = x[positive > 0][0], x[negative > 0][-1]
    return np.unique(x[places].clip(min(low, high), max(low, high)))


METHOD = Method(fit, write_rising_logit, rising_logit_program, lambda _: True, takes_logits=True)
