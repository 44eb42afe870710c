"""Columns of scores: what they are called, and hold; loads nothing, since options are made of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

#: What scores may hold.
SCALES: Final = ("probability", "percent", "logit", "raw")


def measure(scale: str | None) -> str:
    """Return the scale of scores once they are read: those in percent are probabilities then."""
    return "probability" if scale in (None, "percent") else str(scale)


@dataclass(frozen=True, kw_only=True)
class ScoreColumns:
    """What the columns of scores and labels are called, and how they are read.

    The fields are explained where they are options: `calibkit.options.shared.ColumnOptions`.
    """

    score: str = "score"
    scale: str = "probability"
    label: str = "label"
    positive: str | None = None
    unlabelled: str = "error"
    uncertainty: str | None = None
    weight: str | None = None
    weight_kind: str = "frequency"
    on_missing: str = "error"

    @property
    def roles(self) -> dict[str, str]:
        """The column of each role that has one."""
        roles = ("score", "label", "uncertainty", "weight")
        return {role: getattr(self, role) for role in roles if getattr(self, role) is not None}

    @property
    def measure(self) -> str:
        """What scores are once they are read; see `measure`."""
        return measure(self.scale)

    @property
    def sampled(self) -> bool:
        """Whether a row stands for as many rows as its weight."""
        return self.weight is not None and self.weight_kind == "sampling"
