"""Frames as inputs: whatever hands out its columns by the Arrow C stream interface."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import polars as pl

from calibkit.files.sources import Source, open_source


class ArrowStream(Protocol):
    """A table that hands out its columns by the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """Return a capsule that holds an ``ArrowArrayStream``."""


#: Rows: a polars frame (also lazy), a pyarrow table, a pandas frame, a DuckDB relation, whatever else
#: has the Arrow C stream interface; columns by name; or the name of a file, glob or folder, as on the
#: command line.
Frame = ArrowStream | pl.LazyFrame | Mapping[str, Any] | str | os.PathLike[str]

#: A name, or several of them.
Names = str | Sequence[str]


def open_frame(frame: Frame, name: str = "frame") -> Source:
    """Return rows as the functions of the library read them.

    Parameters
    ----------
    frame
        See `Frame`.
    name
        What messages call it.

    Raises
    ------
    UsageError
        Something that polars cannot read, or a file that is not there.
    DataError
        No rows, or a damaged file.
    """
    if isinstance(frame, str | os.PathLike):
        return open_source([os.fspath(frame)])
    return Source.from_frame(frame, name)


def names(value: Names | None) -> list[str]:
    """Return one name or several as a list."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else [str(name) for name in value]
