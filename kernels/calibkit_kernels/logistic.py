"""Logistic regression: the sums that a search needs, of points, rows, and a surface over levels.

At an uncertainty level of rank u the surface over score and uncertainty is a line in the score s: ``a +
g s`` with ``a = b0 + b2 u`` and ``g = b1 + b3 u``.  All that a Newton step needs is therefore one table
of sums a level.  Sums run over fixed blocks of a sorted tally, and the blocks are added in order.

Its ``lines`` have one row a level, (a, g), and a last row (centre, scale): they are those of
``(s - centre) / scale``, so that the sums keep their digits wherever the scores lie.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int64s, Numbers, UInt8s, UInt16s, UInt32s
from .classes import dot
from .elementary import FEW, exp_down, log_of
from .sorting import falling_key

#: Points summed together.
BLOCK: Final = 16_384


@kernel
def plane_sums(
    x: Floats,
    y: Floats,
    positive: Floats,
    negative: Floats,
    plane: Floats,
    first: int,
    last: int,
    out: Floats,
) -> None:
    """Write the sums of blocks of points under ``z = a (x - shift) scale + b (y - shift') scale' + c``.

    `y` may be empty: there is one feature only.  `plane` is a, b, c, shift, shift', scale, scale'; the
    blocks are those from `first` up to `last`, not included.  `out` gets a row for each block: loss;
    d/da, d/db, d/dc; the second derivatives aa, ab, ac, bb, bc, cc.
    """
    a, b, c = plane[0], plane[1], plane[2]
    x_shift, y_shift, x_scale, y_scale = plane[3], plane[4], plane[5], plane[6]
    # Of a few points at a time, so that steps without sums are taken for several of them at once: how
    # far they lie up, then what they cost; what falls, then bends; and what rises.
    cost, bend, rise = np.empty(FEW), np.empty(FEW), np.empty(FEW)
    for block in range(first, last):
        loss = grad_a = grad_b = grad_c = 0.0
        aa = ab = ac = bb = bc = cc = 0.0
        end = min((block + 1) * BLOCK, x.size)
        for start in range(block * BLOCK, end, FEW):
            count = min(FEW, end - start)
            for k in range(count):
                cost[k] = a * ((x[start + k] - x_shift) * x_scale) + c
            if y.size:
                for k in range(count):
                    cost[k] += b * ((y[start + k] - y_shift) * y_scale)
            for k in range(count):
                bend[k] = exp_down(-abs(cost[k]))
            for k in range(count):
                ones, zeros, z, small = positive[start + k], negative[start + k], cost[k], bend[k]
                most = 1.0 / (1.0 + small)
                least = small * most
                up = z >= 0.0
                rise[k] = zeros * (most if up else least) - ones * (least if up else most)
                bend[k] = (ones + zeros) * most * least
                cost[k] = (ones + zeros) * log_of(1.0 + small) + z * (zeros if up else -ones)
            for k in range(count):
                u = (x[start + k] - x_shift) * x_scale
                v = (y[start + k] - y_shift) * y_scale if y.size else 0.0
                loss += cost[k]
                grad_a += rise[k] * u
                grad_b += rise[k] * v
                grad_c += rise[k]
                aa += bend[k] * u * u
                ab += bend[k] * u * v
                ac += bend[k] * u
                bb += bend[k] * v * v
                bc += bend[k] * v
                cc += bend[k]
        row = out[block]
        row[0], row[1], row[2], row[3] = loss, grad_a, grad_b, grad_c
        row[4], row[5], row[6] = aa, ab, ac
        row[7], row[8], row[9] = bb, bc, cc


@kernel
def add_blocks(sums: Floats, out: Floats) -> None:
    """Write the sum of the rows, added from the first to the last."""
    out[:] = 0.0
    for block in range(sums.shape[0]):
        for j in range(out.size):
            out[j] += sums[block, j]


#: Points count for nothing in a spread where it is so small a share of theirs.
_FAR = 1e-4
#: Where points are nearer than this, one over their distance may be infinite.
NARROWEST = 1e-305


@kernel
def spread(x: Floats, positive: Floats, negative: Floats) -> tuple[float, float]:
    """Return the weighted mean and standard deviation of points; 0 where x is constant, or nearly so.

    Points without weight count for nothing, and so do some that are so far out that in their measure
    all others are one.  NaN where the range of x overflows.
    """
    mean, width = _spread_within(x, positive, negative, -math.inf, math.inf)
    while width > 0.0:
        middle, narrow = _spread_within(x, positive, negative, mean - width, mean + width)
        if not 0.0 < narrow < _FAR * width:
            break
        mean, width = middle, narrow
    return mean, 0.0 if width < NARROWEST else width


@kernel
def _spread_within(
    x: Floats, positive: Floats, negative: Floats, least: float, most: float
) -> tuple[float, float]:
    """Return the weighted mean and standard deviation of the points within two bounds."""
    low, high = math.inf, -math.inf
    for i in range(x.size):
        if positive[i] + negative[i] > 0.0 and least <= x[i] <= most:
            low = min(low, x[i])
            high = max(high, x[i])
    width = high - low
    if not width > 0.0 or width == math.inf:
        return low, 0.0 if width <= 0.0 else math.nan
    total = first = 0.0
    for start in range(0, x.size, BLOCK):  # by blocks: rounding stays small
        weights = sums = 0.0
        for i in range(start, min(start + BLOCK, x.size)):
            weight = positive[i] + negative[i]
            if weight > 0.0 and low <= x[i] <= high:
                weights += weight
                sums += weight * ((x[i] - low) / width)
        total += weights
        first += sums
    mean = low + width * (first / total)
    second = 0.0
    for start in range(0, x.size, BLOCK):
        sums = 0.0
        for i in range(start, min(start + BLOCK, x.size)):
            weight = positive[i] + negative[i]
            if weight > 0.0 and low <= x[i] <= high:
                away = (x[i] - mean) / width
                sums += weight * away * away
        second += sums
    return mean, width * math.sqrt(second / total)


@kernel
def is_separated(x: Floats, positive: Floats, negative: Floats) -> bool:
    """Return whether some line sends the loss to its infimum only at infinity.

    That is so where one class has no weight, or where x of one class nowhere passes x of the other
    (equality allowed) and is not the same for all points.
    """
    low_positive = low_negative = math.inf
    high_positive = high_negative = -math.inf
    for i in range(x.size):
        if positive[i] > 0.0:
            low_positive = min(low_positive, x[i])
            high_positive = max(high_positive, x[i])
        if negative[i] > 0.0:
            low_negative = min(low_negative, x[i])
            high_negative = max(high_negative, x[i])
    if high_positive == -math.inf or high_negative == -math.inf:
        return True
    if min(low_positive, low_negative) == max(high_positive, high_negative):
        return False
    return high_negative <= low_positive or high_positive <= low_negative


@kernel
def thin_points(
    values: Floats, positive: Floats, negative: Floats, stride: int, out: Floats
) -> None:
    """Write the weighted mean of each `stride` neighbouring values (0 where nothing weighs)."""
    for group in range(out.size):
        weights = sums = 0.0
        for i in range(group * stride, min((group + 1) * stride, values.size)):
            weight = positive[i] + negative[i]
            weights += weight
            sums += weight * values[i]
        out[group] = sums / weights if weights > 0.0 else 0.0


@kernel
def share_classes(
    count: Numbers,
    positive: Numbers,
    ones: Floats,
    zeros: Floats,
    size: float,
    high: float,
    low: float,
) -> None:
    """Write the weight of positive and of negative rows of each point.

    A positive row counts the share `high` as positive and the rest as negative, a negative row the
    share `low` as positive; a unit of the counts weighs `size`.
    """
    for i in range(count.size):
        hits = float(positive[i]) * size
        misses = float(np.int64(count[i]) - np.int64(positive[i])) * size
        ones[i] = hits * high + misses * low
        zeros[i] = hits * (1.0 - high) + misses * (1.0 - low)


@kernel
def newton_sums(
    inputs: Floats, label: Floats, times: Floats, weights: Floats, gradient: Floats, hessian: Floats
) -> float:
    """Return minus the log-likelihood of ``P(label = 1) = expit(inputs @ weights)``.

    Adds to its gradient and to the lower half of its matrix of second derivatives.  Row i counts
    ``times[i]`` times; a label may be the share of positive rows among them.  Sums run in the order
    of the rows.
    """
    loss = 0.0
    for i in range(label.size):
        if times[i] == 0.0:
            continue
        link = dot(inputs[i], weights)
        small = math.exp(-abs(link))
        p = (1.0 if link >= 0.0 else small) / (1.0 + small)
        loss += times[i] * (math.log1p(small) + max(link, 0.0) - label[i] * link)
        slope = times[i] * (p - label[i])
        curve = times[i] * small / ((1.0 + small) * (1.0 + small))
        for k in range(weights.size):
            gradient[k] += slope * inputs[i, k]
            part = curve * inputs[i, k]
            for j in range(k + 1):
                hessian[k, j] += part * inputs[i, j]
    return loss


_SIGN = np.uint64(0x80000000)
#: The key of what takes no part, which no number has; the bits of a key within a cell.
NO_KEY: Final = 0xFFFFFFFF
CELL_BITS: Final = 16


@kernel
def moment_sums(
    score: Numbers,
    level: UInt16s,
    count: Numbers,
    positive: Numbers,
    part: UInt8s,
    lines: Floats,
    excluded: int,
    out: Floats,
) -> None:
    """Add rows, sums and sums of squares of the scaled scores, and positives, to each level's row.

    `out` has shape (levels, 4).  Entries of part `excluded` are passed over (-1: none).
    """
    centre, scale = lines[-1]
    for i in range(score.size):
        if part.size and part[i] == excluded:
            continue
        own, rows, s = level[i], float(count[i]), (np.float64(score[i]) - centre) / scale
        out[own, 0] += rows
        out[own, 1] += rows * s
        out[own, 2] += rows * s * s
        out[own, 3] += float(positive[i])


@kernel
def surface_sums(
    score: Numbers,
    level: UInt16s,
    count: Numbers,
    positive: Numbers,
    part: UInt8s,
    lines: Floats,
    excluded: int,
    out: Floats,
) -> None:
    """Add to each level's row what gradient, curvature and loss of a logistic fit need.

    With p the fitted probability, r = rows p - positives and w = rows p (1 - p), the columns of
    `out`, shape (levels, 6), are the sums of r, r s, w, w s, w s^2 and of the log loss.
    """
    centre, scale = lines[-1]
    scaled, value, small = np.empty(FEW), np.empty(FEW), np.empty(FEW)
    most, loss = np.empty(FEW), np.empty(FEW)
    for start in range(0, score.size, FEW):
        count_here = min(FEW, score.size - start)
        for k in range(count_here):
            scaled[k] = (np.float64(score[start + k]) - centre) / scale
        for k in range(count_here):
            own = level[start + k]
            value[k] = lines[own, 0] + lines[own, 1] * scaled[k]
        for k in range(count_here):
            small[k] = exp_down(-abs(value[k]))
        for k in range(count_here):
            most[k] = 1.0 / (1.0 + small[k])
            loss[k] = log_of(1.0 + small[k]) + max(value[k], 0.0)
        for k in range(count_here):
            i = start + k
            if part.size and part[i] == excluded:
                continue
            own, rows, hits, s = level[i], float(count[i]), float(positive[i]), scaled[k]
            r = rows * (most[k] if value[k] >= 0.0 else small[k] * most[k]) - hits
            w = rows * small[k] * most[k] * most[k]
            out[own, 0] += r
            out[own, 1] += r * s
            out[own, 2] += w
            out[own, 3] += w * s
            out[own, 4] += w * s * s
            out[own, 5] += rows * loss[k] - hits * value[k]


@kernel
def surface_keys(
    regressor: Numbers, level: UInt16s, part: UInt8s, keys: UInt32s, lines: Floats, excluded: int
) -> None:
    """Write the falling-order key of the surface at each entry.

    Values are single floats: beyond their digits differences mean nothing.  Entries of part `excluded`
    (-1: none) have the key `NO_KEY`.
    """
    for i in range(regressor.size):
        if part.size and part[i] == excluded:
            keys[i] = NO_KEY
            continue
        own = level[i]
        # The added zero turns -0.0, which would be another number, into 0.0.
        value = np.float32(lines[own, 0] + lines[own, 1] * np.float64(regressor[i])) + np.float32(
            0.0
        )
        keys[i] = falling_key(np.uint64(np.float32(value).view(np.uint32)), _SIGN)


@kernel
def cell_sums(
    keys: UInt32s, count: Numbers, positive: Numbers, gain: Int64s, cells: Int64s
) -> None:
    """Add entries to the cells of their keys, those that are alike but for `CELL_BITS`.

    The columns of `cells`, shape (2^(32 - CELL_BITS), 4), are rows, positive rows, what the rows are
    worth (`gain`, which may be empty), and that without entries worth less than nothing.  Entries with
    the key `NO_KEY` are in none.
    """
    for i in range(keys.size):
        if keys[i] == NO_KEY:
            continue
        cell = cells[keys[i] >> np.uint32(CELL_BITS)]
        cell[0] += count[i]
        cell[1] += positive[i]
        if gain.size:
            cell[2] += gain[i]
            cell[3] += max(gain[i], 0)


@kernel
def level_limits(
    score: Numbers, keys: UInt32s, level: UInt16s, cut: np.uint64, out: Floats
) -> None:
    """Write, per level, the lowest score whose key is at most a cut, and the highest of the others.

    `keys` are those of `surface_keys`.  `out` has shape (levels, 2) and keeps what it holds where
    there is none.  Scores fall along the tally.
    """
    for i in range(score.size):
        own = level[i]
        if keys[i] <= cut:
            out[own, 0] = score[i]
        elif keys[i] != NO_KEY and math.isnan(out[own, 1]):
            out[own, 1] = score[i]
