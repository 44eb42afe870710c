"""States of replicate predictions: the sums of `calibkit.vad.summary` as a file."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec
import polars as pl

from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.makers import makers_in
from calibkit.memory import Memory
from calibkit.models import canonical_text, decode
from calibkit.rows.rows import Remark
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.states import Shard, State, new_state
from calibkit.vad.fit import columns_of, fit_vad
from calibkit.vad.model import VadModel
from calibkit.vad.moments import Moments, Setting
from calibkit.vad.rows import MemberOptions
from calibkit.vad.spec import VadSpec, need_members
from calibkit.vad.summary import MemberSummary, VadRows, read_vad_rows

KIND: Final = "vad"

_SEGMENT: Final = "segment"

#: What messages call the input of the rows like the training rows, whose name a state does not keep.
_TRAIN: Final = "--train-input"
_HASH = re.compile("[0-9a-f]{16}")
_NUMBER = re.compile("-?[0-9a-f]+")

#: More hexadecimal digits than any sum of products of float64 has.
_MOST_DIGITS: Final = 2000


class Summed(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What a header says of rows; see `calibkit.vad.summary.MemberSummary`."""

    rows: int
    rows_read: int
    hash: str
    twins: tuple[bool, ...]
    remarks: tuple[Remark, ...]


class Train(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The rows of the training distribution; `sums` are the columns of a table."""

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    score_dtype: None
    summed: Summed
    sums: dict[str, list[str | None]]


class Options(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What shapes the model, apart from the rows."""

    columns: MemberOptions
    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    score_dtype: str | None
    link: str
    replicates: str
    min_rows: int
    calibrator: dict[str, Any] | None
    train: Train | None
    provenance: str
    tags: dict[str, str]
    makers: dict[str, str]


def vad_state(
    source: Source,
    columns: MemberOptions,
    spec: VadSpec,
    *,
    train: Callable[[], Source] | None = None,
    memory: Memory | None = None,
    provenance: str = "hash",
    tags: dict[str, str] | None = None,
) -> State:
    """Return the state of the rows of one shard.

    Parameters
    ----------
    source, columns, spec, train, memory
        As for `calibkit.vad.spec.read_vad_rows`; `train` opens the rows like the training rows.
    provenance, tags
        As for `calibkit.vad.fit.fit_vad`.
    """
    opened = None if train is None else train()
    rows = read_vad_rows(source, columns, spec, opened, memory=memory)
    test, other = rows.test, rows.train
    names = {role: column.name for role, column in columns_of(rows).items()}
    options = Options(
        columns=rows.options,
        names=test.names,
        dtypes=test.dtypes,
        score_dtype=test.score_dtype,
        link=spec.link,
        replicates=spec.replicates,
        min_rows=spec.min_rows,
        calibrator=None if spec.calibrator is None else spec.calibrator.as_dict(),
        train=None if other is None else _train(other),
        provenance=provenance,
        tags=dict(tags or {}),
        makers=makers_in(source, names),
    )
    files = test.files if provenance == "names" else ()
    shard = Shard(test.hash, test.rows_read, tuple(files))
    return new_state(KIND, as_plain(options), [shard], summary=test)


def options_of(state: State) -> Options:
    """Return the options of a state; raises `ModelError` where they are none."""
    return from_plain(state.header.options, Options, state.path)


def fit_state(state: State) -> Fitted[VadModel]:
    """Return the shrinkage that the rows of a state give.

    Raises
    ------
    ModelError, DataError
        As `rows_of` and `calibkit.vad.fit.fit_vad`.
    """
    rows, spec = rows_of(state)
    options = options_of(state)
    fitted = fit_vad(rows, spec, provenance=options.provenance, tags=options.tags)
    columns = fitted.model.columns
    for role, maker in options.makers.items():
        if role in columns:
            columns[role] = msgspec.structs.replace(columns[role], made_by=maker)
    told = (*rows.test.told(), *(rows.train.told() if rows.train else ()), *fitted.warnings)
    return Fitted(fitted.model, tuple(dict.fromkeys(told)))


def rows_of(state: State) -> tuple[VadRows, VadSpec]:
    """Return what a fit needs: `calibkit.vad.fit.fit_vad` takes both.

    Raises
    ------
    ModelError
        Where parts of the state contradict each other.
    """
    options = options_of(state)
    files = tuple(sorted({name for shard in state.header.shards for name in shard.files}))
    files = files or (state.path,)
    if state.summary is not None:
        test = replace(state.summary, files=files, warnings=())
    else:
        summed = from_plain(state.header.payload, Summed, state.path)
        test = _summary(state.table, summed, options, options, files)
    train, other = None, options.train
    if other is not None:
        train = _summary(pl.DataFrame(other.sums), other.summed, other, options, (_TRAIN,))
    calibrator = None
    if options.calibrator is not None:
        calibrator = decode(canonical_text(options.calibrator).encode(), state.path)
    spec = VadSpec(
        link=options.link,
        replicates=options.replicates,
        min_rows=options.min_rows,
        calibrator=calibrator,
    )
    spec.check(options.columns)
    need_members(options.names, spec)
    return VadRows(test=test, train=train, options=options.columns), spec


def check_state(state: State) -> None:
    """Raise `ModelError` for a state that holds no sums of replicate predictions."""
    try:
        rows_of(state)
    except UsageError as error:
        raise ModelError(f"a damaged state: {error}") from None


def summary_of(state: State) -> MemberSummary:
    """Return the sums that a state holds; errors as `rows_of`."""
    return rows_of(state)[0].test


def packed(summary: MemberSummary) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return payload and table of a state."""
    return as_plain(_summed(summary)), _table(summary)


def _summed(summary: MemberSummary) -> Summed:
    return Summed(**{name: getattr(summary, name) for name in Summed.__struct_fields__})


def _train(summary: MemberSummary) -> Train:
    return Train(
        names=summary.names,
        dtypes=summary.dtypes,
        score_dtype=None,
        summed=_summed(summary),
        sums=_table(summary).to_dict(as_series=False),
    )


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
    summed: Summed,
    columns: Options | Train,
    options: Options,
    files: tuple[str, ...],
) -> MemberSummary:
    """Return the summary whose sums a table holds, after checking all of it."""
    members = len(columns.names)
    size = members + (columns.score_dtype is not None) + 4
    expected = [_SEGMENT, *(f"sum_{place}" for place in range(size))]
    if sorted(table.columns) != sorted(expected) or not table.height:
        raise ModelError(f"a damaged state: its columns are {', '.join(table.columns)}")
    if len(columns.dtypes) != members or len(summed.twins) != members:
        raise ModelError("a damaged state: it has not as many columns as it says")
    if not 1 <= summed.rows <= summed.rows_read or not _HASH.fullmatch(summed.hash):
        raise ModelError("a damaged state: impossible numbers of rows, or no hash of them")
    first = Setting(options.columns.scale, options.link, options.replicates).spread_from()
    moments: dict[str | None, Moments] = {}
    for name, *texts in table.select(expected).rows():
        sums = tuple(map(_whole, texts))
        weight, clipped, *_, squares, spread = sums
        if not 0 <= clipped <= weight or min(squares, spread) < 0:
            raise ModelError("a damaged state: sums that no rows have")
        moments[name] = Moments(members, first, sums)
    if len(moments) != table.height or (None in moments) == (options.columns.by is not None):
        raise ModelError("a damaged state: segments that are not those of one column")
    return MemberSummary(
        names=columns.names,
        dtypes=columns.dtypes,
        score_dtype=columns.score_dtype,
        moments=moments,
        files=files,
        **msgspec.structs.asdict(summed),
    )


def _whole(text: object) -> int:
    if not isinstance(text, str) or len(text) > _MOST_DIGITS or not _NUMBER.fullmatch(text):
        raise ModelError(f"a damaged state: {str(text)[:40]!r} is no whole number")
    return int(text, 16)
