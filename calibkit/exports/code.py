"""What programs in Python and in polars share: constants apart from the expressions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from calibkit.exports.nodes import Node, Number, Steps

#: Step functions with more steps look their values up.
FLAT = 4


@dataclass
class Constants:
    """Tuples of numbers and texts, written once, before the function that uses them."""

    lines: list[str] = field(default_factory=list)
    names: dict[str, str] = field(default_factory=dict)

    def named(self, text: str) -> str:
        """Return the name of a constant with this text."""
        if text not in self.names:
            self.names[text] = f"_C{len(self.names) + 1}"
            self.lines.append(f"{self.names[text]} = {text}")
        return self.names[text]

    def floats(self, values: Sequence[float]) -> str:
        """Return the name of a tuple of numbers."""
        return self.named(f"({''.join(f'{number(value)}, ' for value in values)})")


def number(value: float) -> str:
    """Return a float as Python writes it."""
    if math.isfinite(value):
        return repr(float(value))
    return "math.nan" if math.isnan(value) else "math.inf" if value > 0 else "(-math.inf)"


def text(value: str) -> str:
    """Return a text as Python writes it, in ASCII and free of line ends."""
    return ascii(str(value))


def texts(values: Sequence[str]) -> str:
    """Return texts as a tuple."""
    return f"({''.join(f'{text(value)}, ' for value in values)})"


def table(node: Steps) -> list[float]:
    """Return the values of a step function whose values are numbers."""
    return [value.value for value in node.values if isinstance(value, Number)]


def halves(node: Steps) -> tuple[float, Node, Node]:
    """Return the middle knot of a step function, what holds below it and what from it up."""
    middle = len(node.knots) // 2
    low = node.values[: middle + 1], node.knots[:middle]
    high = node.values[middle + 1 :], node.knots[middle + 1 :]
    below, above = (
        Steps(node.x, knots, values, node.strict) if knots else values[0]
        for values, knots in (low, high)
    )
    return node.knots[middle], below, above
