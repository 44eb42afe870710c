"""What it cost that rows were counted coarser than they are, and within what a result lies for sure."""

from __future__ import annotations

import msgspec


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
        extreme (`calibkit.summaries.counted`).
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
