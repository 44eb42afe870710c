"""Bounds as the exact decimal numbers a user typed; the interval of a rate.  No arrays are loaded.

``precision >= 0.55`` is decided in integers, so the bound must not pass through a binary float on
its way: 0.55 * 100 is 55.00000000000001 there.
"""

from __future__ import annotations

import math
import re
from decimal import Decimal, localcontext
from fractions import Fraction

from msgspec import Struct

from calibkit.errors import UsageError

#: A bound has at most this many digits, so that bound times count stays within 128-bit integers.
MOST_DIGITS = 9
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)


class Bound(Struct, frozen=True):
    """A decimal number ``numerator / denominator`` in lowest terms, both at most 10**9.

    `text` is its shortest decimal form: the same for ``0.9``, ``.90`` and ``9e-1``.
    """

    text: str
    numerator: int
    denominator: int

    def __float__(self) -> float:
        return self.numerator / self.denominator

    @property
    def fraction(self) -> Fraction:
        """The number itself, for exact arithmetic."""
        return Fraction(self.numerator, self.denominator)

    def __str__(self) -> str:
        return self.text


def decimal_bound(
    value: str | float | Decimal,
    name: str = "the bound",
    *,
    least: int = 0,
    most: int | None = 1,
) -> Bound:
    """Read a bound from the text typed, such as ``0.9`` or ``5e-3``, or from a float.

    A float stands for the shortest decimal that reads back as it; `name` is the option, for the
    message; the bound must lie in the closed range from `least` to `most` (None: open above).  Raises
    `UsageError` for text that is no decimal number, more than nine digits, or a value out of range.
    """
    number = _decimal(value, name)
    wanted = f"a number from {least} to {most}" if most is not None else f"at least {least}"
    if number < least or (most is not None and number > most):
        raise UsageError(f"{name} is {value}; expected {wanted}.")
    digits, exponent = f"{number:f}", number.as_tuple().exponent
    assert isinstance(exponent, int)  # _decimal lets neither infinity nor NaN through
    # Ruled out before any long integer is built: 1e9999 is short to type.
    if exponent < -MOST_DIGITS or len(digits.replace(".", "").lstrip("0")) > MOST_DIGITS:
        raise UsageError(
            f"{name} is {value}: a bound has at most {MOST_DIGITS} digits, "
            "so that it can be compared exactly; shorten it."
        )
    fraction = Fraction(digits)
    return Bound(digits, fraction.numerator, fraction.denominator)


def is_decimal(text: str) -> bool:
    """Return whether a text is meant as a number, possible as a bound or not."""
    return _DECIMAL.fullmatch(text.strip()) is not None


def _decimal(value: str | float | Decimal, name: str) -> Decimal:
    text = str(value).strip()
    if not _DECIMAL.fullmatch(text):
        raise UsageError(f"{name} is {value!r}; expected a decimal number such as 0.9.")
    with localcontext() as context:
        context.prec = max(28, len(text))
        return Decimal(text).normalize() + 0  # + 0 makes -0 plain


def score_limits(rate: float, rows: float, reach: float) -> tuple[float, float]:
    """Return the score interval of a rate (Wilson, Probable inference, 1927).

    The rate is a share in [0, 1] of so many independent rows, not necessarily whole; `reach` are
    standard errors to either side: 1.96 for 95 %.
    """
    square = reach**2 / rows
    centre = (rate + 0.5 * square) / (1.0 + square)
    half = math.sqrt(square * (rate * (1.0 - rate) + 0.25 * square)) / (1.0 + square)
    low = 0.0 if rate == 0.0 else max(0.0, centre - half)
    return low, 1.0 if rate == 1.0 else min(1.0, centre + half)
