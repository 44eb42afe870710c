"""CORP: the Brier score as miscalibration less discrimination plus uncertainty.

Scores are compared with their isotonic regression on the labels (Dimitriadis, Gneiting, Jordan,
Stable reliability diagrams for probabilistic classifiers, 2021, section 2).
"""

from __future__ import annotations

import math

from calibkit.measures.metric import metric
from calibkit.measures.reliability import brier
from calibkit.measures.views import View, once
from calibkit.numerics.isotonic import Pools, pool, pool_block


@once
def pools(view: View) -> Pools:
    """Return the pools of isotonic regression by falling score: rows, positive rows, entries."""
    return pool(view.each(pool_block, view.count, view.positive))


@once
def isotonic_brier(view: View) -> float | None:
    """Return the Brier score of the isotonic regression; None without rows."""
    if not view.total:
        return None
    terms = ((hits / rows) * (rows - hits) for rows, hits, _ in pools(view).tolist())
    return math.fsum(terms) / view.total


@metric("miscalibration", interval="bootstrap")
def miscalibration(view: View) -> float | None:
    """Return how much the isotonic regression of the scores lowers their Brier score."""
    own, best = brier(view), isotonic_brier(view)
    return None if own is None or best is None else max(0.0, own - best)


@metric("discrimination", interval="bootstrap")
def discrimination(view: View) -> float | None:
    """Return how much lower the Brier score of the isotonic regression is than the base rate's."""
    base, best = brier_uncertainty(view), isotonic_brier(view)
    return None if base is None or best is None else max(0.0, base - best)


@metric("brier_uncertainty", interval="wilson", compared=False)
def brier_uncertainty(view: View) -> float | None:
    """Return the Brier score of the base rate."""
    if not view.total:
        return None
    return (view.positives / view.total) * (view.negatives / view.total)
