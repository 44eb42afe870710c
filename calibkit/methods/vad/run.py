"""A fit of ``vad`` from its rows to its model (see `calibkit.summaries.runs.Fit`), and its states."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Final

import msgspec
import polars as pl

from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.vad.fit import columns_of, fit_vad
from calibkit.methods.vad.model import VadModel
from calibkit.methods.vad.moments import Moments, first_of
from calibkit.methods.vad.rows import (
    Counted,
    MemberSummary,
    VadRows,
    member_names,
    need_members,
    read_vad_rows,
)
from calibkit.models.lineage import makers_in, name_makers, record_makers
from calibkit.options.option import from_plain as options_from_plain
from calibkit.options.option import plain
from calibkit.options.vad import VadOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.runs import Fitted, Plan
from calibkit.summaries.states import Shard, State, SummedState, from_plain, new_header

KIND: Final = "vad"

_SEGMENT: Final = "segment"

#: What messages call the input of the rows like the training rows, whose name a state does not keep.
_TRAIN: Final = "--train-input"
_HASH = re.compile("[0-9a-f]{16}")
_NUMBER = re.compile("-?[0-9a-f]+")

#: More hexadecimal digits than any sum of products of float64 has.
_MOST_DIGITS: Final = 2000


def fit(options: VadOptions, source: Source) -> Fitted[VadModel]:
    """Return the model of all rows."""
    fitted = fit_vad(read_vad_rows(source, options), options)
    record_makers(fitted.model, source)
    return fitted


def plan(options: VadOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    names = member_names(source, options)
    roles = {f"member {place}": name for place, name in enumerate(names, start=1)}
    beside = {"calibrated": options.calibrated, "by": options.by, "weight": options.weight}
    roles |= {role: name for role, name in beside.items() if name is not None}
    return Plan(roles, options.steps(len(names)))


def state(options: VadOptions, source: Source) -> State:
    """Return the state of the rows of one shard; see `read_vad_rows`."""
    rows = read_vad_rows(source, options)
    test, other = rows.test, rows.train
    problem = Problem(
        asked=plain(replace(options, train_input=None, threads=None)),
        names=test.names,
        dtypes=test.dtypes,
        score_dtype=test.score_dtype,
        train=None
        if other is None
        else Train(
            names=other.names,
            dtypes=other.dtypes,
            score_dtype=None,
            summed=other.counted,
            sums=_table(other).to_dict(as_series=False),
        ),
        makers=makers_in(source, {role: own.name for role, own in columns_of(rows).items()}),
    )
    files = test.files if options.provenance == "names" else ()
    shard = Shard(test.counted.hash, test.counted.rows_read, tuple(files))
    return VadState(
        new_header(KIND, msgspec.to_builtins(problem), [shard]), pl.DataFrame(), summary=test
    )


def finish(state: State, memory: Memory, threads: int) -> Fitted[VadModel]:
    """Return the model of the rows of a merged state: its sums are all that a fit needs.

    Raises
    ------
    ModelError, DataError
        As `rows_of` and `calibkit.methods.vad.fit.fit_vad`.
    """
    rows = rows_of(state)
    fitted = fit_vad(rows, rows.options)
    name_makers(fitted.model, _problem(state).makers, state.header.text)
    return fitted


class Train(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rows of the training distribution; `sums` are the columns of a table."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    score_dtype: None
    summed: Counted
    sums: dict[str, list[str | None]]


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What shapes the model, apart from the rows; `asked` are the options."""

    asked: dict[str, Any]
    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    score_dtype: str | None
    train: Train | None
    makers: dict[str, str]


class VadState(SummedState):
    """A state of replicate predictions: the sums of `MemberSummary`."""

    def check(self) -> None:
        """Raise `ModelError` for a state that holds no sums of replicate predictions."""
        try:
            rows_of(self)
        except UsageError as error:
            raise ModelError(f"a damaged state: {error}") from None

    def summed(self) -> MemberSummary:
        """Return the sums that it holds; errors as `rows_of`."""
        return rows_of(self).test

    def packed(self) -> tuple[dict[str, Any], pl.DataFrame]:
        """Return payload and table of the summary."""
        summary: MemberSummary = self.summary
        return msgspec.to_builtins(summary.counted), _table(summary)


def _problem(state: State) -> Problem:
    return from_plain(state.header.options, Problem, state.path)


def rows_of(state: State) -> VadRows:
    """Return what `calibkit.methods.vad.fit.fit_vad` needs.

    Raises
    ------
    ModelError
        Where parts of the state contradict each other.
    """
    assert isinstance(state, VadState)
    problem = _problem(state)
    options = options_from_plain(problem.asked, VadOptions, state.path)
    files = tuple(sorted({name for shard in state.header.shards for name in shard.files}))
    files = files or (state.path,)
    if state.summary is not None:
        test = replace(state.summary, files=files, warnings=())
    else:
        counted = from_plain(state.header.payload, Counted, state.path)
        test = _summary(state.table, counted, problem, options, files)
    train, other = None, problem.train
    if other is not None:
        train = _summary(pl.DataFrame(other.sums), other.summed, other, options, (_TRAIN,))
    need_members(problem.names, options)
    return VadRows(test=test, train=train, options=options)


def _table(summary: MemberSummary) -> pl.DataFrame:
    """Return the sums as hexadecimal text, a row a segment."""
    ordered = sorted(summary.moments.items(), key=lambda item: (item[0] is not None, item[0] or ""))
    rows = [
        {_SEGMENT: name} | {f"sum_{place}": f"{total:x}" for place, total in enumerate(own.sums)}
        for name, own in ordered
    ]
    return pl.DataFrame(rows, schema=dict.fromkeys(rows[0], pl.String))


def _summary(
    table: pl.DataFrame,
    counted: Counted,
    columns: Problem | Train,
    options: VadOptions,
    files: tuple[str, ...],
) -> MemberSummary:
    """Return the summary whose sums a table holds, after checking all of it."""
    members = len(columns.names)
    size = members + (columns.score_dtype is not None) + 4
    expected = [_SEGMENT, *(f"sum_{place}" for place in range(size))]
    if sorted(table.columns) != sorted(expected) or not table.height:
        raise ModelError(f"a damaged state: its columns are {', '.join(table.columns)}")
    if len(columns.dtypes) != members or len(counted.twins) != members:
        raise ModelError("a damaged state: it has not as many columns as it says")
    if not 1 <= counted.rows <= counted.rows_read or not _HASH.fullmatch(counted.hash):
        raise ModelError("a damaged state: impossible numbers of rows, or no hash of them")
    moments: dict[str | None, Moments] = {}
    for name, *texts in table.select(expected).rows():
        sums = tuple(map(_whole, texts))
        weight, clipped, *_, squares, spread = sums
        if not 0 <= clipped <= weight or min(squares, spread) < 0:
            raise ModelError("a damaged state: sums that no rows have")
        moments[name] = Moments(members, first_of(options), sums)
    if len(moments) != table.height or (None in moments) == (options.by is not None):
        raise ModelError("a damaged state: segments that are not those of one column")
    return MemberSummary(
        names=columns.names,
        dtypes=columns.dtypes,
        score_dtype=columns.score_dtype,
        moments=moments,
        counted=counted,
        files=files,
    )


def _whole(text: object) -> int:
    if not isinstance(text, str) or len(text) > _MOST_DIGITS or not _NUMBER.fullmatch(text):
        raise ModelError(f"a damaged state: {str(text)[:40]!r} is no whole number")
    return int(text, 16)
