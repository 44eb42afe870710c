"""Frames and arrays as inputs, and results as the kind of frame that came in.

A frame is whatever hands out its columns by the Arrow C stream interface.
"""

from __future__ import annotations

import fnmatch
import os
import sys
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import polars as pl

from calibkit.arrays import Int64s, Numbers
from calibkit.errors import UsageError
from calibkit.files.formats import Dialect, Opening
from calibkit.files.sources import UNREADABLE, Source, open_source, series_of


class ArrowStream(Protocol):
    """A table that hands out its columns by the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a capsule that holds an ``ArrowArrayStream``."""


#: Rows: a polars frame (also lazy), a pyarrow table, a pandas frame, a DuckDB relation, whatever else
#: has the Arrow C stream interface; columns by name; or the name of a file, glob or folder, or several
#: of them, as on the command line.
Path = str | os.PathLike[str]
Frame = (
    ArrowStream
    | pl.LazyFrame
    | Mapping[str, Any]
    | Path
    | Sequence[Path]
    | Sequence[Mapping[str, Any]]
)

#: A name, or several of them.
Names = str | Sequence[str]

#: The values of a column, or of several as rows x columns: numpy, a list, a series of pandas or
#: polars, an Arrow array.
Array = Numbers | pl.Series | ArrowStream | Sequence[Any]

#: Roles that may have several columns, and what theirs are called before ``_0``, ``_1``, …
_STEMS = {
    "counts": "count",
    "features": "feature",
    "members": "score",
    "probs": "prob",
    "scores": "score",
}

#: Roles of which a pattern stands for all columns of one predictor.
_PATTERNS = ("counts", "probs")


def open_frame(frame: Frame, name: str = "frame", *, dialect: Dialect | None = None) -> Source:
    """Return rows as the functions of the library read them.

    Messages call a frame `name`.  `dialect` is how a text file is written, None tells it from the text.

    Raises `UsageError` for something that polars cannot read, or a file that is not there;
    `DataError` for no rows, or a damaged file.
    """
    files = frame if isinstance(frame, list | tuple) else [frame]
    if files and all(isinstance(one, str | os.PathLike) for one in files):
        return open_source([*map(os.fspath, files)], Opening(dialect=dialect or Dialect()))
    if is_array("score", frame):
        raise UsageError(f"{name}: is an array; give arrays by name, such as score=… and label=….")
    return Source.from_frame(frame, name, dialect)


def names(value: Names | None) -> list[str]:
    """Return one name or several as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(name) for name in value]


def is_array(role: str, value: object) -> bool:
    """Tell whether a role is given as values, not as the name of a column or as several names."""
    if value is None or isinstance(value, str | bytes | os.PathLike):
        return False
    if isinstance(value, list | tuple):
        named = all(isinstance(one, str | os.PathLike | Mapping) for one in value)
        return not named or role not in (*_STEMS, "score", "uncertainty", "alpha0")
    if _is_frame(value):
        return role in _STEMS
    return hasattr(value, "__array__")


def frame_of_arrays(
    roles: Mapping[str, Any], frame: Frame | None = None
) -> tuple[Frame, dict[str, Names]]:
    """Return a frame with a column for each role that is given as values, and what they are called.

    Each array is called by its role, such as ``"label"``; several columns ``feature_0``, ``feature_1``,
    …, by the column's number in the array, those of a frame by their own names.

    Other roles, names or None, stay as they are.  Roles that may have several columns (`members`,
    `probs`, `counts`, `features`, `scores`) take rows x columns, or a frame, too.  The arrays come
    beside the columns of `frame`, in place of those of their name.

    Raises `UsageError` without a frame or arrays, for arrays of different lengths, or of more
    dimensions than their role has.
    """
    made = {
        role: _columns(role, values) for role, values in roles.items() if is_array(role, values)
    }
    called: dict[str, Names] = {
        role: [*found] if role in _STEMS else role for role, found in made.items()
    }
    called |= {role: f"{_STEMS[role]}_*" for role in made.keys() & set(_PATTERNS)}
    if not made:
        if frame is None:
            raise UsageError("give a frame, or arrays by name, such as score=… and label=….")
        return frame, called
    columns = {name: column for found in made.values() for name, column in found.items()}
    whole = pl.DataFrame() if frame is None else open_frame(frame).read()
    rows = {} if frame is None else {"the frame": whole.height}
    rows |= {role: next(iter(found.values())).len() for role, found in made.items()}
    if len(set(rows.values())) > 1:
        said = ", ".join(f"{name} has {count:,}" for name, count in rows.items())
        raise UsageError(f"arrays need one value for each row: {said}.")
    for pattern in called.values():
        if isinstance(pattern, str) and pattern.endswith("*"):
            other = fnmatch.filter(set(whole.columns) - columns.keys(), pattern)
            if other:
                raise UsageError(f"the frame has columns {pattern} too, such as {min(other)!r}.")
    kept = [one for one in whole.iter_columns() if one.name not in columns]
    return pl.DataFrame([*kept, *columns.values()]), called


def _is_frame(value: object) -> bool:
    # A series is a stream too, of one column; but then it is an array for numpy as well.
    return isinstance(value, Mapping | pl.DataFrame | pl.LazyFrame) or (
        hasattr(value, "__arrow_c_stream__")
        and (hasattr(value, "columns") or not hasattr(value, "__array__"))
    )


def _columns(role: str, values: Any) -> dict[str, pl.Series]:
    """Return the columns of a role that is given as values."""
    stem = _STEMS.get(role, role)
    if _is_frame(values):
        own = Source.from_frame(values, role).read()
        if role in _PATTERNS:
            own = own.rename(lambda name: f"{stem}_{name.removeprefix(f'{stem}_')}")
        return {column.name: column for column in own.iter_columns()}
    try:
        shape = np.shape(values)
        if len(shape) == 2 and role in _STEMS:
            matrix = np.array(values, order="F", copy=None, subok=hasattr(values, "mask"))
            if matrix.dtype.kind == "U" and isinstance(values, list | tuple):
                matrix = np.array(values, object)  # text beside numbers, which stay numbers
            columns = {f"{stem}_{k}": one for k, one in enumerate(matrix.T)}
            return {name: pl.Series(name, series_of(name, one)) for name, one in columns.items()}
        if len(shape) == 1 and role not in _PATTERNS:
            return {stem: pl.Series(stem, series_of(stem, values))}
    except UNREADABLE as error:
        raise UsageError(
            f"{role}: {type(values).__name__} cannot be read as an array ({error})."
        ) from error
    wanted = "rows x columns" if role in _STEMS else "one value for each row"
    raise UsageError(f"{role} is an array of the shape {shape}; expected {wanted}.")


def returned(frame: Frame, result: pl.DataFrame, added: Sequence[str], rows: Int64s | None) -> Any:
    """Return a result, some columns of `frame` and the added ones, as the kind of frame that came in.

    Of a polars frame or a file that is a polars frame, a lazy one of a lazy one; of pandas and of a
    pyarrow table the columns that came in, as they were (with the index of pandas), and the added
    ones; of a mapping a dictionary of numpy arrays; of everything else, such as a DuckDB relation, a
    pyarrow table.  `rows`: which rows of `frame` these are; None: all.
    """
    if isinstance(frame, pl.LazyFrame):
        return result.lazy()
    if isinstance(frame, pl.DataFrame | str | os.PathLike | list | tuple):
        return result
    if isinstance(frame, Mapping):
        return {column.name: column.to_numpy(writable=True) for column in result.iter_columns()}
    pandas, pyarrow = sys.modules.get("pandas"), sys.modules.get("pyarrow")
    if pandas and isinstance(frame, pandas.DataFrame):
        known = [str(name) for name in frame.columns]
        places = [known.index(name) for name in result.columns if name not in added]
        kept = frame.iloc[:, places] if rows is None else frame.iloc[rows, places]
        # A copy: what polars holds cannot be written to.
        made = {name: result[name].to_pandas().copy().set_axis(kept.index) for name in added}
        return kept.assign(**made)
    if pyarrow and isinstance(frame, pyarrow.Table):
        kept = frame.select([name for name in result.columns if name not in added])
        kept = kept if rows is None else kept.take(rows)
        for name in added:
            kept = kept.append_column(name, result[name].to_arrow())
        return kept
    return result.to_arrow()
