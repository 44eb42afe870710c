"""Exponential and logarithm to forty digits."""

from __future__ import annotations

from decimal import Decimal, localcontext


def exp_down(z: float) -> Decimal:
    """Return the exponential of a number."""
    with localcontext(prec=40):
        return Decimal(z).exp()


def log_of(x: float) -> Decimal:
    """Return the logarithm of a number."""
    with localcontext(prec=40):
        return Decimal(x).ln()
