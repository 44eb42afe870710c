"""The state of a watch: what was counted of each night, in one small JSON file.

Nights are in order, counts add up: what is watched follows from the state alone, whatever the shards
of a night and their order.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import date
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar

import msgspec
from msgspec.structs import replace

from calibkit.errors import ModelError
from calibkit.files.told import Told, together
from calibkit.methods.watch.bets import PROMISES, Cells, Promise
from calibkit.methods.watch.bins import BINS, UNIT
from calibkit.models.model import canonical_text, decode_as

MAGIC: Final = "calibkit watch"
VERSION: Final = 1

#: The day that counts as 0 in the order of nights; the first day and the last that are nights.
_EPOCH: Final = date(1970, 1, 1).toordinal()
DAYS: Final = (date.min.toordinal() - _EPOCH, date.max.toordinal() - _EPOCH)

#: What nights are: days, whole numbers, or runs of the command, counted from 1.
Calendar = Literal["date", "integer", "run"]

Count = Annotated[int, msgspec.Meta(ge=0)]

#: What tells the rows of a cell from others: segment, chance of being selected, weight.
Kind: TypeAlias = tuple[int, float, float]
K = TypeVar("K")


class Shard(msgspec.Struct, frozen=True, forbid_unknown_fields=True, order=True, array_like=True):
    """Some rows of a night: a hash of them, and how many have a label."""

    data_hash: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]
    rows: Count


class Night(msgspec.Struct, frozen=True, forbid_unknown_fields=True, array_like=True):
    """What was counted of a night; in the file a list of these, for a year of them is to stay small.

    Attributes
    ----------
    period
        Which night: a date as text (2026-11-22), or a whole number.
    cells
        ``[chance, negatives, positives]``: labelled rows by the chance that they are selected.
    shards
        Where they come from.
    weights
        The sampling weight of the rows of each cell; none: all are 1.
    scores
        Where calibration is watched: rows, positives and the sum of probabilities in each bin.
    drift
        For each column that is watched for drift: rows by bin, labelled or not.
    segments
        Where segments have promises of their own: that of each cell, as its place among them, or
        their number for rows of any other.
    """

    period: str | int
    cells: tuple[tuple[float, Count, Count], ...]
    shards: tuple[Shard, ...]
    scores: tuple[tuple[Count, Count, Count], ...] = ()
    weights: tuple[float, ...] = ()
    drift: tuple[tuple[Count, ...], ...] = ()
    segments: tuple[Count, ...] = ()

    @property
    def kinds(self) -> dict[Kind, tuple[int, int]]:
        """Negative and positive rows by what tells cells apart."""
        size = len(self.cells)
        parts = self.segments or (0,) * size, self.cells, self.weights or (1.0,) * size
        return {
            (segment, cell[0], weight): cell[1:]
            for segment, cell, weight in zip(*parts, strict=True)
        }

    def counts(self) -> Cells:
        """Return the rows as bets are made on them."""
        return _sums((kind[1:], rows) for kind, rows in self.kinds.items())

    def by_segment(self) -> Mapping[int, Cells]:
        """Return the rows of each segment that has any, by its place."""
        found: dict[int, dict[tuple[float, float], tuple[int, int]]] = {}
        for (segment, *kind), rows in self.kinds.items():
            found.setdefault(segment, {})[kind[0], kind[1]] = rows
        return found

    @property
    def rows(self) -> int:
        """How many labelled rows there are."""
        return sum(shard.rows for shard in self.shards)

    @property
    def seen(self) -> int:
        """How many rows there are that have a label or count for drift."""
        return max(self.rows, *map(sum, self.drift)) if self.drift else self.rows

    def merge(self, *others: Night) -> Night:
        """Return the night with the rows of all."""
        parts = (self, *others)
        ordered = sorted(_sums(one for part in parts for one in part.kinds.items()).items())
        shards = tuple(sorted(shard for part in parts for shard in part.shards))
        scores, drift = _added(p.scores for p in parts), _added(p.drift for p in parts)
        cells = tuple((chance, *counts) for (_, chance, _), counts in ordered)
        found = Night(self.period, cells, shards, scores, drift=drift)
        if any(part.weights for part in parts):
            found = replace(found, weights=tuple(weight for (_, _, weight), _ in ordered))
        if any(part.segments for part in parts):
            found = replace(found, segments=tuple(segment for (segment, _, _), _ in ordered))
        return found


def _sums(counts: Iterable[tuple[K, tuple[int, int]]]) -> dict[K, tuple[int, int]]:
    """Return negative and positive rows, added up by kind."""
    found: dict[K, tuple[int, int]] = {}
    for kind, (negatives, positives) in counts:
        below, above = found.get(kind, (0, 0))
        found[kind] = (below + negatives, above + positives)
    return found


def _refuse(wrong: object, what: str) -> None:
    if wrong:
        raise ModelError(f"a damaged state of a watch: {what}")


def _added(tables: Iterable[tuple[tuple[int, ...], ...]]) -> tuple[Any, ...]:
    """Return the sums of tables of one shape, number by number."""
    return tuple(tuple(map(sum, zip(*lines, strict=True))) for lines in zip(*tables, strict=True))


class WatchState(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """What is watched, and what was counted.

    Attributes
    ----------
    model
        The hash of the model (`calibkit.models.lineage.model_hash`).
    promises
        ``{name: bound}``.
    segments
        Those in each of which that is promised, as slices (``shop:web``); none: of all rows together.
    confidence
        One less the chance of a false alarm, for all promises together and at any time.
    calendar, maturity
        What nights are, and how many of them a row waits before it counts.
    nights
        In order.
    calibration
        Whether it is watched.
    max_weight
        The largest sampling weight that a row can ever have, as declared; None: rows have none.
    drift
        The columns watched for drift, with the fitting rows of each bin.
    text
        How the text of the rows was read, where other text could have been read otherwise.
    """

    magic: str
    version: int
    model: str
    promises: dict[str, float]
    confidence: float
    calendar: Calendar
    maturity: Count
    nights: tuple[Night, ...] = ()
    calibration: bool = False
    max_weight: float | None = None
    drift: dict[str, tuple[Count, ...]] = {}
    segments: tuple[str, ...] = ()
    text: Told | None = None

    @property
    def tested(self) -> list[Promise]:
        """The promises, in one order."""
        most = 1.0 if self.max_weight is None else self.max_weight
        return [
            Promise(name, self.promises[name], most, segment)
            for name in PROMISES
            if name in self.promises
            for segment in self.segments or (None,)
        ]

    @property
    def last(self) -> int | None:
        """The place in time of the last night."""
        return None if not self.nights else place_of(self.nights[-1].period)

    def to_json(self) -> bytes:
        """Return the content of the file: one line, sorted keys."""
        return canonical_text(self).encode() + b"\n"

    def check(self) -> None:
        """Raise `ModelError` where parts contradict each other."""
        known = set(self.promises) <= set(PROMISES) and (self.promises or self.calibration)
        bounded = all(0.0 < one < 1.0 for one in self.promises.values())
        _refuse(not (known and bounded), "its promises are none")
        _refuse(len(set(self.segments)) < len(self.segments), "its segments")
        _refuse(not 0.0 < self.confidence < 1.0, "its confidence is no probability")
        kind = str if self.calendar == "date" else int
        alike = all(isinstance(night.period, kind) for night in self.nights)
        _refuse(not alike, "its nights are of two kinds")
        places = [place_of(night.period) for night in self.nights]
        _refuse(places != sorted(set(places)), "its nights are not in order")
        most = 1.0 if self.max_weight is None else self.max_weight
        _refuse(not 0.0 < most < math.inf, "its largest weight is none")
        empty = any(len(rows) != BINS or not sum(rows) for rows in self.drift.values())
        _refuse(empty, "its fitting rows")
        bins = BINS * self.calibration
        for night in self.nights:
            counted = sum(negatives + positives for _, negatives, positives in night.cells)
            _refuse(
                counted != night.rows
                or len(night.weights) != (0 if self.max_weight is None else len(night.cells))
                or len(night.segments) != (len(night.cells) if self.segments else 0)
                or max(night.segments, default=0) > len(self.segments)
                or list(night.kinds) != sorted(night.kinds)
                or len(night.kinds) != len(night.cells)
                or not all(0.0 <= chance <= 1.0 and 0.0 < w <= most for _, chance, w in night.kinds)
                or len(night.scores) != bins
                or (bins and sum(n for n, _, _ in night.scores) != counted)
                or any(hits > rows or units * UNIT > rows for rows, hits, units in night.scores)
                or [len(rows) for rows in night.drift] != [BINS] * len(self.drift)
                or len(set(map(sum, night.drift))) > 1,
                f"night {night.period}",
            )

    def add(self, fresh: Sequence[Night], *, late: bool = False) -> tuple[WatchState, int, int]:
        """Return the state with further rows, each night as one shard, and how many it had already.

        The rows of the last night are added to it unless it has them already; nights that all are
        in the state as they are, the last one too, change nothing: a run is made again.  Where labels
        come `late`, rows were there on their own night without one: what counts for drift on nights
        that are over is left out; how many rows, is returned last.  Raises `ModelError` for other rows
        of a night before the last.
        """
        nights, known, last = list(self.nights), 0, self.last
        held = {(night.period, shard) for night in nights for shard in night.shards}
        again = {(night.period, shard) for night in fresh for shard in night.shards}
        if nights and again <= held and nights[-1].period in {night.period for night in fresh}:
            return self, sum(night.seen for night in fresh), 0
        over = 0
        if late:
            fresh, over = self._without_past(fresh)
        for night in sorted(fresh, key=lambda one: place_of(one.period)):
            place = place_of(night.period)
            if last is None or place > last:
                nights.append(night)
            elif place < last:
                raise ModelError(
                    f"{night.seen:,} rows of night {night.period}, but the state has gone on to "
                    f"{self.nights[-1].period}: a night is closed when a later one has rows; give "
                    "each night's rows in order, or begin a new state"
                )
            elif {shard.data_hash for shard in night.shards} <= {
                shard.data_hash for shard in self.nights[-1].shards
            }:
                known += night.seen
            else:
                nights[len(self.nights) - 1] = self.nights[-1].merge(night)
        return replace(self, nights=tuple(nights)), known, over

    def _without_past(self, fresh: Sequence[Night]) -> tuple[list[Night], int]:
        """Return nights without drift on those that are over, and how many rows these had."""
        nights = [place_of(night.period) for night in self.nights if any(map(sum, night.drift))]
        begun = max(nights, default=None)
        newest = max((place_of(night.period) for night in fresh), default=0)
        found, over = list[Night](), 0
        for night in fresh:
            place = place_of(night.period)
            if begun is not None and (place < begun or place == begun < newest):
                over += sum(night.drift[0])
                night = replace(night, drift=((0,) * BINS,) * len(night.drift))
            if night.seen:
                found.append(night)
        return found, over


def read_state(data: bytes, file: str | None = None) -> WatchState:
    """Return the state that a file holds; refuse other files and versions, and damaged ones."""
    found = decode_as(data, WatchState, "a state of `calibkit watch`", file)
    try:
        if found.magic != MAGIC:
            raise ModelError("this is not a state of `calibkit watch`")
        if found.version != VERSION:
            raise ModelError(
                f"version {found.version} of a watch's state is unknown here; this calibkit reads "
                f"version {VERSION}: update calibkit, or begin a new state"
            )
        found.check()
    except ModelError as error:
        error.file = file
        raise
    return found


def refuse_other(found: WatchState, wanted: WatchState, file: str) -> None:
    """Raise `ModelError` where a state is of another model, bound, confidence or way to count."""
    here, there = _asked(wanted), _asked(found)
    for what, mine in here.items():
        if mine != there[what]:
            raise ModelError(
                f"{file}: a state of another {what}: {there[what]} there, {mine} here; evidence does "
                "not carry over: name another file by --state to begin anew",
                file=file,
            )


def merge_states(states: Sequence[tuple[str, WatchState]]) -> WatchState:
    """Return the state of the nights and shards of all states, each with what messages call it.

    Raises `ModelError` for states of different things, and a shard that two of them hold; `DataError`
    for rows that were read from text in different ways.
    """
    first = states[0][1]
    nights: dict[int, list[Night]] = {}
    for other, state in states:
        refuse_other(state, first, other)
        for night in state.nights:
            like = nights.setdefault(place_of(night.period), [])
            held = {shard for one in like for shard in one.shards}
            if held & set(night.shards):
                raise ModelError(
                    f"{other}: rows of night {night.period} are in another of the states too; they "
                    "would count twice: merge each part once",
                    file=other,
                )
            like.append(night)
    merged = tuple(nights[place][0].merge(*nights[place][1:]) for place in sorted(nights))
    text = together((file, state.text) for file, state in states)
    return replace(first, nights=merged, text=text)


def place_of(period: str | int) -> int:
    """Return the place of a night in time: days since 1970, or the number itself."""
    if isinstance(period, int):
        return period
    try:
        return date.fromisoformat(period).toordinal() - _EPOCH
    except ValueError:
        raise ModelError(f"{period!r} is no night: a date or a whole number is one") from None


def period_at(place: int, calendar: Calendar) -> str | int:
    """Return the night at a place in time; of what lies beyond all days the last one."""
    day = min(place, DAYS[1]) + _EPOCH
    return date.fromordinal(day).isoformat() if calendar == "date" else place


def _asked(state: WatchState) -> dict[str, object]:
    """Return what is watched and how, by what messages call it."""
    more = {"calibration": state.calibration, "drift": bool(state.drift)}
    one_each = state.tested[:: len(state.segments) or 1]
    where = "each segment" if state.segments else None
    texts = [replace(promise, segment=where).text for promise in one_each]
    return {
        "model": state.model,
        "bound": ", ".join([*texts, *(name for name, watched in more.items() if watched)]),
        "confidence": f"{state.confidence:g}",
        "kind of night": state.calendar,
        "maturity": state.maturity,
        "largest weight": "none" if state.max_weight is None else state.max_weight,
    }
