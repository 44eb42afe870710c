"""Betting that rows no longer look as those of the fit: on bins of the score and of the uncertainty.

The edges of the bins are fitting rows of known ranks.  Where no two values are equal, the chances that
new rows of the same distribution fall into the bins are then those of a Dirichlet variable, whose
parameters are the numbers of fitting rows (Wilks, Order statistics, 1948): fitting rows are a sample,
and how far they are off is part of the law.  So the bins of new rows come as from Pólya's urn, which
begins with the fitting rows and takes in each new one, and the odds of any other law of them against
this one are a nonnegative martingale.  The laws that are bet on are urns, too, that begin with fewer
rows and forget what is long ago; `mixture` of `calibkit.methods.watch.bets` mixes them and the nights
from which they bet.

Labels play no part.  Numbers of rows by bin are all that is kept, which add up.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.methods.watch.bets import Evidence, Floats, mixture
from calibkit.methods.watch.residuals import BINS, QUANTILES

#: With how many rows in all the urns begin that are bet on, and what a night keeps of those before.
_FIRST: Final[Floats] = np.array([10.0, 100.0, 1_000.0, 10_000.0])
_KEPT: Final[Floats] = np.array([0.0, 0.5, 0.9, 1.0])


#: The columns that may be watched.
ROLES: Final = ("score", "uncertainty")


@dataclass(frozen=True)
class Outline:
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
    for role in ROLES:
        names = f"{role}_quantiles", f"{role}_counts"
        quantiles, counts = (getattr(reference, name) for name in names)
        if quantiles is not None and counts is not None:
            # 20 quantiles, and the rows from each up to the next.
            ends = np.array([float(one) for one in quantiles])
            edges = ends[list(QUANTILES)]
            place = np.searchsorted(edges, ends, side="right")
            rows = np.bincount(place, np.array(counts, np.float64), BINS)
            found[role] = Outline(edges, tuple(int(number) for number in rows))
    return found


def counted(values: NDArray[Any], edges: Floats) -> NDArray[np.int64]:
    """Return the rows of each bin."""
    return np.bincount(np.searchsorted(edges, values, side="right"), minlength=BINS)


def evidence(fitted: Sequence[int], nights: Sequence[Sequence[int]]) -> Evidence:
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

    found: Floats = rising(urn, rows).sum(axis=-1) - rising(urn.sum(axis=-1), rows.sum())
    return found


def moved(fitted: Sequence[int], nights: Sequence[Sequence[int]]) -> float | None:
    """Return which share of the rows of some nights lies in other bins than the fit's; None of no row.

    It is the total variation between the shares of both: half the sum of their absolute differences.
    """
    rows = np.array(nights, np.float64).reshape(-1, BINS).sum(axis=0)
    if not rows.sum():
        return None
    return 0.5 * float(np.abs(rows / rows.sum() - np.array(fitted) / sum(fitted)).sum())
