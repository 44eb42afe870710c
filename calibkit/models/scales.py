"""What scores may hold; loads nothing, since options are made of it."""

from __future__ import annotations

from typing import Final

#: What scores may hold.
SCALES: Final = ("probability", "percent", "logit", "raw")


def measure(scale: str | None) -> str:
    """Return the scale of scores once they are read: those in percent are probabilities then."""
    return "probability" if scale in (None, "percent") else str(scale)
