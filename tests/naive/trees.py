"""Slow, obvious twins of what grows trees and calibrates their leaves."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tests.naive.maps import expit_of as probability
from tests.naive.surface import newton

Value = float | None
Row = Sequence[Value]

#: Kernels that are steps of what one twin does whole.
TWINS = {
    "gather_nodes": "grown_tree",
    "fill_histogram": "grown_tree",
    "node_histogram": "grown_tree",
    "sparse_histogram": "grown_tree",
    "scan_order": "grown_tree",
    "best_cut": "grown_tree",
    "search_splits": "grown_tree",
    "choose_splits": "grown_tree",
    "split_rows": "grown_tree",
    "is_better": "grown_tree",
    "imbalance": "gini_decrease",
    "gini_gain": "gini_decrease",
    "gini_product": "compare_gini",
    "split_gain": "entropy_bits",
    "step_gain": "newton_gain",
    "side_line": "auc_of_split",
    "crossing": "auc_of_split",
    "mixture_auc": "auc_of_split",
    "auc_gain": "auc_of_split",
    "fit_leaf_lines": "fit_platt",
    "fit_cell_lines": "fit_platt",
    "fit_line": "fit_platt",
    "merge_cells": "count_cells",
    "newton_line": "fit_platt",
}

# ---------------------------------------------------------------- criteria


def gini_decrease(left: Sequence[int], right: Sequence[int]) -> Fraction:
    """Return the decrease of n 2 q (1 - q); sides are (rows, positives)."""

    def impurity(rows: int, hits: int) -> Fraction:
        return 2 * Fraction(hits * (rows - hits), rows) if rows else Fraction(0)

    return impurity(left[0] + right[0], left[1] + right[1]) - impurity(*left) - impurity(*right)


def compare_gini(first: Sequence[int], second: Sequence[int], total: Sequence[int]) -> int:
    """Compare two splits of a node, given by their left sides, in exact fractions."""
    ours, theirs = (
        gini_decrease(left, (total[0] - left[0], total[1] - left[1])) for left in (first, second)
    )
    return (ours > theirs) - (ours < theirs)


def entropy_bits(positives: int, rows: int) -> float:
    """Return rows times the entropy of their labels."""
    shares = [count / rows for count in (positives, rows - positives) if count]
    return -rows * sum(share * math.log2(share) for share in shares)


def newton_gain(left: Sequence[float], right: Sequence[float], ridge: float) -> float:
    """Return what two Newton steps bring over one; sides are (gradient, Hessian)."""
    both = left[0] + right[0], left[1] + right[1]
    return sum(g * g / (h + ridge) for g, h in (left, right)) - both[0] ** 2 / (both[1] + ridge)


def auc_of_split(sides: Sequence[tuple[list[float], list[float]]]) -> float:
    """Return the AUC after calibration of sides given by the scores of their positives, negatives."""
    parts = []
    for positives, negatives in sides:
        n1, n0 = len(positives), len(negatives)
        flat = math.log((n1 + 1) / (n0 + 1))
        parts.append((n1, n0, flat, 0.0, flat, 0.0))
        if not n1 or not n0:
            continue
        mu1, mu0 = sum(positives) / n1, sum(negatives) / n0
        v1 = sum((x - mu1) ** 2 for x in positives) / n1
        v0 = sum((x - mu0) ** 2 for x in negatives) / n0
        if v1 < 1e-12 or v0 < 1e-12:
            continue
        x = _crossing(mu1, v1, mu0, v0)
        a = (mu1 - x) / v1 + (x - mu0) / v0
        level = math.log(n1 / n0) + math.log(v0 / v1) / 2
        b = level - (x - mu1) ** 2 / (2 * v1) + (x - mu0) ** 2 / (2 * v0) - a * x
        parts[-1] = (n1, n0, a * mu1 + b, a * a * v1, a * mu0 + b, a * a * v0)
    all1, all0 = sum(part[0] for part in parts), sum(part[1] for part in parts)
    auc = 0.0
    for n1, _, m1, w1, _, _ in parts:
        for _, n0, _, _, m0, w0 in parts:
            away, spread = m1 - m0, math.sqrt(w1 + w0)
            if spread:
                share = 0.5 * math.erfc(-away / spread / math.sqrt(2))
            else:
                share = 0.5 * ((away > 0) + (away >= 0))
            auc += n1 / all1 * n0 / all0 * share
    return auc


def _crossing(mu1: float, v1: float, mu0: float, v0: float) -> float:
    middle = (mu1 + mu0) / 2
    second = 1 / (2 * v0) - 1 / (2 * v1)
    first = mu1 / v1 - mu0 / v0
    constant = math.log(v0 / v1) / 2 - mu1**2 / (2 * v1) + mu0**2 / (2 * v0)
    if abs(second) < 1e-9:
        return middle if first == 0 else -constant / first
    inside = first**2 - 4 * second * constant
    if inside < 0:
        return middle
    roots = [(-first + sign * math.sqrt(inside)) / (2 * second) for sign in (-1, 1)]
    return min(roots, key=lambda root: abs(root - middle))


# ---------------------------------------------------------------- trees


def splits_of(
    rows: Sequence[Row], labels: Sequence[int], feature: int, category: bool
) -> list[Any]:
    """Return every way to part rows on a feature, in order: (cut, missing goes left, left?)."""
    values = [row[feature] for row in rows]
    present = sorted({value for value in values if value is not None})
    gaps = any(value is None for value in values)

    def rate(value: float) -> Fraction:
        own = [label for v, label in zip(values, labels, strict=True) if v == value]
        return Fraction(sum(own), len(own))

    if category:
        present.sort(key=lambda value: (rate(value), value))
    found: list[Any] = []
    for k in range(1, len(present) + 1):
        if k == len(present) and not gaps:
            continue
        for missing_left in (False, True) if gaps and k < len(present) else (False,):
            left = [missing_left if v is None else v in present[:k] for v in values]
            cut: Any = set(present[:k])
            if not category:
                cut = (present[k - 1] + present[k]) / 2 if k < len(present) else None
            found.append((cut, missing_left, left))
    return found


def grown_tree(
    rows: Sequence[Row],
    labels: Sequence[int],
    categories: Sequence[bool],
    depth: int,
    least: int,
    gain: Callable[[Sequence[int], Sequence[int]], Any] = gini_decrease,
) -> Any:
    """Return a leaf as the list of its labels, or (feature, cut, missing left, left, right)."""
    best: Any = None
    if depth > 0 and 0 < sum(labels) < len(labels):
        for feature, category in enumerate(categories):
            for cut, missing_left, left in splits_of(rows, labels, feature, category):
                sides = [
                    [label for label, goes in zip(labels, left, strict=True) if goes == side]
                    for side in (True, False)
                ]
                if min(map(len, sides)) < least:
                    continue
                value = gain(*[(len(side), sum(side)) for side in sides])
                if value > 1e-12 * len(labels) and (best is None or value > best[0]):
                    best = value, feature, cut, missing_left, left
    if best is None:
        return list(labels)
    _, feature, cut, missing_left, left = best
    if all(row[feature] is not None for row in rows):
        missing_left = 2 * sum(left) >= len(left)
    children = []
    for side in (True, False):
        kept = [i for i, goes in enumerate(left) if goes == side]
        children.append(
            grown_tree(
                [rows[i] for i in kept],
                [labels[i] for i in kept],
                categories,
                depth - 1,
                least,
                gain,
            )
        )
    return feature, cut, missing_left, *children


def route_rows(row: Row, tree: Any) -> list[int]:
    """Return the labels of the leaf that a row falls in."""
    while isinstance(tree, tuple):
        feature, cut, missing_left, left, right = tree
        value = row[feature]
        if value is None:
            goes = missing_left
        elif isinstance(cut, set):
            goes = value in cut
        else:
            goes = cut is None or value <= cut
        tree = left if goes else right
    return list(tree)


# ---------------------------------------------------------------- maps


def label_loss(score: float, positive: bool) -> float:
    """Return minus the log of the probability of a label."""
    p = probability(score if positive else -score)
    return -math.log(p) if p > 0 else -score if positive else score


def newton_rows(
    scores: Sequence[float], labels: Sequence[int], weights: Sequence[int], scale: float
) -> list[list[int]]:
    """Return weight, gradient and Hessian in whole units."""
    found = []
    for score, label, weight in zip(scores, labels, weights, strict=True):
        p = probability(score)
        slope, bend = (label - p) * weight * scale, p * (1 - p) * weight * scale
        found.append([weight, math.floor(slope + 0.5), math.floor(bend + 0.5)])
    return found


def move_scores(
    scores: Sequence[float], ends: Sequence[int], steps: Sequence[Sequence[float]]
) -> list[float]:
    """Return the scores after the step of their leaf."""
    return [steps[end][0] * score + steps[end][1] for score, end in zip(scores, ends, strict=True)]


def total_loss(scores: Sequence[float], labels: Sequence[int], weights: Sequence[int]) -> float:
    """Return the weighted log loss."""
    return math.fsum(score_losses(scores, labels, weights))


def score_losses(
    scores: Sequence[float], labels: Sequence[int], weights: Sequence[float]
) -> list[float]:
    """Return the weighted log loss of each row."""
    return [
        weight * label_loss(score, label == 1)
        for score, label, weight in zip(scores, labels, weights, strict=True)
    ]


def probability_losses(
    probabilities: Sequence[float], labels: Sequence[int], weights: Sequence[float], least: float
) -> list[float]:
    """Return the weighted log loss of each row, probabilities kept from 0 and 1."""
    kept = [min(max(p, least), 1 - least) for p in probabilities]
    return [-w * math.log(p if y else 1 - p) for p, y, w in zip(kept, labels, weights, strict=True)]


def sum_in_order(values: Sequence[float]) -> float:
    """Return the sum, rounded once."""
    return math.fsum(values)


def rows_by_leaf(leaf: Sequence[int], leaves: int) -> list[list[int]]:
    """Return the rows of each leaf."""
    return [[i for i, own in enumerate(leaf) if own == place] for place in range(leaves)]


def fit_platt(scores: Sequence[float], labels: Sequence[int]) -> tuple[float, float]:
    """Return (a, b) of Platt's map with smoothed targets, by damped Newton steps."""
    hits = sum(labels)
    high, low = (hits + 1) / (hits + 2), 1 / (len(labels) - hits + 2)
    targets = [high if label else low for label in labels]
    if min(scores) == max(scores):
        mean = sum(targets) / len(targets)
        return 0.0, math.log(mean / (1 - mean))

    design = np.column_stack([np.ones(len(scores)), scores])
    b, a = newton(design, np.array(targets), np.ones(len(scores)), ridge=0.0)
    return float(a), float(b)


def shrunk_lines(
    lines: Sequence[tuple[float, float, float]], pooled: tuple[float, float], shrinkage: float
) -> list[tuple[float, float]]:
    """Return (a, b) of leaves averaged with the pooled map; leaves are (a, b, rows)."""
    found = []
    for a, b, rows in lines:
        if rows == 0:
            found.append(pooled)
            continue
        share = rows / (rows + shrinkage)
        own = share * a + (1 - share) * pooled[0], share * b + (1 - share) * pooled[1]
        found.append(own)
    return found


def leaf_steps(score: float, knots: Sequence[float], values: Sequence[float]) -> float:
    """Return the value of the greatest knot up to a score, the first below all."""
    below = [value for knot, value in zip(knots, values, strict=True) if knot <= score]
    return below[-1] if below else values[0]


def cell_gaps(
    probabilities: Sequence[float],
    labels: Sequence[int],
    weights: Sequence[float],
    leaves: Sequence[int],
    bins: int,
) -> tuple[float, float, int]:
    """Return the largest and the mean gap over cells (leaf, bin), and how many cells."""
    cells: dict[tuple[int, int], list[tuple[float, int, float]]] = {}
    for p, y, w, leaf in zip(probabilities, labels, weights, leaves, strict=True):
        place = sum(b / bins <= p for b in range(1, bins))
        cells.setdefault((leaf, place), []).append((p, y, w))
    total, gaps = sum(weights), []
    for rows in cells.values():
        own = sum(w for _, _, w in rows)
        if own > 0:
            gaps.append((abs(sum(w * (p - y) for p, y, w in rows)) / own, own / total))
    largest = max((gap for gap, _ in gaps), default=0.0)
    return largest, sum(gap * share for gap, share in gaps), len(gaps)


def code_of(value: Value, values: Sequence[float], between: bool) -> int:
    """Return the code of a value: its place, or the number of borders below it; the last: none."""
    if value is None:
        return len(values) + between
    return sum(border < value for border in values)


# ---------------------------------------------------------------- cells


def count_cells(
    rows: Sequence[tuple[int, int, int, int | None, float]], below: Sequence[Sequence[int]]
) -> list[dict[int, list[float]]]:
    """Return the sums of each node by cell: negatives and positives known, held out, squares of these.

    Rows are (end, cell, label, 0 known or 1 held out or None, mass); `below` are the ends of a node.
    """
    found = []
    for ends in below:
        cells: dict[int, list[float]] = {}
        for end, cell, label, held, mass in rows:
            if end in ends and held is not None:
                own = cells.setdefault(cell, [0.0] * 6)
                own[2 * held + label] += mass
                if held:
                    own[4 + label] += mass * mass
        found.append(dict(sorted(cells.items())))
    return found


def cell_gains(
    entries: Sequence[tuple[float, Sequence[float]]],
    line: tuple[float, float, float],
    pooled: tuple[float, float],
    shrinkage: float,
) -> tuple[float, float]:
    """Return the fall of the held-out loss from the pooled to the shrunk line, and that of squares."""
    a, b = shrunk_lines([line], pooled, shrinkage)[0]
    first = second = 0.0
    for score, sums in entries:
        for label in (0, 1):
            before = label_loss(pooled[0] * score + pooled[1], label == 1)
            fall = before - label_loss(a * score + b, label == 1)
            first += sums[2 + label] * fall
            second += sums[4 + label] * fall * fall
    return first, second


def add_probabilities(
    lines: Sequence[tuple[float, float, float]],
    nodes: Sequence[int],
    score: float,
    shrinkage: float,
) -> list[float]:
    """Return the probability of a score under the shrunk line of each node; the first is pooled."""
    shrunk = shrunk_lines(lines, lines[0][:2], shrinkage)
    return [probability(shrunk[node][0] * score + shrunk[node][1]) for node in nodes]
