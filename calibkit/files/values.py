"""What the texts of a column are: numbers written in one of several ways, truth values, or text.

A value tells for certain how it is written where no other way of writing numbers could give it:
``0,93`` has a decimal comma, ``1.234,56`` and ``1.234.567`` have points between thousands.  ``1,234``
may be either; the other columns may tell.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import polars as pl
from polars.selectors import by_name

from calibkit.files.dialect import NULL_VALUES, Dialect, Mark

_TRUE_FALSE: Final = ("true", "false")
_WHOLE: Final = (pl.Int64(), pl.Int128())
#: Ways to write numbers: the decimal mark, and whether the other one stands between thousands.
_WAYS: Final[tuple[tuple[Mark, bool], ...]] = ((".", False), (",", False), (".", True), (",", True))

#: Of how many texts of a column hold what; see `counts_of`.
Counts = Mapping[str, Any]

#: What is not counted counts as nothing.
_CLOSED: Final = dict.fromkeys(
    ("words", "floats", "groups", *map(str, _WHOLE), *(f"{mark}{by}" for mark, by in _WAYS)), 0
)
NONE: Final[Mapping[str, Any]] = MappingProxyType({})

#: A number with one mark that may be a decimal mark or one of thousands.
UNSURE: Final = r"^[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}$"
SETTLES_DECIMAL: Final = "say which mark is the decimal one: --decimal . or --decimal ,"


@dataclass(frozen=True)
class Kind:
    """What all values of a column are."""

    kind: pl.DataType  # `pl.String` where they are text, `pl.Null` where there is none
    decimal: Mark = "."
    grouped: bool = False  # whether marks stand between thousands
    marked: bool = False  # whether text stands for missing values
    sure: bool = True  # whether text could be nothing else
    voting: bool = False  # whether some value tells for certain how the numbers are written
    open: bool = False  # whether all leave it open

    @property
    def plain(self) -> bool:
        """Whether it is written as calibkit writes it."""
        return self.decimal == "." and not self.grouped and not self.marked

    def read(self, name: str, dialect: Dialect) -> pl.Expr:
        """Return the column in its type, null where a value is none of it."""
        text = exactly(name).str.strip_chars(" \t")
        if self.kind == pl.Boolean:
            words = text.str.to_lowercase()
            known = words == "true"
            return known if self.plain else pl.when(words.is_in(_TRUE_FALSE)).then(known)
        if self.plain:
            return text.cast(self.kind, strict=False)
        found = _number(present(name, dialect), self.decimal, grouped=self.grouped)
        return found.cast(self.kind, strict=False)


def exactly(name: str) -> pl.Expr:
    """Return a column by its name alone: polars would take ``*`` and ``^…$`` for patterns."""
    return by_name(name).as_expr()


def present(name: str, dialect: Dialect) -> pl.Expr:
    """Return the texts of a column without blanks around, null where they stand for no value."""
    text = exactly(name).str.strip_chars(" \t")
    if dialect.null_values is None:
        absent = text.str.to_lowercase().is_in(["", *(one.lower() for one in NULL_VALUES)])
    else:
        absent = text.is_in(["", *dialect.null_values])
    return pl.when(~absent).then(text)


def _number(text: pl.Expr, decimal: Mark, *, grouped: bool) -> pl.Expr:
    """Return numbers as Python writes them, null where a text is not written in this way."""
    other = "," if decimal == "." else "."
    fits = ~text.str.contains(other, literal=True)
    if grouped:
        form = rf"^[+-]?[0-9]{{1,3}}(\{other}[0-9]{{3}})*(\{decimal}[0-9]*)?$"
        fits |= text.str.contains(form)
        text = text.str.replace_all(other, "", literal=True)
    if decimal == ",":
        text = text.str.replace(",", ".", literal=True)
    return pl.when(fits).then(text)


def floats_of(dialect: Dialect) -> pl.DataType:
    """Return the type of fractional numbers."""
    return pl.Float32() if dialect.dtype == "float32" else pl.Float64()


def counts_of(
    rows: pl.LazyFrame, names: Sequence[str], dialect: Dialect, first: Mapping[str, Counts] = NONE
) -> dict[str, Counts]:
    """Return of how many texts of each column, all of text, hold what.

    `first`: those of the first rows.  What these are all texts mostly are, and only that is counted
    there where it is enough to tell the kind of the column.
    """
    likely = {name: _likely(first[name], dialect) for name in names if name in first}
    found = _counted(rows, names, dialect, likely)
    for name, keys in likely.items():
        if keys:
            marks = {key: first[name][key] for key in ("marks", "unsure")}
            found[name] = {**_CLOSED, **marks, **found[name]}
    again = [n for n, keys in likely.items() if keys and found[n][keys[0]] < found[n]["filled"]]
    return found | _counted(rows, again, dialect, {})


def _likely(seen: Counts, dialect: Dialect) -> tuple[str, ...]:
    """Return what to count of a column that is as its first rows are; nothing where all counts.

    What some of the first texts are not, all are not; and where one of them tells for certain which
    mark is that of decimals, no other text changes it.
    """
    plain = [f"{mark}False" for mark in (".", ",") if dialect.decimal in (None, mark)]
    kinds = ("words", *map(str, _WHOLE), *(plain if seen["unsure"] < seen["marks"] else ()))
    full = [key for key in kinds if 0 < seen[key] == seen["filled"]]
    as_nan = ("floats",) if seen["floats"] == seen["some"] else ()
    return (full[0], "texts", "some", "filled", *as_nan) if full else ()


def _counted(
    rows: pl.LazyFrame,
    names: Sequence[str],
    dialect: Dialect,
    likely: Mapping[str, Collection[str]],
) -> dict[str, Counts]:
    """Return the counts of columns, of some only what they `likely` need."""
    if not names:
        return {}
    # Each is made once: polars would make it again for every count.
    texts = rows.select(
        column
        for place, name in enumerate(names)
        for column in (
            exactly(name).alias(f"written {place}"),
            present(name, dialect).alias(f"text {place}"),
        )
    )
    found = texts.select(
        pl.struct(
            one.alias(key)
            for key, one in _counts(place, dialect).items()
            if key in (likely.get(name) or (key,))
        ).alias(name)
        for place, name in enumerate(names)
    )
    return found.collect(engine="streaming").row(0, named=True)


def _counts(place: int, dialect: Dialect) -> dict[str, pl.Expr]:
    written, text, floats = pl.col(f"written {place}"), pl.col(f"text {place}"), floats_of(dialect)
    counts = {
        "texts": written.count(),
        "some": (written != "").sum(),
        "filled": text.count(),
        "words": text.str.to_lowercase().is_in(_TRUE_FALSE).sum(),
        "floats": written.str.strip_chars(" \t").cast(floats, strict=False).count(),
        **_marks(text),
        "groups": text.str.contains("[.,].*[.,]").any(),
    }
    counts |= {str(kind): text.cast(kind, strict=False).count() for kind in _WHOLE}
    for decimal, grouped in _WAYS:
        number = _number(text, decimal, grouped=grouped).cast(floats, strict=False)
        counts[f"{decimal}{grouped}"] = number.count()
    return counts


def _marks(text: pl.Expr) -> dict[str, pl.Expr]:
    return {"marks": text.str.contains("[.,]").sum(), "unsure": text.str.contains(UNSURE).sum()}


def points_of(rows: pl.LazyFrame, names: Sequence[str], dialect: Dialect) -> dict[str, Kind]:
    """Return the kinds of columns whose texts all are numbers with decimal points, if with any."""
    if not names:
        return {}
    seen = rows.select(
        pl.struct(one.alias(key) for key, one in _marks(present(name, dialect)).items()).alias(name)
        for name in names
    )
    counts = seen.collect(engine="streaming").row(0, named=True)
    return {
        name: Kind(
            floats_of(dialect),
            voting=one["unsure"] < one["marks"],
            open=0 < one["unsure"] == one["marks"],
        )
        for name, one in counts.items()
    }


def kinds_of(
    seen: Mapping[str, Counts], dialect: Dialect, votes: Collection[str] = ()
) -> dict[str, Kind]:
    """Return what the values of columns all are; `votes`: marks that columns have for certain."""
    return {name: _kind_of(one, dialect, votes) for name, one in seen.items()}


def _kind_of(seen: Counts, dialect: Dialect, votes: Collection[str]) -> Kind:
    filled, floats = seen["filled"], floats_of(dialect)
    marked = seen["some"] != filled
    as_nan = marked and seen["floats"] == seen["some"]  # which polars reads
    if not filled:
        return Kind(pl.String(), sure=False) if marked else Kind(pl.Null())
    if seen["words"] == filled:
        return Kind(pl.Boolean(), marked=seen["texts"] != filled)
    for kind in _WHOLE:
        if seen[str(kind)] == filled:
            return Kind(floats) if as_nan else Kind(kind, marked=marked)
    ways = [way for way in _WAYS if seen[f"{way[0]}{way[1]}"] == filled]
    sure = seen["unsure"] < seen["marks"] or not seen["marks"]
    if dialect.decimal is not None:
        fitting = [way for way in ways if way[0] == dialect.decimal]
    elif sure:
        fitting = [way for way in ways if not way[1] or seen["groups"]]
    else:  # a point is what it is unless a comma is elsewhere; a comma has to be one elsewhere
        told = set(votes) or {"."}
        fitting = [way for way in ways if not way[1] and told == {way[0]}]
    if not fitting:
        return Kind(pl.String(), sure=not ways)
    decimal, grouped = fitting[0]
    marked = marked and not (as_nan and fitting[0] == _WAYS[0])
    tells = sure and seen["marks"] > 0
    return Kind(floats, decimal, grouped, marked, voting=tells, open=not sure)
