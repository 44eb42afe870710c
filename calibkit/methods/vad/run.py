"""A fit of ``vad`` from its rows, or from states of them, to its model.

Rows that are selected because their predictions are high have predictions that are too high, even
where the model is unbiased: of two rows equally good, the one whose error is positive is taken.
With replicates of the model the variance of these errors can be told apart from the variance of what
is predicted, without a label.

Fan, Si, Zhang, "Calibration matters: tackling maximization bias in large-scale advertising
recommendation systems", algorithm 1 (VAD) and section 6.2 (in tandem with a calibrator, VAD+).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
import polars as pl
from msgspec.structs import replace

from calibkit.columns.patterns import natural_key
from calibkit.columns.rows import weightless
from calibkit.errors import DataError
from calibkit.files.sources import Source
from calibkit.methods.vad.model import Seen, Segment, SegmentTable, TrainSeen, VadModel
from calibkit.methods.vad.moments import (
    Counted,
    Members,
    MemberSummary,
    Moments,
    first_of,
    member_names,
    need_members,
    read_vad_rows,
)
from calibkit.models.lineage import makers_in
from calibkit.models.model import Column
from calibkit.options.option import plain
from calibkit.options.vad import VadOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.score_rows import columns_beside
from calibkit.summaries.states import (
    Fitted,
    Plan,
    Shard,
    State,
    SummedState,
    about,
    files_named,
    finished,
    from_plain,
    options_of,
    recorded,
    refuse,
)

_SEGMENT: Final = "segment"

#: What messages call the input of the rows like the training rows, whose name a state does not keep.
_TRAIN: Final = "--train-input"
_HASH = re.compile("[0-9a-f]{16}")
#: A whole number, hexadecimal: no sum of products of float64 has more digits.
_NUMBER = re.compile("-?[0-9a-f]{1,2000}")


def fit(options: VadOptions, source: Source) -> Fitted[VadModel]:
    """Return the model of all rows."""
    return recorded(fit_vad(*read_vad_rows(source, options), options), source)


def fit_vad(
    test: MemberSummary, train: MemberSummary | None, options: VadOptions
) -> Fitted[VadModel]:
    """Fit a shrinkage on unlabelled rows of replicate predictions; see `read_vad_rows`.

    With F the links of the members, lambda = 1 - E[var over replicates] / Var[F_1]; in tandem that of
    the rows divided by that of the rows of the training distribution.  Raises `DataError` for weights
    that are all 0, and where lambda of the training distribution is not positive.
    """
    summaries = [test] if train is None else [test, train]
    for summary in summaries:
        if not summary.whole.weight:
            raise weightless(summary.files[0], options.weight, summary.counted.rows)
    pooled = _segment(*(summary.whole for summary in summaries))
    if pooled is None:
        assert train is not None
        raise DataError.of(
            train.files[0],
            f"lambda of the training distribution is {train.whole.estimate().lambda_:.6g}, not "
            "positive: the replicates differ more than the predictions vary; use vad without a "
            "calibrator",
        )
    shaped, groups, more = ["link", "replicates", "on_missing"], None, dict[str, Any]()
    if options.by is not None:
        groups = _groups([summary.moments for summary in summaries], options.min_rows)
        shaped.append("min_rows")
    if train is not None:
        more = {"train_rows": train.counted.rows, "train_hash": train.counted.hash}
    counted = test.counted
    model = VadModel(
        **about(VadModel, options, shaped, counted.rows, counted.hash, test.files, **more),
        columns=_columns_of(test.members, options),
        link=options.link,
        lambda_=pooled.lambda_,
        mean=pooled.mean,
        members=list(test.members.names),
        replicates=options.replicates,
        calibrator=None if options.map is None else options.map.as_dict(),
        groups=groups,
        fit=pooled.fit,
    )
    told = (*(said for summary in summaries for said in summary.told()), *_warnings(model))
    details = (f"{counted.rows:,} rows used of {counted.rows_read:,} read",)
    return Fitted(model, tuple(dict.fromkeys(told)), details=details)


def _segment(test: Moments, train: Moments | None = None) -> Segment | None:
    """Return the shrinkage that sets of rows give; None where that of training is not positive."""
    found = test.estimate()
    if train is None:
        return found
    other = train.estimate()
    if other.lambda_ <= 0:
        return None
    seen = {name: getattr(other.fit, name) for name in Seen.__struct_fields__}
    found.fit.train = TrainSeen(**seen, lambda_train=other.lambda_)
    found.fit.lambda_test = found.lambda_
    found.lambda_ /= other.lambda_
    return found


def _groups(parts: Sequence[Mapping[str | None, Moments]], min_rows: int) -> SegmentTable:
    """Return the segments that are large enough, in the natural order of their names."""
    values: dict[str, Segment] = {}
    names = sorted((name for name in parts[0] if name is not None), key=natural_key)
    for name in names:
        own = [part[name] for part in parts if name in part and part[name].weight >= min_rows]
        found = _segment(*own) if len(own) == len(parts) else None
        if found is not None:
            values[name] = found
    pooled = [name for name in names if name not in values]
    return SegmentTable(min_rows=min_rows, values=values, pooled=pooled)


def _columns_of(members: Members, options: VadOptions) -> dict[str, Column]:
    """Return the columns by role: `score` is what a row is shrunk from."""
    score = Column(members.names[0], dtype=members.dtypes[0], scale=options.scale)
    if options.calibrated is not None:
        score = Column(options.calibrated, dtype=members.score_dtype, scale="probability")
    beside = {"by": options.by, "weight": options.weight}
    return {"score": score} | {r: Column(name) for r, name in beside.items() if name is not None}


def _warnings(model: VadModel) -> Iterator[str]:
    groups = model.groups
    own = {} if groups is None else groups.values
    said = {"": model} | {f"--by {name}: ": segment for name, segment in own.items()}
    for where, one in said.items():
        if one.lambda_ < 0:
            yield (
                f"{where}lambda is {one.lambda_:.4g}, below 0: the replicates differ more than the "
                "predictions vary; it is applied as 0, which gives every row the same probability"
            )
        elif one.fit.variance == 0:
            yield f"{where}the first member is constant: nothing to shrink, lambda = 1"
    if groups is not None and groups.pooled:
        shown = ", ".join(map(repr, groups.pooled[:10]))
        more = f" and {len(groups.pooled) - 10} more" if len(groups.pooled) > 10 else ""
        column = model.columns["by"].name
        yield (
            f"column {column!r}: {shown}{more}: fewer than {groups.min_rows} rows; shrunk as all "
            "rows together"
        )


def plan(options: VadOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    names = member_names(source, options)
    roles = {f"member {place}": name for place, name in enumerate(names, start=1)}
    roles |= columns_beside(source, options, "calibrated", "by", "weight")
    return Plan(roles, options.steps(len(names)))


def state(options: VadOptions, source: Source) -> State:
    """Return the state of the rows of one shard; see `read_vad_rows`."""
    test, other = read_vad_rows(source, options)
    train = None
    if other is not None:
        sums = _table(other).to_dict(as_series=False)
        train = Train(**msgspec.structs.asdict(other.members), summed=other.counted, sums=sums)
    columns = {role: own.name for role, own in _columns_of(test.members, options).items()}
    problem = Problem(
        **msgspec.structs.asdict(test.members),
        asked=plain(options, "train_input"),
        train=train,
        makers=makers_in(source, columns),
    )
    shard = Shard(test.counted.hash, test.counted.rows_read, files_named(options, source))
    return VadState.of("vad", msgspec.to_builtins(problem), shard, test, source)


def finish(state: State, memory: Memory, threads: int) -> Fitted[VadModel]:
    """Return the model of the rows of a merged state: its sums are all that a fit needs."""
    assert isinstance(state, VadState)
    return finished(fit_vad(*state.rows_of()), state)


class Train(Members, frozen=True, kw_only=True):
    """The rows of the training distribution; `sums` are the columns of a table."""

    summed: Counted
    sums: dict[str, list[str | None]]


class Problem(Members, frozen=True, kw_only=True):
    """What shapes the model, apart from the rows; `asked` are the options."""

    asked: dict[str, Any]
    train: Train | None
    makers: dict[str, str]


class VadState(SummedState):
    """A state of replicate predictions: the sums of `MemberSummary`."""

    def summed(self) -> MemberSummary:
        """Return the sums that it holds; errors as `rows_of`."""
        return self.rows_of()[0]

    def packed(self) -> tuple[dict[str, Any], pl.DataFrame]:
        """Return payload and table of the summary."""
        summary: MemberSummary = self.summary
        return msgspec.to_builtins(summary.counted), _table(summary)

    def rows_of(self) -> tuple[MemberSummary, MemberSummary | None, VadOptions]:
        """Return what `fit_vad` needs.

        Raises `ModelError` where parts of the state contradict each other.
        """
        problem = from_plain(self.header.options, Problem, self.path)
        options = options_of(self, VadOptions)
        named = {name for shard in self.header.shards for name in shard.files}
        files = tuple(sorted(named)) or (self.path,)
        if self.summary is not None:
            test = replace(self.summary, files=files, warnings=())
        else:
            counted = from_plain(self.header.payload, Counted, self.path)
            test = _summary(self.table, counted, problem, options, files)
        train, other = None, problem.train
        if other is not None:
            train = _summary(pl.DataFrame(other.sums), other.summed, other, options, (_TRAIN,))
        need_members(problem.names, options)
        return test, train, options


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
    members: Members,
    options: VadOptions,
    files: tuple[str, ...],
) -> MemberSummary:
    """Return the summary whose sums a table holds, after checking all of it."""
    count = len(members.names)
    size = count + (members.score_dtype is not None) + 4
    expected = [_SEGMENT, *(f"sum_{place}" for place in range(size))]
    other = sorted(table.columns) != sorted(expected) or not table.height
    refuse(other, f"its columns are {', '.join(table.columns)}")
    several = {count, len(members.dtypes), len(counted.twins)}
    refuse(len(several) > 1, "it has not as many columns as it says")
    possible = 1 <= counted.rows <= counted.rows_read and _HASH.fullmatch(counted.hash)
    refuse(not possible, "impossible numbers of rows, or no hash of them")
    moments: dict[str | None, Moments] = {}
    for name, *texts in table.select(expected).rows():
        sums = tuple(map(_whole, texts))
        weight, clipped, *_, squares, spread = sums
        refuse(not 0 <= clipped <= weight or min(squares, spread) < 0, "sums that no rows have")
        moments[name] = Moments(count, first_of(options), sums)
    wrong = len(moments) != table.height or (None in moments) == (options.by is not None)
    refuse(wrong, "segments that are not those of one column")
    return MemberSummary(members=members, moments=moments, counted=counted, files=files)


def _whole(text: object) -> int:
    whole = isinstance(text, str) and _NUMBER.fullmatch(text)
    refuse(not whole, f"{str(text)[:40]!r} is no whole number")
    return int(str(text), 16)
