"""The rows of a fit, read window by window: checked, and summed up to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import score_column
from calibkit.columns.numeric import numeric_column, weight_column
from calibkit.columns.patterns import match_columns
from calibkit.columns.rows import NothingLeft, Remark, RowFinder, Rows, merge_remarks, read_rows
from calibkit.columns.segments import Segments, read_segments
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.application import calibrator_applier
from calibkit.maps.calibrator import CalibratorModel
from calibkit.methods.vad.moments import LARGEST, Columns, Moments, sum_moments
from calibkit.models.applier import Request
from calibkit.models.scales import measure
from calibkit.numerics.row_hash import data_hash, merge_hashes
from calibkit.options.vad import VadOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.passes import work_through
from calibkit.summaries.summary import merge_all

Floats = NDArray[Any]

#: Rows of a window; with segments more, since each of a window's segments costs something by itself.
_ROWS: Final = 2**17
_SEGMENT_ROWS: Final = 2**19
_FEWEST_ROWS: Final = 2**10

#: Bytes that a prediction takes while a window is worked on, its link and sums included.
_BYTES: Final = 48


class Counted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is known of rows besides their moments.

    Attributes
    ----------
    rows, rows_read
        How many rows were used and read.
    hash
        The sum of the hashes of the rows over the columns used, each by its place.
    twins
        Of each replicate, whether it equals the first one in every row.
    remarks
        What was dropped and why.
    """

    rows: int
    rows_read: int
    hash: str
    twins: tuple[bool, ...]
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, kw_only=True)
class MemberSummary:
    """Rows of replicate predictions, summed up.

    Attributes
    ----------
    names, dtypes
        The replicates, and what they are: float32 or float64.
    score_dtype
        That of the calibrated probabilities; None without any.
    moments
        The sums of each segment, by its name; of all rows under None where none were asked for.
    counted
        What else is known of the rows.
    files, warnings
        The inputs, and what is to be said of them; of all rows together.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    score_dtype: str | None
    moments: Mapping[str | None, Moments]
    counted: Counted
    files: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()

    def merge(self, *others: MemberSummary) -> MemberSummary:
        """Return the summary of the rows of all."""
        parts = (self, *others)
        counted = [part.counted for part in parts]
        names = dict.fromkeys(name for part in parts for name in part.moments)
        return replace(
            self,
            moments={
                name: merge_all(part.moments[name] for part in parts if name in part.moments)
                for name in names
            },
            counted=Counted(
                rows=sum(one.rows for one in counted),
                rows_read=sum(one.rows_read for one in counted),
                hash=merge_hashes(one.hash for one in counted),
                twins=tuple(map(all, zip(*(one.twins for one in counted), strict=True))),
                remarks=merge_remarks(remark for one in counted for remark in one.remarks),
            ),
        )

    @property
    def whole(self) -> Moments:
        """The sums over all rows."""
        return merge_all(self.moments.values())

    def told(self) -> tuple[str, ...]:
        """Return what the user has to be told."""
        twins = (
            f"columns {self.names[0]!r} and {name!r} are equal in every row: a member counted twice "
            "makes the replicates look more alike than they are"
            for name, equal in zip(self.names[1:], self.counted.twins[1:], strict=True)
            if equal
        )
        return (*self.warnings, *(remark.text for remark in self.counted.remarks), *twins)


@dataclass(frozen=True, kw_only=True)
class VadRows:
    """What is known of the rows of a fit: those to shrink, in tandem those like the training rows."""

    test: MemberSummary
    train: MemberSummary | None
    options: VadOptions


def read_vad_rows(source: Source, options: VadOptions) -> VadRows:
    """Go through the rows of a fit, after refusing what cannot work.

    Parameters
    ----------
    source
        Unlabelled rows of the distribution that the model will be applied to.
    options
        What to fit, on which columns; in tandem with rows of the distribution of the training rows.

    Raises
    ------
    UsageError
        Options that exclude each other, or columns that are not there.
    DataError
        Values that are missing, infinite, out of range or of the wrong type.
    """
    given = options.train_input
    if options.tandem and given is None:
        raise UsageError(
            "after a calibrator lambda is that of the rows to shrink over that of rows like the "
            "training rows; name these by --train-input."
        )
    if not options.tandem and given is not None:
        raise UsageError("--train-input goes with --calibrator or --calibrated.")
    train = None if given is None else source.beside(given, "--train-input")
    names = member_names(source, options)
    need_members(names, options)
    test, other = _summarised(source, names, options), None
    if train is not None:
        own = replace(options, members=names, calibrated=None, calibrator=None, train_input=None)
        other = _summarised(train, member_names(train, own), own)
    return VadRows(test=test, train=other, options=options)


def member_names(source: Source, options: VadOptions) -> tuple[str, ...]:
    """Return the columns of the replicates, first the one in service.

    Raises
    ------
    UsageError
        A pattern that matches nothing, a column of lists, or one column in two roles.
    """
    found: dict[str, None] = {}
    for pattern in options.names:
        matched = match_columns(source, pattern, "--members")
        if matched.nested:
            raise UsageError(
                f"--members {pattern!r} is a column of lists; give one column a member.",
                column=matched.columns[0],
            )
        found |= dict.fromkeys(matched.columns)
    roles = {"--calibrated": options.calibrated, "--weight": options.weight, "--by": options.by}
    taken: dict[str, str] = {}
    for option, name in roles.items():
        if name is None:
            continue
        source.require([name], option)
        # A pattern may match the column of another role; a name that was typed may not.
        if name in options.names or name in taken:
            other = taken.get(name, "--members")
            raise UsageError(f"column {name!r} is both {other} and {option}; name two columns")
        taken[name] = option
        found.pop(name, None)
    return tuple(found)


def need_members(names: Sequence[str], options: VadOptions) -> None:
    """Raise a `UsageError` for fewer replicates than the kind of replicates needs."""
    least = 3 if options.replicates == "bootstrap" else 2
    if len(names) < least:
        found = ", ".join(map(repr, names)) or "none"
        what = (
            "the fit on all rows and at least two bootstrap refits (one says too little of a variance)"
            if least == 3
            else "at least two replicates of the predictor"
        )
        raise UsageError(f"--members matches {found}; vad needs {what}.")


def _summarised(source: Source, names: Sequence[str], options: VadOptions) -> MemberSummary:
    """Return the summary of the rows of a source, gone through window by window."""
    beside = [options.calibrated, options.weight, options.by]
    if options.map is not None:  # what a calibrator reads beside the score
        roles = options.map.columns.items()
        others = [one.name for role, one in roles if role not in ("score", "label", "weight")]
        source.require(others, "the calibrator (see calibkit show)")
        beside += others
    # In the order in which they are checked.
    columns = list(dict.fromkeys([*names, *(name for name in beside if name is not None)]))
    windows = source.windows(columns, rows=_window_rows(len(columns), options, source.memory))
    found: MemberSummary | None = None
    remarks: list[Remark] = []
    lost = 0

    def work(window: Source) -> MemberSummary:
        rows = read_rows(window, columns, missing=columns if options.on_missing == "drop" else ())
        return _summary(rows, window, names, options)

    for part in work_through(options.workers, work, windows, columns):
        if isinstance(part, NothingLeft):
            remarks += part.remarks
            lost += part.rows or 0
        else:
            found = part if found is None else found.merge(part)
    if found is None:
        raise NothingLeft(source.parts[0].path, lost, merge_remarks(remarks))
    counted = msgspec.structs.replace(
        found.counted,
        remarks=merge_remarks((*found.counted.remarks, *remarks)),
        rows_read=found.counted.rows_read + lost,
    )
    return replace(found, counted=counted, files=tuple(source.paths), warnings=source.warnings)


def _window_rows(columns: int, options: VadOptions, memory: Memory | None) -> int:
    most = _ROWS if options.by is None else _SEGMENT_ROWS
    if memory is None:
        return most
    room = memory.room // (_BYTES * columns * (options.workers + 2))
    return max(_FEWEST_ROWS, min(most, room))


def _summary(
    rows: Rows, source: Source, names: Sequence[str], options: VadOptions
) -> MemberSummary:
    """Check the rows of a window, and return their summary."""
    frame, where = rows.frame, rows.where
    members = [_prediction(frame[name], where, options.scale) for name in names]
    fixed, weight, segments = options.calibrated, None, None
    extra = None if fixed is None else _prediction(frame[fixed], where, "probability")
    if options.weight is not None:
        weight = weight_column(frame[options.weight], where)
    if options.by is not None:
        segments = read_segments(frame[options.by], where)
    if options.map is not None:
        applier = calibrator_applier(cast(CalibratorModel, options.map))
        request = Request(columns={"score": names[0]})
        reads = applier.reads(source, request)
        extra = applier.values(frame, where, reads, request)[0].to_numpy()
    columns = Columns(members, extra, weight)
    return MemberSummary(
        names=tuple(names),
        dtypes=tuple(str(member.dtype) for member in members),
        score_dtype=None if extra is None else str(extra.dtype),
        moments={name: sum_moments(own, options) for name, own in _by_segment(columns, segments)},
        counted=Counted(
            rows=columns.rows,
            rows_read=rows.rows_read,
            hash=_hash(columns, segments),
            twins=(True, *(np.array_equal(members[0], other) for other in members[1:])),
            remarks=rows.remarks,
        ),
    )


def _prediction(column: pl.Series, where: RowFinder, scale: str) -> Floats:
    """Return predictions as their scale allows them."""
    if measure(scale) == "probability":
        return score_column(column, where, scale)
    advice = "such numbers have squares that float64 does not hold; scale them down"
    return numeric_column(column, where, low=-LARGEST, high=LARGEST, advice=advice)


def _by_segment(
    columns: Columns, segments: Segments | None
) -> Iterator[tuple[str | None, Columns]]:
    if segments is None:
        yield None, columns
        return
    size = np.bincount(segments.code, minlength=len(segments.names))
    order = np.argsort(segments.code, kind="stable")
    ends = np.cumsum(size)
    for name, count, end in zip(segments.names, size, ends, strict=True):
        yield name, columns.take(order[end - count : end])


def _hash(columns: Columns, segments: Segments | None) -> str:
    """Return the hash of the rows over the columns used, each by its place."""
    used = {f"{place}": values for place, values in enumerate(columns.members)}
    for role, values in (("fixed", columns.extra), ("weight", columns.weight)):
        if values is not None:
            used[role] = values
    if segments is not None:
        used["by"] = np.array([_number(name) for name in segments.names])[segments.code]
    return data_hash(used)


def _number(name: str) -> float:
    """Return a number that stands for the name of a segment, in any set of segments."""
    return float(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "big"))
