"""Columns named by patterns: members, class probabilities, votes, features."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from fnmatch import fnmatchcase, translate
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Floats
from calibkit.columns.rows import RowFinder, numeric_column, refuse_missing
from calibkit.errors import UsageError, nearest
from calibkit.files.sources import Source


class Matched(Struct, frozen=True):
    """The columns that a pattern stands for, in natural order (`prob_2` before `prob_10`).

    Their keys are what the pattern's first ``*`` matched in each, else its index as text.  Where there
    is one column of lists or arrays (`nested`) there are none: only its values tell their length.
    """

    pattern: str
    columns: tuple[str, ...]
    keys: tuple[str, ...]
    nested: bool = False


def matching(
    columns: Collection[str], pattern: str, option: str, taken: Collection[str] = (), **where: Any
) -> list[str]:
    """Return the columns, but those taken, that a glob matches, in natural order; refuse none.

    A pattern that is the name of a column stands for this one, whatever else it would match.
    """
    left = [name for name in columns if name not in taken]
    found = [pattern] if pattern in left else [own for own in left if fnmatchcase(own, pattern)]
    if found:
        return sorted(found, key=natural_key)
    raise UsageError(
        f"{option} {pattern!r} matches no column{nearest(pattern, columns)}; "
        f"the columns are {', '.join(map(repr, columns))}.",
        **where,
    )


def match_columns(source: Source, pattern: str, option: str) -> Matched:
    """Return the columns that a shell glob matches: some, and no column of lists among several."""
    found = matching(source.schema, pattern, option, column=pattern)
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


def number_columns(source: Source, patterns: Sequence[str], option: str, advice: str) -> list[str]:
    """Return the columns that names and globs stand for, in the order typed; none holds lists."""
    matched = [match_columns(source, pattern, option) for pattern in patterns]
    for one in matched:
        if one.nested:
            raise UsageError(
                f"{option} {one.pattern!r} is a column of lists; {advice}.", column=one.columns[0]
            )
    return list(dict.fromkeys(name for one in matched for name in one.columns))


def natural_key(name: str) -> tuple[tuple[tuple[int, int | str], ...], str]:
    """Return a key that sorts numbers within names by their value; ``01`` comes before ``1``."""
    parts = tuple(
        (0, int(part)) if part.isdecimal() else (1, part)
        for part in re.split(r"(\d+)", name)
        if part
    )
    return parts, name


def _first_star(name: str, pattern: str) -> str | None:
    """Return what the first ``*`` of a glob matched, as short as the rest allows."""
    before, star, after = pattern.partition("*")
    head = translate(before)[:-2]  # without the end of text
    found = re.match(rf"{head}(.*?){translate(after)}", name, re.DOTALL) if star else None
    return None if found is None else found[1]


def read_matrix(frame: pl.DataFrame, matched: Matched, where: RowFinder) -> Floats:
    """Return the matched columns as a matrix, one row a row, one column a key.

    Missing values, infinities, text and lists of different lengths are refused.
    """
    if not matched.nested:
        columns = [numeric_column(frame[name], where) for name in matched.columns]
        return np.column_stack(columns).astype(np.float64, copy=False)
    column = frame[matched.columns[0]]
    refuse_missing(column, where, "no value (null)")
    lists = column.arr.to_list() if isinstance(column.dtype, pl.Array) else column
    lengths = lists.list.len()
    width = int(lengths[0]) if lengths.len() else 0
    where.check(column, lengths != width, *odd_length(width))
    if width == 0:
        where.refuse(column, None, "empty lists", "give every row one number a class")
    flat = lists.explode()
    if not (flat.dtype.is_numeric() or flat.dtype == pl.Boolean):
        problem = f"lists of {flat.dtype} instead of numbers"
        where.refuse(column, None, problem, "give lists of numbers")
    values = flat.cast(pl.Float64).to_numpy(writable=True).reshape(-1, width)
    bad = ~np.isfinite(values).all(axis=1)
    where.check(column, bad, "a missing or infinite number", f"correct them, or {where.remedy}")
    values += 0.0  # -0.0 becomes 0.0
    return values


def odd_length(width: int) -> tuple[str, str]:
    """Return what is said of lists that have not as many numbers as the first one, and what to do."""
    problem = f"a list that is not of length {width}, as the first row's is"
    return problem, "give every row one number a class"


def class_keys(matched: Matched, width: int) -> tuple[str, ...]:
    """Return the keys of the classes: what the pattern matched, or the indices of a list."""
    return matched.keys or tuple(str(place) for place in range(width))


def paired(first: Matched, second: Matched, options: Sequence[str]) -> Matched:
    """Return `second` with its columns in the order of the keys of `first`, which are the same."""
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


def find_features(source: Source, patterns: Sequence[str], taken: dict[str, str]) -> list[str]:
    """Return the feature columns that names and globs stand for, in the order they were typed.

    Those of one glob come in natural order.  Columns of other roles are `taken` by the option that
    names them: a glob passes them over, a name is refused, and so is what matches nothing.
    """
    found: list[str] = []
    for pattern in patterns:
        if pattern not in source.schema:
            where = {"column": pattern, "file": source.file}
            found += matching(source.schema, pattern, "--features", taken, **where)
        elif pattern not in taken:
            found.append(pattern)
        else:
            raise UsageError(
                f"column {pattern!r} is both {taken[pattern]} and --features; leave it out.",
                column=pattern,
            )
    if not found:
        raise UsageError("--features names no column; name at least one.")
    return list(dict.fromkeys(found))
