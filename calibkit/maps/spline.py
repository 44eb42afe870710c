"""Spline calibration: a rising spline of the logit of the score, its knots at quantiles.

The logit is a sum of I-splines with coefficients of at least 0 and a line beyond the outer knots; how
many knots there are is chosen by cross-validation.
"""

from __future__ import annotations

from functools import partial
from typing import Final

import numpy as np

from calibkit.maps.held_out import Fit, held_out, simplest
from calibkit.maps.method import Float64s, Found, Method
from calibkit.maps.points import Points
from calibkit.maps.rising_logit import fit_rising_logit, rising_logit_program, write_rising_logit
from calibkit.options.maps import MapOptions

#: How many knots are tried, the fewest first.
COUNTS: Final = (3, 5, 8)
#: The share of rows, half of the weight in each class, beyond each outer knot.
_BEYOND: Final = 0.05


def fit(points: Points, options: MapOptions, folds: list[Points]) -> Found:
    """Fit the spline whose number of knots cross-validation chooses, by maximum likelihood."""
    fits = fits_of_counts()
    losses = [held_out(METHOD, one, folds, options) for one in fits]
    kept = [place for place, found in enumerate(losses) if not isinstance(found, str)]
    chosen = kept[simplest([losses[place] for place in kept])[0]] if kept else 0  # type: ignore[misc]
    return fits[chosen](points, options, [])


def fits_of_counts() -> list[Fit]:
    """Return a fit for each number of knots."""
    return [partial(_fit, count) for count in COUNTS]


def _fit(count: int, points: Points, options: MapOptions, _: list[Points]) -> Found:
    return fit_rising_logit(points, partial(_places, count), options.workers)


def _places(count: int, x: Float64s, positive: Float64s, negative: Float64s) -> Float64s:
    """Return distinct quantiles of scores, each class half of the weight.

    They lie where scores of both classes do, so that each slope moves rows of both.
    """
    share = np.cumsum(positive / np.add.reduce(positive) + negative / np.add.reduce(negative))
    wanted = np.linspace(_BEYOND, 1.0 - _BEYOND, count) * share[-1]
    places = np.minimum(np.searchsorted(share, wanted), x.size - 1)
    low, high = x[positive > 0][0], x[negative > 0][-1]
    return np.unique(x[places].clip(min(low, high), max(low, high)))


METHOD = Method(
    fit, write_rising_logit, rising_logit_program, lambda _: True, takes_logits=True, folds=True
)
