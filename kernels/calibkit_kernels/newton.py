"""Newton's method with step halving, for convex functions of few variables, as a function over sums.

Whoever fits adds up value, gradient and Hessian at a point, in a loop of its own, and asks `newton`
where to add them up next: so rows in memory, blocks on threads and the leaves of a tree share one
search.  Coordinates may be bounded below by 0, or fixed.
"""

from __future__ import annotations

import math
from typing import Final

from ._jit import brief
from .arrays import Floats, Int64s

#: What a coordinate may do: move freely, stay at 0 or above, stay where it is.
FREE, RISING, FIXED = range(3)
#: The rows of the points: the best one so far, the one to sum at, the step between them; then whether
#: a coordinate takes part in the step, and from `MATRIX` on room for the equations.
POINT, AHEAD, STEP, MOVES, MATRIX = range(5)
#: What a search knows: its rules (by what a slope is divided; the slope and the decrement at which it
#: ends; the share by which the diagonal of the Hessian grows), then the value at the
#: best point, the length of the last step, the slope left and the steps taken.
SCALE, SLOPE, DECREMENT, RIDGE, VALUE, LENGTH, LEFT, STEPS = range(8)
#: What `newton` says: sum at `AHEAD`; `AHEAD` is the minimum; no step gains more than `POINT`.
GO, FOUND, STUCK = range(3)

#: Slope of a mean loss, in standardised variables, at which a search ends: what is left after the
#: step that is known is its square, far below rounding.
FLAT: Final = 1e-10
#: The share by which a Hessian's diagonal grows where no penalty keeps it from being singular.
DIAGONAL_SHARE: Final = 1e-13
#: How far the value may rise in a step by rounding alone: sums of 1e8 terms keep twelve digits.
_ROUNDING: Final = 1e-12
#: Steps are halved down to this length: beyond, only rounding is left.
_SHORTEST: Final = 1e-9
#: Quadratic convergence takes a dozen steps; so many are none.
_MOST_STEPS: Final = 100
#: More than so little is to be gained at a point without slope where a variable has next to no weight;
#: where it is so much, the Hessian is singular.
_LITTLE: Final = 1e-14
_MUCH: Final = 1e-6


@brief()
def begin(scale: float, slope: float, decrement: float, ridge: float, state: Floats) -> None:
    """Write the rules of a search that has not begun."""
    state[SCALE], state[SLOPE], state[DECREMENT], state[RIDGE] = scale, slope, decrement, ridge
    state[VALUE], state[LENGTH], state[LEFT], state[STEPS] = 0.0, 1.0, 0.0, -1.0


@brief(numbers=20_000)
def newton(
    value: float, gradient: Floats, hessian: Floats, kinds: Int64s, points: Floats, state: Floats
) -> int:
    """Take in the sums at the point ahead, and say what comes next: `GO`, `FOUND` or `STUCK`.

    The sums are those at ``points[AHEAD]``; of the Hessian the lower half counts.  `kinds` says what
    each coordinate may do.  `points` has as many columns as variables, `MATRIX` rows more, and begins
    with the start in `AHEAD`, 0 or above where a coordinate has to be.  For `state` see `begin`.

    Once the function is flat, the step that is known already gains the last digits: `AHEAD` is the
    minimum then, and `POINT` the last point of which the sums are known.
    """
    if state[STEPS] >= 0.0:
        best = state[VALUE]
        if not value <= best + _ROUNDING * abs(best):
            state[LENGTH] *= 0.5
            if state[LENGTH] < _SHORTEST:
                return STUCK
            move(points, kinds, state[LENGTH])
            return GO
    state[VALUE], state[LENGTH] = value, 1.0
    state[STEPS] += 1.0
    slope = 0.0
    for j in range(kinds.size):
        points[POINT, j] = points[AHEAD, j]
        if may_move(kinds[j], points[POINT, j], gradient[j]):
            slope = max(slope, abs(gradient[j]))
    decrement = newton_step(gradient, hessian, kinds, state[RIDGE], points)
    state[LEFT] = slope / state[SCALE]
    move(points, kinds, 1.0)
    left = decrement / state[SCALE]
    flat = state[LEFT] <= state[SLOPE] and not _LITTLE < left <= _MUCH
    if flat or decrement <= state[DECREMENT] * state[SCALE]:
        if not 0.0 < decrement <= _MUCH * state[SCALE]:
            for j in range(kinds.size):
                points[AHEAD, j] = points[POINT, j]
        return FOUND
    for j in range(kinds.size):
        if points[AHEAD, j] != points[POINT, j]:
            return GO if state[STEPS] < _MOST_STEPS else STUCK
    return STUCK


@brief()
def may_move(kind: int, place: float, slope: float) -> bool:
    """Return whether a step may move a coordinate: from its bound only away from it."""
    return kind == FREE or (kind == RISING and (place > 0.0 or slope < 0.0))


@brief()
def newton_step(
    gradient: Floats, hessian: Floats, kinds: Int64s, ridge: float, points: Floats
) -> float:
    """Write the Newton step from `POINT`, and return twice what it promises to gain.

    No coordinate leaves its bound the wrong way.  `ridge` is the share by which the diagonal grows.
    """
    size = kinds.size
    step, matrix = points[STEP], points[MATRIX:]
    for j in range(size):
        points[MOVES, j] = 1.0 if may_move(kinds[j], points[POINT, j], gradient[j]) else 0.0
    stuck = True
    while stuck:
        for j in range(size):
            moves = points[MOVES, j] > 0.0
            for k in range(j):
                matrix[j, k] = hessian[j, k] if moves and points[MOVES, k] > 0.0 else 0.0
            matrix[j, j] = hessian[j, j] * (1.0 + ridge) + 1e-300 if moves else 1.0
            step[j] = -gradient[j] if moves else 0.0
        solve_cholesky(matrix, step)
        stuck = False
        for j in range(size):
            if kinds[j] == RISING and points[POINT, j] == 0.0 and step[j] < 0.0:
                points[MOVES, j] = 0.0
                stuck = True
    decrement = 0.0
    for j in range(size):
        decrement -= gradient[j] * step[j]
    return decrement


@brief()
def solve_cholesky(matrix: Floats, x: Floats) -> None:
    """Replace the right side x by the solution; of the matrix the lower half becomes its factor.

    The matrix is positive definite.  A pivot that rounding has made zero or negative counts as
    1e-300: the entry goes nowhere useful, and whoever takes the step sees that it is no descent.
    """
    size = x.size
    for k in range(size):
        for j in range(k + 1):
            value = matrix[k, j]
            for i in range(j):
                value -= matrix[k, i] * matrix[j, i]
            matrix[k, j] = math.sqrt(max(value, 1e-300)) if j == k else value / matrix[j, j]
    for k in range(size):
        for j in range(k):
            x[k] -= matrix[k, j] * x[j]
        x[k] /= matrix[k, k]
    for back in range(size):
        k = size - 1 - back
        for j in range(k + 1, size):
            x[k] -= matrix[j, k] * x[j]
        x[k] /= matrix[k, k]


@brief()
def move(points: Floats, kinds: Int64s, length: float) -> None:
    """Write the point ahead after a step of some length, which ends where it meets a bound."""
    met = -1
    for j in range(kinds.size):
        if kinds[j] == RISING and points[POINT, j] + length * points[STEP, j] < 0.0:
            length, met = -points[POINT, j] / points[STEP, j], j
    for j in range(kinds.size):
        points[AHEAD, j] = points[POINT, j] + length * points[STEP, j]
    if met >= 0:
        points[AHEAD, met] = 0.0
