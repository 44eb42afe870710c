"""Nested paths of boundaries, fitted on one part of the rows, along which another part certifies.

A path is a sequence of boundaries each of which selects at least what the one before selects.  It
is a function of the fitting part alone, as are the uncertainty levels it stands on and the place
where certification begins on it: so, for the certification part, every boundary of it is fixed.

The default path cuts a logistic surface with squares, fitted where a boundary runs.  The plain surface
of `calibkit.methods.boundary.solvers.logistic` is fitted to all rows, most of which lie far below a
boundary at a high precision, and bends to suit them.  Here a surface with the squares of score and
rank is fitted to the rows near and above the boundary alone: its *window*, the rows that the plain
surface puts highest, five times as many as it expects the boundary to select.  Below the window the
order is that of the plain surface.  Scores enter the squares by an inverse hyperbolic sine, so that
a few extreme ones do not bend the surface.  A boundary rises with the score at every uncertainty, so
of the parabola at a level only the rising side is taken, and the other one made level.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int64s, Numbers, UInt16s, distinct_values
from calibkit.methods.boundary.problem.found import Surface, lowest_scores
from calibkit.methods.boundary.solvers.frontier import supported_frontier
from calibkit.methods.boundary.solvers.logistic import LEVELS as SURFACE_LEVELS
from calibkit.methods.boundary.solvers.logistic import distinct, fit_surface, regressor
from calibkit.numerics.isotonic import pool_prefixes
from calibkit.numerics.logistic import ridge_weights
from calibkit.summaries.binning import Levels, uncertainty_levels
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import Tally, count_rows, log_odds
from calibkit_kernels.classes import affine_rows, outer_sums
from calibkit_kernels.maps import LEAST, logit

#: The path of the curved surface, which no other method has.
CURVED = "curved"
#: The default number of levels of the optimum's path.
_EXACT_LEVELS = 3
#: From one boundary of a path to the next the fitting rows selected grow by this share.
_STEP = 0.005
#: Scores at which a surface is looked at, at every level: so many of the highest, then ever fewer.
_DENSE = 400


class Path(Struct, frozen=True):
    """Boundaries from strict to lax, each selecting at least what the one before selects.

    `thresholds` has the shape (boundaries, levels): NaN selects nothing, -inf everything; `expected`
    how many of the fitting rows and of their positives each is expected to select, on which only the
    power of the tests depends; `totals` the rows and positives of the fitting part; `surface` and
    `cuts` a logistic surface, and where each boundary cuts it.
    """

    method: str
    levels: Levels
    thresholds: Floats
    expected: Floats
    totals: tuple[int, int]
    surface: Surface | None = None
    cuts: Floats | None = None

    def first(self, score: Numbers, level: UInt16s) -> Int64s:
        """Return the first boundary that selects each score at a level; their number if none."""
        first = np.full(score.size, len(self.thresholds), np.int64)
        for own_level in range(self.thresholds.shape[1]):
            own = np.flatnonzero(level == own_level)
            column = self.thresholds[:, own_level]
            never = int(np.isnan(column).sum())  # they stand first: a path only grows
            falling = -score[own].astype(np.float64)
            first[own] = never + np.searchsorted(-column[never:], falling, side="left")
        return first

    def counts(self, tally: Tally, hits: Numbers | None = None) -> Numbers:
        """Return the rows that each boundary selects of a tally over the levels, and the positive ones.

        With `hits` of the entries, sums of these in their place.
        """
        first, size = self.first(tally.score, tally.level), len(self.thresholds)
        hits = tally.positive if hits is None else hits
        found: Numbers = np.zeros((size + 1, 2), np.result_type(hits, np.int64))
        for column, units in enumerate((tally.count, hits)):
            if float(units.max(initial=0)) * units.size < 2**53:  # floats count exactly so far
                found[:, column] = np.bincount(first, units, size + 1)
            else:
                np.add.at(found[:, column], first, units)
        return np.cumsum(found[:size], axis=0)


class Region(Struct, frozen=True):
    """What is left of the scores at each level when rows were peeled off, and what is known of it.

    `lowest` has the lowest score of each level, inf where nothing is left.  Each row that is known
    inside stands for `each` rows, and counts as `trust` times as many in the fit of a surface.
    """

    levels: Levels
    lowest: Floats
    each: int
    trust: float

    def holds(self, score: Numbers, level: UInt16s) -> Bools:
        """Return which scores at a level lie inside."""
        return score.astype(np.float64) >= self.lowest[level]

    def known(self, tally: Tally) -> Tally:
        """Return the rows of a tally that lie inside, each counted once."""
        own = self.holds(tally.score, tally.level)
        count, positive = tally.count[own] // self.each, tally.positive[own] // self.each
        return Tally(tally.score[own], tally.level[own], count, positive, tally.levels)


def joined(expected: Sequence[Floats]) -> Int64s:
    """Return one path over several segments, each of which has a path of its own.

    The steps of all paths follow each other by falling rate of expected positives, that of the
    isotonic regression along the path; from one boundary to the next the rows grow by a step.
    `expected` has rows and positives that the boundaries of each path are expected to select; returned
    is the place on each segment's path, shape (boundaries, segments), -1 before its first.
    """
    if len(expected) == 1:
        return np.arange(expected[0].shape[0])[:, None]
    rates, owners, rows = [], [], []
    for own, sums in enumerate(expected):
        units = np.rint(sums * 1024.0).astype(np.int64)  # integers pool exactly
        pools = pool_prefixes(units[:, 0], units[:, 1])
        rates.append(np.repeat(pools[:, 1] / np.maximum(pools[:, 0], 1), pools[:, 2]))
        owners.append(np.full(units.shape[0], own))
        rows.append(np.diff(units[:, 0], prepend=0))
    owner = np.concatenate(owners)
    order = np.argsort(-np.concatenate(rates), kind="stable")
    steps = np.zeros((owner.size, len(expected)), np.int64)
    steps[np.arange(owner.size), owner[order]] = 1
    places = np.cumsum(steps, axis=0) - 1
    kept = _milestones(np.cumsum(np.concatenate(rows)[order]))
    return places[distinct_values(np.append(kept, owner.size - 1))]


def fit_path(
    rows: ScoreRows, method: str, levels: int | None, sizes: Sizes, region: Region | None = None
) -> Path:
    """Return the path of a method (``st``, ``logistic``, ``exact`` or `CURVED`), fitted on some rows.

    Their weights, if there are any, are whole numbers.  `levels` is how many uncertainty levels the
    optimum and the surfaces take, `sizes` how many rows a boundary is expected to select, see
    `calibkit.methods.boundary.certificate.paths`.  With a `region`, in which only some rows are known,
    the path is that of the curved surface inside it, and what it expects is about these.
    """
    wanted = {"st": 1, "exact": levels or _EXACT_LEVELS}.get(method, levels or SURFACE_LEVELS)
    own = distinct(uncertainty_levels(rows, wanted if rows.uncertainty is not None else 1))
    own = own if region is None else region.levels
    level, weight = own.of(rows.uncertainty, rows.score.size), rows.weight
    if region is not None:
        weight = np.where(region.holds(rows.score, level), float(region.each), 1.0)
    tally = count_rows(rows.score, level, rows.labels, own.count, weight=weight)
    probability = rows.options.measure == "probability"
    finite = probability or bool(np.isfinite(tally.score).all())
    curved = fit_curved(tally, sizes, region, probability=probability) if finite else None
    surface = cuts = None
    if method == "exact":
        # The optima of ``true positives - c * selected`` for falling c, and all rows.
        points = tally.points()
        optima = lowest_scores(tally, points, supported_frontier(points).choices)
        found = np.vstack((optima, np.full((1, own.count), -np.inf)))
    elif method == "st" or curved is None:
        if own.count > 1:
            return fit_path(replace(rows, uncertainty=None), "st", None, sizes)
        # Scores at which the rows selected have grown by a step.
        places = _milestones(np.cumsum(tally.count, dtype=np.int64))
        method, found = "st", np.append(tally.score[places].astype(np.float64), -np.inf)[:, None]
    elif method == "logistic":
        surface = curved.plain
        found, cuts = _plain_cuts(tally, surface, probability)
    else:
        found = _curved_cuts(tally, curved, probability)
        if region is not None:
            found = np.maximum(found, region.lowest)
            found[found == np.inf] = np.nan
            tally = region.known(tally)
    _, whole, positives = tally.level_totals.sum(axis=0).tolist()
    path = Path(method, own, found, np.empty(0), (whole, positives), surface, cuts)
    hits = None  # a single threshold follows no surface, and hardly overstates its counts
    if curved is not None and method != "st":  # what the surface expects is smoother than counts
        s = np.asarray(regressor(tally, probability), np.float64)
        hits = curved.probabilities(s, tally.level) * tally.count
    return replace(path, expected=path.counts(tally, hits).astype(np.float64))


def _milestones(rows: Int64s) -> Int64s:
    """Return places at which cumulative rows have grown by a step since the one before."""
    kept, place = [], 0
    while place < rows.size:
        kept.append(place)
        wanted = max(rows[place] * (1.0 + _STEP), rows[place] + 1.0)
        place = int(np.searchsorted(rows, wanted))
    return np.array(kept, np.int64)


def _plain_cuts(tally: Tally, surface: Surface, probability: bool) -> tuple[Floats, Floats]:
    """Return the cuts of the logistic surface as scores of each level, and as they are."""
    s = np.asarray(regressor(tally, probability), np.float64)
    cuts = np.append(_falling_values(tally, plain_values(surface, s, tally.level)), -np.inf)
    lines = surface.lines()
    found = (cuts[:, None] - lines[:, 0]) / lines[:, 1]
    if probability:
        edge = logit(1.0 - LEAST)
        never, always = found > edge, found <= -edge
        found = np.clip(probability_of(found), LEAST, 1.0 - LEAST)
        found[never], found[always] = np.nan, -np.inf
    return found, cuts


def _curved_cuts(tally: Tally, surface: CurvedSurface, probability: bool) -> Floats:
    """Return the cuts of the curved surface, written as scores of the tally."""
    # Some of the distinct scores, rising: the highest ones, then ever fewer, and the lowest.
    distinct_scores = distinct_values(tally.score.astype(np.float64))[::-1]
    places = [0]
    while places[-1] < distinct_scores.size - 1:
        places.append(places[-1] + max(1, places[-1] // _DENSE))
    places[-1] = distinct_scores.size - 1
    grid = np.ascontiguousarray(distinct_scores[places][::-1])
    worth = surface.worth(log_odds(grid) if probability else grid)
    at = np.searchsorted(grid, tally.score, side="right") - 1
    cuts = _falling_values(tally, worth[tally.level, at])
    found = np.full((cuts.size + 1, tally.levels), -np.inf)
    scores = np.append(grid, np.nan)
    scores[0] = -np.inf
    for level in range(tally.levels):
        found[:-1, level] = scores[np.searchsorted(worth[level], cuts, side="left")]
    return found


def _falling_values(tally: Tally, values: Floats) -> Floats:
    """Return values of the entries, falling, at which the rows above have grown by a step."""
    order = np.argsort(-values, kind="stable")
    ordered = values[order]
    last = np.append(ordered[1:] != ordered[:-1], True)
    rows = np.cumsum(tally.count[order], dtype=np.int64)[last]
    return np.asarray(ordered[last][_milestones(rows)])


#: Expected positives and rows of the highest values to how many of them the boundary selects.
Sizes = Callable[[Floats, Floats], float]

#: The window holds so many times the rows expected to be selected, and at least so many rows.
_TIMES, _LEAST = 5.0, 1500.0
#: A window of more than this share of the rows is all of them.
_MOST = 0.7
#: Up to about so many times their spread from the middle scores enter the squares as they are.
_STRAIGHT = 2.0
#: Entries whose terms are made together.
_BLOCK = 65_536
#: Intercept, s, u, s u, s^2 and u^2.
TERMS = 6


class CurvedSurface(Struct, frozen=True):
    """A plain surface, a window of its highest values, and a surface with squares inside it.

    `scale` has the middle and the spread by which scores enter the squares, see `_squeezed`.
    """

    plain: Surface
    window: float
    scale: tuple[float, float]
    scaling: Floats
    weights: Floats

    def probabilities(self, s: Floats, level: UInt16s) -> Floats:
        """Return the fitted probability of some regressors and their levels."""
        values = plain_values(self.plain, s, level)
        inside = values >= self.window
        ranks = self.plain.ranks[level[inside]]
        scaled = _squeezed(s[inside], self.scale)
        curved = np.empty((scaled.size, 1))
        terms = _terms(scaled, ranks, self.scaling)
        affine_rows(terms, self.weights.reshape(1, -1), np.zeros(1), curved)
        values[inside] = curved[:, 0]
        return probability_of(values)

    def worth(self, s: Floats) -> Floats:
        """Return what orders rows, shape (levels, scores), rising with the rising scores `s`.

        It is the probability, plus 1 inside the window.  Where the parabola of a level opens upwards
        its falling side counts as its lowest point, else as its highest; the plain surface decides
        between equals.
        """
        levels = self.plain.ranks.size
        level = np.repeat(np.arange(levels, dtype=np.uint16), s.size)
        tiled = np.tile(s, levels)
        plain = plain_values(self.plain, tiled, level)
        found = self.probabilities(tiled, level) + (plain >= self.window)
        found = found.reshape(levels, s.size)
        if self.weights[4] > 0.0:
            found = np.minimum.accumulate(found[:, ::-1], axis=1)[:, ::-1]
        else:
            found = np.maximum.accumulate(found, axis=1)
        return found + 1e-6 * probability_of(plain).reshape(found.shape)


def plain_values(surface: Surface, s: Floats, level: UInt16s) -> Floats:
    """Return the log-odds of a plain surface."""
    lines = surface.lines()
    return lines[level, 0] + lines[level, 1] * s


def probability_of(values: Floats) -> Floats:
    """Return the probabilities of some log-odds."""
    small = np.exp(-np.abs(values))
    return np.where(values >= 0.0, 1.0, small) / (1.0 + small)


def _squeezed(s: Floats, scale: tuple[float, float]) -> Floats:
    """Return scores as they enter the squares: logarithmic some spreads from the middle."""
    return np.arcsinh((s - scale[0]) / (_STRAIGHT * scale[1]))


def fit_curved(
    tally: Tally, sizes: Sizes, region: Region | None = None, *, probability: bool = True
) -> CurvedSurface:
    """Fit the surface to a tally.

    `tally`: finite scores (unless they are probabilities), over levels; `sizes`: how many rows a
    boundary is expected to select; `region`: where counts are trusted less; `probability`: whether
    scores are probabilities.
    """
    plain = fit_surface(tally, scale="probability" if probability else "logit")
    s = np.asarray(regressor(tally, probability), np.float64)
    values = plain_values(plain, s, tally.level)
    order = np.argsort(-values, kind="stable")
    count = tally.count[order].astype(np.float64)
    rows = np.cumsum(count)
    expected = sizes(np.cumsum(probability_of(values[order]) * count), rows)
    wanted = max(_TIMES * expected, _LEAST)
    window = -np.inf
    if wanted < _MOST * rows[-1]:
        window = float(values[order[int(np.searchsorted(rows, wanted))]])
    inside = values >= window
    ordered = np.sort(s[inside])
    low, middle, high = (float(ordered[k * (ordered.size - 1) // 4]) for k in (1, 2, 3))
    scale = (middle, high - low or 1.0)
    ranks = plain.ranks[tally.level[inside]]
    rows = tally.count[inside].astype(np.float64)
    share = tally.positive[inside] / rows
    if region is not None:
        rows[region.holds(tally.score[inside], tally.level[inside])] *= region.trust
    return CurvedSurface(
        plain, window, scale, *_fit(_squeezed(s[inside], scale), ranks, rows, share)
    )


def _fit(s: Floats, u: Floats, count: Floats, share: Floats) -> tuple[Floats, Floats]:
    """Return scaling and weights of least log loss plus half the sum of squared weights.

    `share` has the positive rate of the rows of each entry.
    """
    blocks = [slice(low, low + _BLOCK) for low in range(0, s.size, _BLOCK)]
    scaling = np.tile([0.0, 1.0], (TERMS, 1))
    moments, part = np.zeros((2, TERMS)), np.empty((1, TERMS))
    for own in blocks:
        terms = _terms(s[own], u[own], scaling)
        for row, values in zip(moments, (terms, terms * terms), strict=True):
            outer_sums(count[own].reshape(-1, 1), values, part)
            row += part[0]
    mean, square = moments / moments[0, 0]
    variance = square - mean * mean
    scaling[1:, 0] = mean[1:]
    scaling[1:, 1] = np.where(variance[1:] > 1e-12, np.sqrt(np.maximum(variance[1:], 0.0)), 0.0)

    def parts() -> Iterator[tuple[Floats, Floats, Floats]]:
        return ((_terms(s[own], u[own], scaling), share[own], count[own]) for own in blocks)

    return scaling, ridge_weights(parts, TERMS, moments[0, 0])


def _terms(s: Floats, u: Floats, scaling: Floats) -> Floats:
    """Return intercept, s, u, s u, s^2 and u^2, less their means and in units of their spreads.

    `scaling` has a row (mean, spread) for each regressor; a spread of 0 leaves the regressor out.
    """
    terms = np.column_stack([np.ones(s.size), s, u, s * u, s * s, u * u])
    mean, spread = scaling.T
    varies = spread > 0.0
    terms[:, 1:] = (terms - mean)[:, 1:] / np.where(varies, spread, 1.0)[1:] * varies[1:]
    return terms
