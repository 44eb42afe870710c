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

What must not be used before a region is cut: labels, scores, uncertainties, or counts of rows inside
it that are not of the core (quantiles of scores and thresholds at scores among them), except for how
many there are.  Rows that tie lie on the same side: a row lies inside by its score and level alone.
Weights and groups are bets on units that may lie on both sides; recall, the false positive rate and
capacity are about rows outside too; so these keep the two parts.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.methods.boundary.certificate.evidence import (
    Split,
    deal_rows,
    fitting_share,
    quantities_of,
    sizes_of,
)
from calibkit.methods.boundary.certificate.paths import CURVED, Path, Region, fit_path
from calibkit.methods.boundary.certificate.tests import Binomials
from calibkit.options.boundary import AUTO, BoundaryOptions

#: The core is so much of the share that fits without peeling.
_CORE = 0.75
#: Beyond so many rows there is little left to gain, and many rows would be fitted several times.
_MOST_ROWS = 1_000_000
#: By how many standard errors a first test must be expected to reject: few rows mislead a region.
_HOPE = 1.0
#: A region ends where a first test is expected to fail by so many standard errors, round by round.
_BEYOND = (7.0, 5.0, 5.0)
#: A region that leaves more of the core than so much, or fewer rows of it, is not cut.
_SHRUNK, _LEAST = 0.98, 10
#: With so many rows of the core inside they are trusted half as much as all rows there would be.
_HALF = 100.0


@dataclass(frozen=True)
class Peeled:
    """A path inside a region; the rows of the core and those outside it fit, the others certify."""

    path: Path
    split: Split


def peels(options: BoundaryOptions, rows: ScoreRows) -> bool:
    """Return whether rows can be peeled: one precision, of all rows, each of which counts once."""
    target = options.target
    named = options.by, options.groups, options.time, target.gap, target.review, target.prevalence
    return (
        [one.name for one in quantities_of(options)] == ["precision"]
        and options.method == AUTO
        and not options.several
        and not any(named)
        and rows.weight is None
        and rows.score.size <= _MOST_ROWS
    )


def core_share(rows: int) -> float:
    """Return the share of the rows that is the core."""
    return _CORE * fitting_share(rows)


def peel(rows: ScoreRows, options: BoundaryOptions, level: float) -> Peeled | None:
    """Return the path that peeling finds, for first tests at a level; None where it does not pay."""
    split = deal_rows(rows, options, core_share(rows.score.size))
    core, part = split.fits, split.fitting
    if not 0 < int(np.count_nonzero(part.labels)) < part.labels.size:
        return None
    sizes = sizes_of(part, options)
    path = fit_path(part, CURVED, options.levels, sizes)
    if path.method != CURVED or float(_margins(path, ~core, options, level).max()) < _HOPE:
        return None
    at = path.levels.of(rows.uncertainty, rows.score.size)
    inside = np.ones(core.size, bool)
    for beyond in _BEYOND:
        margins = _margins(path, inside & ~core, options, level)
        hopeful = np.flatnonzero(margins >= min(-beyond, float(margins.max())))
        taken = inside & (path.first(rows.score, at) <= hopeful[-1])
        before, known = (int(np.count_nonzero(own & core)) for own in (inside, taken))
        if known < _LEAST or known > _SHRUNK * before:
            break
        inside = taken
        each = max(1, round(int(inside.sum()) / known))
        # One row of the core for itself alone would be drowned by those outside, for all it stands
        # for it would be fitted as if nothing were known of its neighbours.
        trust = (1.0 + (each - 1.0) * known / (known + _HALF)) / each
        lowest = path.thresholds[hopeful[-1]]
        region = Region(path.levels, np.where(np.isnan(lowest), np.inf, lowest), each, trust)
        path = fit_path(
            rows.only(np.flatnonzero(core | ~inside)), CURVED, options.levels, sizes, region
        )
    return Peeled(path, Split(rows, core | ~inside))


def _margins(
    path: Path, testing: NDArray[np.bool_], options: BoundaryOptions, level: float
) -> NDArray[np.float64]:
    """Return by how many standard errors a first test of each boundary is expected to reject."""
    (quantity,) = quantities_of(options)
    ratio = int(np.count_nonzero(testing)) / max(path.totals[0], 1)
    expected = quantity.hits_and_trials(path.expected, *path.totals) * ratio
    test = Binomials(quantity, expected, np.zeros(expected.shape, np.int64), level)
    found: NDArray[np.float64] = test.signals - test.wanted
    return found
