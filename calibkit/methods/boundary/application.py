"""Applying a boundary: the columns it reads, and the key of a stochastic one."""

from __future__ import annotations

import msgspec
import numpy as np
import polars as pl

from calibkit.columns.rows import RowFinder, as_fitted, is_text
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.result import decide
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import Segment
from calibkit.models.kinds import ACTIONS, LEVEL, Reads, Request, find_columns

#: The key that is no column but the number of the row.
ROW_NUMBER = "row-number"


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
        if not self.random and (request.key is not None or request.seed is not None):
            raise UsageError("this model is not stochastic; leave --key and --seed out.")
        if request.key is None or request.key == ROW_NUMBER:
            return Reads(used, by)
        source.require([request.key], "--key")
        kind = source.schema[request.key]
        if not (kind.is_integer() or is_text(kind)):
            file = source.parts[0].path
            raise DataError(
                f"{file}: column {request.key!r}: type {kind} is no key; a key (--key) is an integer "
                "or text, which read the same everywhere",
                file=file,
                column=request.key,
            )
        return Reads(used, (*by, request.key))

    @property
    def _has_probability(self) -> bool:
        rules: list[BoundaryModel | Segment] = [self.model, *(self.model.groups or {}).values()]
        return any(one.isotonic is not msgspec.UNSET for one in rules)

    def values(
        self, frame: pl.DataFrame, where: RowFinder, reads: Reads, request: Request
    ) -> list[pl.Series]:
        """Return the decisions, their margins and, where chance plays a part, their probabilities."""
        arrays = {
            role: as_fitted(self.model.columns[role], frame[name], where, finite=role != "score")
            for role, name in reads.needed.items()
        }
        by = self.model.columns.get("by")
        segments = None if by is None else frame[by.name]
        columns = arrays["score"], decide.spread_of(self.model, arrays), segments
        decision, margin = decide.decide(self.model, *columns)
        placed: list[pl.Series] = []
        if request.level:
            level, probability = decide.levels_of(self.model, *columns)
            placed = [pl.Series(level), pl.Series(probability, nan_to_null=True)]
            placed = placed[: 1 + self._has_probability]
        if not self.random:
            decided = pl.Series(decision)
            if self.three_way:
                also = decide.reviewed(self.model, *columns[:2])
                decided = pl.Series(ACTIONS).gather(pl.Series(2 * decision + also))
            return [decided, pl.Series(margin, nan_to_null=True), *placed]
        chance = decide.probabilities(self.model, *columns)
        seed = self.model.seed if request.seed is None else request.seed
        assert isinstance(seed, int)  # `BoundaryModel.check` holds it
        decision = decide.draw(chance, _keys(frame, where, request), seed)
        margins = pl.Series(margin, nan_to_null=True)
        return [pl.Series(decision), margins, pl.Series(chance), *placed]


def _keys(frame: pl.DataFrame, where: RowFinder, request: Request) -> pl.Series:
    """Return the keys of the rows; a row's number counts from 1 over all inputs."""
    if request.key == ROW_NUMBER:
        return pl.Series(where.numbers(np.arange(frame.height)) + 1)
    keys = frame[str(request.key)]
    if keys.null_count():
        where.refuse(keys, keys.is_null().to_numpy(), "no key (null)", "give every row a key")
    return keys
