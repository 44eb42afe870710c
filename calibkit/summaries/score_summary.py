"""Counted score rows: what a file of any size becomes, what merges, is kept as a state, and fitted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

import numpy as np
import polars as pl
from msgspec import Meta, Struct, to_builtins
from msgspec.structs import asdict, replace

from calibkit.arrays import Numbers, UInt16s, fixed
from calibkit.columns.rows import Remark, RowFinder, merge_remarks, never_positive, weightless
from calibkit.errors import ResourceError
from calibkit.files.paths import Part
from calibkit.files.sources import Source
from calibkit.files.table import Table
from calibkit.models.model import Resolution
from calibkit.numerics.hashes import data_hash, merge_hashes
from calibkit.options.option import from_plain as options_from_plain
from calibkit.options.shared import ColumnOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.counted import COUNT, SIGNIFICAND, Counted, Role, Room
from calibkit.summaries.edges import assign
from calibkit.summaries.passes import merge_all
from calibkit.summaries.score_rows import ROLES, ScoreRows
from calibkit.summaries.states import OTHER_ROWS, OTHER_SIZE, State, SummedState, from_plain, refuse

#: How a further column is called among the roles.
OTHER = "column "


class Seen(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is known of score rows besides the rows that are used."""

    rows_read: int
    dropped: int
    remarks: tuple[Remark, ...] = ()
    #: The sums of the hashes of the rows as they were, by their roles in alphabetical order.
    hashes: dict[str, Annotated[str, Meta(pattern="^[0-9a-f]{16}$")]] = {}
    lowest: float | None = None  # the smallest uncertainty of rows that weigh something

    @classmethod
    def of(cls, rows: ScoreRows) -> Seen:
        """Return what a window tells."""
        held = rows.uncertainty
        if held is not None and rows.weight is not None:
            held = held[rows.weight > 0]
        return cls(
            rows_read=rows.rows_read,
            dropped=rows.rows_read - rows.score.size,
            remarks=rows.remarks,
            hashes=_row_sums(rows),
            lowest=None if held is None or not held.size else float(held.min()),
        )

    def merge(self, *others: Seen) -> Seen:
        """Return what is known of the rows of all."""
        parts = (self, *others)
        return Seen(
            rows_read=sum(part.rows_read for part in parts),
            dropped=sum(part.dropped for part in parts),
            remarks=merge_remarks(remark for part in parts for remark in part.remarks),
            hashes={
                roles: merge_hashes(part.hashes[roles] for part in parts if part.hashes)
                for roles in self.hashes
            },
            lowest=min((p.lowest for p in parts if p.lowest is not None), default=None),
        )

    def fields(self, source: Source) -> dict[str, Any]:
        """Return what `ScoreRows` say of rows that were counted or stored."""
        return {
            "rows_read": self.rows_read,
            "remarks": self.remarks,
            "warnings": (*source.warnings, *(remark.text for remark in self.remarks)),
            "finder": RowFinder(source, counted=True),
            "hashes": self.hashes,
        }


class ScoreSummary(Struct, frozen=True, kw_only=True):
    """Score rows, counted."""

    #: The rows: a column for each role, further columns as `OTHER` and their name.  Where there are
    #: `edges`, uncertainties are the numbers of their levels.
    counted: Counted
    seen: Seen
    options: ColumnOptions
    notes: tuple[str, ...]
    dtypes: dict[str, str]  # the types of the columns before they were counted
    #: The values that uncertainties are moved down to, but for the smallest (None: not moved), and
    #: by which share of the rows they may miss their quantiles.
    edges: tuple[float, ...] | None = None
    level_error: float = 0.0

    @property
    def said(self) -> dict[str, Any]:
        """What the header of a state says of it, as `_Options` reads it."""
        named = {"columns": self.options, "dtypes": self.dtypes, "notes": self.notes}
        return to_builtins({**named, "edges": self.edges})

    def merge(self, *others: ScoreSummary) -> ScoreSummary:
        """Return the summary of the rows of all; they have the same roles, options and edges.

        Refused are rows that do not fit, with weights that cannot be summed as they are.
        """
        parts = (self, *others)
        counted = merge_all(part.counted for part in parts)
        seen = merge_all(part.seen for part in parts)
        error = max(part.level_error for part in parts)
        return replace(self, counted=counted, seen=seen, level_error=error)

    def rows(self, source: Source, memory: Memory | None = None) -> ScoreRows:
        """Return rows to fit on: written out where they fit and nothing was made coarser."""
        counted, total, resolution = self.counted, self.counted.rows, self._resolution()
        written = counted.exact and (
            memory is None or total <= memory.entries or total == counted.frame.height
        )
        frame = counted.written() if written else counted.frame
        columns: dict[str, Any] = {
            role: fixed(frame[role].to_numpy()) if role in frame.columns else None for role in ROLES
        }
        levels, weight = columns["uncertainty"], columns["weight"]
        if levels is not None and self.edges is not None:  # below all edges: the smallest of all
            kind = np.float32 if self.dtypes["uncertainty"] == "Float32" else np.float64
            columns["uncertainty"] = fixed(level_values(self.edges, kind, self.seen.lowest)[levels])
        if not written:
            columns["weight"] = fixed(counted.weights)
        others = [name for name in frame.columns if name.startswith(OTHER)]
        named = [pl.col(name).alias(name.removeprefix(OTHER)) for name in others]
        return checked(
            ScoreRows(
                **columns,
                **self.seen.fields(source),
                options=self.options,
                notes=(*self.notes, *_coarse_note(total, resolution)),
                others=frame.select(named),
                times=None if written else frame[COUNT].to_numpy(),
                weight_each=None if written else weight,
                resolution=resolution,
                moved=not counted.exact or self.edges is not None,
            )
        )

    def _resolution(self) -> Resolution | None:
        """Return how coarse the rows are; None where nothing was lost.

        Quantiles of uncertainties in bits may miss theirs by the largest share of one value.
        """
        error = self.level_error
        if self.counted.spread_bits is not None:
            masses = self.counted.frame.group_by("uncertainty").agg(pl.col(COUNT).sum())[COUNT]
            error = float(masses.to_numpy().max() / self.counted.rows)
        if self.counted.exact and not error:
            return None
        return Resolution(self.counted.bits, self.counted.spread_bits, error or None)


def _coarse_note(rows: int, resolution: Resolution | None) -> list[str]:
    """Return in words how coarse rows are, if they are."""
    if resolution is None:
        return []
    said = []
    if resolution.score_bits is not None:
        said.append(f"scores to {resolution.score_bits} bits")
    if resolution.uncertainty_bits is not None:
        said.append(f"uncertainties to {resolution.uncertainty_bits} bits")
    if resolution.level_error:
        said.append(f"the edges of uncertainty levels to {resolution.level_error:.2g} of the rows")
    return [f"{rows:,} rows do not fit in memory: rounded down {', '.join(said)}"]


def checked(rows: ScoreRows) -> ScoreRows:
    """Refuse what only all rows together can show."""
    options, file = rows.options, rows.source.file
    if rows.weight is not None and not rows.weight.any():
        raise weightless(file, options.weight, rows.rows)
    if rows.label is None or options.positive is None or rows.label.any():
        return rows
    said = f"column {options.label!r}: no row has the positive class {options.positive!r}"
    raise never_positive(file, said, options.label, rows.rows)


def levels_of(edges: Sequence[float] | None) -> int:
    """Return how many levels there are between edges."""
    return 1 if edges is None else len(edges) + 1


def level_numbers(uncertainty: Numbers, edges: Sequence[float]) -> UInt16s:
    """Return the number of the level of each uncertainty."""
    return assign(uncertainty, -np.inf, np.array(edges))


def level_values(edges: Sequence[float], kind: Any, lowest: float | None) -> Numbers:
    """Return what the uncertainties of each level are moved down to: the edge, or the lowest of all."""
    exact = np.array(edges)
    steps = np.concatenate([[-np.inf], exact]).astype(kind)
    steps[1:] = np.where(steps[1:] < exact, np.nextafter(steps[1:], kind(np.inf)), steps[1:])
    return steps if lowest is None else np.maximum(steps, kind(lowest))


def _row_sums(rows: ScoreRows) -> dict[str, str]:
    """Return the sums of the rows' hashes, with and without the uncertainty."""
    used = columns_of(rows)
    names = ",".join(sorted(used))
    found = {names: data_hash(used)}
    if used.pop("uncertainty", None) is not None:
        found[names.replace(",uncertainty", "")] = data_hash(used)
    return found


def columns_of(rows: ScoreRows) -> dict[str, Numbers]:
    """Return the columns of the roles that rows have, the score first."""
    return {role: getattr(rows, role) for role in ROLES if getattr(rows, role) is not None}


class Payload(Seen, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the header says of counted score rows; see `Counted`."""

    roles: tuple[Role, ...]
    bits: int | None
    room: Room


class _Options(Struct, frozen=True, kw_only=True):
    """The options that a summary has itself; those of the command stand beside them."""

    columns: dict[str, Any]
    dtypes: dict[str, str]
    notes: tuple[str, ...]
    edges: tuple[float, ...] | None


class ScoreState(SummedState):
    """A state of score rows."""

    def summed(self) -> ScoreSummary:
        """Return the summary; raises `ModelError` where parts of the state contradict each other."""
        if self.summary is not None:
            return cast(ScoreSummary, self.summary)
        options = from_plain(self.header.options, _Options, self.path)
        payload = from_plain(self.header.payload, Payload, self.path)
        _check_table(self.table, payload, options)
        levels = levels_of(options.edges)
        frames = (self.table,)
        return ScoreSummary(
            counted=Counted(payload.roles, frames, payload.room, payload.bits, levels=levels),
            seen=Seen(**{name: getattr(payload, name) for name in Seen.__struct_fields__}),
            options=options_from_plain(options.columns, ColumnOptions, self.path),
            notes=options.notes,
            dtypes=options.dtypes,
            edges=options.edges,
        )

    def check(self) -> None:
        """Raise `ModelError` for a state that holds no summary of score rows, or a damaged one.

        Of rows that are as they were the hash is counted again: a bit that flipped on the way is found.
        """
        summary = self.summed()
        hashes, frame = summary.seen.hashes, summary.counted.frame
        names = ",".join(used := sorted(set(ROLES) & set(frame.columns)))
        refuse(
            set(hashes) != {names, names.replace(",uncertainty", "")},
            "its hashes are not those of its columns",
        )
        if summary.counted.exact and summary.edges is None:
            columns: dict[str, Numbers] = {role: frame[role].to_numpy() for role in used}
            refuse(hashes[names] != data_hash(columns, frame[COUNT].to_numpy()), OTHER_ROWS)

    def packed(self) -> tuple[dict[str, Any], pl.DataFrame]:
        """Return payload and table of the summary."""
        counted, seen = self.summary.counted, asdict(self.summary.seen)
        seen["remarks"] = tuple(sorted(seen["remarks"], key=lambda remark: remark.text))
        payload = Payload(roles=counted.roles, bits=counted.bits, room=counted.room, **seen)
        return to_builtins(payload), counted.frame


def rows_of_state(state: State, memory: Memory, needs_each: str | None = None) -> ScoreRows:
    """Return the rows of a state, for an option that needs every one of them if there is one.

    Raises `ModelError`: where parts of the state contradict each other; `ResourceError`: rows that
    do not fit, if each of them is needed.
    """
    assert isinstance(state, ScoreState)
    rows = state.summed().rows(source_of(state), memory)
    once = rows.resolution is None and (rows.times is None or (rows.times == 1).all())
    if needs_each is not None and not once:
        raise ResourceError(
            f"memory: {rows.rows:,} rows do not fit, and {needs_each} needs every one of them; raise "
            "--memory, or leave it out"
        )
    return rows


def source_of(state: State) -> Source:
    """Return a source of no rows that names the shards of a state, for messages and provenance."""
    files = sorted({file for shard in state.header.shards for file in shard.files})
    parts = [Part(file, "arrow", file) for file in files or [state.path]]
    nothing = pl.DataFrame()
    return Source([Table(part, nothing, {}, 0, told=lambda _: state.header.text) for part in parts])


def _check_table(table: pl.DataFrame, payload: Payload, options: _Options) -> None:
    """Refuse a table that is not the counted rows that the header describes."""
    names = [role.name for role in payload.roles]
    refuse(
        table.columns != [*names, COUNT] or table.schema[COUNT] != pl.Int64 or not table.height,
        f"its columns are {', '.join(table.columns)}",
    )
    wanted = dict(options.dtypes)
    if options.edges is not None and "uncertainty" in wanted:
        wanted["uncertainty"] = "UInt16"
    if payload.bits is not None and "weight" in wanted:
        wanted["weight"] = str(table.schema["weight"])  # units, in a dense table
    others = {name: str(table.schema[name]) for name in names} != wanted
    refuse(others, "its columns have other types than it says")
    least = min(payload.room.most, payload.room.cells)
    refuse(not 0 <= (payload.bits or 0) <= SIGNIFICAND or least < 1, "an impossible resolution")
    counts = table[COUNT]
    refuse(counts.null_count() or (counts < 1).any(), "rows that occur less than once")
    refuse(counts.sum() != payload.rows_read - payload.dropped, OTHER_SIZE)
    for name in [role for role in ("score", "uncertainty", "weight") if role in names]:
        column = table[name]
        wrong = not column.dtype.is_numeric() or column.null_count() or column.is_nan().any()
        refuse(wrong, f"column {name!r} holds something else than numbers")
    if options.edges is not None and "uncertainty" in names:
        beyond = table["uncertainty"].to_numpy().max() >= levels_of(options.edges)
        refuse(beyond, "uncertainty levels that it does not have")
    if "label" in names:
        refuse(not table["label"].is_in([0, 1]).all(), "labels other than 0 and 1")
