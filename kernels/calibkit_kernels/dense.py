"""Rows times weights, and the sums over rows that gradients are made of.

Sums run over fixed blocks of rows, in row order, so that they do not depend on threads.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

#: Rows whose sums are taken together before they join the total.
BLOCK_ROWS = 4096


@kernel
def dot(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Return the sum of products of two vectors, in order."""
    total = 0.0
    for j in range(a.size):
        total += a[j] * b[j]
    return total


@kernel
def affine_rows(
    inputs: NDArray[np.float64],
    weights: NDArray[np.float64],
    intercept: NDArray[np.float64],
    out: NDArray[np.float64],
) -> None:
    """Fill rows x outputs with ``inputs @ weights.T + intercept``; weights are outputs x inputs."""
    for i in range(inputs.shape[0]):
        for k in range(weights.shape[0]):
            total = intercept[k]
            for j in range(inputs.shape[1]):
                total += inputs[i, j] * weights[k, j]
            out[i, k] = total


@kernel
def outer_sums(
    left: NDArray[np.float64], right: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Fill left columns x right columns with the sums over rows of their products."""
    out[:] = 0.0
    block = np.empty_like(out)
    for start in range(0, left.shape[0], BLOCK_ROWS):
        block[:] = 0.0
        for i in range(start, min(start + BLOCK_ROWS, left.shape[0])):
            for k in range(left.shape[1]):
                factor = left[i, k]
                for j in range(right.shape[1]):
                    block[k, j] += factor * right[i, j]
        out += block


@kernel
def paired_sums(
    left: NDArray[np.float64], right: NDArray[np.float64], out: NDArray[np.float64]
) -> None:
    """Fill one number a column: the sum over rows of the products of equal columns."""
    out[:] = 0.0
    block = np.empty_like(out)
    for start in range(0, left.shape[0], BLOCK_ROWS):
        block[:] = 0.0
        for i in range(start, min(start + BLOCK_ROWS, left.shape[0])):
            for k in range(left.shape[1]):
                block[k] += left[i, k] * right[i, k]
        out += block


@kernel
def column_sums(values: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill one number a column: its sum over rows."""
    out[:] = 0.0
    block = np.empty_like(out)
    for start in range(0, values.shape[0], BLOCK_ROWS):
        block[:] = 0.0
        for i in range(start, min(start + BLOCK_ROWS, values.shape[0])):
            for k in range(values.shape[1]):
                block[k] += values[i, k]
        out += block


@kernel
def softmax_rows(scores: NDArray[np.float64], out: NDArray[np.float64]) -> None:
    """Fill in the softmax of each row."""
    for i in range(scores.shape[0]):
        top, mass = scores[i, 0], 0.0
        for k in range(scores.shape[1]):
            top = max(top, scores[i, k])
        for k in range(scores.shape[1]):
            out[i, k] = math.exp(scores[i, k] - top)
            mass += out[i, k]
        for k in range(scores.shape[1]):
            out[i, k] /= mass


@kernel
def softmax_residuals(
    scores: NDArray[np.float64], counts: NDArray[np.int64], residual: NDArray[np.float64]
) -> float:
    """Return the cost of votes under softmax probabilities; fill in its derivative in the scores.

    The cost is minus the sum over rows and classes of votes times ln softmax(scores); the residual
    of a row with n votes is n softmax(scores) - votes.
    """
    total = 0.0
    for start in range(0, scores.shape[0], BLOCK_ROWS):
        block = 0.0
        for i in range(start, min(start + BLOCK_ROWS, scores.shape[0])):
            top, mass, votes = scores[i, 0], 0.0, np.int64(0)
            for k in range(scores.shape[1]):
                top = max(top, scores[i, k])
                votes += counts[i, k]
            for k in range(scores.shape[1]):
                residual[i, k] = math.exp(scores[i, k] - top)
                mass += residual[i, k]
            log_mass = math.log(mass)
            for k in range(scores.shape[1]):
                y = counts[i, k]
                residual[i, k] = votes * (residual[i, k] / mass) - y
                if y > 0:
                    block -= y * (scores[i, k] - top - log_mass)
        total += block
    return total
