"""The zero of a function of one variable."""

from __future__ import annotations

from collections.abc import Callable


def rising_root(function: Callable[[float], float], low: float, high: float) -> float:
    """Return where a continuous function crosses zero upwards between two points.

    Parameters
    ----------
    function
        At most 0 at `low`, at least 0 at `high`.
    low, high
        Finite, low <= high.

    Notes
    -----
    The secant rule, with the Illinois weight on an end that stays and a bisection now and then, so
    that the bracket closes whatever the shape; it ends when the two ends are neighbours, or the
    bracket is as narrow as rounding allows.
    """
    at_low = function(low)
    at_high = function(high)
    if at_low >= 0.0:
        return low
    if at_high <= 0.0:
        return high
    kept = 0
    for step in range(200):
        middle = high - at_high * (high - low) / (at_high - at_low)
        if step % 4 == 3 or not low < middle < high:
            middle = 0.5 * (low + high)
        if middle in (low, high) or high - low <= 4e-16 * max(abs(low), abs(high)):
            break
        value = function(middle)
        if value == 0.0:
            return middle
        if value < 0.0:
            low, at_low = middle, value
            at_high = at_high * 0.5 if kept == -1 else at_high
            kept = -1
        else:
            high, at_high = middle, value
            at_low = at_low * 0.5 if kept == 1 else at_low
            kept = 1
    return 0.5 * (low + high)
