"""Columns named by patterns: members, class probabilities, votes, features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase, translate

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import UsageError, nearest
from calibkit.files.sources import Source
from calibkit.rows.numeric import numeric_column
from calibkit.rows.rows import RowFinder


@dataclass(frozen=True)
class Matched:
    """The columns that a pattern stands for, in natural order (`prob_2` before `prob_10`).

    Attributes
    ----------
    pattern
        As typed.
    columns
        Their names; one column of lists or arrays stands for all of them.
    keys
        What the pattern's first ``*`` matched in each column, else its index as text; empty for a
        column of lists, whose length only its values tell.
    nested
        Whether there is one column of lists or arrays.
    """

    pattern: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    nested: bool = False


def match_columns(source: Source, pattern: str, option: str) -> Matched:
    """Return the columns that a shell glob matches, in natural order.

    Raises
    ------
    UsageError
        If none matches, or a column of lists is one of several.
    """
    found = sorted((name for name in source.schema if fnmatchcase(name, pattern)), key=natural_key)
    if not found:
        raise UsageError(
            f"{option} {pattern!r} matches no column{nearest(pattern, source.schema)}; "
            f"the columns are {', '.join(map(repr, source.schema))}.",
            column=pattern,
        )
    lists = [name for name in found if isinstance(source.schema[name], pl.List | pl.Array)]
    if lists and len(found) > 1:
        raise UsageError(
            f"{option} {pattern!r} matches {', '.join(map(repr, found))}, of which {lists[0]!r} holds "
            "lists; name this one column, or columns of numbers.",
            column=lists[0],
        )
    if lists:
        return Matched(pattern, (found[0],), (), nested=True)
    keys = [_first_star(name, pattern) for name in found]
    named = [str(place) if key is None else key for place, key in enumerate(keys)]
    if len(set(named)) < len(named):
        named = [str(place) for place in range(len(named))]
    return Matched(pattern, tuple(found), tuple(named))


def natural_key(name: str) -> tuple[tuple[int, int | str], ...]:
    """Return a key that sorts numbers within names by their value."""
    return tuple(
        (0, int(part)) if part.isdecimal() else (1, part)
        for part in re.split(r"(\d+)", name)
        if part
    )


def _first_star(name: str, pattern: str) -> str | None:
    """Return what the first ``*`` of a glob matched."""
    place = pattern.find("*")
    if place < 0:
        return None
    before, after = (translate(text) for text in (pattern[:place], pattern[place + 1 :]))
    # `translate` ends with an anchor; the middle is matched as short as the rest allows.
    strip = re.compile(r"^\(\?s:(.*)\)\\[Zz]$", re.DOTALL)
    head, tail = (strip.sub(r"\1", text) for text in (before, after))
    matched = re.fullmatch(f"(?s:{head}(.*?){tail})", name)
    return matched.group(1) if matched else None


def read_matrix(
    frame: pl.DataFrame, matched: Matched, where: RowFinder, *, low: float | None = None
) -> NDArray[np.float64]:
    """Return the matched columns as a matrix, one row a row, one column a key.

    Parameters
    ----------
    frame
        Holds the columns.
    matched
        What a pattern stands for.
    where
        Finds a row in the inputs.
    low
        The least value that is allowed.

    Raises
    ------
    DataError
        Missing values, infinities, text, values below `low`, lists of different lengths.
    """
    if not matched.nested:
        columns = [
            numeric_column(
                frame[name], where, low=low, advice=f"values below {low:g} make no sense"
            )
            if low is not None
            else numeric_column(frame[name], where)
            for name in matched.columns
        ]
        return np.column_stack(columns).astype(np.float64, copy=False)
    column = frame[matched.columns[0]]
    if column.null_count():
        mask = column.is_null().to_numpy()
        where.refuse(column, mask, "no value (null)", f"fill these rows, or {where.remedy}")
    if isinstance(column.dtype, pl.Array):
        lengths = pl.Series([column.dtype.size] * column.len())
        flat = column.explode()
    else:
        lengths = column.list.len()
        flat = column.explode()
    width = int(lengths[0]) if lengths.len() else 0
    if lengths.len() and (lengths != width).any():
        where.refuse(column, (lengths != width).to_numpy(), *odd_length(width))
    if width == 0:
        where.refuse(column, None, "empty lists", "give every row one number a class")
    values = _nested_values(column, flat, width, where, low)
    return values.reshape(-1, width)


def odd_length(width: int) -> tuple[str, str]:
    """Return what is said of lists that have not as many numbers as the first one, and what to do."""
    problem = f"a list that is not of length {width}, as the first row's is"
    return problem, "give every row one number a class"


def _nested_values(
    column: pl.Series, flat: pl.Series, width: int, where: RowFinder, low: float | None
) -> NDArray[np.float64]:
    kind = flat.dtype
    if not (kind.is_numeric() or kind == pl.Boolean):
        where.refuse(column, None, f"lists of {kind} instead of numbers", "give lists of numbers")
    values = flat.cast(pl.Float64).to_numpy(writable=True)
    bad = ~np.isfinite(values)
    if bad.any():
        mask = bad.reshape(-1, width).max(axis=1)
        where.refuse(column, mask, "a missing or infinite number", f"mend them, or {where.remedy}")
    if low is not None and (values < low).any():
        mask = (values < low).reshape(-1, width).max(axis=1)
        where.refuse(column, mask, f"a number below {low:g}", "such values make no sense here")
    values += 0.0  # -0.0 becomes 0.0
    return values


def class_keys(matched: Matched, width: int) -> tuple[str, ...]:
    """Return the keys of the classes: what the pattern matched, or the indices of a list."""
    return matched.keys or tuple(str(place) for place in range(width))


def paired(first: Matched, second: Matched, options: Sequence[str]) -> Matched:
    """Return `second` with its columns in the order of the keys of `first`.

    Raises
    ------
    UsageError
        If both are wide and their keys differ.
    """
    if first.nested or second.nested:
        return second
    if sorted(first.keys) != sorted(second.keys):
        extra = sorted(set(first.keys) ^ set(second.keys), key=natural_key)
        raise UsageError(
            f"{options[0]} {first.pattern!r} and {options[1]} {second.pattern!r} do not pair: "
            f"class{'es' if len(extra) > 1 else ''} {', '.join(extra[:5])} only in one of them."
        )
    column_of = dict(zip(second.keys, second.columns, strict=True))
    return Matched(second.pattern, tuple(column_of[key] for key in first.keys), first.keys)
