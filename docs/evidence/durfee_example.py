"""Sections 3.1 and 3.2 of Durfee, Gupta and Basu: exact figures, and what `hetcal` makes of rows."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import polars as pl
from numpy.typing import NDArray
from pages import table
from small_networks import auc

import calibkit as ck

Floats = NDArray[np.float64]

#: The share of rows with the new feature among positives; one less it among negatives.
SHARE = 0.75
SPREAD = 2.0
GRID = np.linspace(-25.0, 25.0, 50_001)
STEP = float(GRID[1] - GRID[0])
ROWS = 200_000
WEIGHTS = (0.0, 0.9, 1.8, 2.7, 3.6, 4.4, 5.4)


def normal(s: Floats, mean: float, spread: float) -> Floats:
    """Return the density of a normal distribution."""
    return np.exp(-(((s - mean) / spread) ** 2) / 2) / (spread * math.sqrt(2 * math.pi))


def densities(training: bool) -> tuple[Floats, Floats]:
    """Return the densities of the scores of positives and of negatives on GRID."""
    hit = normal(GRID, 1, SPREAD)
    if training:  # what a network knows by heart leaves fewer rows on the wrong side
        hit = np.where(GRID >= 1, 4 / 3 * hit, 2 / 3 * normal(GRID, 1, 1))
    return hit, hit[::-1]  # those of negatives are the mirror image


def exact_auc(training: bool, weight: float) -> float:
    """Return the AUC of f + weight times the feature."""
    hit, miss = densities(training)
    below = np.cumsum(miss) * STEP
    found = 0.0
    for mine, its in ((1, 1), (1, 0), (0, 1), (0, 0)):
        share = (SHARE if mine else 1 - SHARE) * (1 - SHARE if its else SHARE)
        seen = np.interp(GRID + weight * (mine - its), GRID + STEP / 2, below)
        found += share * float((hit * seen).sum()) * STEP
    return found


def log_loss(training: bool, weight: float, scale: float = 1.0, feature: bool = True) -> float:
    """Return the log loss of scale times (f + weight * feature - weight / 2)."""
    hit, _ = densities(training)
    found = 0.0
    for present in (True, False):
        # Negatives are the mirror image: both classes lose the same.
        share = (SHARE if present else 1 - SHARE) if feature else 0.5
        score = scale * (GRID + (weight if present else -weight) / 2)
        found += share * float((hit * np.logaddexp(0, -score)).sum()) * STEP
    return found


def least(loss: Callable[[float], float], low: float, high: float) -> float:
    """Return where a function with one minimum is least, by the golden section."""
    golden = (math.sqrt(5) - 1) / 2
    while high - low > 1e-7:
        a, b = high - golden * (high - low), low + golden * (high - low)
        low, high = (low, b) if loss(a) < loss(b) else (a, high)
    return (low + high) / 2


def rows(training: bool, weight: float, seed: int) -> pl.DataFrame:
    """Return simulated rows with the score that a network of that weight gives them."""
    random = np.random.default_rng(seed)
    label = random.integers(0, 2, ROWS)
    away = np.abs(random.normal(0, 1, ROWS))
    right = random.random(ROWS) < (2 / 3 if training else 1 / 2)
    score = np.where(right, 1 + SPREAD * away, 1 - (1.0 if training else SPREAD) * away)
    feature = random.random(ROWS) < np.where(label == 1, SHARE, 1 - SHARE)
    linear = np.where(label == 1, score, -score) + weight * (feature - 0.5)
    return pl.DataFrame({"label": label, "score": linear, "feature": feature.astype(np.int64)})


def calibrated(weight: float) -> tuple[float, float, float, float]:
    """Return AUC and log loss of rows before `hetcal` and after it."""
    train, calib, test = (rows(k == 1, weight, k) for k in (1, 2, 3))
    model = ck.fit_hetcal(calib, train=train, features=["feature"], scale="logit")
    p = model.apply(test)["calibrated"].to_numpy()
    score, y = test["score"].to_numpy(), test["label"].to_numpy()
    before = float(np.logaddexp(0, np.where(y == 1, -score, score)).mean())
    after = float(-np.log(np.where(y == 1, p, 1 - p)).mean())
    return auc(score, y), before, auc(p, y), after


def example() -> dict[str, str]:
    """Return the tables of sections 3.1 and 3.2."""
    trained = least(lambda w: log_loss(True, w), 0, 10)
    best = least(lambda w: -exact_auc(False, w), 1, 8)
    scales = [
        least(lambda c, t=training: log_loss(t, 0, c, feature=False), 0.05, 10)
        for training in (False, True)
    ]
    claims = [
        ["scale of f with the least log loss, other rows", "about 1/2", f"{scales[0]:.3f}"],
        ["scale of f with the least log loss, training rows", "about 2", f"{scales[1]:.3f}"],
        ["w with the least cross-entropy on training rows", "1.8", f"{trained:.4f}"],
        ["its b", "−0.9", f"−{trained / 2:.4f}"],
        ["AUC at w = 1.8", "0.83", f"{exact_auc(False, 1.8):.4f}"],
        ["AUC at w = 3.6", "0.85", f"{exact_auc(False, 3.6):.4f}"],
        ["log loss at w = 1.8, w = 3.6", "falls",
         f"{log_loss(False, 1.8):.4f}, {log_loss(False, 3.6):.4f}"],
        ["w with the highest AUC", "", f"{best:.3f} ({exact_auc(False, best):.4f})"],
    ]  # fmt: skip
    figure = [
        [name, *(f"{exact_auc(training, w):.4f}" for w in WEIGHTS)]
        for name, training in (("other rows", False), ("training rows", True))
    ]
    found = [[f"{w:g}", *(f"{value:.4f}" for value in calibrated(w))] for w in (1.8, 3.6)]
    return {
        "example": table("|paper|ours", claims),
        "curves": table(["", *(f"w = {w:g}" for w in WEIGHTS)], figure),
        "rows": table("w of the network|AUC|log loss|AUC after|log loss after", found),
    }
