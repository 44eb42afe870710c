"""The rows of a fit, read window by window: checked, and summed up to the last bit."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, cast

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.patterns import match_columns
from calibkit.columns.rows import (
    NothingLeft,
    Remark,
    RowFinder,
    Rows,
    merge_remarks,
    numeric_column,
    read_rows,
    score_column,
    weight_column,
)
from calibkit.columns.segments import read_segments
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.application import calibrator_applier
from calibkit.maps.calibrator import CalibratorModel
from calibkit.methods.vad.moments import LARGEST, Moments, sum_moments
from calibkit.models.kinds import Request
from calibkit.models.scales import measure
from calibkit.numerics.row_hash import data_hash, merge_hashes
from calibkit.options.vad import VadOptions
from calibkit.summaries.passes import merge_all, work_through

Floats = NDArray[Any]

#: Rows of a window; with segments more, since each of a window's segments costs something by itself.
_ROWS: Final = 2**17
_SEGMENT_ROWS: Final = 2**19
_FEWEST_ROWS: Final = 2**10

#: Bytes that a prediction takes while a window is worked on, its link and sums included.
_BYTES: Final = 48


class Counted(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What is known of rows besides their moments: how many were used and read, what was dropped.

    `hash` is the sum of the hashes of the rows over the columns used, each by its place; `twins` says
    of each replicate whether it equals the first one in every row.
    """

    rows: int
    rows_read: int
    hash: str
    twins: tuple[bool, ...]
    remarks: tuple[Remark, ...]


@dataclass(frozen=True, kw_only=True)
class MemberSummary:
    """Rows of replicate predictions, summed up.

    `names` and `dtypes` are those of the replicates, `score_dtype` that of calibrated probabilities;
    None without any.  `moments` are the sums of each segment by its name, or of all rows under None.
    `files` and `warnings` are the inputs, and what is to be said of them.
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


def read_vad_rows(
    source: Source, options: VadOptions
) -> tuple[MemberSummary, MemberSummary | None]:
    """Go through the rows of a fit: those to shrink, and in tandem those like the training rows.

    Raises `UsageError` for options that exclude each other and columns that are not there, `DataError`
    for values that are missing, infinite, out of range or of the wrong type.
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
    test = _summarised(source, names, options)
    if train is None:
        return test, None
    own = replace(options, members=names, calibrated=None, calibrator=None, train_input=None)
    return test, _summarised(train, member_names(train, own), own)


def member_names(source: Source, options: VadOptions) -> tuple[str, ...]:
    """Return the columns of the replicates, first the one in service.

    Raises `UsageError` for a pattern that matches nothing, a column of lists, a column in two roles.
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
            "the fit on all rows and at least two bootstrap refits (one shows no variance)"
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
    size = _ROWS if options.by is None else _SEGMENT_ROWS
    if source.memory is not None:
        room = source.memory.room // (_BYTES * len(columns) * (options.workers + 2))
        size = max(_FEWEST_ROWS, min(size, room))

    def work(window: Source) -> MemberSummary:
        rows = read_rows(window, columns, missing=columns if options.on_missing == "drop" else ())
        return _summary(rows, window, names, options)

    parts: list[MemberSummary] = []
    lost: list[NothingLeft] = []
    for part in work_through(options.workers, work, source.windows(columns, rows=size), columns):
        if isinstance(part, NothingLeft):
            lost.append(part)
        else:
            parts = [merge_all([*parts, part])]
    remarks = [remark for one in lost for remark in one.remarks]
    dropped = sum(one.rows or 0 for one in lost)
    if not parts:
        raise NothingLeft(source.parts[0].path, dropped, merge_remarks(remarks))
    counted = parts[0].counted
    counted = msgspec.structs.replace(
        counted,
        remarks=merge_remarks((*counted.remarks, *remarks)),
        rows_read=counted.rows_read + dropped,
    )
    return replace(parts[0], counted=counted, files=tuple(source.paths), warnings=source.warnings)


def _summary(
    rows: Rows, source: Source, names: Sequence[str], options: VadOptions
) -> MemberSummary:
    """Check the rows of a window, and return their summary."""
    frame, where = rows.frame, rows.where
    used = {
        f"{place}": _prediction(frame[name], where, options) for place, name in enumerate(names)
    }
    members = list(used.values())
    if options.calibrated is not None:
        used["fixed"] = score_column(frame[options.calibrated], where, "probability")
    if options.weight is not None:
        used["weight"] = weight_column(frame[options.weight], where)
    order: Mapping[str | None, NDArray[np.int64] | slice] = {None: slice(None)}
    if options.by is not None:
        segments = read_segments(frame[options.by], where)
        sizes = np.bincount(segments.code, minlength=len(segments.names))
        rows_of = np.split(np.argsort(segments.code, kind="stable"), np.cumsum(sizes)[:-1])
        order = dict(zip(segments.names, rows_of, strict=True))
        used["by"] = np.array([_number(name) for name in segments.names])[segments.code]
    if options.map is not None:
        applier = calibrator_applier(cast(CalibratorModel, options.map))
        request = Request(columns={"score": names[0]})
        reads = applier.reads(source, request)
        used["fixed"] = applier.values(frame, where, reads, request)[0].to_numpy()
    extra, weight = used.get("fixed"), used.get("weight")
    predictions = members if extra is None else [*members, extra]

    def moments(own: NDArray[np.int64] | slice) -> Moments:
        mass = None if weight is None else weight[own]
        columns = [column[own] for column in predictions]
        return sum_moments(columns, options, mass, extra=extra is not None)

    return MemberSummary(
        names=tuple(names),
        dtypes=tuple(str(member.dtype) for member in members),
        score_dtype=None if extra is None else str(extra.dtype),
        moments={name: moments(own) for name, own in order.items()},
        counted=Counted(
            rows=members[0].size,
            rows_read=rows.rows_read,
            hash=data_hash(used),  # each column by its place
            twins=(True, *(np.array_equal(members[0], other) for other in members[1:])),
            remarks=rows.remarks,
        ),
    )


def _prediction(column: pl.Series, where: RowFinder, options: VadOptions) -> Floats:
    """Return predictions as their scale allows them."""
    if measure(options.scale) == "probability":
        return score_column(column, where, options.scale)
    advice = "such numbers have squares that float64 does not hold; scale them down"
    return numeric_column(column, where, low=-LARGEST, high=LARGEST, advice=advice)


def _number(name: str) -> float:
    """Return a number that stands for the name of a segment, in any set of segments."""
    return float(int.from_bytes(hashlib.blake2b(name.encode(), digest_size=6).digest(), "big"))
