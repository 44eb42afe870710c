"""What a split brings: Gini (compared exactly), entropy, the AUC after calibration, a Newton step."""

from __future__ import annotations

import math

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int64s
from .distributions import normal_cdf
from .rates import product_halves

#: The criteria, as ``rules[0]`` names them.
GINI, ENTROPY, AUC, NEWTON = range(4)

#: Up to this total all products of two counts are exact.
_EXACT_TOTAL = 2**31 - 1

#: Gains closer than this, relatively, are compared exactly or taken as equal.
_CLOSE = 1e-12


@kernel
def split_gain(left: Int64s, total: Int64s, rules: Floats) -> float:
    """Return what a split of a node brings, 0 or less where nothing.

    `left` and `total` are sums of the left side and of the node: count and positives; for `AUC` also
    sum and sum of squares of the positives' scores, then of the negatives'; for `NEWTON` count,
    gradient and Hessian.  `rules` are the criterion; the least count; the unit of the sums; for `AUC`
    the variance up to which there is none and what a row counts as, for `NEWTON` the ridge.
    """
    kind = int(rules[0])
    if kind == GINI:
        return gini_gain(left, total)
    if kind == ENTROPY:
        whole = entropy_bits(total[1], total[0])
        rest = entropy_bits(total[1] - left[1], total[0] - left[0])
        return whole - entropy_bits(left[1], left[0]) - rest
    if kind == AUC:
        return auc_gain(left, total, rules)
    return newton_gain(left, total, rules)


@kernel
def gini_gain(left: Int64s, total: Int64s) -> float:
    """Return the decrease of ``n * 2 q (1 - q)`` by a split."""
    rows, own = float(total[0]), float(left[0])
    away = imbalance(left, total)
    return 2.0 * away / rows * (away / (own * (rows - own)))


@kernel
def imbalance(left: Int64s, total: Int64s) -> float:
    """Return ``positives_left * rows - positives * rows_left``, whose square orders Gini gains."""
    if total[0] <= _EXACT_TOTAL:
        return float(left[1] * total[0] - total[1] * left[0])
    return float(left[1]) * float(total[0]) - float(total[1]) * float(left[0])


@kernel
def entropy_bits(positives: int, rows: int) -> float:
    """Return rows times the entropy of their labels, in bits."""
    if positives <= 0 or positives >= rows:
        return 0.0
    n, a = float(rows), float(positives)
    b = n - a
    return -(a * math.log(a / n) + b * math.log(b / n)) / math.log(2.0)


@kernel
def step_gain(gradient: int, hessian: int, rules: Floats) -> float:
    """Return twice what a Newton step of a node gains."""
    slope: float = float(gradient) * rules[2]
    bend: float = float(hessian) * rules[2] + rules[3]
    return slope * slope / bend


@kernel
def newton_gain(left: Int64s, total: Int64s, rules: Floats) -> float:
    """Return twice the decrease of the loss's quadratic approximation by two steps for one."""
    split = step_gain(left[1], left[2], rules)
    split += step_gain(total[1] - left[1], total[2] - left[2], rules)
    return split - step_gain(total[1], total[2], rules)


@kernel
def side_line(sums: Int64s, rules: Floats, out: Floats) -> None:
    """Write the line a x + b of one side, its moments after it, and its counts.

    `out` gets mean of the positives, their variance, mean of the negatives, their variance, all
    after calibration, then the counts of both.  A side with one class or without variance
    is a constant.
    """
    n1, n0 = float(sums[1]), float(sums[0] - sums[1])
    out[4], out[5] = n1, n0
    flat = math.log((n1 + rules[4]) / (n0 + rules[4]))
    out[0], out[1], out[2], out[3] = flat, 0.0, flat, 0.0
    if n1 <= 0.0 or n0 <= 0.0:
        return
    mu1, mu0 = float(sums[2]) * rules[2] / n1, float(sums[4]) * rules[2] / n0
    v1 = float(sums[3]) * rules[2] / n1 - mu1 * mu1
    v0 = float(sums[5]) * rules[2] / n0 - mu0 * mu0
    if v1 <= rules[3] or v0 <= rules[3]:
        return
    x = crossing(mu1, v1, mu0, v0)
    a = (mu1 - x) / v1 + (x - mu0) / v0
    away1, away0 = x - mu1, x - mu0
    level = math.log(n1 / n0) + 0.5 * math.log(v0 / v1)
    b = level - away1 * away1 / (2.0 * v1) + away0 * away0 / (2.0 * v0) - a * x
    out[0], out[1] = a * mu1 + b, a * a * v1
    out[2], out[3] = a * mu0 + b, a * a * v0


@kernel
def crossing(mu1: float, v1: float, mu0: float, v0: float) -> float:
    """Return where two normal densities cross, nearest the midpoint of their means."""
    middle = 0.5 * (mu1 + mu0)
    # In t = x - middle, so that equal variances leave no cancellation.
    d = 0.5 * (mu1 - mu0)
    second = 0.5 / v0 - 0.5 / v1
    first = d / v1 + d / v0
    constant = 0.5 * math.log(v0 / v1) - d * d * (0.5 / v1 - 0.5 / v0)
    if second == 0.0:
        return middle if first == 0.0 else middle - constant / first
    inside = first * first - 4.0 * second * constant
    if inside < 0.0:
        return middle
    root = math.sqrt(inside)
    # The root of smaller size, in the form that does not cancel.
    below = -first - root if first >= 0.0 else -first + root
    return middle if below == 0.0 else middle + 2.0 * constant / below


@kernel
def mixture_auc(sides: Floats) -> float:
    """Return the AUC of normal mixtures, one component a side; rows as `side_line` writes them."""
    positives, negatives = 0.0, 0.0
    for g in range(sides.shape[0]):
        positives += sides[g, 4]
        negatives += sides[g, 5]
    auc = 0.0
    for g in range(sides.shape[0]):
        for h in range(sides.shape[0]):
            away = sides[g, 0] - sides[h, 2]
            spread = sides[g, 1] + sides[h, 3]
            if spread > 0.0:
                share = normal_cdf(away / math.sqrt(spread))
            else:
                share = 0.5 if away == 0.0 else (1.0 if away > 0.0 else 0.0)
            auc += (sides[g, 4] / positives) * (sides[h, 5] / negatives) * share
    return auc


@kernel
def auc_of_split(left: Int64s, total: Int64s, rules: Floats) -> float:
    """Return the AUC after calibrating both sides of a split."""
    sides = np.empty((2, 6), np.float64)
    side_line(left, rules, sides[0])
    side_line(total - left, rules, sides[1])
    return mixture_auc(sides)


@kernel
def auc_gain(left: Int64s, total: Int64s, rules: Floats) -> float:
    """Return what a split adds to the AUC of its node, times the pairs of the node a row."""
    if total[1] == 0 or total[1] == total[0]:
        return 0.0
    whole = np.empty((1, 6), np.float64)
    side_line(total, rules, whole[0])
    n1, n0 = float(total[1]), float(total[0] - total[1])
    return (auc_of_split(left, total, rules) - mixture_auc(whole)) * (n1 * n0 / (n1 + n0))


@kernel
def gini_product(left: Int64s, total: Int64s, other: int) -> tuple[np.uint64, np.uint64, np.uint64]:
    """Return imbalance squared times the counts of both sides of another split, 64 bits a word."""
    away, sides = abs(left[1] * total[0] - total[1] * left[0]), other * (total[0] - other)
    high, low = product_halves(away, away)
    carried, last = product_halves(low, sides)
    first, middle = product_halves(high, sides)
    middle += carried
    return first + np.uint64(middle < carried), middle, last


@kernel
def compare_gini(first: Int64s, second: Int64s, total: Int64s) -> int:
    """Compare the Gini gains of two splits of a node exactly: 1, 0 or -1.

    The gain of a split is proportional to imbalance^2 / (rows_left * rows_right); the products are
    compared in integers of 192 bits.  Totals up to 2^31 - 1.
    """
    ours = gini_product(first, total, second[0])
    theirs = gini_product(second, total, first[0])
    return int(ours > theirs) - int(ours < theirs)


@kernel
def is_better(candidate: Floats, best: Floats, total: Int64s, kind: int) -> bool:
    """Return whether a split is strictly better than the best so far, and worth making at all.

    Splits are vectors as `tree` lays them out: gain first, left count and second sum at 4 and 5.
    """
    gain, known = candidate[0], best[0]
    if gain <= _CLOSE * float(total[0]):
        return False
    if known <= 0.0 or gain > known * (1.0 + _CLOSE):
        return True
    if gain < known * (1.0 - _CLOSE) or kind != GINI or total[0] > _EXACT_TOTAL:
        return False
    ours, theirs = np.empty(2, np.int64), np.empty(2, np.int64)
    ours[0], ours[1] = int(candidate[4]), int(candidate[5])
    theirs[0], theirs[1] = int(best[4]), int(best[5])
    return compare_gini(ours, theirs, total) > 0
