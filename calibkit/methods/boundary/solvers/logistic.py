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

import numpy as np
from msgspec.structs import replace

from calibkit.arrays import Floats, Numbers, Singles, UInt32s, blocks, distinct_values
from calibkit.errors import DataError
from calibkit.methods.boundary.problem.found import Found, Surface
from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.solvers.prefixes import best_prefix
from calibkit.numerics.solve import LITTLE, newton
from calibkit.numerics.sums import each_block
from calibkit.summaries.binning import Levels
from calibkit.summaries.tally import Points, Tally
from calibkit_kernels import logistic as kernels
from calibkit_kernels import sorting
from calibkit_kernels.maps import LEAST

#: How many levels the uncertainty is resolved into.
LEVELS = 100
#: Entries whose sums are taken together.
_BLOCK = 65_536
#: A fit begins on about so many entries.
_FEW = 50_000
#: The largest scores of which squares are summed as they are, of either sign; less than the least is 0.
_MODEST = (1e-100, 1e100)
_LEAST = 1e-290
#: The largest difference of two scores.
_LARGEST = 1.7e308
_SIGN = np.uint32(1 << 31)


def logistic(value: float) -> float:
    """Return the probability of some log-odds."""
    small = math.exp(-abs(value))
    return 1.0 / (1.0 + small) if value >= 0.0 else small / (1.0 + small)


def distinct(levels: Levels) -> Levels:
    """Return levels without those that no value can be in."""
    edges = distinct_values(levels.edges)
    return Levels(levels.minimum, edges[edges > levels.minimum])


def surface_cut(
    tally: Tally, lines: Floats, goal: Goal, excluded: int, *, probability: bool, threads: int = 1
) -> Found:
    """Return the best cut of a surface, a line in the score at each level, see `cells.best_cut`."""
    s = regressor(tally, probability)
    keys, pieces = np.empty(s.size, np.uint32), sorting.pieces_of(s.size, threads)
    more = [(lines, excluded)] * len(pieces)
    arrays: tuple[Numbers, ...] = s, tally.level, tally.part, keys
    each_block(kernels.surface_keys, arrays, pieces, threads, more)
    tables = np.zeros((len(pieces), 1 << 32 - kernels.CELL_BITS, 4), np.int64)
    arrays = keys, tally.count, tally.positive, tally.gain
    each_block(kernels.cell_sums, arrays, pieces, threads, [(table,) for table in tables])

    def points_of(first: int, last: int) -> Points:
        low, high = first << kernels.CELL_BITS, last + 1 << kernels.CELL_BITS
        order = np.flatnonzero((keys >= low) & (keys < high))
        order = order[np.argsort(keys[order], kind="stable")]
        points = tally.ranked(_values(keys[order]), order).points()
        return replace(points, entry=order[points.entry[points.of_level(0)]])

    entry, selected, true_positives, gain = best_prefix(goal, np.add.reduce(tables), points_of)
    if entry < 0:
        return Found(np.full(tally.levels, np.nan), 0, 0)
    value = _values(keys[entry])
    reached = float(value)
    # From where on what the surface says comes to this value, which is rounded.
    least = 0.5 * (reached + float(np.nextafter(value, np.float32(-math.inf))))
    # Of the scores of each level, those whose value reaches the cut are parted exactly from the others.
    limits = np.full((tally.levels, 2), np.nan)
    kernels.level_limits(tally.score, keys, tally.level, np.uint64(keys[entry]), limits)
    if (lines == lines[0]).all():  # a surface of the score alone has one threshold
        limits[:] = np.fmin.reduce(limits[:, 0]), np.fmax.reduce(limits[:, 1])
    thresholds = [
        _threshold(_as_score((reached - a) / g, probability), *own)
        for (a, g), own in zip(lines, limits, strict=True)
    ]
    return Found(np.array(thresholds), selected, true_positives, cut=least, gain=gain)


def _values(keys: UInt32s | np.uint32) -> Singles:
    """Return the numbers of falling-order keys."""
    rising = np.where(keys & _SIGN, keys, ~keys & (_SIGN - np.uint32(1)))
    return rising.astype(np.uint32).view(np.float32)


def _threshold(reached: float, lowest: float, highest: float) -> float:
    """Return where a line reaches a cut, so that it selects `lowest` and does not select `highest`.

    Either is NaN where there is no such score.
    """
    if not math.isnan(lowest) and not reached <= lowest:
        return lowest
    if not math.isnan(highest) and reached <= highest:
        return lowest if not math.isnan(lowest) else math.nextafter(highest, math.inf)
    return reached


def _as_score(s: float, probability: bool) -> float:
    """Return the score of a value of the regressor: clipped probabilities are all alike."""
    if not probability:
        return float(s)
    bound = math.log((1.0 - LEAST) / LEAST)
    if s <= -bound:
        return -math.inf
    return math.nan if s > bound else logistic(s)


# ---------------------------------------------------------------- the fit


def fit_surface(
    tally: Tally, excluded: int = -1, *, scale: str = "probability", threads: int = 1
) -> Surface:
    """Return the surface of a tally; `scale` says what scores hold: see `cells.best_cut`."""
    s = regressor(tally, scale == "probability", threads)
    fit = _Fit(tally, s, excluded, threads, raw=scale == "raw")
    for regressors in (3, 2, 1):
        found = fit.surface(regressors)
        if found is not None and found.score > 0.0 and found.score + found.product > 0.0:
            return found
    return Surface(0.0, 1.0, 0.0, 0.0, fit.ranks)


def regressor(tally: Tally, probability: bool, threads: int = 1) -> Numbers:
    """Return what a surface is linear in: logits of probabilities, else the scores."""
    return tally.logits(threads) if probability else tally.score


class _Fit:
    """The fits of one surface with fewer and fewer regressors."""

    def __init__(self, tally: Tally, s: Numbers, excluded: int, threads: int, *, raw: bool) -> None:
        self.raw = raw  # whether the product takes the standardised score
        self.arrays = (s, tally.level, tally.count, tally.positive, tally.part)
        self.excluded, self.threads, self.levels = excluded, threads, tally.levels
        self._measure(s)
        rows = self.moments[:, 0]
        self.rows, self.positives = float(rows.sum()), float(self.moments[:, 3].sum())
        self.ridge = 1.0 / (self.rows * tally.row_size) if self.rows else 0.0
        self.ranks: Floats = (np.cumsum(rows) - rows + rows / 2) / (self.rows or 1.0)

    def _measure(self, s: Numbers) -> None:
        """Find how scores are scaled, and their moments at each level."""
        plain = np.zeros((self.levels + 1, 2))
        unit = _unit(s)
        plain[-1] = float(s[s.size // 2]) if s.size and unit == 1.0 else 0.0, unit
        rough = self._sums(kernels.moment_sums, plain, 4, self.arrays)
        rows, first, second = (math.fsum(column) for column in rough[:, :3].T)
        centre, spread = first / rows if rows else 0.0, 0.0
        variance = max(second / rows - centre * centre, 0.0) if rows else 0.0
        if variance > 1e-24 * centre * centre:
            spread = math.sqrt(variance)
        self.scaling = (float(plain[-1, 0]) + centre * unit, spread * unit or 1.0)
        self.raw = self.raw or unit != 1.0
        plain[-1] = self.scaling
        self.moments = self._sums(kernels.moment_sums, plain, 4, self.arrays)
        self.constant = spread == 0.0

    def surface(self, regressors: int) -> Surface | None:
        """Return the fit with the first regressors; None where one of them is constant."""
        if self.constant or not 0.0 < self.positives < self.rows:
            return None
        rows, first, second, _ = self.moments.T
        fixed, along = [np.ones(self.levels)], [np.zeros(self.levels)]
        standards = []
        for a, b in self._regressors(self.ranks)[:regressors]:
            mean = math.fsum(a * rows + b * first) / self.rows
            square = (a - mean) ** 2 * rows + 2 * (a - mean) * b * first + b * b * second
            spread = math.sqrt(max(math.fsum(square) / self.rows, 0.0))
            if not spread > 1e-12:
                return None
            fixed.append((a - mean) / spread)
            along.append(b / spread)
            standards.append((mean, spread))
        weights = self._weights(np.array(fixed), np.array(along))
        # Back from the scaled score: the lines at ranks 0 and 1 say everything.
        intercept, slope = np.full(2, weights[0]), np.zeros(2)
        ends = self._regressors(np.array([0.0, 1.0]))[:regressors]
        for weight, (a, b), (mean, spread) in zip(weights[1:], ends, standards, strict=True):
            intercept += weight * (a - mean) / spread
            slope += weight * b / spread
        centre, scale = self.scaling
        a0, a1 = (intercept - slope * centre / scale).tolist()
        g0, g1 = (slope / scale).tolist()
        return Surface(a0, g0, a1 - a0, g1 - g0, self.ranks)

    def _regressors(self, rank: Floats) -> list[tuple[Floats, Floats]]:
        """Return score, uncertainty and product at some ranks as ``a + b s`` of the scaled score."""
        none, one = np.zeros_like(rank), np.ones_like(rank)
        centre, scale = (0.0, 1.0) if self.raw else self.scaling
        return [(none, one), (rank, none), (rank * centre, rank * scale)]

    def _weights(self, fixed: Floats, along: Floats) -> Floats:
        """Return the weights of least penalised loss, begun on a sample of the entries."""
        weights = np.zeros(fixed.shape[0])
        weights[0] = math.log(self.positives / (self.rows - self.positives))
        arrays: tuple[Numbers, ...] = self.arrays
        rows = self.rows

        def sums_at(tried: Floats) -> tuple[float, Floats, Floats]:
            lines = np.zeros((self.levels + 1, 2))
            for k in range(tried.size):
                lines[:-1, 0] += tried[k] * fixed[k]
                lines[:-1, 1] += tried[k] * along[k]
            lines[-1] = self.scaling
            sums = self._sums(kernels.surface_sums, lines, 6, arrays)
            loss = math.fsum(sums[:, 5]) / rows
            loss += self.ridge / 2 * math.fsum(float(weight) ** 2 for weight in tried[1:])
            return loss, *surface_slopes(sums, fixed, along, tried, rows, self.ridge)

        stride = max(1, self.arrays[0].size // _FEW)
        if stride > 1:
            arrays = tuple(np.ascontiguousarray(array[::stride]) for array in self.arrays)
            kept = arrays[4] != self.excluded if arrays[4].size else slice(None)
            rows = float(arrays[2][kept].sum()) or 1.0
            weights = newton(sums_at, weights, slope=0.0, decrement=LITTLE).point
            arrays, rows = self.arrays, self.rows
        return newton(sums_at, weights, slope=0.0, decrement=LITTLE).point

    def _sums(
        self, kernel: Callable[..., None], lines: Floats, columns: int, arrays: tuple[Numbers, ...]
    ) -> Floats:
        """Return sums per level over blocks of the entries, added in order."""
        parts = list(blocks(max(arrays[0].size, 1), _BLOCK))
        sums = np.zeros((len(parts), self.levels, columns))
        more = [(lines, self.excluded, out) for out in sums]
        each_block(kernel, arrays, parts, self.threads, more)
        return np.cumsum(sums, axis=0)[-1]


def surface_slopes(
    sums: Floats, fixed: Floats, along: Floats, weights: Floats, rows: float, ridge: float
) -> tuple[Floats, Floats]:
    """Return gradient and curvature of the penalised mean log loss, added level by level.

    `sums`: shape (levels, 6), see `calibkit_kernels.logistic.surface_sums`; `fixed`, `along`: shape
    (regressors, levels): at a level regressor k is ``fixed + along * s``, and the first one is the
    intercept, which goes free of the penalty; `weights`: those that the sums are at; `rows`, `ridge`:
    the number of rows, and the penalty: half of it times the sum of squares.
    """
    r, rs, w, ws, wss, _ = sums.T
    a, b, c, d = fixed[:, None], along[:, None], fixed, along
    gradient = np.cumsum(fixed * r + along * rs, axis=1)[:, -1] / rows
    terms = a * c * w + (a * d + b * c) * ws + b * d * wss
    curvature = np.cumsum(terms, axis=2)[:, :, -1] / rows
    gradient[1:] += ridge * weights[1:]
    return gradient, curvature + np.diag([0.0] + [ridge] * (weights.size - 1))


def _unit(s: Numbers) -> float:
    """Return the unit in which scores can be squared and summed: 1, unless they are extreme."""
    if not s.size:
        return 1.0
    lowest, highest = float(s.min()), float(s.max())
    extent = max(-lowest, highest)
    if highest - lowest > _LARGEST:
        raise DataError(
            f"scores from {lowest:g} to {highest:g}: their differences are too large for a logistic "
            "surface; scale the scores; only their order matters"
        )
    if _MODEST[0] < extent < _MODEST[1] or extent < _LEAST:
        return 1.0
    return 2.0 ** (math.frexp(extent)[1] - 1)
