"""The columns of replicate predictions, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns import RowFinder, numeric_column, weight_column
from calibkit.errors import DataError, UsageError
from calibkit.patterns import match_columns
from calibkit.rows import read_rows
from calibkit.segments import Segments, read_segments
from calibkit.sources import Source
from calibkit.vad.links import LARGEST
from calibkit.vad.moments import Columns

Floats = NDArray[Any]

#: Rows of a stretch, at most: many enough to share among threads.
_STRETCH = 1 << 17


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
    names, dtypes
        The replicates, and what they are: float32 or float64.
    parts
        The predictions and weights, in stretches of rows: as the file has them, so that nothing is
        copied.
    segments
        As asked for.
    frame
        The columns as they are, for a calibrator.
    rows_read
        How many rows the inputs have.
    warnings
        What the user has to be told.
    """

    names: tuple[str, ...]
    dtypes: tuple[str, ...]
    parts: tuple[Columns, ...]
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
    cuts = _cuts(frame)
    members = [pieces(frame[name], cuts, where, options.scale) for name in names]
    calibrated = None
    if options.calibrated is not None:
        calibrated = pieces(frame[options.calibrated], cuts, where, "probability")
    weight = None if options.weight is None else weight_column(frame[options.weight], where)
    parts = tuple(
        Columns(
            [member[place] for member in members],
            None if calibrated is None else calibrated[place],
            None if weight is None else weight[start:end],
        )
        for place, (start, end) in enumerate(cuts)
    )
    return MemberRows(
        names=names,
        dtypes=tuple(str(member[0].dtype) for member in members),
        parts=parts,
        segments=None if options.by is None else read_segments(frame[options.by], where),
        frame=frame,
        where=where,
        source=source,
        rows_read=rows.rows_read,
        warnings=(*source.warnings, *rows.warnings, *_twins(names, parts)),
    )


def with_calibrated(rows: MemberRows, calibrated: Floats) -> MemberRows:
    """Return the rows with a column of calibrated probabilities."""
    ends = np.cumsum([part.rows for part in rows.parts])
    parts = tuple(
        replace(part, extra=calibrated[end - part.rows : end])
        for part, end in zip(rows.parts, ends.tolist(), strict=True)
    )
    return replace(rows, parts=parts)


def _cuts(frame: pl.DataFrame) -> list[tuple[int, int]]:
    """Return the first row and the end of each stretch: those that the columns share, cut small."""
    lengths = {tuple(column.chunk_lengths()) for column in frame.iter_columns()}
    own = next(iter(lengths)) if len(lengths) == 1 else (frame.height,)
    ends = list(accumulate(own))
    return [
        (start, min(start + _STRETCH, end))
        for end, size in zip(ends, own, strict=True)
        for start in range(end - size, end, _STRETCH)
    ]


def pieces(
    column: pl.Series, cuts: Sequence[tuple[int, int]], where: RowFinder, scale: str
) -> list[Floats]:
    """Return predictions in stretches of rows, as their scale allows them.

    Raises
    ------
    DataError
        See `read_members`.
    """
    try:
        return [prediction(column[start:end], where, scale) for start, end in cuts]
    except DataError:
        prediction(column, where, scale)  # the same, about all rows
        raise


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


def _twins(names: Sequence[str], parts: Sequence[Columns]) -> list[str]:
    """Return a warning for members that equal the first one in every row."""
    return [
        f"columns {names[0]!r} and {name!r} are equal in every row: a member counted twice makes "
        "the replicates look more alike than they are"
        for place, name in enumerate(names[1:], start=1)
        if all(np.array_equal(part.members[0], part.members[place]) for part in parts)
    ]
