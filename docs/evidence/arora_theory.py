"""What a posterior network's score says of training and of test rows: Arora and others, appendix E."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from calibkit.arrays import Floats
from calibkit.numerics.positivity import Prior, expected_true_positivity

#: How far a rounded score may lie beyond those that can be reached.
ROUNDING = 1e-6


def model_score(train_score: ArrayLike, evidence: ArrayLike, *, model_prior: Prior) -> Floats:
    """Return the score (p1 + n S_train) / (p1 + p0 + n): equation 1 and lemma E.1."""
    p1, p0 = map(np.asarray, model_prior)
    shown, weight = np.asarray(train_score, np.float64), np.asarray(evidence, np.float64)
    return np.asarray((p1 + weight * shown) / (p1 + p0 + weight))


def train_score(score: ArrayLike, evidence: ArrayLike, *, model_prior: Prior) -> Floats:
    """Return the positivity in training behind a score that can be reached: lemma E.1 solved for it."""
    p1, p0 = map(np.asarray, model_prior)
    value, gamma = np.asarray(score, np.float64), (p1 + p0) / np.asarray(evidence, np.float64)
    shown = np.asarray(value - (p1 / (p1 + p0) - value) * gamma)
    assert np.all(np.abs(shown - 0.5) <= 0.5 + ROUNDING)
    return np.clip(shown, 0.0, 1.0)


def expected_test_positivity(
    score: ArrayLike,
    evidence: ArrayLike,
    *,
    true_prior: Prior,
    model_prior: Prior,
    tau: ArrayLike = 1.0,
) -> Floats:
    """Return the expected positivity of test rows, E[S_test | S_model]: theorems E.3 and E.4 (b)."""
    shown = train_score(score, evidence, model_prior=model_prior)
    return expected_true_positivity(shown, evidence, true_prior=true_prior, tau=tau)
