"""Frames with anything in their columns, what they hold as plain lists, and whether that is sound."""

from __future__ import annotations

import datetime
import math
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import polars as pl
from hypothesis import strategies as st

from tests.cli.score_files import write

BELOW_ONE, ABOVE_ZERO = math.nextafter(1.0, 0.0), math.nextafter(0.0, 1.0)
PROBABILITIES = [0.0, -0.0, ABOVE_ZERO, 2.3e-308, 1e-300, 1e-17, 0.1, 0.3, 0.5, 0.7, BELOW_ONE, 1.0]
REALS = [*PROBABILITIES, -1.0, -1e308, 1e308, 1e-160, 3.0, math.nextafter(3.0, 4.0), 1e16]
WEIGHTS = [0, 1, 2, 3, 7, 2**31, 3_000_000_000, 1_000_000_000_000]
#: Within a column sums of floats hold weights of such ratios; the scale is any.
FRACTIONS = [0.0, 0.1, 0.25, 1.0, 3.7]
SCALES = [1e-200, 1e-9, 1.0, 1e9, 1e200]

#: Values that make a column unfit, whatever it is for.
NO_NUMBERS = [None, math.nan, math.inf, -math.inf]
#: Columns of another type than numbers.
ODD_COLUMNS: list[tuple[Any, Any]] = [
    (pl.String, "0.5"),
    (pl.String, "?"),
    (pl.Date, datetime.date(2024, 1, 1)),
    (pl.List(pl.Float64), [0.5, 0.25]),
    (pl.Struct({"a": pl.Float64}), {"a": 0.5}),
    (pl.Null, None),
    (pl.Binary, b"0.5"),
    (pl.Categorical, "0.5"),
    (pl.Decimal(10, 2), Decimal("0.25")),
]
NAMES = [
    "é ü",
    "a b",
    'a"b',
    "x/y",
    "ﬁ\u0301",
    "日本",
    "🙂",
    "%d",
    "{}",
    "[red]",
    "\\n",
    "NULL",
    "0",
]


@dataclass(frozen=True)
class Given:
    """A frame in a file.

    Attributes
    ----------
    frame
        The rows as polars holds them.
    sound
        Whether every column is good: False if one surely is not, None if it may be either.
    names
        What the columns are called that other names were drawn for.
    """

    frame: pl.DataFrame
    sound: bool | None
    suffix: str
    names: dict[str, str]

    def save(self, folder: Path) -> Path:
        """Write the file."""
        return write(self.frame.rename(self.names), folder / f"rows{self.suffix}")

    def __getitem__(self, name: str) -> list[Any]:
        column = self.frame[name]
        if self.suffix == ".csv" and column.dtype == pl.String:  # there text of digits is a number
            numbers = column.cast(pl.Float64, strict=False)
            column = column if numbers.null_count() > column.null_count() else numbers
        return column.to_list()


@st.composite
def frames(draw: st.DrawFn, good: dict[str, list[Any]], wide: bool = False) -> Given:
    """Draw a frame with these columns: mostly good values, at times one column with others."""
    rows = draw(st.sampled_from([0, 1, 1, 2, 3, 5, 8, 13, 30]))
    suffix = draw(st.sampled_from([".parquet", ".arrow", ".csv", ".ndjson"]))
    columns, sound = {}, rows > 0
    for name, pool in good.items():
        values = draw(st.lists(st.sampled_from(pool), min_size=rows, max_size=rows))
        kind = pl.Int64 if all(isinstance(value, int) for value in pool) else pl.Float64
        columns[name] = pl.Series(name, values, dtype=kind)
    hurt = draw(st.sampled_from(["", "", "value", "column", "narrow"])) if rows else ""
    name = draw(st.sampled_from(sorted(good)))
    if hurt == "value":
        place = draw(st.integers(0, rows - 1))
        values = columns[name].to_list()
        values[place] = draw(st.sampled_from(NO_NUMBERS))
        columns[name] = pl.Series(name, values, dtype=pl.Float64)
        sound = False
    elif hurt == "column":
        kind, value = draw(st.sampled_from(ODD_COLUMNS))
        if kind == pl.Binary or (suffix == ".csv" and kind.is_nested()):
            kind, value = pl.String, "?"
        columns[name] = pl.Series(name, [value] * rows, dtype=kind)
        sound = None
    elif hurt == "narrow" and suffix in (".parquet", ".arrow"):
        columns[name] = columns[name].cast(pl.Float32)  # may overflow to an infinity
        sound = None
    frame = pl.DataFrame(list(columns.values()))
    if wide:
        frame = frame.with_columns(pl.lit(k).alias(f"more {k}") for k in range(300))
    renamed = draw(st.sampled_from(["", *NAMES]))
    names = {sorted(good)[0]: renamed} if renamed else {}
    return Given(frame, sound, suffix, names)
