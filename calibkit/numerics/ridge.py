"""Logistic lines of many groups at once, drawn towards the line of all."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: Steps of Newton's method, and how often one may be halved: more than ever needed.
_STEPS, _HALVINGS = 30, 12
#: A step that changes the loss by a smaller share is the last: what follows is rounding.
_SMALL = 1e-13


def ridge_lines(x: Floats, positive: Floats, rows: Floats, spread: tuple[float, float]) -> Floats:
    """Return intercept a and slope b of ``log-odds = a + (1 + b) x`` in each group, shape (groups, 2).

    `x`: the log-odds of points, as they are over all groups; `positive`, `rows`: counts of shape
    (groups, points); `spread`: the standard deviations of a and b over groups, with normal priors of
    which the lines are the modes of their posteriors.
    """
    lines = np.zeros((rows.shape[0], 2))
    penalty = 1.0 / np.square(spread)

    def loss(at: Floats) -> Floats:
        z = at[:, :1] + (1.0 + at[:, 1:]) * x
        drawn = 0.5 * (np.square(at) * penalty).sum(axis=1)
        found: Floats = (rows * np.logaddexp(0.0, z) - positive * z).sum(axis=1) + drawn
        return found

    least = loss(lines)
    for _ in range(_STEPS):
        z = lines[:, :1] + (1.0 + lines[:, 1:]) * x
        rate = np.exp(-np.logaddexp(0.0, -z))
        left, weight = positive - rows * rate, rows * rate * (1.0 - rate)
        g, h = (left.sum(axis=1), left @ x) - penalty[:, None] * lines.T
        a, b, c = weight.sum(axis=1) + penalty[0], weight @ x, weight @ (x * x) + penalty[1]
        step = np.column_stack((c * g - b * h, a * h - b * g)) / (a * c - b * b)[:, None]
        moved = lines + step
        found, small = loss(moved), _SMALL * np.abs(least)
        for _ in range(_HALVINGS):
            worse = found - least > small
            if not worse.any():
                break
            step[worse] /= 2.0
            moved[worse] = lines[worse] + step[worse]
            found = loss(moved)
        better = found < least
        gained = least - found > small
        lines[better], least[better] = moved[better], found[better]
        if not gained.any():
            break
    return lines
