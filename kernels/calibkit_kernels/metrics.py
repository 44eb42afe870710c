"""Metrics over a stretch of a tally: ranking, losses, bins, smoothed residuals.

A tally has its distinct scores by falling score, with rows (``count``) and positive rows
(``positive``) of each.  Every kernel works on a stretch of it, given what stands above, so that
stretches may be computed beside each other and added in order.  Sums run in this order, so that they
are functions of the tally alone.

Influence functions say what one more row changes in a metric.  Their kernels write for every entry what
a positive and what a negative row of that score contribute; what is centred and scaled is said by the
caller.  `delong_shares` are the structural components of the AUC (DeLong, DeLong, Clarke-Pearson,
Comparing the areas under two or more correlated receiver operating characteristic curves, 1988), in
one pass over the distinct scores.

Smooth calibration error has residuals smoothed by a Gaussian kernel reflected at 0 and 1.  On [0, 1]
the Gaussian kernel with all its reflections is the heat kernel with insulated ends,

    K(t, f) = 1 + 2 sum_k exp(-(pi k sigma)^2 / 2) cos(pi k t) cos(pi k f),

so the smoothed residuals are a cosine series, whose coefficients do not depend on sigma: one pass
over the rows serves every sigma (Blasiok, Nakkiran, Smooth ECE, 2023, section 3, has the kernel).
"""

from __future__ import annotations

import math

import numpy as np

from ._jit import kernel
from .arrays import Floats, Numbers
from .elementary import FEW, log_of
from .maps import expit_of


@kernel
def ranking_sums(count: Numbers, positive: Numbers, rows: int, hits: int) -> tuple[float, float]:
    """Return twice the pairs ranked right, and the sum of precision over positive rows.

    A pair is a negative row with a positive row above it; one beside it counts half.  The precision of
    a positive row is that of the selection that ends at its score.  `rows` and `hits` stand above the
    stretch.
    """
    pairs, precisions = 0.0, 0.0
    total, above = np.int64(rows), np.int64(hits)
    for i in range(count.size):
        own, good = np.int64(count[i]), np.int64(positive[i])
        if own > good:
            pairs += float(own - good) * (2.0 * float(above) + float(good))
        total += own
        above += good
        if good > 0:
            precisions += float(good) * (float(above) / float(total))
    return pairs, precisions


@kernel
def precision_integral(count: Numbers, positive: Numbers, rows: int, hits: int) -> float:
    """Return the precision that positive rows meet, where rows of equal score come in random order.

    Of a positive rows among d of equal score, a share x from 0 to 1 is selected with as large a share
    of the others; the precision on the way is the mean over x.  `rows` and `hits` stand above.
    """
    found = 0.0
    total, above = float(rows), float(hits)
    for i in range(count.size):
        own, good = float(count[i]), float(positive[i])
        if good > 0.0:
            rate = good / own
            mean = rate
            if total > 0.0:
                mean += (above - rate * total) / own * math.log1p(own / total)
            found += good * mean
        total += own
        above += good
    return found


@kernel
def delong_shares(
    count: Numbers,
    positive: Numbers,
    rows: int,
    hits: int,
    positives: int,
    negatives: int,
    plus: Floats,
    minus: Floats,
) -> None:
    """Write the structural components of the AUC, of which `positives` and `negatives` are above 0.

    `plus` gets the share of negatives below a positive row of this score, `minus` the share of
    positives above a negative row of it, ties half.  `rows` and `hits` stand above the stretch.
    """
    good, bad = np.int64(hits), np.int64(rows) - np.int64(hits)
    for i in range(count.size):
        own_good = np.int64(positive[i])
        own_bad = np.int64(count[i]) - own_good
        plus[i] = (float(negatives - bad - own_bad) + 0.5 * float(own_bad)) / float(negatives)
        minus[i] = (float(good) + 0.5 * float(own_good)) / float(positives)
        good += own_good
        bad += own_bad


@kernel
def precision_steps(count: Numbers, positive: Numbers, rows: int, hits: int) -> tuple[float, float]:
    """Return what `precision_shares` needs of the stretches below: two sums over positive rows.

    With N the rows and T the positive rows down to a row's score: the sums of 1 / N and T / N^2.
    """
    steps, falls = 0.0, 0.0
    total, above = np.int64(rows), np.int64(hits)
    for i in range(count.size):
        total += count[i]
        above += positive[i]
        if positive[i] > 0:
            step = float(positive[i]) / float(total)
            steps += step
            falls += step * (float(above) / float(total))
    return steps, falls


@kernel
def precision_shares(
    count: Numbers,
    positive: Numbers,
    rows: int,
    hits: int,
    steps: float,
    falls: float,
    plus: Floats,
    minus: Floats,
) -> None:
    """Write by how much the sum of precision over positive rows grows with one more row.

    A row raises or lowers the precision at its own score and at all below; a positive one (`plus`) also
    adds the precision at its score.  `rows` and `hits` are those down to the end of the stretch,
    `steps` and `falls` what `precision_steps` says of all below it.
    """
    total, above = np.int64(rows), np.int64(hits)
    for i in range(count.size - 1, -1, -1):
        precision = 0.0
        if total > 0:
            precision = float(above) / float(total)
            step = float(positive[i]) / float(total)
            steps += step
            falls += step * precision
        plus[i] = precision + steps - falls
        minus[i] = -falls
        total -= count[i]
        above -= positive[i]


@kernel
def log_losses(
    probability: Numbers, count: Numbers, positive: Numbers, plus: Floats, minus: Floats
) -> None:
    """Write the logarithmic loss of a positive and of a negative row; 0 where there is none."""
    for i in range(probability.size):
        clipped = min(max(np.float64(probability[i]), CLIP), 1.0 - CLIP)
        plus[i] = -math.log(clipped) if positive[i] > 0 else 0.0
        minus[i] = -math.log(1.0 - clipped) if count[i] > positive[i] else 0.0


@kernel
def sum_of_squares(count: Numbers, positive: Numbers, plus: Floats, minus: Floats) -> float:
    """Return the sum over rows of the square of what they contribute."""
    total = 0.0
    for i in range(count.size):
        hits = float(positive[i])
        misses = float(np.int64(count[i]) - np.int64(positive[i]))
        total += hits * plus[i] * plus[i] + misses * minus[i] * minus[i]
    return total


#: Probabilities are moved this far inside (0, 1) before their logarithm is taken.
CLIP = 1e-15


@kernel
def expit(score: Numbers, out: Floats) -> None:
    """Write ``1 / (1 + exp(-score))``, also of infinite scores."""
    for i in range(score.size):
        out[i] = expit_of(np.float64(score[i]))


@kernel
def loss_sums(probability: Numbers, count: Numbers, positive: Numbers) -> tuple[float, float]:
    """Return the sums over rows of logarithmic loss and squared error."""
    log_loss, squares = 0.0, 0.0
    log, log_rest = np.empty(FEW), np.empty(FEW)
    for start in range(0, probability.size, FEW):
        size = min(FEW, probability.size - start)
        for k in range(size):
            clipped = min(max(np.float64(probability[start + k]), CLIP), 1.0 - CLIP)
            log[k], log_rest[k] = log_of(clipped), log_of(1.0 - clipped)
        for k in range(size):
            p, own = np.float64(probability[start + k]), np.int64(positive[start + k])
            hits, misses = float(own), float(np.int64(count[start + k]) - own)
            log_loss -= hits * log[k] + misses * log_rest[k]
            squares += hits * (1.0 - p) * (1.0 - p) + misses * p * p
    return log_loss, squares


@kernel
def range_sums(
    probability: Numbers, count: Numbers, positive: Numbers
) -> tuple[np.int64, np.int64, float]:
    """Return rows, positive rows and the sum of probabilities over rows."""
    rows, hits, mass = np.int64(0), np.int64(0), 0.0
    for i in range(probability.size):
        rows += count[i]
        hits += positive[i]
        mass += float(count[i]) * np.float64(probability[i])
    return rows, hits, mass


@kernel
def residual_moments(probability: Numbers, count: Numbers, positive: Numbers, out: Floats) -> None:
    """Add the moments of residuals about the middles of equal cells of [0, 1].

    ``out[c, m]`` takes the sum over rows in cell c of ``(label - p) * x**m / m!``, x being how far
    p lies from the middle of the cell.
    """
    cells, orders = out.shape
    for i in range(probability.size):
        p = np.float64(probability[i])
        cell = min(int(p * cells), cells - 1)
        offset = p - (cell + 0.5) / cells
        term = float(positive[i]) - float(count[i]) * p
        for order in range(orders):
            out[cell, order] += term
            term *= offset / (order + 1)


@kernel
def cosine_sums(middle: Floats, moments: Floats, out: Floats) -> None:
    """Add to ``out[k]`` the sum of residuals times ``cos(pi k p)``, from moments about middles.

    Moments of order 0 alone stand for residuals at the middles themselves.
    """
    orders = moments.shape[1]
    for i in range(middle.size):
        angle = math.pi * middle[i]
        turn_cos, turn_sin = math.cos(angle), math.sin(angle)
        cosine, sine = 1.0, 0.0
        for k in range(out.size):
            # cos(w (m + x)) = cos(w m) (1 - (w x)^2 / 2! + …) - sin(w m) (w x - (w x)^3 / 3! + …)
            even, odd, power, frequency = 0.0, 0.0, 1.0, math.pi * k
            for order in range(orders):
                sign = 1.0 if order % 4 < 2 else -1.0
                if order % 2 == 0:
                    even += sign * power * moments[i, order]
                else:
                    odd += sign * power * moments[i, order]
                power *= frequency
            out[k] += cosine * even - sine * odd
            cosine, sine = cosine * turn_cos - sine * turn_sin, sine * turn_cos + cosine * turn_sin


@kernel
def absolute_integral(value: Floats, integral: Floats) -> float:
    """Return the integral over [0, 1] of the absolute value of a function.

    Given are values at equally spaced points, from 0 to 1, and the integral up to each of them.

    Between two points of one sign it is the difference of the integrals; where the sign changes,
    the function is taken as linear up to its root.
    """
    total, step = 0.0, 1.0 / (value.size - 1)
    for i in range(1, value.size):
        before, after = value[i - 1], value[i]
        gained = integral[i] - integral[i - 1]
        if (before < 0.0) != (after < 0.0):
            share = before / (before - after)
            first = 0.5 * before * share * step
            total += abs(first) + abs(gained - first)
        else:
            total += abs(gained)
    return total
