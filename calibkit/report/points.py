"""What a picture shows, as a table: a picture is drawn from its points alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import polars as pl

from calibkit.errors import UsageError

#: How many lines of one picture can be told apart.
MOST_LINES = 8


@dataclass(frozen=True, kw_only=True)
class Points:
    """What a picture shows.

    Attributes
    ----------
    kind
        A key of `calibkit.report.plots.KINDS`.
    table
        Every number that is drawn.
    words
        What titles, axes and legends say besides, such as the name of a score.
    warnings, notes
        What the user has to be told, and what a summary should say.
    """

    kind: str
    table: pl.DataFrame
    words: Mapping[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_lines(names: Sequence[str], what: str, option: str) -> None:
    """Refuse more lines than can be told apart.

    Raises
    ------
    UsageError
        For more than `MOST_LINES`.
    """
    if len(names) > MOST_LINES:
        raise UsageError(
            f"{len(names)} {what} are too many to tell apart in one picture; expected at most "
            f"{MOST_LINES}: name fewer by {option}."
        )


def per_cent(share: float) -> str:
    """Return a share as text: ``95%``."""
    return f"{100 * share:.10g}%"


def nice_end(*columns: pl.Series) -> float:
    """Return where an axis of probabilities ends: at 1, or lower where all of them are low."""
    ends = [column.max() for column in columns]
    most = max((float(end) for end in ends if isinstance(end, float)), default=1.0)
    return 1.0 if most > 0.5 else max(1.05 * most, 1e-6)
