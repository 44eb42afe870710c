"""Fitting a logistic surface, on a whole tally or with each part of a dealt one left out.

The regressors and their penalty are described in `calibkit.methods.boundary.solvers.logistic`.

The fits that leave out one part of many entries share their passes: one pass at a common point adds
up each part on its own, and a fit takes all parts less its own.  As folds of many rows differ by
little, the Newton step from there is as good as the last one of a fit on its own, see `_NEAR`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import DataError
from calibkit.methods.boundary.problem.found import Surface
from calibkit.numerics.newton import LITTLE, newton, newton_step
from calibkit.summaries.tally import Tally
from calibkit_kernels import surface as kernels

Floats = NDArray[np.float64]

#: Entries whose sums are taken together.
_BLOCK = 65_536
#: A fit begins on about so many entries.
_FEW = 50_000
#: As `calibkit.numerics.newton.LITTLE`, of a step from the common point of many folds, which are
#: much alike: what is left is its square, lost in rounding.
_NEAR = 1e-6
#: Folds of so many entries and more share their sums.
_MANY = 4 * _FEW
#: The largest scores of which squares are summed as they are, of either sign; less than the least is 0.
_MODEST = (1e-100, 1e100)
_LEAST = 1e-290
#: The largest difference of two scores.
LARGEST = 1.7e308
_NOT_DEALT = np.empty(0, np.uint8)


def fit_surface(
    tally: Tally,
    excluded: int = -1,
    *,
    probability: bool = True,
    raw: bool = False,
    threads: int = 1,
    shared: Shared | None = None,
) -> Surface:
    """Return the surface of a tally.

    Scores are `probability`, `raw` or, if neither, logits.  `shared` is what the fits that leave out
    one part of this tally have in common.
    """
    common = (
        shared.of(tally, probability, threads) if shared and excluded >= 0 and not raw else None
    )
    fit = _Fit(tally, regressor(tally, probability), excluded, threads, common, raw=raw)
    for names in (("score", "uncertainty", "product"), ("score", "uncertainty"), ("score",)):
        found = fit.surface(names)
        if found is not None and found.score > 0.0 and found.score + found.product > 0.0:
            return found
    return Surface(0.0, 1.0, 0.0, 0.0, fit.ranks)


def regressor(tally: Tally, probability: bool) -> NDArray[Any]:
    """Return what a surface is linear in: logits of probabilities, else the scores."""
    return tally.logits[0] if probability else tally.score


class _Fit:
    """The fits of one surface with fewer and fewer regressors."""

    scaling: tuple[float, float]
    moments: Floats

    def __init__(
        self,
        tally: Tally,
        s: NDArray[Any],
        excluded: int,
        threads: int,
        common: Shared | None = None,
        *,
        raw: bool = False,
    ) -> None:
        self.raw = raw  # whether the product takes the standardised score
        self.arrays = (s, tally.level, tally.count, tally.positive, tally.part)
        self.excluded, self.threads, self.levels = excluded, threads, tally.levels
        self.common = common
        if common is None:
            self._measure(s)
        else:
            self.scaling, self.constant = common.whole.scaling, False
            self.moments = _without(common.moments, excluded)
        moments = self.moments
        self.rows, self.positives = float(moments[:, 0].sum()), float(moments[:, 3].sum())
        self.ridge = 1.0 / (self.rows * tally.unit.size) if self.rows else 0.0
        below = np.cumsum(moments[:, 0]) - moments[:, 0]
        self.ranks: Floats = (below + moments[:, 0] / 2) / (self.rows or 1.0)

    def _measure(self, s: NDArray[Any]) -> None:
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

    def surface(self, names: tuple[str, ...]) -> Surface | None:
        """Return the fit with some regressors; None where there is nothing to fit."""
        if self.constant or not 0.0 < self.positives < self.rows:
            return None
        fixed, along = self._design(names)
        if fixed.shape[0] <= len(names):  # a regressor is constant, or the same as another
            return None
        weights = self._newton(names, fixed, along)
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

    def _newton(self, names: tuple[str, ...], fixed: Floats, along: Floats) -> Floats:
        """Return the weights of least penalised loss, begun where all parts are or on a sample.

        From the common point of all parts a Newton step may be the last one.  The ranks of the levels
        are the fit's own, so its lines are not quite those of the point: the sums move along by their
        curvature.
        """
        point = None if self.common is None else self.common.point(names)
        if point is None or point.weights.size != fixed.shape[0]:
            return self._descend(self._on_sample(fixed, along), fixed, along, self.arrays)
        sums = _without(point.sums, self.excluded)
        moved = self._lines(point.weights, fixed, along)[:-1] - point.lines[:-1]
        sums[:, 0] += sums[:, 2] * moved[:, 0] + sums[:, 3] * moved[:, 1]
        sums[:, 1] += sums[:, 3] * moved[:, 0] + sums[:, 4] * moved[:, 1]
        slopes = self._slopes(sums, fixed, along, point.weights, self.rows)
        weights, decrement = newton_step(point.weights, *slopes)
        if 0.0 <= decrement <= _NEAR:
            return weights
        return self._descend(point.weights, fixed, along, self.arrays)

    def point(self, names: tuple[str, ...], parts: int) -> _Point | None:
        """Return a point next to the fit on all parts, and the sums of each part there."""
        fixed, along = self._design(names)
        if fixed.shape[0] <= len(names):
            return None
        weights = self._on_sample(fixed, along)
        lines = self._lines(weights, fixed, along)
        sums = self.sums_by_part(kernels.newton_sums, lines, 6, parts)
        slopes = self._slopes(sums.sum(axis=0), fixed, along, weights, self.rows)
        weights, decrement = newton_step(weights, *slopes)
        if not decrement >= 0.0:
            return None
        lines = self._lines(weights, fixed, along)
        return _Point(weights, lines, self.sums_by_part(kernels.newton_sums, lines, 6, parts))

    def _on_sample(self, fixed: Floats, along: Floats) -> Floats:
        """Return the weights that fit some of the entries."""
        weights = np.zeros(fixed.shape[0])
        weights[0] = math.log(self.positives / (self.rows - self.positives))
        stride = max(1, self.arrays[0].size // _FEW)
        if stride > 1:
            some = tuple(np.ascontiguousarray(array[::stride]) for array in self.arrays)
            weights = self._descend(weights, fixed, along, some)
        return weights

    def _descend(
        self, weights: Floats, fixed: Floats, along: Floats, arrays: tuple[NDArray[Any], ...]
    ) -> Floats:
        rows = self.rows
        if arrays is not self.arrays:
            kept = slice(None) if not arrays[4].size else arrays[4] != self.excluded
            rows = float(arrays[2][kept].sum()) or 1.0

        def sums_at(tried: Floats) -> tuple[float, Floats, Floats]:
            sums = self._sums(kernels.newton_sums, self._lines(tried, fixed, along), 6, arrays)
            loss = math.fsum(sums[:, 5]) / rows
            loss += self.ridge / 2 * math.fsum(float(weight) ** 2 for weight in tried[1:])
            return loss, *self._slopes(sums, fixed, along, tried, rows)

        return newton(sums_at, weights, slope=0.0, decrement=LITTLE).point

    def _slopes(
        self, sums: Floats, fixed: Floats, along: Floats, weights: Floats, rows: float
    ) -> tuple[Floats, Floats]:
        """Return gradient and curvature of the penalised mean loss."""
        gradient, curvature = np.empty(weights.size), np.empty((weights.size, weights.size))
        kernels.surface_slopes(sums, fixed, along, weights, rows, self.ridge, gradient, curvature)
        return gradient, curvature

    def _lines(self, weights: Floats, fixed: Floats, along: Floats) -> Floats:
        lines = np.zeros((self.levels + 1, 2))
        for k in range(weights.size):
            lines[:-1, 0] += weights[k] * fixed[k]
            lines[:-1, 1] += weights[k] * along[k]
        lines[-1] = self.scaling
        return lines

    def sums_by_part(
        self, kernel: Callable[..., None], lines: Floats, columns: int, parts: int
    ) -> Floats:
        """Return sums per part and level of a dealt tally, no part left out."""
        every = np.vstack((np.tile(lines[:-1], (parts, 1)), lines[-1:]))
        *arrays, part = self.arrays

        def one(piece: slice, out: Floats) -> None:
            s, level, count, positive = (array[piece] for array in arrays)
            cell = part[piece].astype(np.uint16) * np.uint16(self.levels) + level
            kernel(s, cell, count, positive, _NOT_DEALT, every, -1, out)

        found = self._in_blocks(one, (parts * self.levels, columns), part.size)
        return found.reshape(parts, self.levels, columns)

    def _sums(
        self,
        kernel: Callable[..., None],
        lines: Floats,
        columns: int,
        arrays: tuple[NDArray[Any], ...],
    ) -> Floats:
        """Return sums per level."""

        def one(piece: slice, out: Floats) -> None:
            kernel(*(array[piece] for array in arrays), lines, self.excluded, out)

        return self._in_blocks(one, (self.levels, columns), arrays[0].size)

    def _in_blocks(
        self, add: Callable[[slice, Floats], None], shape: tuple[int, int], size: int
    ) -> Floats:
        """Return sums over blocks of the entries, added in order."""
        starts = range(0, max(size, 1), _BLOCK)
        blocks = np.zeros((len(starts), *shape))

        def one(block: int) -> None:
            add(slice(block * _BLOCK, (block + 1) * _BLOCK), blocks[block])

        if len(starts) == 1 or self.threads == 1:
            for block in range(len(starts)):
                one(block)
        else:
            with ThreadPoolExecutor(self.threads) as pool:
                list(pool.map(one, range(len(starts))))
        total = np.zeros(shape)
        for own in blocks:
            total += own
        return total


@dataclass(frozen=True)
class _Point:
    """Weights, their lines, and the sums of `newton_sums` there, one table a part."""

    weights: Floats
    lines: Floats
    sums: Floats


class Shared:
    """What the fits that leave out one part of a dealt tally have in common; made by the first."""

    #: The fit on all parts, how many they are, and the moments of each, in the scaling of all.
    whole: _Fit
    parts: int | None = None
    moments: Floats

    def __init__(self) -> None:
        self._lock = Lock()
        self._points: dict[tuple[str, ...], _Point | None] = {}

    def of(self, tally: Tally, probability: bool, threads: int) -> Shared | None:
        """Return the common sums of a tally, always the same one; None where they do not pay."""
        with self._lock:
            if self.parts is None:
                self.parts = self._begin(tally, probability, threads)
        return self if self.parts else None

    def _begin(self, tally: Tally, probability: bool, threads: int) -> int:
        parts = int(tally.part.max()) + 1 if tally.part.size else 0
        if tally.part.size < _MANY or parts < 2 or parts * tally.levels > 2**16:
            return 0
        whole = _Fit(tally, regressor(tally, probability), -1, threads)
        if whole.constant or not 0.0 < whole.positives < whole.rows:
            return 0
        plain = np.zeros((whole.levels + 1, 2))
        plain[-1] = whole.scaling
        self.whole, self.moments = whole, whole.sums_by_part(kernels.moment_sums, plain, 4, parts)
        return parts

    def point(self, names: tuple[str, ...]) -> _Point | None:
        """Return the common point of the fits with some regressors; None where there is none."""
        with self._lock:
            if names not in self._points:
                self._points[names] = self.whole.point(names, self.parts or 0)
            return self._points[names]


def _unit(s: NDArray[Any]) -> float:
    """Return the unit in which scores can be squared and summed: 1, unless they are extreme."""
    if not s.size:
        return 1.0
    lowest, highest = float(s.min()), float(s.max())
    extent = max(-lowest, highest)
    if highest - lowest > LARGEST:
        raise DataError(
            f"scores from {lowest:g} to {highest:g}: their differences are too large for a logistic "
            "surface; scale the scores; only their order matters"
        )
    if _MODEST[0] < extent < _MODEST[1] or extent < _LEAST:
        return 1.0
    return 2.0 ** (math.frexp(extent)[1] - 1)


def _without(sums: Floats, part: int) -> Floats:
    """Return the sums of all parts but one."""
    found: Floats = np.delete(sums, part, axis=0).sum(axis=0)
    return found
