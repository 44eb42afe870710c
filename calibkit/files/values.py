"""What the texts of a column are: numbers, truth values or dates, each in one of several ways, or text.

A value tells for certain how it is written where no other way of writing numbers could give it:
``0,93`` has a decimal comma, ``1.234,56`` and ``1.234.567`` have points between thousands.  ``1,234``
may be either; the other columns may tell.  A column is of dates where all of its values are written in
one of a few ways.  ``01/02/2024`` may be written in two: other rows may tell, else the user has to.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import polars as pl
from msgspec import Struct
from msgspec.structs import replace
from polars.selectors import by_name

from calibkit.errors import FIRST_ROWS, DataError, UsageError
from calibkit.files.explain import reading
from calibkit.files.formats import NULL_VALUES, YEAR_FIRST, Dialect, Mark

_TRUE_FALSE: Final = ("true", "false")
_WHOLE: Final = (pl.Int64(), pl.Int128())
#: Ways to write numbers: the decimal mark, and whether the other one stands between thousands.
_WAYS: Final[tuple[tuple[Mark, bool], ...]] = ((".", False), (",", False), (".", True), (",", True))
#: How many values have one of the marks, and how many leave open which one it is.
_MARKS: Final = ("marks", "unsure")

#: Of how many texts of a column hold what; what is not counted counts as nothing.
Counts = Counter[str]

#: A number with one mark that may be a decimal mark or one of thousands.
UNSURE: Final = r"^[+-]?[1-9][0-9]{0,2}[.,][0-9]{3}$"
SETTLES_DECIMAL: Final = "say which mark is the decimal one: --decimal . or --decimal ,"


class Kind(Struct, frozen=True):
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

    def read(self, written: pl.Expr, dialect: Dialect) -> pl.Expr:
        """Return the column of a text in its type, null where a value is none of it."""
        text = written.str.strip_chars(" \t")
        if self.kind == pl.Boolean:
            words = text.str.to_lowercase()
            return pl.when(words.is_in(_TRUE_FALSE)).then(words == "true")
        if self.plain:
            return text.cast(self.kind, strict=False)
        found = _number(_present(written, dialect), self.decimal, grouped=self.grouped)
        return found.cast(self.kind, strict=False)


def exactly(name: str) -> pl.Expr:
    """Return a column by its name alone: polars would take ``*`` and ``^…$`` for patterns."""
    return by_name(name).as_expr()


def _present(written: pl.Expr, dialect: Dialect) -> pl.Expr:
    """Return a text without blanks around, null where it stands for no value."""
    text = written.str.strip_chars(" \t")
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
    rows: pl.LazyFrame, names: Sequence[str], dialect: Dialect, first: Mapping[str, Counts]
) -> dict[str, Counts]:
    """Return of how many texts of each column, all of text, hold what.

    `first`: those of the first rows.  What these are all texts mostly are, and only that is counted
    there where it is enough to tell the kind of the column.
    """
    likely = {name: _likely(first[name], dialect) for name in names if name in first}
    found = _counted(rows, names, dialect, likely)
    for name in (name for name, keys in likely.items() if keys):
        found[name].update({key: first[name][key] for key in _MARKS})
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
            _present(exactly(name), dialect).alias(f"text {place}"),
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
    counts = found.collect(engine="streaming").row(0, named=True)
    return {name: Counter(one) for name, one in counts.items()}


def _counts(place: int, dialect: Dialect) -> dict[str, pl.Expr]:
    written, text, floats = pl.col(f"written {place}"), pl.col(f"text {place}"), floats_of(dialect)
    counts = {
        "texts": written.count(),
        "some": (written != "").sum(),
        "filled": text.count(),
        "words": text.str.to_lowercase().is_in(_TRUE_FALSE).sum(),
        "floats": written.str.strip_chars(" \t").cast(floats, strict=False).count(),
        "marks": text.str.contains("[.,]").sum(),
        "unsure": text.str.contains(UNSURE).sum(),
        "groups": text.str.contains("[.,].*[.,]").sum(),
    }
    counts |= {str(kind): text.cast(kind, strict=False).count() for kind in _WHOLE}
    for decimal, grouped in _WAYS:
        number = _number(text, decimal, grouped=grouped).cast(floats, strict=False)
        counts[f"{decimal}{grouped}"] = number.count()
    return counts


def points_of(rows: pl.LazyFrame, names: Sequence[str], dialect: Dialect) -> dict[str, Kind]:
    """Return the kinds of columns whose texts all are numbers with decimal points, if with any."""
    seen = _counted(rows, names, dialect, dict.fromkeys(names, _MARKS))
    return {
        name: Kind(
            floats_of(dialect),
            voting=one["unsure"] < one["marks"],
            open=0 < one["unsure"] == one["marks"],
        )
        for name, one in seen.items()
    }


def kinds_of(
    seen: Mapping[str, Counts], dialect: Dialect, votes: Collection[str] = ()
) -> dict[str, Kind]:
    """Return what the values of columns all are; `votes`: marks that columns have for certain."""
    return {name: _kind_of(one, dialect, votes) for name, one in seen.items()}


def _kind_of(seen: Counts, dialect: Dialect, votes: Collection[str]) -> Kind:
    filled, floats = seen["filled"], floats_of(dialect)
    marked = seen["some"] != filled
    # Text such as nan, which polars reads; numbers that are named as missing are none.
    as_nan = marked and dialect.null_values is None and seen["floats"] == seen["some"]
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


#: What may follow a day.
_CLOCK: Final = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?"
    r"(?: ?(?P<half>[AaPp])[Mm])?(?: ?(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?))?)?$"
)
_YEAR, _MONTH, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"

#: What is read as dates.
_TEXT: Final = pl.col("text")

#: Rows of a file that tell in how few ways a column can be written, before all are looked at.
_FIRST: Final = 64


class Way(Struct, frozen=True):
    """A way to write dates."""

    name: str  # its format
    pattern: str | None = None  # what days look like; None: the format says all, as the user does
    parts: tuple[str, ...] = ("year", "month", "day")  # of a day; what is not there is 1
    form: str = "%Y-%m-%d"  # the format of the parts when hyphens stand between them
    zoned: bool = False  # whether a zone stands behind the clock

    def read(self, written: pl.Expr, dialect: Dialect) -> pl.Expr:
        """Return the moments of a text, in UTC where they are zoned, else null."""
        text = _present(written, dialect)
        if self.pattern is None:
            form = self.name.replace(".%f", "%.f")  # as Python writes it, and as polars does
            return text.str.to_datetime(form, time_unit="us", strict=False)
        part = text.str.extract_groups(f"^{self.pattern}{_CLOCK}").struct.field
        days = [part(one).fill_null("1") for one in self.parts[1:]]
        day = pl.concat_str(part(self.parts[0]), *days, separator="-")
        hour, half = part("hour").cast(pl.Int64).fill_null(0), part("half").str.to_lowercase()
        late = pl.when(half == "p").then(12).otherwise(0)
        hour = pl.when(half.is_null()).then(hour).otherwise(hour % 12 + late)
        second = part("second").str.replace(",", ".", literal=True).fill_null("0")
        clock = pl.concat_str(hour, part("minute").fill_null("0"), second, separator=":")
        found = pl.concat_str(day, clock, separator=" ").str.to_datetime(
            f"{self.form} %H:%M:%S%.f", time_unit="us", strict=False
        )
        zone = part("zone")
        if not self.zoned:
            return pl.when(zone.is_null()).then(found)
        digits = zone.str.replace(":", "", literal=True).str
        hours, minutes = (digits.slice(place, 2).cast(pl.Int64, strict=False) for place in (1, 3))
        total = hours.fill_null(0) * 60 + minutes.fill_null(0)
        offset = pl.duration(minutes=pl.when(digits.starts_with("-")).then(-total).otherwise(total))
        return pl.when(zone.is_not_null()).then((found - offset).dt.replace_time_zone("UTC"))


_DATES: Final = (
    Way(YEAR_FIRST[0], f"{_YEAR}[-/.]{_MONTH}(?:[-/.]{_DAY})?"),
    Way(YEAR_FIRST[1], rf"{_YEAR}(?P<month>\d{{2}})(?P<day>\d{{2}})"),
    Way(
        YEAR_FIRST[2],
        rf"{_YEAR}-?W(?P<week>\d{{2}})(?:-?(?P<day>[1-7]))?",
        ("year", "week", "day"),
        "%G-%V-%u",
    ),
    Way("%d.%m.%Y", rf"{_DAY}\.{_MONTH}\.{_YEAR}"),
    Way("%d/%m/%Y", f"{_DAY}[/-]{_MONTH}[/-]{_YEAR}"),
    Way("%m/%d/%Y", f"{_MONTH}[/-]{_DAY}[/-]{_YEAR}"),
)


class Texts(Struct, frozen=True):
    """A column of text that is to be one of dates: its name, and each input with its ``text``."""

    name: str
    inputs: Sequence[tuple[str, pl.LazyFrame]]
    dialect: Dialect

    def way(self) -> Way | None:
        """Return how the dates are written; None where there is no value.

        Raises `DataError` for dates that can be read in two ways, or values that are no dates in any
        one way; `UsageError` for a format that is none.
        """
        said = self.dialect.date_format
        ways = [replace(way, zoned=zoned) for way in _DATES for zoned in (False, True)]
        if said is not None:
            ways = [Way(said)]
        for first in (_FIRST, None):
            filled, *counts = self._counts(ways, first)
            if not filled:
                return None
            if max(counts) < filled:
                way = ways[counts.index(max(counts))]
                zone = " with a zone" if way.zoned else ""
                problem = f"no date of the format {way.name}{zone}"
                if not said:
                    problem = f"{problem}, as others are," if max(counts) else "no date"
                self._refuse(
                    way.read(_TEXT, self.dialect).is_null(),
                    problem,
                    "give --date-format, such as '%d.%m.%Y', or text for the order of text",
                )
            ways = [way for way, count in zip(ways, counts, strict=True) if count == filled]
        for other in ways[1:]:
            one, two = (way.read(_TEXT, self.dialect) for way in (ways[0], other))
            self._refuse(
                one != two,
                f"a date that may be {ways[0].name} or {other.name}",
                f"say which: --date-format {ways[0].name} or --date-format {other.name}",
            )
        return ways[0]

    def _counts(self, ways: Sequence[Way], first: int | None) -> list[int]:
        """Return of how many of the first rows there is a value, and one written in each way."""
        read = [way.read(_TEXT, self.dialect) for way in ways]
        columns = [_present(_TEXT, self.dialect), *read]
        total = [0] * len(columns)
        for path, rows in self.inputs:
            rows = rows if first is None else rows.head(first)
            counts = rows.select(one.count().alias(str(k)) for k, one in enumerate(columns))
            with reading(path):
                try:
                    found = counts.collect(engine="streaming").row(0)
                except pl.exceptions.ComputeError as error:
                    if self.dialect.date_format is None:
                        raise
                    raise UsageError(
                        f"--date-format {self.dialect.date_format!r} is no format of dates ({error}); "
                        "give one such as '%d.%m.%Y', or text"
                    ) from None
            total = [sum(pair) for pair in zip(total, found, strict=True)]
        return total

    def _refuse(self, offends: pl.Expr, problem: str, advice: str) -> None:
        """Raise a `DataError` about the rows of the first file in which some offend."""
        text = _present(_TEXT, self.dialect)
        for path, frame in self.inputs:
            rows = frame.select(text, offends.alias("odd")).with_row_index("row", 1)
            with reading(path):
                found = rows.filter("odd", pl.col("text").is_not_null()).collect(engine="streaming")
            if found.height:
                first = found["row"].head(FIRST_ROWS).to_list()
                plural = "s" if found.height > 1 else ""
                raise DataError.of(
                    path,
                    f"column {self.name!r}: {problem} in {found.height} row{plural} "
                    f"(first: row {first[0]}; value {found['text'][0]!r}); {advice}",
                    column=self.name,
                    rows=found.height,
                    first_rows=first,
                )
