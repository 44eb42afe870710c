"""Deciding rows by a boundary."""

from __future__ import annotations

import hashlib
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.binning import Levels, assign
from calibkit.boundary.model import BoundaryModel, threshold_value
from calibkit_kernels.decide import margins, reaches

Floats = NDArray[Any]


def row_levels(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None
) -> NDArray[np.uint16]:
    """Return the uncertainty level of each row.

    Parameters
    ----------
    model
        The boundary.
    score, uncertainty
        The columns, in the dtypes of the fit; `uncertainty` may be None where there is one level.
    """
    if model.order == "score-uncertainty":
        return _score_first_levels(model, score, uncertainty)
    if model.levels == 1:
        return np.zeros(score.size, np.uint16)
    assert isinstance(model.uncertainty_min, float)  # `BoundaryModel.check` holds it
    levels = Levels(model.uncertainty_min, np.array(model.uncertainty_edges, np.float64))
    return levels.of(uncertainty, score.size)


def level_thresholds(model: BoundaryModel) -> NDArray[np.float64]:
    """Return the threshold of each level: NaN for never, -inf for always."""
    if model.order == "uncertainty-score":
        return model.thresholds()
    assert model.score_edges is not msgspec.UNSET and model.take is not msgspec.UNSET
    lowest = np.concatenate([[-np.inf], np.array(model.score_edges, np.float64), [np.nan]])
    found: NDArray[np.float64] = lowest[len(model.score_edges) + 1 - np.array(model.take)]
    return found


def _score_first_levels(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None
) -> NDArray[np.uint16]:
    assert model.score_edges is not msgspec.UNSET and model.score_min is not msgspec.UNSET
    assert isinstance(model.uncertainty_min, list)
    column = assign(score, model.score_min, np.array(model.score_edges, np.float64))
    level = np.zeros(score.size, np.uint16)
    for j, (low, own) in enumerate(
        zip(model.uncertainty_min, model.uncertainty_edges, strict=True)
    ):
        if low is None or uncertainty is None or not own:
            continue  # values below the smallest score count as it: an empty bin has no rows
        rows = np.flatnonzero(column == j)
        level[rows] = assign(uncertainty[rows], low, np.array(own, np.float64))
    return level


def probabilities(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None
) -> NDArray[np.float64]:
    """Return the probability with which each row is positive: 0 or 1 unless chance plays a part."""
    level, thresholds = row_levels(model, score, uncertainty), level_thresholds(model)
    chance = reaches(score, level, thresholds).astype(np.float64)
    if model.randomise is msgspec.UNSET or model.tie_probability is msgspec.UNSET:
        return chance
    share = np.array(model.tie_probability)[level]
    if model.randomise == "tie":
        return np.where(score == thresholds[level], share, chance)
    assert model.random_thresholds is not msgspec.UNSET
    wide = np.array([threshold_value(value) for value in model.random_thresholds])
    return np.where((chance == 0.0) & (reaches(score, level, wide) == 1), share, chance)


def draw(chance: NDArray[np.float64], keys: pl.Series, seed: int) -> NDArray[np.uint8]:
    """Decide rows at random, each by the hash of its key.

    A row is positive iff u < its probability, u being the first 13 hexadecimal digits of
    ``md5(seed ":" key)`` over 16^13.  Integer keys are written in decimal, text as it is.
    """
    decision = (chance >= 1.0).astype(np.uint8)
    random = np.flatnonzero((chance > 0.0) & (chance < 1.0))
    for row, key in zip(random.tolist(), keys.gather(random).to_list(), strict=True):
        digest = hashlib.md5(f"{seed}:{key}".encode(), usedforsecurity=False).hexdigest()
        decision[row] = int(digest[:13], 16) / 16**13 < chance[row]
    return decision


def decide(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return the decision (0 or 1) and the margin of each row.

    The margin is score minus threshold, in logits for scores that are probabilities; NaN where the
    row's level never or always decides for.
    """
    level, thresholds = row_levels(model, score, uncertainty), level_thresholds(model)
    probability = model.columns["score"].scale in (None, "probability")
    return reaches(score, level, thresholds), margins(score, level, thresholds, probability)
