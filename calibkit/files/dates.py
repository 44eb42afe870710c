"""Text as dates: in which way those of a column are written, and the moments that they mean.

A column is of dates where all of its values are written in one of a few ways.  ``01/02/2024`` may be
written in two of them: other rows may tell, else the user has to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import polars as pl

from calibkit.errors import FIRST_ROWS, DataError, UsageError
from calibkit.files.dialect import YEAR_FIRST, Dialect
from calibkit.files.explain import reading
from calibkit.files.table import Table
from calibkit.files.values import present

#: What may follow a day.
_CLOCK: Final = (
    r"(?:[T ]+(?P<hour>\d{1,2}):(?P<minute>\d{2})(?::(?P<second>\d{2}(?:[.,]\d+)?))?"
    r"(?: ?(?P<half>[AaPp])[Mm])?(?: ?(?P<zone>Z|UTC|[+-]\d{2}(?::?\d{2})?))?)?$"
)
_YEAR, _MONTH, _DAY = r"(?P<year>\d{4})", r"(?P<month>\d{1,2})", r"(?P<day>\d{1,2})"

#: Rows of a file that tell in how few ways a column can be written, before all are looked at.
_FIRST: Final = 64


@dataclass(frozen=True)
class Way:
    """A way to write dates."""

    name: str  # its format
    pattern: str | None = None  # what days look like; None: the format says all, as the user does
    parts: tuple[str, ...] = ("year", "month", "day")  # of a day; what is not there is 1
    form: str = "%Y-%m-%d"  # the format of the parts when hyphens stand between them
    zoned: bool = False  # whether a zone stands behind the clock

    def read(self, name: str, dialect: Dialect) -> pl.Expr:
        """Return the moments of a column of text, in UTC where they are zoned, else null."""
        text = present(name, dialect)
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


_WAYS: Final = (
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


@dataclass(frozen=True)
class Texts:
    """A column of text that is to be one of dates: its name, and the inputs."""

    name: str
    tables: Sequence[Table]
    dialect: Dialect

    def way(self) -> Way | None:
        """Return how the dates are written; None where there is no value.

        Raises `DataError` for dates that can be read in two ways, or values that are no dates in any
        one way; `UsageError` for a format that is none.
        """
        said = self.dialect.date_format
        ways = [replace(way, zoned=zoned) for way in _WAYS for zoned in (False, True)]
        if said is not None:
            ways = [Way(said)]
        for first in (_FIRST, None):
            filled, *counts = self._counts(ways, first)
            if not filled:
                return None
            if max(counts) < filled:
                way = ways[counts.index(max(counts))]
                zone = " with a zone" if way.zoned else ""
                others = "" if said else ", as others are,"
                self._refuse(
                    way.read(self.name, self.dialect).is_null(),
                    f"no date of the format {way.name}{zone}{others}",
                    "give --date-format, such as '%d.%m.%Y', or text for the order of text",
                )
            ways = [way for way, count in zip(ways, counts, strict=True) if count == filled]
        for other in ways[1:]:
            one, two = (way.read(self.name, self.dialect) for way in (ways[0], other))
            self._refuse(
                one != two,
                f"a date that may be {ways[0].name} or {other.name}",
                f"say which: --date-format {ways[0].name} or --date-format {other.name}",
            )
        return ways[0]

    def _counts(self, ways: Sequence[Way], first: int | None) -> list[int]:
        """Return of how many of the first rows there is a value, and one written in each way."""
        read = [way.read(self.name, self.dialect) for way in ways]
        columns = [present(self.name, self.dialect), *read]
        total = [0] * len(columns)
        for table in self.tables:
            rows = table.frame.lazy() if first is None else table.frame.lazy().head(first)
            counts = rows.select(one.count().alias(str(k)) for k, one in enumerate(columns))
            with reading(table.part.path):
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
        text = present(self.name, self.dialect)
        for table in self.tables:
            rows = table.frame.lazy().select(text.alias("text"), offends.alias("odd"))
            rows = rows.with_row_index("row", 1)
            with reading(table.part.path):
                found = rows.filter("odd", pl.col("text").is_not_null()).collect(engine="streaming")
            if found.height:
                first = found["row"].head(FIRST_ROWS).to_list()
                plural = "s" if found.height > 1 else ""
                raise DataError.of(
                    table.part.path,
                    f"column {self.name!r}: {problem} in {found.height} row{plural} "
                    f"(first: row {first[0]}; value {found['text'][0]!r}); {advice}",
                    column=self.name,
                    rows=found.height,
                    first_rows=first,
                )
