"""The logistic surface: one cut on a fitted probability of score and uncertainty.

The regressors are s (the logit of a probability clipped by 1e-6, a logit as it is, a raw score
standardised), u (the rank of the uncertainty, in [0, 1]) and s u; the fit is logistic regression
with a ridge of 1/n on the standardised regressors.  A boundary has to rise with the score at every
uncertainty: where the slope in s is not positive at both ends, u = 0 and u = 1, the product is
dropped, then u, and where scores fall with the label even so, the score itself is the surface.  The
cut is the best single threshold on the surface's values.

Uncertainties enter by their level, one of 100 of equal mass: u is the middle of the ranks of the
level's rows.  So a surface with a cut *is* one threshold a level, which is what a model holds and
applies, and every sum here is one over the tally, whose order is that of the scores.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.binning import Levels
from calibkit.boundary.classic import single_threshold
from calibkit.boundary.goals import Goal
from calibkit.tally import Points, Tally
from calibkit_kernels import sorting
from calibkit_kernels import surface as kernels
from calibkit_kernels.decide import LEAST

Floats = NDArray[np.float64]

#: How many levels the uncertainty is resolved into.
LEVELS = 100
#: Entries whose sums are taken together.
_BLOCK = 65_536
#: A fit begins on about so many entries.
_FEW = 50_000
#: A Newton step whose decrement is below this is the last one: what is left is its square.
_SMALL = 1e-9
_MOST_STEPS = 50


@dataclass(frozen=True)
class Surface:
    """A logistic surface: ``intercept + score s + uncertainty u + product s u``.

    `ranks` has the u of each level.
    """

    intercept: float
    score: float
    uncertainty: float
    product: float
    ranks: Floats

    @property
    def flat(self) -> bool:
        """Whether the uncertainty plays no part."""
        return self.uncertainty == 0.0 and self.product == 0.0

    def lines(self) -> Floats:
        """Return intercept and slope in s of each level, and a last row of no scaling."""
        lines = np.empty((self.ranks.size + 1, 2))
        lines[:-1, 0] = self.intercept + self.uncertainty * self.ranks
        lines[:-1, 1] = self.score + self.product * self.ranks
        lines[-1] = 0.0, 1.0
        return lines


@dataclass(frozen=True)
class Cut:
    """A surface with a cut: a boundary on a tally.

    Attributes
    ----------
    surface
        The surface.
    value
        The log-odds from which on rows are selected; NaN where none is.
    thresholds
        The lowest selected score of each level, -inf for always, NaN for never.
    selected, true_positives, gain
        What it selects, in units, and what that is worth where worths count.
    """

    surface: Surface
    value: float
    thresholds: Floats
    selected: int
    true_positives: int
    gain: int = 0


def logistic(value: float) -> float:
    """Return the probability of some log-odds."""
    small = math.exp(-abs(value))
    return 1.0 / (1.0 + small) if value >= 0.0 else small / (1.0 + small)


def distinct(levels: Levels) -> Levels:
    """Return levels without those that no value can be in."""
    edges = np.unique(levels.edges)
    return Levels(levels.minimum, edges[edges > levels.minimum])


def best_cut(
    tally: Tally, goal: Goal, excluded: int = -1, *, scale: str = "probability", threads: int = 1
) -> Cut:
    """Fit a surface and return its best cut.

    Parameters
    ----------
    tally
        Scores, finite unless they are probabilities, and levels.
    goal
        What to reach.
    excluded
        A part of a dealt tally that takes no part.
    scale
        What scores hold: ``probability``, ``logit`` or ``raw``.
    threads
        How many may sum; the result does not depend on them.
    """
    probability, raw = scale == "probability", scale == "raw"
    surface = fit_surface(tally, excluded, probability=probability, raw=raw, threads=threads)
    points, values = surface_points(tally, surface, excluded, probability, threads)
    choice = int(single_threshold(points, goal)[0])
    if choice < 0:
        return Cut(surface, math.nan, np.full(tally.levels, np.nan), 0, 0)
    value = float(values[points.entry[choice]])
    return Cut(
        surface,
        value,
        cut_thresholds(tally, surface, values, value, excluded, probability=probability),
        int(points.selected[choice]),
        int(points.true_positives[choice]),
        points.total_gain(np.array([choice])),
    )


def surface_points(
    tally: Tally, surface: Surface, excluded: int, probability: bool, threads: int = 1
) -> tuple[Points, NDArray[np.float32]]:
    """Return the prefixes of all rows by falling value of a surface, and the value of each entry."""
    s = _regressor(tally, probability)
    values, words = np.empty(s.size, np.float32), np.empty(s.size, np.uint64)
    arrays = s, tally.level, tally.part, surface.lines()
    words = words[: kernels.surface_words(*arrays, excluded, values, words)]
    words = sorting.sort_words(words, 32, threads)
    room = int(tally.level_totals[:, 0].sum())
    selected, hits, entry, gain = kernels.ordered_points(
        words, tally.count, tally.positive, tally.gain, room
    )
    offsets = np.array([0, entry.size])
    gain = gain if tally.gain.size else tally.gain
    return Points(selected, hits, entry, offsets, offsets[1:], gain), values


def cut_thresholds(
    tally: Tally,
    surface: Surface,
    values: NDArray[np.float32],
    cut: float,
    excluded: int = -1,
    *,
    probability: bool = True,
) -> Floats:
    """Return the score from which on each level's line reaches a cut: -inf always, NaN never.

    It is ``(cut - a) / g`` for a line ``a + g s``, as a score; among the scores of the tally it parts
    exactly those whose value reaches the cut from those whose value does not.
    """
    limits = np.full((tally.levels, 2), np.nan)
    kernels.level_limits(tally.score, values, tally.level, tally.part, cut, excluded, limits)
    found = np.empty(tally.levels)
    lines = surface.lines()[:-1]
    for own, ((a, g), (lowest, highest)) in enumerate(zip(lines, limits, strict=True)):
        found[own] = _between(_as_score((cut - a) / g, probability), lowest, highest)
    return found


def _as_score(s: float, probability: bool) -> float:
    """Return the score of a value of the regressor: clipped probabilities are all alike."""
    if not probability:
        return float(s)
    bound = math.log((1.0 - LEAST) / LEAST)
    if s <= -bound:
        return -math.inf
    return math.nan if s > bound else logistic(s)


def _between(threshold: float, lowest: float, highest: float) -> float:
    """Return a threshold that selects the lowest score to be selected, and not the one below."""
    if not math.isnan(lowest) and not threshold <= lowest:
        return lowest
    if not math.isnan(highest) and threshold <= highest:
        return lowest if not math.isnan(lowest) else math.nextafter(highest, math.inf)
    return threshold


def fit_surface(
    tally: Tally,
    excluded: int = -1,
    *,
    probability: bool = True,
    raw: bool = False,
    threads: int = 1,
) -> Surface:
    """Return the surface of a tally; see the module for what is fitted.

    Scores are `probability`, `raw` or, if neither, logits.
    """
    fit = _Fit(tally, _regressor(tally, probability), excluded, threads)
    fit.raw = raw
    for names in (("score", "uncertainty", "product"), ("score", "uncertainty"), ("score",)):
        found = fit.surface(names)
        if found is not None and found.score > 0.0 and found.score + found.product > 0.0:
            return found
    return Surface(0.0, 1.0, 0.0, 0.0, fit.ranks)


def _regressor(tally: Tally, probability: bool) -> NDArray[Any]:
    return tally.logits[0] if probability else tally.score


class _Fit:
    """The fits of one surface with fewer and fewer regressors."""

    #: Whether the product takes the standardised score.
    raw = False

    def __init__(self, tally: Tally, s: NDArray[Any], excluded: int, threads: int) -> None:
        self.arrays = (s, tally.level, tally.count, tally.positive, tally.part)
        self.excluded, self.threads, self.levels = excluded, threads, tally.levels
        plain = np.zeros((tally.levels + 1, 2))
        plain[-1] = float(s[s.size // 2]) if s.size else 0.0, 1.0
        rough = self._sums(kernels.moment_sums, plain, 4, self.arrays)
        centre, spread = _mean_and_spread(rough[:, :3])
        self.scaling = (float(plain[-1, 0]) + centre, spread or 1.0)
        plain[-1] = self.scaling
        moments = self._sums(kernels.moment_sums, plain, 4, self.arrays)
        self.rows, self.positives = float(moments[:, 0].sum()), float(moments[:, 3].sum())
        self.moments, self.constant = moments, spread == 0.0
        self.ridge = 1.0 / (self.rows * tally.unit.size) if self.rows else 0.0
        below = np.cumsum(moments[:, 0]) - moments[:, 0]
        self.ranks: Floats = (below + moments[:, 0] / 2) / (self.rows or 1.0)

    def surface(self, names: tuple[str, ...]) -> Surface | None:
        """Return the fit with some regressors; None where there is nothing to fit."""
        if self.constant or not 0.0 < self.positives < self.rows:
            return None
        fixed, along = self._design(names)
        if fixed.shape[0] <= len(names):  # a regressor is constant, or the same as another
            return None
        weights = self._newton(fixed, along)
        # Back from the scaled score: the lines at ranks 0 and 1 say everything.
        centre, scale = self.scaling
        lines = [self._line(weights, names, rank) for rank in (0.0, 1.0)]
        (a0, g0), (a1, g1) = ((a - g * centre / scale, g / scale) for a, g in lines)
        if "product" not in names:
            g1 = g0
            a1 = a1 if "uncertainty" in names else a0
        return Surface(a0, g0, a1 - a0, g1 - g0, self.ranks)

    def _regressors(self, rank: float) -> dict[str, tuple[float, float]]:
        """Return each regressor at a rank as ``fixed + along * s`` of the scaled score, unscaled."""
        centre, scale = (0.0, 1.0) if self.raw else self.scaling
        return {
            "score": (0.0, 1.0),
            "uncertainty": (rank, 0.0),
            "product": (rank * centre, rank * scale),
        }

    def _standards(self, name: str) -> tuple[float, float]:
        """Return mean and spread of a regressor."""
        pairs = [self._regressors(rank)[name] for rank in self.ranks.tolist()]
        rows, first, second = self.moments[:, 0], self.moments[:, 1], self.moments[:, 2]
        mean = (
            math.fsum(a * n + b * s for (a, b), n, s in zip(pairs, rows, first, strict=True))
            / self.rows
        )
        square = math.fsum(
            (a - mean) ** 2 * n + 2 * (a - mean) * b * s + b * b * q
            for (a, b), n, s, q in zip(pairs, rows, first, second, strict=True)
        )
        return mean, math.sqrt(max(square / self.rows, 0.0))

    def _design(self, names: tuple[str, ...]) -> tuple[Floats, Floats]:
        """Return the intercept and the standardised regressors that vary, one row each."""
        self.standards = {name: self._standards(name) for name in names}
        fixed, along = [np.ones(self.levels)], [np.zeros(self.levels)]
        for name, (mean, spread) in self.standards.items():
            if spread > 1e-12:
                pairs = np.array([self._regressors(rank)[name] for rank in self.ranks.tolist()])
                fixed.append((pairs[:, 0] - mean) / spread)
                along.append(pairs[:, 1] / spread)
        return np.array(fixed), np.array(along)

    def _line(self, weights: Floats, names: tuple[str, ...], rank: float) -> tuple[float, float]:
        """Return intercept and slope of the fitted line at a rank."""
        a, g = float(weights[0]), 0.0
        for weight, name in zip(weights[1:].tolist(), names, strict=True):
            fixed, along = self._regressors(rank)[name]
            mean, spread = self.standards[name]
            a += weight * (fixed - mean) / spread
            g += weight * along / spread
        return a, g

    def _newton(self, fixed: Floats, along: Floats) -> Floats:
        """Return the weights of least penalised loss, begun on some of the entries."""
        weights = np.zeros(fixed.shape[0])
        weights[0] = math.log(self.positives / (self.rows - self.positives))
        stride = max(1, self.arrays[0].size // _FEW)
        if stride > 1:
            some = tuple(np.ascontiguousarray(array[::stride]) for array in self.arrays)
            weights = self._descend(weights, fixed, along, some)
        return self._descend(weights, fixed, along, self.arrays)

    def _descend(
        self, weights: Floats, fixed: Floats, along: Floats, arrays: tuple[NDArray[Any], ...]
    ) -> Floats:
        rows = self.rows
        if arrays is not self.arrays:
            kept = slice(None) if not arrays[4].size else arrays[4] != self.excluded
            rows = float(arrays[2][kept].sum()) or 1.0
        step, best = np.zeros(weights.size), math.inf
        for _ in range(_MOST_STEPS):
            tried = weights + step
            sums = self._sums(kernels.newton_sums, self._lines(tried, fixed, along), 6, arrays)
            loss = math.fsum(sums[:, 5]) / rows
            loss += self.ridge / 2 * math.fsum(float(weight) ** 2 for weight in tried[1:])
            if loss > best + 1e-12 * abs(best):
                step = step / 2
                continue
            weights, best = tried, loss
            step, decrement = kernels.newton_step(sums, fixed, along, weights, rows, self.ridge)
            if not decrement > _SMALL:
                return weights + step if decrement >= 0.0 else weights
        return weights

    def _lines(self, weights: Floats, fixed: Floats, along: Floats) -> Floats:
        lines = np.zeros((self.levels + 1, 2))
        for k in range(weights.size):
            lines[:-1, 0] += weights[k] * fixed[k]
            lines[:-1, 1] += weights[k] * along[k]
        lines[-1] = self.scaling
        return lines

    def _sums(
        self,
        kernel: Callable[..., None],
        lines: Floats,
        columns: int,
        arrays: tuple[NDArray[Any], ...],
    ) -> Floats:
        """Return sums per level, over blocks of the entries in order."""
        size = arrays[0].size
        starts = range(0, max(size, 1), _BLOCK)
        blocks = np.zeros((len(starts), self.levels, columns))

        def one(block: int) -> None:
            piece = slice(block * _BLOCK, (block + 1) * _BLOCK)
            inputs = tuple(array[piece] for array in arrays)
            kernel(*inputs, lines, self.excluded, blocks[block])

        if len(starts) == 1 or self.threads == 1:
            for block in range(len(starts)):
                one(block)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(one, range(len(starts))))
        total = np.zeros((self.levels, columns))
        for own in blocks:
            total += own
        return total


def _mean_and_spread(moments: Floats) -> tuple[float, float]:
    """Return mean and standard deviation from rows, sums and sums of squares per level."""
    rows, first, second = (math.fsum(column) for column in moments.T)
    if not rows:
        return 0.0, 0.0
    mean = first / rows
    variance = max(second / rows - mean * mean, 0.0)
    return mean, math.sqrt(variance) if variance > 1e-24 * mean * mean else 0.0
