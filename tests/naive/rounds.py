"""What nodes sum over rows, in rationals and by definition; see `calibkit_kernels.rounds`."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

TWINS = {"count_bins": "counted_bins", "in_units": "whole_units", "part_rows": "parted_rows"}


def begins_in(node: Any, part: int) -> bool:
    """Tell whether rows of a part begin in a node."""
    _, begins, about = node
    return {1: part != about, 2: part == about, 4: part < about}.get(begins, False)


def parted_rows(values: Any, rows: Any, fork: Any, cut: float, sides: Any) -> list[list[int]]:
    """Return the rows that go left at a fork, and the others."""
    _, _, _, missing_left, categories, _ = fork

    def goes_left(x: float) -> bool:
        if math.isnan(x):
            return bool(missing_left)
        return bool(sides[categories + int(x)]) if categories >= 0 else x <= cut

    return [[row for row in rows if goes_left(values[row]) == side] for side in (True, False)]


def with_room(rows: Any, used: int, more: int) -> int:
    """Return how many places rows take, with room for more behind those in use."""
    return max(len(rows), used + more)


def visit_rows(
    values: Any, part: Any, nodes: Any, forks: Any, cuts: Any, sides: Any
) -> list[list[int]]:
    """Return the rows that come through each node, in their own order."""
    found: list[list[int]] = [[] for _ in nodes]

    def visit(rows: list[int], place: int) -> None:
        if place < 0:
            return
        found[place] += rows
        fork = nodes[place][0]
        while fork >= 0:
            feature, left, right, *_, following = forks[fork]
            both = parted_rows(values[feature], rows, forks[fork], cuts[fork], sides)
            for own, child in zip(both, (left, right), strict=True):
                visit(own, child)
            fork = following

    for place, node in enumerate(nodes):
        visit([row for row, own in enumerate(part) if begins_in(node, own)], place)
    return found


def counted_bins(codes: Any, payload: Any, rows: Any) -> dict[tuple[int, int], list[int]]:
    """Return the sums of each bin of each feature over some rows."""
    found: dict[tuple[int, int], list[int]] = {}
    for feature, own in enumerate(codes):
        for row in rows:
            sums = found.setdefault((feature, own[row]), [0] * len(payload[row]))
            found[feature, own[row]] = [x + y for x, y in zip(sums, payload[row], strict=True)]
    return found


def whole_units(value: float, worth: float) -> int:
    """Return the nearest whole number of units, halves up."""
    return math.floor(Fraction(value) * Fraction(worth) + Fraction(1, 2))


def _loss(z: float, target: float) -> float:
    return target * math.log1p(math.exp(-z)) + (1.0 - target) * math.log1p(math.exp(z))


def loss_terms(z: float, target: float) -> tuple[float, float, float]:
    """Return the log loss, and its two derivatives."""
    p = 1.0 / (1.0 + math.exp(-z))
    return _loss(z, target), p - target, p * (1.0 - p)


def sum_lines(rows: list[tuple[float, int, float]], line: list[float]) -> list[float]:
    """Return loss, gradient, Hessian and moments of a line over (score, label, weight)."""
    a, c, shift, scale, above, below = line[:6]
    out = [0.0] * 8
    for score, label, weight in rows:
        u = (score - shift) * scale
        z, target = a * u + c, above if label else below
        loss, slope, bend = loss_terms(z, target)
        parts = loss, slope * u, slope, bend * u * u, bend * u, bend, u, u * u
        out = [one + weight * part for one, part in zip(out, parts, strict=True)]
    return out


def sum_curves(rows: list[tuple[float, float, int, float]], curve: list[float]) -> list[float]:
    """Return loss, gradient and Hessian over (feature, feature, label, weight)."""
    point, shifts, scales, (above, below) = curve[:3], curve[3:5], curve[5:7], curve[7:9]
    out = [0.0] * 10
    for *features, label, weight in rows:
        x = [(f - s) * t for f, s, t in zip(features, shifts, scales, strict=True)] + [1.0]
        z = sum(a * b for a, b in zip(point, x, strict=True))
        loss, slope, bend = loss_terms(z, above if label else below)
        second = [bend * x[i] * x[j] for i in range(3) for j in range(i, 3)]
        parts = [loss, *(slope * value for value in x), *second]
        out = [one + weight * part for one, part in zip(out, parts, strict=True)]
    return out


def sum_gains(
    rows: list[tuple[float, int, float]], squares: list[float], lines: list[list[float]]
) -> list[list[float]]:
    """Return the loss of the first line, and the gains of the others with their squares."""
    out = [[0.0, 0.0] for _ in lines]
    for (score, label, weight), square in zip(rows, squares, strict=True):
        losses = [_loss(a * score + b, float(label)) for a, b in lines]
        out[0][0] += weight * losses[0]
        for k in range(1, len(lines)):
            fall = losses[0] - losses[k]
            out[k][0] += weight * fall
            out[k][1] += square * fall * fall
    return out
