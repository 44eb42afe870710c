"""States of score rows: the summary of `calibkit.summaries.score_summary` as a file."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, cast

import msgspec
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import HASHED, ScoreRows
from calibkit.columns.rows import Remark
from calibkit.errors import ModelError, ResourceError
from calibkit.files.paths import Part
from calibkit.files.sources import Source
from calibkit.files.table import Table
from calibkit.numerics.row_hash import data_hash
from calibkit.options.option import from_plain as options_from_plain
from calibkit.options.shared import ColumnOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.cells import COUNT, SIGNIFICAND, Role
from calibkit.summaries.counted import Counted, Room
from calibkit.summaries.score_summary import ScoreSummary, levels_of
from calibkit.summaries.states import Shard, State, SummedState, from_plain, new_header


class Payload(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the header says of counted score rows; see `ScoreSummary`."""

    roles: tuple[Role, ...]
    bits: int | None
    room: Room
    rows_read: int
    dropped: int
    remarks: tuple[Remark, ...]
    hashes: dict[str, Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$")]]
    lowest: float | None


class _Options(msgspec.Struct, frozen=True, kw_only=True):
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
        return ScoreSummary(
            counted=Counted(
                payload.roles,
                (self.table,),
                payload.room,
                payload.bits,
                levels=levels_of(options.edges),
            ),
            options=options_from_plain(options.columns, ColumnOptions, self.path),
            rows_read=payload.rows_read,
            dropped=payload.dropped,
            remarks=payload.remarks,
            notes=options.notes,
            hashes=payload.hashes,
            dtypes=options.dtypes,
            lowest=payload.lowest,
            edges=options.edges,
        )

    def check(self) -> None:
        """Raise `ModelError` for a state that holds no summary of score rows, or a damaged one.

        Of rows that are as they were the hash is counted again: a bit that flipped on the way is found.
        """
        summary = self.summed()
        names = ",".join(role for role in HASHED if role in summary.counted.frame.columns)
        if set(summary.hashes) != {names, names.replace(",uncertainty", "")}:
            raise ModelError("a damaged state: its hashes are not those of its columns")
        if not summary.counted.exact or summary.edges is not None:
            return
        frame = summary.counted.frame
        used: dict[str, NDArray[Any]]
        used = {role: frame[role].to_numpy() for role in HASHED if role in frame.columns}
        if summary.hashes[names] != data_hash(used, frame[COUNT].to_numpy()):
            raise ModelError(
                "a damaged state: its rows are not those that were written; make it again"
            )

    def packed(self) -> tuple[dict[str, Any], pl.DataFrame]:
        """Return payload and table of the summary."""
        summary: ScoreSummary = self.summary
        payload = msgspec.to_builtins(
            Payload(
                roles=summary.counted.roles,
                bits=summary.counted.bits,
                room=summary.counted.room,
                rows_read=summary.rows_read,
                dropped=summary.dropped,
                remarks=tuple(sorted(summary.remarks, key=lambda remark: remark.text)),
                hashes=summary.hashes,
                lowest=summary.lowest,
            )
        )
        return payload, summary.counted.frame


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


def score_state(
    kind: str, options: dict[str, Any], summary: ScoreSummary, files: Sequence[str] = ()
) -> State:
    """Return the state of a shard's summary; `files` are what the state is to name of the shard."""
    own = _Options(
        columns=msgspec.to_builtins(summary.options),
        dtypes=summary.dtypes,
        notes=summary.notes,
        edges=summary.edges,
    )
    fullest = max(summary.hashes, key=len)
    shard = Shard(summary.hashes[fullest], summary.rows_read, tuple(files))
    header = new_header(kind, {**msgspec.to_builtins(own), **options}, [shard])
    return ScoreState(header, pl.DataFrame(), summary=summary)


def source_of(state: State) -> Source:
    """Return a source of no rows that names the shards of a state, for messages and provenance."""
    files = sorted({file for shard in state.header.shards for file in shard.files})
    parts = [Part(file, "arrow", file) for file in files or [state.path]]
    nothing = pl.DataFrame()
    return Source([Table(part, nothing, {}, 0, told=lambda _: state.header.text) for part in parts])


def _check_table(table: pl.DataFrame, payload: Payload, options: _Options) -> None:
    """Refuse a table that is not the counted rows that the header describes."""
    names = [role.name for role in payload.roles]
    if table.columns != [*names, COUNT] or table.schema[COUNT] != pl.Int64 or not table.height:
        raise ModelError(f"a damaged state: its columns are {', '.join(table.columns)}")
    wanted = dict(options.dtypes)
    if options.edges is not None and "uncertainty" in wanted:
        wanted["uncertainty"] = "UInt16"
    if payload.bits is not None and "weight" in wanted:
        wanted["weight"] = str(table.schema["weight"])  # units, in a dense table
    if {name: str(table.schema[name]) for name in names} != wanted:
        raise ModelError("a damaged state: its columns have other types than it says")
    if (
        not 0 <= (payload.bits or 0) <= SIGNIFICAND
        or min(payload.room.most, payload.room.cells) < 1
    ):
        raise ModelError("a damaged state: an impossible resolution")
    counts = table[COUNT]
    if counts.null_count() or (counts < 1).any():
        raise ModelError("a damaged state: rows that occur less than once")
    if counts.sum() != payload.rows_read - payload.dropped:
        raise ModelError("a damaged state: it has not as many rows as it says")
    for name in ("score", "uncertainty", "weight"):
        column = table[name] if name in names else pl.Series([0.0])
        if not column.dtype.is_numeric() or column.null_count() or column.is_nan().any():
            raise ModelError(f"a damaged state: column {name!r} holds something else than numbers")
    levels = options.edges is not None and "uncertainty" in names
    if levels and table["uncertainty"].to_numpy().max() >= levels_of(options.edges):
        raise ModelError("a damaged state: uncertainty levels that it does not have")
    if "label" in names and not table["label"].is_in([0, 1]).all():
        raise ModelError("a damaged state: labels other than 0 and 1")
