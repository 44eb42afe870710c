"""Peeling: a path learnt from the outside in, so that most rows that it can select test it.

Precision is tested on selected rows alone.  A random part of the rows, the *core*, fits a path, and
of that a region R_1 is cut which holds more than can be certified.  Rows outside R_1 are no longer
selected: their labels teach the path with those of the core, a region R_2 inside R_1 is cut from
it, and so on.  The rows of the last region R that are not of the core test the boundaries of the
last path, all of which lie inside R.

Why that is exact: each region is a function of the core and of the rows outside the region before.
So whether the last one is a set r is told by the core and by the rows outside r (R is a stopping
set).  Given these, the other rows are as many as are left, and still independent draws of the
population inside r.  For them the path and the order of its tests are fixed: given how many of
them a boundary selects, the positives are binomial with its precision, as they are for two parts.

What must not be used before a region is cut: labels, scores, uncertainties or counts of the rows
inside it that are not of the core (no quantile of their scores, no threshold at one, not how many
the next region would leave), except for how many there are.  Rows that tie lie on the same side: by
score and level alone.  Weights and groups are bets on units that may lie on both sides; recall,
false positive rate and capacity are about rows outside too: these keep the two parts.
"""

from __future__ import annotations

import numpy as np

from calibkit.arrays import Bools, Floats
from calibkit.methods.boundary.certificate import evidence
from calibkit.methods.boundary.certificate.paths import CURVED, Path, Region, fit_path
from calibkit.methods.boundary.certificate.tests import Binomials
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.summaries.score_rows import ScoreRows

#: The core is so much of the share that fits where there are two parts.
_CORE = 0.75
#: Of more rows little is left to gain, and most would be fitted several times.
_MOST_ROWS = 1_000_000
#: By how many standard errors a first test must be expected to reject: few rows mislead a region.
_HOPE = 1.0
#: A region ends where a first test is expected to fail by so many standard errors, round by round.
_BEYOND = (7.0, 5.0, 5.0)
#: A region that leaves more than so much of the core before it, or fewer of its rows, is not cut.
_SHRUNK, _LEAST = 0.98, 10
#: So many rows of the core inside count half as much as if they stood for all rows there.
_HALF = 400.0


def peels(options: BoundaryOptions, rows: ScoreRows) -> bool:
    """Return whether rows can be peeled: one precision, of all rows, each of which counts once."""
    target = options.target
    parted = options.by, options.groups, options.time, target.gap, target.review, target.prevalence
    return (
        [one.name for one in evidence.quantities_of(options)] == ["precision"]
        and options.method == AUTO
        and not options.several
        and not any(parted)
        and rows.weight is None
        and rows.score.size <= _MOST_ROWS
    )


def core_share(rows: int) -> float:
    """Return the share of the rows that is the core."""
    return _CORE * evidence.fitting_share(rows)


def peel(
    rows: ScoreRows, options: BoundaryOptions, level: float
) -> tuple[Path, evidence.Split] | None:
    """Return the path and the parts, for first tests at a level; None where two parts do as well."""
    split = evidence.deal_rows(rows, options, core_share(rows.score.size))
    core, part = split.fits, split.fitting
    if not 0 < int(np.count_nonzero(part.labels)) < part.labels.size:
        return None
    sizes = evidence.sizes_of(part, options)
    path = fit_path(part, CURVED, options.levels, sizes)
    if path.method != CURVED or float(_margins(path, ~core, options, level).max()) < _HOPE:
        return None
    at = path.levels.of(rows.uncertainty, core.size)
    inside, before = np.ones(core.size, bool), path.totals[0]
    for beyond in _BEYOND:
        margins = _margins(path, inside & ~core, options, level)
        last = np.flatnonzero(margins >= min(-beyond, float(margins.max())))[-1]
        taken = inside & (path.first(rows.score, at) <= last)
        known = int(np.count_nonzero(taken & core))
        if known < _LEAST or known > _SHRUNK * before:
            break
        inside, before = taken, known
        each = max(1, round(int(np.count_nonzero(inside)) / known))
        # For one row each, those of the core are drowned by the many outside, where the surface may
        # be another; for all they stand for, few of them are believed too much.
        trust = (1.0 + (each - 1.0) * known / (known + _HALF)) / each
        lowest = path.thresholds[last]
        region = Region(path.levels, np.where(np.isnan(lowest), np.inf, lowest), each, trust)
        taught = rows.only(np.flatnonzero(core | ~inside))
        path = fit_path(taught, CURVED, options.levels, sizes, region)
    return path, evidence.Split(rows, core | ~inside)


def _margins(path: Path, testing: Bools, options: BoundaryOptions, level: float) -> Floats:
    """Return by how many standard errors a first test of each boundary is expected to reject."""
    (quantity,) = evidence.quantities_of(options)
    rows = int(np.count_nonzero(testing))
    test = Binomials.hoped(quantity, path.expected, path.totals, rows, level)
    return np.subtract(*test.hopes)
