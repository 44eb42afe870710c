"""The ladder of resolutions: how coarse the columns of condensed rows may become, step by step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from calibkit.summaries.coarse import SIGNIFICAND, key_bits

SCORE, SPREAD = "score", "spread"

#: The ladder: bits after the exponent that scores and uncertainties keep; the first step is exact.
LADDER: Final = (
    {SCORE: SIGNIFICAND, SPREAD: SIGNIFICAND},
    *({SCORE: score, SPREAD: spread} for score, spread in (
        (26, 12), (24, 12), (22, 12), (21, 12), (20, 12), (19, 12), (18, 11), (17, 11), (16, 10),
        (15, 10), (14, 9), (13, 8), (12, 8), (11, 7), (10, 7), (9, 6), (8, 5), (7, 5), (6, 4),
        (5, 3), (4, 3), (3, 2), (2, 1), (1, 1), (0, 0),
    )),
)  # fmt: skip


@dataclass(frozen=True)
class Role:
    """A column of condensed rows.

    Attributes
    ----------
    name
        What it is called in frames and messages.
    coarse
        `SCORE` or `SPREAD`: which bits of the ladder it may be cut to; empty: none.
    probability
        Whether it is resolved like log-odds.
    """

    name: str
    coarse: str = ""
    probability: bool = False

    def bits(self, rung: int) -> int:
        """Return how many bits its keys have at a step of the ladder."""
        return key_bits(LADDER[rung][self.coarse], probability=self.probability)

    def dropped(self, rung: int) -> np.uint64:
        """Return how many bits of its keys are cut at a step of the ladder."""
        return np.uint64(SIGNIFICAND - LADDER[rung][self.coarse])
