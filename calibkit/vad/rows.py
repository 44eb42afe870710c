"""The columns of replicate predictions, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns import RowFinder, numeric_column, weight_column
from calibkit.errors import UsageError
from calibkit.patterns import match_columns
from calibkit.rows import read_rows
from calibkit.segments import Segments, read_segments
from calibkit.sources import Source
from calibkit.vad.links import LARGEST

Floats = NDArray[Any]


@dataclass(frozen=True, kw_only=True)
class MemberOptions:
    """What the columns are called and how they are read.

    Attributes
    ----------
    members
        Names and shell globs; those of a glob come in natural order.
    scale
        ``probability``, ``logit`` or ``raw``: of the members.
    calibrated
        The column of calibrated probabilities, or None.
    weight, by
        Column names, or None.
    others
        Columns that a calibrator reads beside the score.
    on_missing
        ``error`` or ``drop``.
    """

    members: tuple[str, ...] = ("score_*",)
    scale: str = "probability"
    calibrated: str | None = None
    weight: str | None = None
    by: str | None = None
    others: tuple[str, ...] = ()
    on_missing: str = "error"


@dataclass(frozen=True, kw_only=True)
class MemberRows:
    """Replicate predictions with what goes beside them.

    Attributes
    ----------
    names, members
        The replicates, float32 where the column is, else float64.
    calibrated, weight, segments
        As asked for.
    frame
        The columns as they are, for a calibrator.
    rows_read
        How many rows the inputs have.
    warnings
        What the user has to be told.
    """

    names: tuple[str, ...]
    members: tuple[Floats, ...]
    calibrated: Floats | None
    weight: NDArray[np.float64] | None
    segments: Segments | None
    frame: pl.DataFrame
    where: RowFinder
    source: Source
    rows_read: int
    warnings: tuple[str, ...]


def member_names(source: Source, options: MemberOptions) -> tuple[str, ...]:
    """Return the columns of the replicates, first the one in service.

    Raises
    ------
    UsageError
        A pattern that matches nothing, a column of lists, or one column in two roles.
    """
    found: dict[str, None] = {}
    for pattern in options.members:
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
        if name in options.members or name in taken:
            other = taken.get(name, "--members")
            raise UsageError(f"column {name!r} is both {other} and {option}; name two columns")
        taken[name] = option
        found.pop(name, None)
    return tuple(found)


def read_members(source: Source, options: MemberOptions) -> MemberRows:
    """Read and check replicate predictions.

    Raises
    ------
    UsageError
        A column is not there, or one column has two roles.
    DataError
        Values that are missing, infinite, out of range or of the wrong type.
    """
    names = member_names(source, options)
    beside = (options.calibrated, options.weight, options.by)
    used = [*names, *(name for name in beside if name is not None), *options.others]
    rows = read_rows(source, used, missing=used if options.on_missing == "drop" else ())
    frame, where = rows.frame, rows.where
    members = tuple(prediction(frame[name], where, options.scale) for name in names)
    weight = None if options.weight is None else weight_column(frame[options.weight], where)
    return MemberRows(
        names=names,
        members=members,
        calibrated=None
        if options.calibrated is None
        else prediction(frame[options.calibrated], where, "probability"),
        weight=weight,
        segments=None if options.by is None else read_segments(frame[options.by], where),
        frame=frame,
        where=replace(where, remedy="leave them out by --on-missing drop"),
        source=source,
        rows_read=rows.rows_read,
        warnings=(*source.warnings, *rows.warnings, *_twins(names, members)),
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


def _twins(names: Sequence[str], members: Sequence[Floats]) -> list[str]:
    """Return a warning for members that equal the first one in every row."""
    first = members[0]
    return [
        f"columns {names[0]!r} and {name!r} are equal in every row: a member counted twice makes "
        "the replicates look more alike than they are"
        for name, values in zip(names[1:], members[1:], strict=True)
        if np.array_equal(first[:1000], values[:1000]) and np.array_equal(first, values)
    ]
