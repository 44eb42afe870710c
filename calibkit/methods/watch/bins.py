"""Bets on rows by bins of a column: that probabilities are wrong, and that rows are not as in the fit.

**Calibration**, on the sign of the residuals by score.  Where a row is positive with its probability p,
exp(r y) / (1 + p (e^r - 1)) is 1 on average, for any rate r; positive rates bet on more positives,
negative ones on fewer.  Over the rows of a bin the denominators multiply to at most that of their mean
probability to the power of their number (Jensen), so numbers and sums are all that is kept.  Bets are
on one bin of the score, on all, or on the higher bins against the lower ones, at several rates.

**Drift**, on bins of the score and of the uncertainty; labels play no part.  The edges of the bins are
fitting rows of known ranks.  Where no two values are equal, the chances that new rows of the same
distribution fall into the bins are then those of a Dirichlet variable, whose parameters are the numbers
of fitting rows (Wilks, Order statistics, 1948): fitting rows are a sample, and how far they are off is
part of the law.  So the bins of new rows come as from Pólya's urn, which begins with the fitting rows
and takes in each new one, and the odds of any other law of them against this one are a nonnegative
martingale.  The laws that are bet on are urns, too, that begin with fewer rows and forget what is long
ago.

`mixture` of `calibkit.methods.watch.bets` mixes bets, and the nights from which one bets.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats, Int64s, Numbers, UInt8s
from calibkit.errors import UsageError
from calibkit.methods.watch.bets import Estimate, Evidence, mean_sequence, mixture
from calibkit.numerics.solve import rising_root

#: Into how many bins scores are cut, and at which of the 20 quantiles of the fitting rows.
BINS: Final = 5
QUANTILES: Final = (8, 14, 17, 19)

#: The unit of sums of probabilities: each is rounded down to one.
UNIT: Final = 2.0**-16

_RATES: Final[Floats] = np.exp2(1.0 - np.arange(7.0))

#: Rows of a bin: how many, how many positive, and the sum of their probabilities in units.
Bin = tuple[int, int, int]


def edges_of(model: Any) -> Floats:
    """Return where bins begin: at quantiles of the fitting rows, or evenly where none are known."""
    reference = model.fit.reference
    if reference is None:
        return np.linspace(0.0, 1.0, BINS + 1)[1:-1]
    return np.array([float(reference.score_quantiles[place]) for place in QUANTILES])


def calibration_counts(score: Numbers, label: UInt8s, edges: Floats) -> Int64s:
    """Return what is kept of some rows: `BINS` rows of a `Bin`."""
    place = np.searchsorted(edges, score, side="right")
    units = np.floor(score.astype(np.float64) / UNIT)
    counts = [np.bincount(place, values, BINS) for values in (None, label, units)]
    return np.stack(counts, axis=1).astype(np.int64)


#: The higher bins against the lower ones, at every border.
_STEEP: Final = [[-1.0] * cut + [1.0] * (BINS - cut) for cut in range(1, BINS)]
#: On which side each bet is of each bin: of it alone, of all, or of the higher against the lower.
_UP: Final[Floats] = np.concatenate([np.eye(BINS), np.ones((1, BINS)), _STEEP])
_SIDES: Final = np.concatenate([_UP, -_UP])


def calibration_logs(bins: Sequence[Bin]) -> Floats | None:
    """Return by how much a night multiplies the capital of each bet, as logarithms; None: by 1."""
    rows, hits, sums = np.array(bins, np.float64).reshape(-1, 3).T
    if not rows.sum():
        return None
    rates = _SIDES[:, None, :] * _RATES[:, None]
    # What was rounded down is given back to those who bet on more positives.
    mean = (sums + np.where(rates > 0.0, rows, 0.0)) * UNIT / np.maximum(rows, 1.0)
    gains = rates * hits - rows * np.log1p(np.minimum(mean, 1.0) * np.expm1(rates))
    return gains.sum(axis=2).ravel()


def calibration_evidence(nights: Sequence[Sequence[Bin]]) -> Evidence:
    """Return the evidence against the probabilities after each of some nights, in their order."""
    return mixture([calibration_logs(bins) for bins in nights], _SIDES.shape[0] * _RATES.size)


def calibration_estimate(nights: Sequence[Sequence[Bin]], alpha: float) -> Estimate:
    """Return how much more positives there are than the probabilities say, as a share of the rows.

    Its confidence sequence is that of the share of positives.
    """
    rows, hits, units = (sum(one[part] for bins in nights for one in bins) for part in range(3))
    if not rows:
        return Estimate(None, None, None, 0)
    low, high = mean_sequence(float(hits), rows, rows, alpha)
    # In the middle of what rounding leaves open.
    said = min(1.0, (units / rows + 0.5) * UNIT)
    return Estimate(hits / rows - said, max(0.0, low) - said, min(1.0, high) - said, rows)


def moved_odds(nights: Sequence[Sequence[Bin]], threshold: float) -> float | None:
    """Return by what factor the odds of all rows have moved, if that alone explains their labels.

    It is the factor that gives as many positives as there are: what a new base rate does to
    probabilities where negatives and positives look as before.  None where the evidence against the
    probabilities so moved still passes a threshold, or one label is not there.  A bin's mean is moved
    for its rows, so that of very many rows the answer may be None though the base rate is all.
    """
    rows, hits, sums = np.sum([np.array(bins, np.float64) for bins in nights], axis=0).T
    if not 0.0 < hits.sum() < rows.sum():
        return None

    def moved(rows: Floats, sums: Floats, log_factor: float) -> Floats:
        mean = np.clip(sums * UNIT / np.maximum(rows, 1.0), UNIT, 1.0 - UNIT)
        return rows / (1.0 + (1.0 / mean - 1.0) * math.exp(-log_factor))

    found = rising_root(lambda x: float(moved(rows, sums, x).sum() - hits.sum()), -64.0, 64.0)
    after = []
    for bins in nights:
        count, positive, units = np.array(bins, np.float64).T
        fresh = np.floor(moved(count, units, found) / UNIT)
        after.append(np.column_stack((count, positive, fresh)).tolist())
    return math.exp(found) if calibration_evidence(after).passed(threshold) is None else None


#: With how many rows in all the urns begin that are bet on, and what a night keeps of those before.
_FIRST: Final[Floats] = np.array([10.0, 100.0, 1_000.0, 10_000.0])
_KEPT: Final[Floats] = np.array([0.0, 0.5, 0.9, 1.0])


class Outline(Struct, frozen=True):
    """A column of the fitting rows: where bins begin, and how many of these rows each has."""

    edges: Floats
    rows: tuple[int, ...]


def outlines(model: Any) -> dict[str, Outline]:
    """Return the columns of the fitting rows that a boundary knows in outline, by role.

    Raises `UsageError` where it knows none, or by weight.
    """
    reference = model.fit.reference
    if reference is None:
        raise UsageError(
            "--drift: this boundary was fitted on a grid and keeps no reference to compare with; fit "
            "it on rows."
        )
    if "weight" in model.columns:
        raise UsageError(
            "--drift compares rows with as many fitting rows, and the model's have weights; leave it "
            "out, or compare by `calibkit drift`."
        )
    found = {}
    for role, (quantiles, counts, _) in reference.outlines.items():
        ends = np.array([float(one) for one in quantiles])  # 20 of them
        edges = ends[list(QUANTILES)]
        place = np.searchsorted(edges, ends, side="right")
        rows = np.bincount(place, np.array(counts, np.float64), BINS)
        found[role] = Outline(edges, tuple(int(number) for number in rows))
    return found


def drift_counts(values: Numbers, edges: Floats) -> Int64s:
    """Return the rows of each bin."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=BINS)


def drift_evidence(fitted: Sequence[int], nights: Sequence[Sequence[int]]) -> Evidence:
    """Return the evidence that new rows are not as the fitting rows, after each of some nights.

    `fitted` and each night are rows by bin.
    """
    # Equal edges have nothing between them; values below all fitting rows are with the lowest of these.
    own = np.flatnonzero(fitted)
    starts = np.append(0, own[1:])
    urn = np.array(fitted, np.float64)[own]
    urn[0] += 1.0  # N rows leave N + 1 gaps: so does that below the first row
    first = np.multiply.outer(_FIRST, urn / urn.sum())
    late = np.zeros((_KEPT.size, urn.size))
    steps = list[Floats | None]()
    for night in nights:
        rows = np.add.reduceat(np.array(night, np.float64), starts)
        if not rows.sum():
            steps.append(None)
            continue
        bets = _urn_log(first[:, None] + late, rows).ravel()
        steps.append(bets - _urn_log(urn, rows))
        urn, late = urn + rows, _KEPT[:, None] * (late + rows)
    return mixture(steps, _FIRST.size * _KEPT.size)


_log_gamma = np.frompyfunc(math.lgamma, 1, 1)


def _urn_log(urn: Floats, rows: Floats) -> Floats:
    """Return the logarithm of the chance of rows in some order, by urns that begin so, a line each."""

    def rising(begun: Floats, more: Any) -> Floats:
        return np.asarray(_log_gamma(begun + more) - _log_gamma(begun), np.float64)

    return rising(urn, rows).sum(axis=-1) - rising(urn.sum(axis=-1), rows.sum())


def drifted(fitted: Sequence[int], nights: Sequence[Sequence[int]]) -> float | None:
    """Return which share of the rows of some nights lies in other bins than the fit's; None of no row.

    It is the total variation between the shares of both: half the sum of their absolute differences.
    """
    rows = np.array(nights, np.float64).reshape(-1, BINS).sum(axis=0)
    if not rows.sum():
        return None
    return 0.5 * float(np.abs(rows / rows.sum() - np.array(fitted) / sum(fitted)).sum())
