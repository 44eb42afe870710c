"""What a picture shows, as a table: a picture is drawn from its points alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import polars as pl

from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.measures.result import Metrics, Number

#: How many lines of one picture can be told apart.
MOST_LINES = 8


@dataclass(frozen=True, kw_only=True)
class Points:
    """What a picture shows."""

    kind: str  # a key of `calibkit.options.plot.KINDS`
    table: pl.DataFrame  # every number that is drawn
    #: What titles, axes and legends say besides, such as the name of a score.
    words: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()  # what the user has to be told
    notes: tuple[str, ...] = ()  # what a summary should say

    @classmethod
    def of(cls, kind: str, table: pl.DataFrame, found: Any, **words: str | None) -> Points:
        """Return the points of what has `warnings` and `notes`; words that are None are left out."""
        kept = {name: word for name, word in words.items() if word is not None}
        return cls(kind=kind, table=table, words=kept, warnings=found.warnings, notes=found.notes)

    @property
    def interval(self) -> str:
        """What an axis says of the intervals drawn, with a space before it."""
        return f" ({self.words['interval']} interval)" if "interval" in self.words else ""


def schema(texts: str, *numbers: str) -> pl.Schema:
    """Return the columns of a table: texts, by names with blanks between, then numbers."""
    return pl.Schema(
        {**dict.fromkeys(texts.split(), pl.String), **dict.fromkeys(numbers, pl.Float64)}
    )


def ends_of(names: Sequence[str]) -> list[str]:
    """Return the columns of a table that hold the intervals of metrics."""
    return [f"{name}_{end}" for name in names for end in ("low", "high")]


def check_lines(names: Sequence[str], what: str, option: str) -> None:
    """Refuse (`UsageError`) more lines than can be told apart."""
    if len(names) > MOST_LINES:
        raise UsageError(
            f"{len(names)} {what} are too many to tell apart in one picture; expected at most "
            f"{MOST_LINES}: name fewer by {option}."
        )


def undrawable(source: Source, why: str, column: str | None = None) -> DataError:
    """Return the error for rows that leave nothing to draw."""
    return DataError.of(source.parts[0].path, why, column=column)


def per_cent(share: float | None, shown: object = True) -> str | None:
    """Return a share as text, ``95%``; None where there is none to be `shown`."""
    return f"{100 * share:.10g}%" if share is not None and shown else None


def with_ends(
    metrics: Metrics, score: str, part: str, names: Sequence[str]
) -> dict[str, Number | None]:
    """Return the metrics of a score in a slice, and the intervals that `names` have there."""
    limits = metrics.intervals.get(score, {}).get(part, {})
    found = dict(metrics.metrics[score][part])
    for name in names:
        if name in limits:
            found |= {f"{name}_low": limits[name].low, f"{name}_high": limits[name].high}
    return found


def in_per_cent(value: float, _: object) -> str:
    """Return what stands at a tick of an axis of shares."""
    return f"{100 * value:.6g}%"


def nice_end(*columns: pl.Series) -> float:
    """Return where an axis of probabilities ends: at 1, or lower where all of them are low."""
    ends = [column.max() for column in columns]
    most = max((float(end) for end in ends if isinstance(end, float)), default=1.0)
    return 1.0 if most > 0.5 else max(1.05 * most, 1e-6)
