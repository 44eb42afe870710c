"""The logistic surface over several uncertainties: one cut on a fitted probability.

The regressors are s (the logit of a probability, or the score), the rank of each uncertainty, their
products with each other and with s; the fit is logistic regression with a ridge on the standardised
regressors.  Uncertainties enter by the bins of their cells, a rank being the middle of those of a bin's
rows, and scores by bins of equal positives: sums are over cells and bins, whatever the number of rows.
So a surface with a cut is one threshold a cell.  Where the score does not rise with the probability in
every cell, its products are dropped.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.solvers.logistic import surface_cut
from calibkit.methods.boundary.solvers.surface_fit import regressor
from calibkit.numerics.solve import newton
from calibkit.summaries.tally import Tally
from calibkit_kernels.logistic import newton_sums

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Bins of the score, of equal positives.
_BINS = 200
#: The ridge, in rows for each standardised regressor.
_RIDGE = 1.0


def best_cell_cut(
    tally: Tally,
    goal: Goal,
    excluded: int = -1,
    *,
    shape: tuple[int, ...],
    scale: str = "probability",
    threads: int = 1,
) -> Found:
    """Fit a surface and return its best cut, see `calibkit.methods.boundary.solvers.logistic.best_cut`.

    `tally`: its levels are the cells; `shape`: how many bins each uncertainty has.
    """
    probability = scale == "probability"
    lines = fit_cells(tally, shape, excluded, probability=probability)
    found = surface_cut(tally, lines, goal, excluded, probability=probability, threads=threads)
    return replace(found, leaves=np.arange(tally.levels, dtype=np.uint16))


def fit_cells(
    tally: Tally, shape: tuple[int, ...], excluded: int = -1, *, probability: bool = True
) -> Floats:
    """Return log-odds ``a + g s`` of each cell, (a, g); without `excluded`, a part of a dealt tally."""
    s = np.asarray(regressor(tally, probability), np.float64)
    count, positive, bins = score_bins(tally, _BINS, excluded)
    place = tally.level.astype(np.int64) * _BINS + bins
    rows, hits, score = (
        np.bincount(place, own, tally.levels * _BINS) for own in (count, positive, count * s)
    )
    held = np.flatnonzero(rows > 0.0)
    times: Floats = rows[held].astype(np.float64)
    share, mean = hits[held] / times, score[held] / times
    ranks = _ranks(tally, shape)
    among: Floats = np.column_stack([ranks, *(ranks[:, a] * ranks[:, b] for a, b in _pairs(shape))])
    cells = held // _BINS
    for product in (ranks, ranks[:, :0]):
        terms: Floats = np.column_stack((mean, among[cells], mean[:, None] * product[cells]))
        with np.errstate(over="ignore", invalid="ignore"):
            if not np.isfinite(np.square(terms - terms[0]) @ np.ones(terms.shape[1])).all():
                break  # scores so large that nothing can be summed are the surface themselves
        intercept, weights = _fit(terms, share, times)
        split = 1 + among.shape[1]
        slope = weights[0] + product @ weights[split:]
        if (slope > 0.0).all():
            return np.column_stack((intercept + among @ weights[1:split], slope))
    return np.column_stack((np.zeros(tally.levels), np.ones(tally.levels)))


def score_bins(tally: Tally, bins: int, excluded: int = -1) -> tuple[Floats, Floats, Int64s]:
    """Return rows and positive rows of each entry, and its bin of the score, of equal positives."""
    kept = tally.unit.size * (np.ones(tally.score.size) if excluded < 0 else tally.part != excluded)
    count, positive = tally.count * kept, tally.positive * kept
    seen = np.cumsum(positive) - positive
    place = np.minimum(bins * seen / (positive.sum() or 1.0), bins - 1)
    return count, positive, place.astype(np.int64)


def _pairs(shape: tuple[int, ...]) -> list[tuple[int, int]]:
    return [*combinations(range(len(shape)), 2)]


def _ranks(tally: Tally, shape: tuple[int, ...]) -> Floats:
    """Return the rank of each uncertainty in each cell, shape (cells, uncertainties), from 0 to 1."""
    rows = tally.level_totals[:, 1].reshape(shape).astype(np.float64)
    found = []
    for axis in range(len(shape)):
        own = rows.sum(axis=tuple(other for other in range(len(shape)) if other != axis))
        middle = (np.cumsum(own) - own / 2.0) / (own.sum() or 1.0)
        places = [1] * len(shape)
        places[axis] = shape[axis]
        found.append(np.broadcast_to(middle.reshape(places), shape).ravel())
    return np.column_stack(found)


def _fit(terms: Floats, share: Floats, rows: Floats) -> tuple[float, Floats]:
    """Return intercept and weights of least log loss with a ridge on standardised regressors."""
    whole = rows.sum()
    mean = rows @ terms / whole
    spread = np.sqrt(np.maximum(rows @ np.square(terms - mean) / whole, 0.0))
    varies = spread > 1e-9
    scaled = np.where(varies, (terms - mean) / np.where(varies, spread, 1.0), 0.0)
    scaled = np.ascontiguousarray(np.column_stack((np.ones(rows.size), scaled)))
    penalty = np.append(1e-9, np.full(terms.shape[1], _RIDGE))

    def sums(weights: Floats) -> tuple[float, Floats, Floats]:
        gradient, curvature = penalty * weights, np.diag(penalty)
        loss = 0.5 * float(penalty @ np.square(weights))
        loss += newton_sums(scaled, share, rows, weights, gradient, curvature)
        return loss, gradient, curvature

    found = newton(sums, np.zeros(scaled.shape[1]), scale=whole).point
    weights = np.where(varies, found[1:] / np.where(varies, spread, 1.0), 0.0)
    return float(found[0] - mean @ weights), weights
