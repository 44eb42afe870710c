"""Label histograms by definition: in plain Python, row by row, in exact fractions."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations
from operator import ne

TWINS = {
    "bin_of": "bin_place",
    "add_bin_sums": "class_losses",
}


def bin_place(value: float, bins: int) -> int:
    """Return how many of the edges b/bins, b = 1 .. bins - 1, a value reaches."""
    return sum(b / bins <= value for b in range(1, bins))


def units(value: float) -> int:
    """Return a term as a whole number of 2^-60, the nearest one."""
    return math.floor(Fraction(value) * 2**60 + Fraction(1, 2))


def shares(counts: list[int]) -> list[Fraction]:
    """Return the share of raters for each class."""
    return [Fraction(y, sum(counts)) for y in counts]


def squared_loss(probabilities: list[list[float]], counts: list[list[int]]) -> Fraction:
    """Return the mean over rows and raters of the squared distance of prediction and vote."""
    total = Fraction(0)
    for z, y in zip(probabilities, counts, strict=True):
        own = Fraction(0)
        for k, votes in enumerate(y):
            distance = sum((Fraction(p) - (j == k)) ** 2 for j, p in enumerate(z))
            own += votes * distance
        total += own / sum(y)
    return total / len(counts)


def epistemic_loss(
    probabilities: list[list[float]], counts: list[list[int]], k: int
) -> tuple[Fraction, Fraction]:
    """Return the plugin and unbiased mean squared difference of share and prediction of a class.

    Unbiased: the square of the share over pairs of *different* raters.
    """
    plugin = unbiased = Fraction(0)
    for z, y in zip(probabilities, counts, strict=True):
        n, p, share = sum(y), Fraction(z[k]), Fraction(y[k], sum(y))
        plugin += (share - p) ** 2
        unbiased += Fraction(y[k] * (y[k] - 1), n * (n - 1)) - 2 * share * p + p * p
    return plugin / len(counts), unbiased / len(counts)


def class_losses(
    prediction: list[float], label: list[Fraction], bins: int
) -> tuple[Fraction, Fraction]:
    """Return the plugin and debiased calibration loss of one target."""
    plugin = debiased = Fraction(0)
    rows = len(label)
    for b in range(bins):
        inside = [i for i in range(rows) if bin_place(prediction[i], bins) == b]
        if not inside:
            continue
        size = len(inside)
        mean = sum(label[i] for i in inside) / size
        gap = mean - sum(Fraction(prediction[i]) for i in inside) / size
        share = Fraction(size, rows)
        plugin += share * gap**2
        if size > 1:
            variance = sum((label[i] - mean) ** 2 for i in inside) / size
            debiased += share * (gap**2 - variance / (size - 1))
    return plugin, debiased


def influence(prediction: list[float], label: list[Fraction], bins: int) -> list[float]:
    """Return by how much each row moves the plugin calibration loss, to first order.

    As a derivative: the row's weight is raised a little, the loss recomputed.
    """
    rows, step = len(label), Fraction(1, 10**9)

    def loss(weights: list[Fraction]) -> Fraction:
        total, mass = Fraction(0), sum(weights)
        for b in range(bins):
            inside = [i for i in range(rows) if bin_place(prediction[i], bins) == b]
            weight = sum(weights[i] for i in inside)
            if weight:
                gap = sum(weights[i] * (label[i] - Fraction(prediction[i])) for i in inside)
                total += weight / mass * (gap / weight) ** 2
        return total

    even = [Fraction(1)] * rows
    before = loss(even)
    moves = []
    for i in range(rows):
        weights = [w + step * (j == i) for j, w in enumerate(even)]
        moves.append(float((loss(weights) - before) / step * rows + before))
    return moves


def statistic(votes: Sequence[int], order: int, of: Callable[..., bool]) -> Fraction:
    """Return the share of the sets of so many raters of which a symmetric event is true (eq. 17)."""
    found = [of(*some) for some in combinations(votes, order)]
    return Fraction(sum(found), len(found))


def disagreement(counts: list[int]) -> tuple[Fraction, list[Fraction]]:
    """Return the share of pairs of raters who differ: at all, and about each class; pair by pair."""
    votes = [k for k, y in enumerate(counts) for _ in range(y)]
    about = [
        statistic(votes, 2, lambda a, b, k=k: (a == k) != (b == k)) for k in range(len(counts))
    ]
    return statistic(votes, 2, ne), about


def disagreement_loss(phi: float, share: Fraction) -> Fraction:
    """Return the expected squared error of a predicted disagreement."""
    p = Fraction(phi)
    return share * (1 - p) ** 2 + (1 - share) * p**2


def log_rising(x: float, n: int) -> tuple[float, float]:
    """Return ln [x (x+1) ... (x+n-1)] and its derivative in ln x."""
    return (
        math.fsum(math.log(x + j) for j in range(n)),
        x * math.fsum(1 / (x + j) for j in range(n)),
    )


def histogram_costs(
    probabilities: list[float], counts: list[int], log_strength: float
) -> tuple[float, float]:
    """Return the cost of one histogram and its derivative in ln alpha0."""
    a = math.exp(log_strength)
    cost, slope = log_rising(a, sum(counts))
    for p, y in zip(probabilities, counts, strict=True):
        if y:
            own, change = log_rising(a * p, y)
            cost, slope = cost - own, slope - change
    return cost, slope
