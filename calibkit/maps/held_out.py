"""Maps judged on rows they were not fitted on, and the simplest that is as good as the best."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from calibkit.errors import DataError
from calibkit.maps.method import Float64s, Found, Method, default_clip, mapped
from calibkit.maps.points import Points, together
from calibkit.maps.score_map import ScoreMap
from calibkit.options.maps import MapOptions

#: Into how many parts rows are dealt.
FOLDS: Final = 5
#: The most rows, about, that a choice looks at; of more rows so many are dealt.
MOST_ROWS: Final = 200_000
#: Probabilities are moved so far inside (0, 1) for the logarithmic loss.
_LEAST: Final = 1e-15

Fit = Callable[[Points, MapOptions, list[Points]], Found]


@dataclass(frozen=True)
class HeldOut:
    """The losses of a map on each point of each fold, fitted on the other folds.

    Attributes
    ----------
    log_loss, brier
        Two rows: of a positive and of a negative row.
    weight
        What positive and negative rows of each point weigh.
    """

    log_loss: Float64s
    brier: Float64s
    weight: Float64s

    def mean(self, measure: str) -> float:
        """Return the mean loss of a row."""
        return _mean(getattr(self, measure), self.weight)

    def error_against(self, other: HeldOut, measure: str) -> float:
        """Return the standard error of the mean difference to another map on the same rows."""
        apart = getattr(self, measure) - getattr(other, measure)
        mean = _mean(apart, self.weight)
        spread = _mean((apart - mean) ** 2, self.weight)
        return math.sqrt(spread / float(np.add.reduce(self.weight.ravel())))


def _mean(values: Float64s, weight: Float64s) -> float:
    total = float(np.add.reduce(weight.ravel()))
    return float(np.add.reduce((values * weight).ravel())) / total


def held_out(method: Method, fit: Fit, folds: list[Points], options: MapOptions) -> HeldOut | str:
    """Return the losses of a map; in words why it cannot be fitted to all folds but one."""
    losses, weights = [], []
    for fold, own in enumerate(folds):
        others = together([part for place, part in enumerate(folds) if place != fold])
        if not own.score.size or not others.score.size:
            return "there are too few rows for folds"
        try:
            found = fit(others, options, [])
        except DataError as error:
            return str(error)
        clip = default_clip(method, others) if options.clipped_at is None else options.clipped_at
        one = ScoreMap(clip=clip, **found.fields)
        value = mapped(method, one, own.score, own.scale, options.workers)[0]
        near = value.clip(_LEAST, 1.0 - _LEAST)
        losses.append([-np.log(near), -np.log(1.0 - near), (1.0 - value) ** 2, value**2])
        weights.append(own.weights(options.workers))
    all_losses, weight = np.hstack(losses), np.hstack(weights)
    return HeldOut(all_losses[:2], all_losses[2:], weight)


def simplest(losses: Sequence[HeldOut], measure: str = "log_loss") -> tuple[int, list[float]]:
    """Return which is the first within one standard error of the best, and these errors.

    The error is that of the difference to the best on the same rows.  Simple maps stand first.
    """
    means = [one.mean(measure) for one in losses]
    best = min(range(len(means)), key=means.__getitem__)
    errors = [one.error_against(losses[best], measure) for one in losses]
    within = (place for place, mean in enumerate(means) if mean <= means[best] + errors[place])
    return next(within), errors
