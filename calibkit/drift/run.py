"""Drift from its rows, or from states of them, to what was found: see `calibkit.summaries.runs.Run`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from fractions import Fraction
from typing import Any, Final

import polars as pl

from calibkit.drift.counts import CELL, Counts
from calibkit.drift.drift import Drift, judged
from calibkit.drift.drift import drift as fit
from calibkit.drift.rows import count, plan_watch, watched_of
from calibkit.errors import CalibkitError, ModelError
from calibkit.files.sources import Source
from calibkit.numerics.row_hash import hash_text
from calibkit.options.drift import DriftOptions
from calibkit.options.option import from_plain as options_from_plain
from calibkit.options.option import plain
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.summaries.runs import Plan
from calibkit.summaries.states import Shard, State, SummedState, new_header

__all__ = ["finish", "fit", "plan", "state"]

KIND: Final = "drift"

_COLUMNS: Final = ("boundary", "sum", "value")

_SINGLE: Final = frozenset(
    ("rows", "squares", "selected", "outside", "labelled", "positives", "labelled_selected", "hits")
)


def plan(options: DriftOptions, source: Source) -> Plan:
    """Return what a comparison would do."""
    watch = plan_watch(options, source)
    names = ", ".join(one.name for one in watch.watched)
    return Plan(watch.columns, [f"compare with the fit of {names}"])


def state(options: DriftOptions, source: Source) -> State:
    """Return the state of the rows of a shard; errors as `drift`."""
    batch = (source.memory or memory_budget(None)).batch
    counted = count(plan_watch(options, source), source, batch, hashed=True)
    total = next(iter(counted.values())).hash
    shard = Shard(hash_text(total), source.rows)
    # Shards may call a column by names of their own: what is found is the same.
    left = replace(options, score=None, uncertainty=None, weight=None, threads=None)
    return DriftState(
        new_header(KIND, {"asked": plain(left)}, [shard]), pl.DataFrame(), summary=_All(counted)
    )


def finish(state: State, memory: Memory, threads: int) -> Drift:
    """Return what the rows of a merged state say.

    Raises
    ------
    ModelError
        For a state of something else.
    """
    assert isinstance(state, DriftState)
    return judged(*state.parts(), state.rows)


class _All(dict[str, Counts]):
    """What was counted for each boundary."""

    def merge(self, *others: Mapping[str, Counts]) -> _All:
        """Return what was counted of the rows of all."""
        return _All({name: own.merge(*(one[name] for one in others)) for name, own in self.items()})


class DriftState(SummedState):
    """A state of what is counted of new rows."""

    def check(self) -> None:
        """Raise `ModelError` for a state that holds no such counts."""
        self.summed()

    def parts(self) -> tuple[DriftOptions, list[Any], _All]:
        """Return the options, the boundaries and what was counted for each."""
        asked = self.header.options.get("asked")
        try:
            options = options_from_plain(asked, DriftOptions, self.path)
            watched = watched_of(options.fitted)
        except CalibkitError as error:
            raise ModelError(f"a damaged state: {error}", file=self.path) from None
        if self.summary is not None:
            return options, watched, self.summary
        found = _All({one.name: self._counts(one.name) for one in watched})
        for one in watched:
            wanted = {role: len(outline.counts) for role, outline in one.outline.items()}
            for name, values in found[one.name].sums.items():
                if len(values) != (2 if CELL.fullmatch(name) else wanted.get(name, 1)):
                    raise ModelError(f"a damaged state: {name!r}", file=self.path)
        return options, watched, found

    def summed(self) -> _All:
        """Return what was counted."""
        return self.parts()[2]

    def _counts(self, name: str) -> Counts:
        told = self.header.payload.get(name)
        if list(self.table.columns) != list(_COLUMNS) or not (
            isinstance(told, list) and len(told) == 2 and all(type(n) is int for n in told)
        ):
            raise ModelError("a damaged state: it holds no counts", file=self.path)
        counts = Counts({}, *told)
        if not 0 <= counts.missing <= counts.read <= self.rows:
            raise ModelError("a damaged state: impossible numbers of rows", file=self.path)
        try:
            for owner, sum_of, value in self.table.rows():
                if owner == name:
                    counts.sums.setdefault(sum_of, []).append(_fraction(value))
        except (TypeError, ValueError, ZeroDivisionError):
            raise ModelError("a damaged state: sums that are none", file=self.path) from None
        return counts

    def packed(self) -> tuple[dict[str, Any], pl.DataFrame]:
        """Return payload and table of the summary."""
        found: _All = self.summary
        payload = {name: [own.read, own.missing] for name, own in found.items()}
        rows = [
            (name, sum_of, str(value))
            for name, own in sorted(found.items())
            for sum_of, values in sorted(own.sums.items())
            for value in values
        ]
        return payload, pl.DataFrame(rows, dict.fromkeys(_COLUMNS, pl.String), orient="row")


def _fraction(text: object) -> Fraction:
    """Return a sum of a state, which is at least 0."""
    found = Fraction(str(text))
    if found < 0 or len(str(text)) > 4_000:
        raise ValueError(text)
    return found
