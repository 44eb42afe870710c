"""The columns of replicate predictions, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import RowFinder, numeric_column, weight_column
from calibkit.columns.patterns import match_columns
from calibkit.columns.rows import Remark, read_rows
from calibkit.columns.segments import Segments, read_segments
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.methods.vad.links import LARGEST
from calibkit.methods.vad.moments import Columns
from calibkit.options.vad import VadOptions

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class MemberRows:
    """Replicate predictions with what goes beside them.

    Attributes
    ----------
    names, dtypes
        The replicates, and what they are: float32 or float64.
    columns
        The predictions and weights.
    segments
        As asked for.
    frame
        The columns as they are, for a calibrator.
    rows_read
        How many rows the inputs have.
    remarks
        What was dropped and why.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    columns: Columns
    segments: Segments | None
    frame: pl.DataFrame
    where: RowFinder
    source: Source
    rows_read: int
    remarks: tuple[Remark, ...]


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
    roles = {
        "--calibrated": options.calibrated,
        "--weight": options.weight,
        "--by": options.by,
    }
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


def used_columns(
    names: Sequence[str], options: VadOptions, others: Sequence[str] = ()
) -> list[str]:
    """Return the columns to read, in the order in which they are checked; `others` come last."""
    beside = (options.calibrated, options.weight, options.by, *others)
    return list(dict.fromkeys([*names, *(name for name in beside if name is not None)]))


def read_members(
    source: Source, names: Sequence[str], options: VadOptions, others: Sequence[str] = ()
) -> MemberRows:
    """Read and check replicate predictions; `names` are those of `member_names`.

    `others` are further columns, which a calibrator reads beside the score.

    Raises
    ------
    DataError
        Values that are missing, infinite, out of range or of the wrong type.
    """
    used = used_columns(names, options, others)
    rows = read_rows(source, used, missing=used if options.on_missing == "drop" else ())
    frame, where = rows.frame, rows.where
    members = [prediction(frame[name], where, options.scale) for name in names]
    fixed, weight = options.calibrated, options.weight
    columns = Columns(
        members,
        None if fixed is None else prediction(frame[fixed], where, "probability"),
        None if weight is None else weight_column(frame[weight], where),
    )
    return MemberRows(
        names=tuple(names),
        dtypes=tuple(str(member.dtype) for member in members),
        columns=columns,
        segments=None if options.by is None else read_segments(frame[options.by], where),
        frame=frame,
        where=where,
        source=source,
        rows_read=rows.rows_read,
        remarks=rows.remarks,
    )


def prediction(column: pl.Series, where: RowFinder, scale: str) -> Floats:
    """Return predictions as their scale allows them.

    Raises
    ------
    DataError
        See `read_members`.
    """
    if scale == "probability":
        advice = "probabilities lie in [0, 1]; use --scale logit or --scale raw for other scores"
        return numeric_column(column, where, low=0.0, high=1.0, advice=advice)
    advice = "such numbers have squares that float64 does not hold; scale them down"
    return numeric_column(column, where, low=-LARGEST, high=LARGEST, advice=advice)
