"""Choosing the path that is certified: the one along which most recall is expected to be certified.

The part that fits is dealt to folds.  The path of each rival is fitted without a fold, and a row of the
fold has its place on it: the share of rows that the first boundary which selects it selects.  Along the
places of the rows of all folds stand hits and trials that no path overstates.  From these follows how
probably each test of the other part will reject, and so how much recall is to be expected in the end.

The rows that certify take no part in this: whatever is chosen, the certificate holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.methods.boundary.certificate import evidence
from calibkit.methods.boundary.certificate.paths import CURVED, Sizes, fit_path, milestones
from calibkit.methods.boundary.certificate.tests import Binomials, Chain, Quantity
from calibkit.methods.boundary.result.parts import Candidate
from calibkit.methods.boundary.solvers.logistic import LEVELS as SURFACE_LEVELS
from calibkit.numerics.normal import normal_cdf
from calibkit.options.boundary import BoundaryOptions

Floats = NDArray[np.float64]
Keys = NDArray[np.uint64]

#: The methods whose paths are tried.  Optima over levels are not: what their folds promise they keep
#: least, and on real files they were certified less far than the plain surface.
RIVALS = ("logistic", "st", CURVED)
#: The part that fits is dealt to so many folds.
_FOLDS = 5
#: By so many standard errors a rival has to be worth more than the plain surface.
_ERRORS = 2.0
#: So many rows are enough to choose by, and fewer than so many of a class too few.
ENOUGH, _LEAST = 100_000, 10
#: In place of sums of nothing.
_TINY = 1e-300


@dataclass(frozen=True)
class Outlook:
    """What is to be expected of certifying along a path.

    Attributes
    ----------
    quantities, level
        What is certified, and the error probability of the first tests.
    scale
        How many rows certify for each of these.
    place
        The place of each row on a path that was fitted without it.
    counts
        What each row adds to the rows, to the positives, and to what recall is a share of.
    """

    quantities: Sequence[Quantity]
    level: float
    scale: float
    place: Floats
    counts: Floats

    @cached_property
    def _order(self) -> NDArray[np.int64]:
        return np.argsort(self.place, kind="stable")

    @cached_property
    def _ends(self) -> NDArray[np.int64]:
        """The last row of some places, in order: from one to the next the rows grow by a step."""
        place = self.place[self._order]
        last = np.flatnonzero(np.append(place[1:] != place[:-1], True))
        ends: NDArray[np.int64] = last[milestones(last + 1)]
        return ends

    def expected(self, left_out: NDArray[np.bool_] | None = None) -> tuple[float, Floats, bool]:
        """Return what is expected of the objective, and of a boundary at which the tests may end.

        First what is maximised, where nothing certified counts as 0; then precision and recall of the
        last boundary that is as likely to be certified as not; then whether there is one.  The
        rows that are `left_out` do not count.
        """
        counts, scale = self.counts, self.scale
        if left_out is not None:
            counts = counts * ~left_out[:, None]
            scale *= left_out.size / np.count_nonzero(~left_out)
        sums = np.cumsum(counts[self._order], axis=0)
        whole, sums = scale * sums[-1], scale * sums[self._ends]
        none = np.zeros((sums.shape[0], 2), np.int64)
        tests = []
        for one in self.quantities:
            hits = 2 if one.name == "recall" else 1
            found = one.hits_and_trials(sums[:, [0, hits]], whole[0], whole[hits])
            tests.append(Binomials(one, found, none, self.level))
        chain = Chain(tests, any(one.strict_first for one in self.quantities), sums[:, 0])
        of = np.column_stack((sums[:, 0], np.full_like(sums[:, 0], whole[2])))
        rates = sums[:, 1:] / np.maximum(of, _TINY)
        rates, margins = rates[chain.places], chain.margins[chain.places]
        chances = [normal_cdf(margin) for margin in np.minimum.accumulate(margins).tolist()]
        values = rates[:, int(any(one.name != "recall" for one in self.quantities))]
        likely = np.flatnonzero(margins >= 0.0)
        end = int(likely[-1]) if likely.size else 0
        return float(np.diff(values, prepend=0.0) @ chances), rates[end], bool(likely.size)


def choose_path(
    rows: ScoreRows, options: BoundaryOptions, sizes: Sizes, scale: float
) -> tuple[str, tuple[Candidate, ...]]:
    """Return the method of the path to certify, and what was seen of it and its rivals.

    A plain surface has few parameters, and holds single thresholds among its cuts.  So it is chosen
    unless a rival is worth more by two standard errors: those of the difference, from folds, with the
    paths that were fitted without them, that are left out in turn.

    Parameters
    ----------
    rows
        The part that fits.  Without uncertainties there is nothing to choose among, and with fewer than
        `_LEAST` rows of a class, or none in a fold, nothing to choose by.
    options
        What is certified.
    sizes
        See `fit_path`.
    scale
        How many rows certify for each that fits.
    """
    levels, whole = options.levels, rows.score.size
    if rows.uncertainty is None:
        return "st", ()
    assert rows.label is not None
    keys = evidence.row_keys(rows, options)
    if options.groups is not None:
        keys = evidence.keys_of_groups(rows, options, "rivals")
    if whole > ENOUGH:
        kept = np.flatnonzero(keys <= np.partition(keys, ENOUGH)[ENOUGH])
        rows, keys = rows.only(kept), keys[kept]
    folds = keys % np.uint64(_FOLDS)
    classes = [folds[rows.label == one] for one in (0, 1)]
    if any(own.size < _LEAST or np.unique(own).size < _FOLDS for own in classes):
        return "logistic", ()
    scale *= whole / rows.score.size
    counts = _counts(rows, options)
    rows = evidence.in_quarters(rows)
    level = 1.0 - float(options.confidence_level or 0.0)
    found, without = [], []
    for method in RIVALS:
        place = _places(rows, folds, method, levels, sizes)
        outlook = Outlook(evidence.quantities_of(options), level, scale, place, counts)
        found.append(outlook.expected())
        without.append([outlook.expected(folds == one)[0] for one in range(_FOLDS)])
    worth = np.array([one[0] for one in found])
    apart = np.array(without) - np.array(without[0])
    errors = np.sqrt((_FOLDS - 1) * apart.var(axis=1))
    better = np.flatnonzero(worth - worth[0] > _ERRORS * errors)
    best = int(better[np.argmax(worth[better])]) if better.size else 0
    seen = [
        Candidate(
            method=method,
            uncertainty_bins=1 if method == "st" else levels or SURFACE_LEVELS,
            precision=float(rates[0]),
            recall=float(rates[1]),
            objective_value=value,
            within_bound=likely,
            gap=float(worth.max() - value),
            gap_standard_error=float(error),
        )
        for method, (value, rates, likely), error in zip(RIVALS, found, errors, strict=True)
    ]
    return RIVALS[best], tuple(seen)


def _counts(rows: ScoreRows, options: BoundaryOptions) -> Floats:
    """Return what each row adds to the rows, the positives, and what recall is a share of.

    They are scaled so that there are as many rows, and as much of the last as positives.
    """
    assert rows.label is not None
    weight = np.ones(rows.score.size) if rows.weight is None else rows.weight
    caught = weight * rows.label * evidence.values_of(rows, options)
    if options.target.prevalence is not None:
        share, base = float(options.target.prevalence), np.average(rows.label, weights=weight)
        weight = weight * np.where(rows.label == 1, share / base, (1.0 - share) / (1.0 - base))
    weight = weight / max(float(weight.mean()), _TINY)
    hits = weight * rows.label
    return np.column_stack((weight, hits, caught * (hits.sum() / max(float(caught.sum()), _TINY))))


def _places(rows: ScoreRows, fold: Keys, method: str, levels: int | None, sizes: Sizes) -> Floats:
    """Return the place of each row on a path that is fitted without its fold."""
    place = np.empty(fold.size)
    for one in range(_FOLDS):
        others, own = (rows.only(np.flatnonzero(side)) for side in (fold != one, fold == one))
        path = fit_path(others, method, levels, sizes, smooth=False)
        first = path.first(own.score, path.levels.of(own.uncertainty, own.score.size))
        place[fold == one] = (path.expected[:, 0] / path.totals[0])[first]
    return place
