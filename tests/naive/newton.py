"""Minima of convex quadratics: the equations solved, and under bounds by small steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

TWINS = {"newton_step": "newton", "move": "newton", "may_move": "newton", "begin": "newton"}


def solve_cholesky(matrix: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Return the solution."""
    return np.linalg.solve(matrix, right)


def newton(
    matrix: np.ndarray, right: np.ndarray, kinds: Sequence[int], start: np.ndarray
) -> np.ndarray:
    """Return the least point of ``x A x / 2 - b x``; kinds: 0 free, 1 at least 0, 2 fixed.

    Each coordinate in turn goes to its own minimum.
    """
    x = start.copy()
    for _ in range(100_000):
        before = x.copy()
        for j, kind in enumerate(kinds):
            if kind != 2:
                x[j] += (right[j] - matrix[j] @ x) / matrix[j, j]
                x[j] = max(0.0, x[j]) if kind == 1 else x[j]
        if np.abs(x - before).max() < 1e-13:
            break
    return x
