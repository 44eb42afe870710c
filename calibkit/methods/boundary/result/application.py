"""Deciding rows by a boundary, and applying one: the columns it reads, the key of a stochastic one."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping

import msgspec
import numpy as np
import polars as pl

from calibkit.arrays import Bools, Floats, Int64s, Numbers, UInt8s, UInt16s
from calibkit.columns.rows import RowFinder, arrays_as_fitted, is_text
from calibkit.columns.segments import known_codes
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import Segment, threshold_values
from calibkit.models.kinds import ACTIONS, LEVEL, Reads, Request, find_columns
from calibkit.summaries.binning import Levels, bins_within
from calibkit.summaries.edges import assign
from calibkit.summaries.score_rows import CellGrid
from calibkit_kernels.maps import margins

Rows = Int64s | slice
#: The group of the values with too few positives, and of those that the fit has not seen.
OTHER = "other"
#: The key that is no column but the number of the row.
ROW_NUMBER = "row-number"


def row_levels(model: BoundaryModel, score: Numbers, uncertainty: Numbers | None) -> UInt16s:
    """Return the uncertainty level of each row.

    `model`: the boundary; `score`, `uncertainty`: the columns, in the dtypes of the fit;
    `uncertainty` may be None where there is one level, and is that of `spread_of` where there are
    several.
    """
    if model.partition is not msgspec.UNSET and uncertainty is not None:
        return np.array(model.partition.leaves, np.uint16)[uncertainty.astype(np.int64)]
    if model.order == "score-uncertainty":
        assert model.score_edges is not msgspec.UNSET and model.score_min is not msgspec.UNSET
        column = assign(score, model.score_min, np.array(model.score_edges, np.float64))
        edges = [np.array(own, np.float64) for own in model.uncertainty_edges]
        return bins_within(uncertainty, column, np.array(model.uncertainty_min, np.float64), edges)
    if model.levels == 1:
        return np.zeros(score.size, np.uint16)
    assert isinstance(model.uncertainty_min, float)  # `BoundaryModel.check` holds it
    levels = Levels(model.uncertainty_min, np.array(model.uncertainty_edges, np.float64))
    return levels.of(uncertainty, score.size)


def spread_of(model: BoundaryModel, arrays: Mapping[str, Numbers]) -> Numbers | None:
    """Return the uncertainty of rows by role, of several ones the cell of each row."""
    if model.partition is msgspec.UNSET:
        return arrays.get("uncertainty")
    edges = tuple(np.array(own, np.float64) for own in model.partition.edges)
    return CellGrid(tuple(model.spreads), edges).of([arrays[role] for role in model.spreads])


def level_thresholds(model: BoundaryModel) -> Floats:
    """Return the threshold of each level: NaN for never, -inf for always."""
    if model.order == "uncertainty-score":
        return model.thresholds()
    assert model.score_edges is not msgspec.UNSET and model.take is not msgspec.UNSET
    lowest = np.concatenate([[-np.inf], np.array(model.score_edges, np.float64), [np.nan]])
    return lowest[len(model.score_edges) + 1 - np.array(model.take)]


def group_codes(model: BoundaryModel, by: pl.Series) -> Int64s:
    """Return the number of each row's group; of rows without one that of ``other``, or one more."""
    names = tuple(model.groups or ())
    code = known_codes(by, names, others=model.pooled or ())
    return np.where(code < 0, names.index(OTHER) if OTHER in names else len(names), code)


def _by_rule(
    model: BoundaryModel, score: Numbers, uncertainty: Numbers | None, by: pl.Series | None
) -> Iterator[tuple[BoundaryModel, Rows, Numbers, UInt16s]]:
    """Yield the boundary without groups of each segment, its rows, their scores and levels.

    Rows without a group are decided by the boundary of all rows together.
    """
    found: list[tuple[BoundaryModel, Rows]] = [(model, slice(None))]
    if model.groups is not msgspec.UNSET:
        assert by is not None  # `BoundaryModel.check` holds that there is such a column
        rules = [*map(model.of_group, model.groups), model.with_rule(model.rule)]
        code = group_codes(model, by)
        found = [(rule, np.flatnonzero(code == place)) for place, rule in enumerate(rules)]
    for rule, rows in found:
        own, spread = score[rows], None if uncertainty is None else uncertainty[rows]
        yield rule, rows, own, row_levels(rule, own, spread)


def levels_of(
    model: BoundaryModel, score: Numbers, uncertainty: Numbers | None, by: pl.Series | None = None
) -> tuple[UInt16s, Floats]:
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
    model: BoundaryModel, score: Numbers, uncertainty: Numbers | None, by: pl.Series | None = None
) -> Floats:
    """Return the probability with which each row is positive: 0 or 1 unless chance plays a part."""
    found = np.empty(score.size)
    for rule, rows, own, level in _by_rule(model, score, uncertainty, by):
        thresholds = level_thresholds(rule)
        chance = (own >= thresholds[level]).astype(np.float64)
        if rule.randomise is not msgspec.UNSET and rule.tie_probability is not msgspec.UNSET:
            within = own == thresholds[level]
            if rule.randomise == "block":
                assert rule.random_thresholds is not msgspec.UNSET
                within = (chance == 0.0) & (own >= threshold_values(rule.random_thresholds)[level])
            chance = np.where(within, np.array(rule.tie_probability)[level], chance)
        found[rows] = chance
    return found


def reviewed(model: BoundaryModel, score: Numbers, uncertainty: Numbers | None) -> Bools:
    """Return which rows are reviewed: below the threshold of block, and not below that of review."""
    assert model.review_thresholds is not msgspec.UNSET
    level, lowest = row_levels(model, score, uncertainty), level_thresholds(model)
    review = threshold_values(model.review_thresholds)
    return (score >= review[level]) & ~(score >= lowest[level])


def draw(chance: Floats, keys: pl.Series, seed: int) -> UInt8s:
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
    model: BoundaryModel, score: Numbers, uncertainty: Numbers | None, by: pl.Series | None = None
) -> tuple[UInt8s, Floats]:
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


# ---------------------------------------------------------------- applying


class BoundaryApplier:
    """Adds `decision` and `margin`; a stochastic boundary also `decision_probability`.

    A decision is 0 or 1, of three-way decisions one of `ACTIONS`; their margin is that of block.

    Where levels are asked for, also `level` and, of a boundary that has it, `probability`.
    """

    def __init__(self, model: BoundaryModel) -> None:
        self.model = model
        self.random = model.randomise is not msgspec.UNSET
        self.three_way = model.review_thresholds is not msgspec.UNSET
        self.added = ("decision", "margin") + (("decision_probability",) if self.random else ())

    def reads(self, source: Source, request: Request) -> Reads:
        """Return score, uncertainty and key; refuse a key that is missing or of no use."""
        if request.level and LEVEL not in self.added:
            self.added += (LEVEL, *(("probability",) if self._has_probability else ()))
        used = find_columns(self.model, source, request, ("score", *self.model.spreads))
        by: tuple[str, ...] = ()  # a row without a value is one of no known segment
        if "by" in self.model.columns:
            by = (self.model.columns["by"].name,)
            source.require(by, "the model's segments (--by)")
        if self.random and request.key is None:
            raise UsageError(
                "a stochastic boundary decides some rows by the hash of a key: name a column that "
                f"identifies a row by --key, or use --key {ROW_NUMBER}."
            )
        if not self.random:
            request.refuse_key("this model")
        if request.key is None or request.key == ROW_NUMBER:
            return Reads(used, by, request=request)
        source.require([request.key], "--key")
        kind = source.schema[request.key]
        if not (kind.is_integer() or is_text(kind)):
            problem = f"column {request.key!r}: type {kind} is no key"
            advice = "a key (--key) is an integer or text, which read the same everywhere"
            raise DataError.of(source.file, f"{problem}; {advice}", column=request.key)
        return Reads(used, (*by, request.key), request=request)

    @property
    def _has_probability(self) -> bool:
        rules: list[BoundaryModel | Segment] = [self.model, *(self.model.groups or {}).values()]
        return any(one.isotonic is not msgspec.UNSET for one in rules)

    def group_of(self, frame: pl.DataFrame) -> Int64s:
        """Return the number of each row's group, see `group_codes`."""
        return group_codes(self.model, frame[self.model.columns["by"].name])

    def values(self, frame: pl.DataFrame, where: RowFinder, reads: Reads) -> list[pl.Series]:
        """Return the decisions, their margins and, where chance plays a part, their probabilities."""
        request = reads.request
        arrays = arrays_as_fitted(self.model.columns, reads.needed, frame, where)
        by = self.model.columns.get("by")
        segments = None if by is None else frame[by.name]
        columns = arrays["score"], spread_of(self.model, arrays), segments
        decision, margin = decide(self.model, *columns)
        added = [pl.Series(decision), pl.Series(margin, nan_to_null=True)]
        if self.random:
            chance = probabilities(self.model, *columns)
            seed = self.model.seed if request.seed is None else request.seed
            assert isinstance(seed, int)  # `BoundaryModel.check` holds it
            added[0] = pl.Series(draw(chance, _keys(frame, where, request), seed))
            added.append(pl.Series(chance))
        elif self.three_way:
            also = reviewed(self.model, *columns[:2])
            added[0] = pl.Series(ACTIONS).gather(pl.Series(2 * decision + also))
        if request.level:
            level, probability = levels_of(self.model, *columns)
            placed = [pl.Series(level), pl.Series(probability, nan_to_null=True)]
            added += placed[: 1 + self._has_probability]
        return added


def _keys(frame: pl.DataFrame, where: RowFinder, request: Request) -> pl.Series:
    """Return the keys of the rows; a row's number counts from 1 over all inputs."""
    if request.key == ROW_NUMBER:
        return pl.Series(where.numbers(np.arange(frame.height)) + 1)
    keys = frame[str(request.key)]
    where.check(keys, keys.is_null(), "no key (null)", "give every row a key")
    return keys
