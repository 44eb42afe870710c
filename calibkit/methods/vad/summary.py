"""What a fit needs of rows of replicates: sums that merge into those of all rows, to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.numeric import weightless
from calibkit.columns.provenance import data_hash, merge_hashes
from calibkit.columns.rows import NothingLeft, Remark, merge_remarks
from calibkit.columns.segments import Segments
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.application import calibrator_applier
from calibkit.maps.calibrator import CalibratorModel
from calibkit.methods.vad.moments import Columns, Moments, Setting, sum_moments
from calibkit.methods.vad.rows import (
    MemberRows,
    member_names,
    need_members,
    read_members,
    used_columns,
)
from calibkit.models.applier import Request
from calibkit.models.model import Model
from calibkit.options.vad import VadOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.passes import work_through
from calibkit.summaries.summary import merge_all

#: Rows of a window; with segments more, since each of a window's segments costs something by itself.
_ROWS: Final = 2**17
_SEGMENT_ROWS: Final = 2**19
_FEWEST_ROWS: Final = 2**10

#: Bytes that a prediction takes while a window is worked on, its link and sums included.
_BYTES: Final = 48


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
    rows, rows_read
        How many rows were used and read.
    hash
        The sum of the hashes of the rows over the columns used, each by its place.
    twins
        Of each replicate, whether it equals the first one in every row.
    remarks
        What was dropped and why.
    files
        The inputs.
    warnings
        What is to be said of the inputs.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    score_dtype: str | None
    moments: Mapping[str | None, Moments]
    rows: int
    rows_read: int
    hash: str
    twins: tuple[bool, ...]
    remarks: tuple[Remark, ...]
    files: tuple[str, ...]
    warnings: tuple[str, ...] = ()

    def merge(self, *others: MemberSummary) -> MemberSummary:
        """Return the summary of the rows of all."""
        parts = (self, *others)
        names = dict.fromkeys(name for part in parts for name in part.moments)
        return replace(
            self,
            moments={
                name: merge_all(part.moments[name] for part in parts if name in part.moments)
                for name in names
            },
            rows=sum(part.rows for part in parts),
            rows_read=sum(part.rows_read for part in parts),
            hash=merge_hashes(part.hash for part in parts),
            twins=tuple(map(all, zip(*(part.twins for part in parts), strict=True))),
            remarks=merge_remarks(remark for part in parts for remark in part.remarks),
            files=tuple(dict.fromkeys(file for part in parts for file in part.files)),
        )

    def told(self) -> tuple[str, ...]:
        """Return what the user has to be told."""
        twins = (
            f"columns {self.names[0]!r} and {name!r} are equal in every row: a member counted twice "
            "makes the replicates look more alike than they are"
            for name, equal in zip(self.names[1:], self.twins[1:], strict=True)
            if equal
        )
        return (*self.warnings, *(remark.text for remark in self.remarks), *twins)


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
    test = summarise_members(source, names, options)
    other = None
    if train is not None:
        own = replace(options, members=names, calibrated=None, calibrator=None, train_input=None)
        other = summarise_members(train, member_names(train, own), own)
    return VadRows(test=test, train=other, options=options)


def _beside(calibrator: Model, source: Source) -> tuple[str, ...]:
    """Return the columns that a calibrator reads beside the score."""
    names = [
        column.name
        for role, column in calibrator.columns.items()
        if role not in ("score", "label", "weight")
    ]
    source.require(names, "the calibrator (see calibkit show)")
    return tuple(names)


def summarise_members(source: Source, names: Sequence[str], options: VadOptions) -> MemberSummary:
    """Return the summary of the rows of a source, gone through window by window.

    Raises
    ------
    DataError
        Values that are missing, infinite, out of range or of the wrong type; no row that is left.
    """
    others = () if options.map is None else _beside(options.map, source)
    columns = used_columns(names, options, others)
    windows = source.windows(columns, rows=_window_rows(len(columns), options, source.memory))
    found: MemberSummary | None = None
    remarks: list[Remark] = []
    lost = 0

    def work(window: Source) -> MemberSummary:
        return _summary(read_members(window, names, options, others), options)

    for part in work_through(options.workers, work, windows, columns):
        if isinstance(part, NothingLeft):
            remarks += part.remarks
            lost += part.rows or 0
        else:
            found = part if found is None else found.merge(part)
    if found is None:
        raise NothingLeft(source.parts[0].path, lost, merge_remarks(remarks))
    return replace(
        found,
        remarks=merge_remarks((*found.remarks, *remarks)),
        rows_read=found.rows_read + lost,
        files=tuple(source.paths),
        warnings=source.warnings,
    )


def check_weights(summary: MemberSummary, weight: str | None) -> None:
    """Raise a `DataError` where no row weighs anything."""
    if any(moments.weight for moments in summary.moments.values()):
        return
    raise weightless(summary.files[0], weight, summary.rows)


def _window_rows(columns: int, options: VadOptions, memory: Memory | None) -> int:
    most = _ROWS if options.by is None else _SEGMENT_ROWS
    if memory is None:
        return most
    room = memory.room // (_BYTES * columns * (options.workers + 2))
    return max(_FEWEST_ROWS, min(most, room))


def _summary(rows: MemberRows, options: VadOptions) -> MemberSummary:
    """Return the summary of the rows of a window."""
    columns = rows.columns
    if options.map is not None:
        columns = replace(columns, extra=_calibrated(options.map, rows))
    setting = Setting(options.scale, options.link, options.replicates)
    moments: dict[str | None, Moments] = {}
    if rows.segments is None:
        moments[None] = sum_moments(columns, setting)
    else:
        for name, own in _by_segment(columns, rows.segments):
            moments[name] = sum_moments(own, setting)
    first, *others = columns.members
    return MemberSummary(
        names=rows.names,
        dtypes=rows.dtypes,
        score_dtype=None if columns.extra is None else str(columns.extra.dtype),
        moments=moments,
        rows=columns.rows,
        rows_read=rows.rows_read,
        hash=_hash(columns, rows.segments),
        twins=(True, *(np.array_equal(first, other) for other in others)),
        remarks=rows.remarks,
        files=(rows.source.parts[0].path,),
    )


def _calibrated(calibrator: Model, rows: MemberRows) -> NDArray[Any]:
    """Return the first member, calibrated."""
    applier = calibrator_applier(cast(CalibratorModel, calibrator))
    spec = Request(columns={"score": rows.names[0]})
    reads = applier.reads(rows.source, spec)
    found: NDArray[Any] = applier.values(rows.frame, rows.where, reads, spec)[0].to_numpy()
    return found


def _by_segment(columns: Columns, segments: Segments) -> Iterator[tuple[str, Columns]]:
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
