"""Tables, paragraphs and ratios as the pages on speed show them."""

from __future__ import annotations

import statistics
import textwrap
from collections.abc import Sequence
from typing import Any

from harness import Pair, Spread


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def paragraph(text: str) -> str:
    """Return text broken at a hundred columns."""
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def bullet(text: str) -> str:
    """Return an item of a list."""
    return textwrap.fill(
        text, 100, initial_indent="* ", subsequent_indent="  ", break_on_hyphens=False
    )


def shown(ratio: Spread) -> str:
    """Return a ratio with its range."""
    return f"{ratio.median:.2f} ({ratio.low:.2f}–{ratio.high:.2f})"


def median(pair: Pair, side: str, of: Any) -> float:
    """Return the median over the runs of one side."""
    return statistics.median(map(of, getattr(pair, side)))


def seconds(pair: Pair, of: Any) -> str:
    """Return the medians of both sides."""
    return f"{median(pair, 'ours', of):.2f} s / {median(pair, 'peer', of):.2f} s"


def verdict(value: float, limit: float) -> str:
    """Return whether an aim was met."""
    return "met" if value <= limit else "**missed**"
