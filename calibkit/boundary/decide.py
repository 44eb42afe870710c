"""Deciding rows by a boundary."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.binning import Levels, assign
from calibkit.boundary.model import BoundaryModel
from calibkit_kernels.decide import margins

Floats = NDArray[Any]


def row_thresholds(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None
) -> NDArray[np.float64]:
    """Return the threshold that holds for each row: NaN for never, -inf for always.

    Parameters
    ----------
    model
        The boundary.
    score, uncertainty
        The columns, in the dtypes of the fit; `uncertainty` may be None where there is one level.
    """
    if model.order == "score-uncertainty":
        return _score_first_thresholds(model, score, uncertainty)
    by_level = model.thresholds()
    if by_level.size == 1:
        return np.broadcast_to(by_level, score.shape).copy()
    assert isinstance(model.uncertainty_min, float)  # `BoundaryModel.check` holds it
    levels = Levels(model.uncertainty_min, np.array(model.uncertainty_edges, np.float64))
    found: NDArray[np.float64] = by_level[levels.of(uncertainty, score.size)]
    return found


def _score_first_thresholds(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None
) -> NDArray[np.float64]:
    assert model.score_edges is not msgspec.UNSET and model.take is not msgspec.UNSET
    assert model.score_min is not msgspec.UNSET and isinstance(model.uncertainty_min, list)
    edges = np.array(model.score_edges, np.float64)
    lowest = np.concatenate([[-np.inf], edges, [np.nan]])
    by_level = lowest[edges.size + 1 - np.array(model.take)]
    column = assign(score, model.score_min, edges)
    level = np.zeros(score.size, np.uint16)
    for j, (low, own) in enumerate(
        zip(model.uncertainty_min, model.uncertainty_edges, strict=True)
    ):
        if low is None or uncertainty is None or not own:
            continue  # values below the smallest score count as it: an empty bin has no rows
        rows = np.flatnonzero(column == j)
        level[rows] = assign(uncertainty[rows], low, np.array(own, np.float64))
    found: NDArray[np.float64] = by_level[level]
    return found


def decide(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return the decision (0 or 1) and the margin of each row.

    The margin is score minus threshold, in logits for scores that are probabilities; NaN where the
    row's level never or always decides for.
    """
    threshold = row_thresholds(model, score, uncertainty)
    probability = model.columns["score"].scale in (None, "probability")
    decision = (score >= threshold).astype(np.uint8)
    return decision, margins(score, threshold, probability)
