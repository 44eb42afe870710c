"""What it cost that a summary is coarser than its rows, and within what a result lies for sure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from calibkit.columns.columns import Condensing


class Range(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Two numbers between which one lies that only the rows themselves would tell."""

    low: float
    high: float


class Resolution(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """How coarse the summary was that a result comes from.

    Attributes
    ----------
    score_bits
        Bits after the exponent that scores kept (probabilities above one half: one minus the score):
        they were moved down by less than ``2**-score_bits`` of themselves, where they are not
        extreme (`calibkit.summaries.cells`).
    uncertainty_bits
        The same of uncertainties.
    level_error
        By which share of the rows the edges of uncertainty levels may miss their quantiles.
    optimum
        Of a boundary: what the best one over the same levels reaches on the rows themselves.
    """

    score_bits: int | None = None
    uncertainty_bits: int | None = None
    level_error: float | None = None
    optimum: Range | None = None


def resolution_of(condensing: Condensing | None) -> Resolution | None:
    """Return how coarse rows are; None where nothing was lost."""
    if condensing is None or condensing.lossless:
        return None
    return Resolution(
        condensing.score_bits, condensing.uncertainty_bits, condensing.level_error or None
    )


def coarse_note(condensing: Condensing) -> str | None:
    """Return in words how coarse rows are; None where nothing was lost."""
    if condensing.lossless:
        return None
    said = []
    if condensing.score_bits is not None:
        said.append(f"scores to {condensing.score_bits} bits")
    if condensing.uncertainty_bits is not None:
        said.append(f"uncertainties to {condensing.uncertainty_bits} bits")
    if condensing.level_error:
        said.append(f"the edges of uncertainty levels to {condensing.level_error:.2g} of the rows")
    rows = int(condensing.times.sum())
    return f"{rows:,} rows do not fit in memory: rounded down {', '.join(said)}"
