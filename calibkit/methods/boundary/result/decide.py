"""Deciding rows by a boundary."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bins.binning import Levels
from calibkit.columns.columns import CellGrid
from calibkit.columns.segments import known_codes
from calibkit.errors import UsageError
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value
from calibkit.summaries.edges import assign
from calibkit_kernels.maps import margins

Floats = NDArray[Any]
Rows = NDArray[np.int64] | slice

#: The group of the values with too few positives, and of those that the fit has not seen.
OTHER = "other"


def row_levels(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None
) -> NDArray[np.uint16]:
    """Return the uncertainty level of each row.

    `model`: the boundary; `score`, `uncertainty`: the columns, in the dtypes of the fit;
    `uncertainty` may be None where there is one level, and is that of `spread_of` where there are
    several.
    """
    if model.partition is not msgspec.UNSET and uncertainty is not None:
        return np.array(model.partition.leaves, np.uint16)[uncertainty.astype(np.int64)]
    level = np.zeros(score.size, np.uint16)
    if model.order == "score-uncertainty":
        assert model.score_edges is not msgspec.UNSET and model.score_min is not msgspec.UNSET
        assert isinstance(model.uncertainty_min, list)
        column = assign(score, model.score_min, np.array(model.score_edges, np.float64))
        for j, (low, own) in enumerate(
            zip(model.uncertainty_min, model.uncertainty_edges, strict=True)
        ):
            if low is None or uncertainty is None or not own:
                continue  # values below the smallest score count as it: an empty bin has no rows
            rows = np.flatnonzero(column == j)
            level[rows] = assign(uncertainty[rows], low, np.array(own, np.float64))
        return level
    if model.levels == 1:
        return level
    assert isinstance(model.uncertainty_min, float)  # `BoundaryModel.check` holds it
    levels = Levels(model.uncertainty_min, np.array(model.uncertainty_edges, np.float64))
    return levels.of(uncertainty, score.size)


def spread_of(model: BoundaryModel, arrays: Mapping[str, Floats]) -> Floats | None:
    """Return the uncertainty of rows by role, of several ones the cell of each row."""
    if model.partition is msgspec.UNSET:
        return arrays.get("uncertainty")
    edges = tuple(np.array(own, np.float64) for own in model.partition.edges)
    return CellGrid(tuple(model.spreads), edges).of([arrays[role] for role in model.spreads])


def level_thresholds(model: BoundaryModel) -> NDArray[np.float64]:
    """Return the threshold of each level: NaN for never, -inf for always."""
    if model.order == "uncertainty-score":
        return model.thresholds()
    assert model.score_edges is not msgspec.UNSET and model.take is not msgspec.UNSET
    lowest = np.concatenate([[-np.inf], np.array(model.score_edges, np.float64), [np.nan]])
    found: NDArray[np.float64] = lowest[len(model.score_edges) + 1 - np.array(model.take)]
    return found


def _by_rule(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None, by: pl.Series | None
) -> Iterator[tuple[BoundaryModel, Rows, Floats, NDArray[np.uint16]]]:
    """Yield the boundary without groups of each segment, its rows, their scores and levels.

    A segment that the model does not know, or none, is decided by the group ``other``, or by the
    boundary of all rows together.
    """
    found: list[tuple[BoundaryModel, Rows]] = [(model, slice(None))]
    if model.groups is not msgspec.UNSET:
        if by is None:
            raise UsageError(
                "this boundary has a threshold for each segment: it needs their column."
            )
        names = tuple(model.groups)
        unknown = names.index(OTHER) if OTHER in names else len(names)
        code = known_codes(by, names)
        code = np.where(code < 0, unknown, code)
        rules = [*(model.of_group(name) for name in names), model.with_rule(model.rule)]
        found = [(rule, np.flatnonzero(code == place)) for place, rule in enumerate(rules)]
    for rule, rows in found:
        own, spread = score[rows], None if uncertainty is None else uncertainty[rows]
        yield rule, rows, own, row_levels(rule, own, spread)


def levels_of(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None, by: pl.Series | None = None
) -> tuple[NDArray[np.uint16], NDArray[np.float64]]:
    """Return the uncertainty level of each row, and the isotonic probability there (else NaN)."""
    level, chance = np.zeros(score.size, np.uint16), np.full(score.size, np.nan)
    for rule, rows, own, place in _by_rule(model, score, uncertainty, by):
        level[rows] = place
        if rule.isotonic is not msgspec.UNSET:
            within = np.full(own.size, np.nan)
            for number, steps in enumerate(rule.isotonic):
                inside = place == number
                within[inside] = steps.at(own[inside])
            chance[rows] = within
    return level, chance


def probabilities(
    model: BoundaryModel, score: Floats, uncertainty: Floats | None, by: pl.Series | None = None
) -> NDArray[np.float64]:
    """Return the probability with which each row is positive: 0 or 1 unless chance plays a part."""
    found = np.empty(score.size)
    for rule, rows, own, level in _by_rule(model, score, uncertainty, by):
        thresholds = level_thresholds(rule)
        chance = (own >= thresholds[level]).astype(np.float64)
        if rule.randomise is not msgspec.UNSET and rule.tie_probability is not msgspec.UNSET:
            share = np.array(rule.tie_probability)[level]
            if rule.randomise == "tie":
                chance = np.where(own == thresholds[level], share, chance)
            else:
                assert rule.random_thresholds is not msgspec.UNSET
                wide = np.array([threshold_value(value) for value in rule.random_thresholds])
                within = (chance == 0.0) & (own >= wide[level])
                chance = np.where(within, share, chance)
        found[rows] = chance
    return found


def reviewed(model: BoundaryModel, score: Floats, uncertainty: Floats | None) -> NDArray[np.bool_]:
    """Return which rows are reviewed: below the threshold of block, and not below that of review."""
    assert model.review_thresholds is not msgspec.UNSET
    level, lowest = row_levels(model, score, uncertainty), level_thresholds(model)
    review = np.array([threshold_value(value) for value in model.review_thresholds])
    return (score >= review[level]) & ~(score >= lowest[level])


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
    model: BoundaryModel, score: Floats, uncertainty: Floats | None, by: pl.Series | None = None
) -> tuple[NDArray[np.uint8], NDArray[np.float64]]:
    """Return the decision (0 or 1) and the margin of each row.

    The margin is score minus threshold, in logits for scores that are probabilities; NaN where the
    row's level never or always decides for.
    """
    probability = model.columns["score"].measure == "probability"
    decision, margin = np.empty(score.size, np.uint8), np.empty(score.size)
    for rule, rows, own, level in _by_rule(model, score, uncertainty, by):
        thresholds = level_thresholds(rule)
        decision[rows] = own >= thresholds[level]
        margin[rows] = margins(own, level, thresholds, probability)
    return decision, margin
