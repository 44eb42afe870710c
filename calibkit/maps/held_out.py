"""Maps judged on rows they were not fitted on."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import numpy as np

from calibkit.errors import DataError
from calibkit.maps.method import Float64s, Method, default_clip, mapped
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.options.maps import MapOptions

#: Probabilities are moved so far inside (0, 1) for the logarithmic loss.
_LEAST: Final = 1e-15

#: Rows to fit a map on, and rows to judge it by.
Split = tuple[Points, Points]


@dataclass(frozen=True)
class HeldOut:
    """The losses of a map on each point of each fold, fitted on the other folds.

    Attributes
    ----------
    log_loss, brier
        Two rows: of a positive and of a negative row.
    weight
        What positive and negative rows of each point weigh.
    times
        How often each row was held out.
    """

    log_loss: Float64s
    brier: Float64s
    weight: Float64s
    times: int

    def mean(self, measure: str) -> float:
        """Return the mean loss of a row."""
        return _mean(getattr(self, measure), self.weight)

    def error_against(self, other: HeldOut, measure: str) -> float:
        """Return the standard error of the mean difference to another map on the same rows.

        Rows held out again add nothing that is new.
        """
        apart = getattr(self, measure) - getattr(other, measure)
        mean = _mean(apart, self.weight)
        spread = _mean((apart - mean) ** 2, self.weight)
        return math.sqrt(spread * self.times / float(np.add.reduce(self.weight.ravel())))


def _mean(values: Float64s, weight: Float64s) -> float:
    total = float(np.add.reduce(weight.ravel()))
    return float(np.add.reduce((values * weight).ravel())) / total


def held_out(method: Method, dealings: list[list[Split]], options: MapOptions) -> HeldOut | str:
    """Return the losses of a map; in words why it cannot be fitted to all folds but one.

    Parameters
    ----------
    method
        What makes the map.
    dealings
        The splits of each dealing of the same rows.
    options
        Those of the method.
    """
    if not all(dealings):
        return "there are too few rows for folds"
    losses, weights = [], []
    for others, own in (split for splits in dealings for split in splits):
        try:
            found = method.fit(others, options, [])
        except DataError as error:
            return str(error)
        clip = default_clip(method, others) if options.clipped_at is None else options.clipped_at
        one = ScoreMap(clip=clip, **found.fields)
        value = mapped(method, one, own.score, own.scale, options.workers)[0]
        near = value.clip(_LEAST, 1.0 - _LEAST)
        losses.append([-np.log(near), -np.log(1.0 - near), (1.0 - value) ** 2, value**2])
        weights.append(own.weights(options.workers))
    all_losses, weight = np.hstack(losses), np.hstack(weights)
    return HeldOut(all_losses[:2], all_losses[2:], weight, len(dealings))
