"""Rows times weights and sums over rows, in plain Python."""

from __future__ import annotations

import math

Matrix = list[list[float]]

TWINS = {"add_blocks": "column_sums"}


def dot(a: list[float], b: list[float]) -> float:
    """Return the sum of products."""
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


def affine_rows(inputs: Matrix, weights: Matrix, intercept: list[float]) -> Matrix:
    """Return each row times each row of weights, plus the intercept."""
    return [[b + dot(row, w) for w, b in zip(weights, intercept, strict=True)] for row in inputs]


def outer_sums(left: Matrix, right: Matrix) -> Matrix:
    """Return sums over rows of products of all pairs of columns."""
    return [
        [
            math.fsum(a[k] * b[j] for a, b in zip(left, right, strict=True))
            for j in range(len(right[0]))
        ]
        for k in range(len(left[0]))
    ]


def paired_sums(left: Matrix, right: Matrix) -> list[float]:
    """Return sums over rows of products of equal columns."""
    return [
        math.fsum(a[k] * b[k] for a, b in zip(left, right, strict=True))
        for k in range(len(left[0]))
    ]


def column_sums(values: Matrix) -> list[float]:
    """Return the sum of each column."""
    return [math.fsum(row[k] for row in values) for k in range(len(values[0]))]


def softmax_rows(scores: Matrix) -> Matrix:
    """Return exp of each score over the sum of its row's."""
    found = []
    for row in scores:
        powers = [math.exp(s - max(row)) for s in row]
        found.append([p / math.fsum(powers) for p in powers])
    return found


def softmax_residuals(scores: Matrix, counts: list[list[int]]) -> tuple[float, Matrix]:
    """Return the cost of votes and its derivative in each score."""
    cost, residual = [], []
    for row, z, y in zip(scores, softmax_rows(scores), counts, strict=True):
        top = max(row)
        log_mass = math.log(math.fsum(math.exp(s - top) for s in row))
        cost += [-v * (s - top - log_mass) for s, v in zip(row, y, strict=True)]
        residual.append([sum(y) * p - v for p, v in zip(z, y, strict=True)])
    return math.fsum(cost), residual
