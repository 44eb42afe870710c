"""Rows for the study of certified boundaries, from generators that know the truth about them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit import simulate_posterior
from calibkit.methods.boundary.problem.bounded import RecallAtPrecision
from calibkit.methods.boundary.problem.goals import Totals
from calibkit.methods.boundary.solvers import prefixes
from calibkit.numerics.bounds import decimal_bound
from calibkit.summaries.binning import Levels
from calibkit.summaries.tally import count_rows
from calibkit_kernels.distributions import upper_tail

Floats = NDArray[np.float64]

#: The precisions for which the best boundary is known.
BOUNDS = ("0.6", "0.7", "0.8", "0.9")
#: Rows of the noisy generator on which its boundaries are judged, and its oracle's levels.
JUDGED, ORACLE_LEVELS = 1_000_000, 20


Columns = dict[str, NDArray[Any]]


def posterior_rows(rows: int, seed: int) -> Columns:
    """Return rows of ``calibkit simulate posterior`` with prior Beta(1, 3), tau 3, evidence 2..60."""
    frame = simulate_posterior(
        rows,
        seed=seed,
        true_prior=(1, 3),
        tau=3.0,
        evidence=(2, 60),
        keep=["label", "score", "uncertainty"],
    )
    return {name: frame[name].to_numpy() for name in ("score", "uncertainty", "label")}


def noisy_rows(rows: int, seed: int) -> Columns:
    """Return rows whose logit score is a shifted true logit with noise of the uncertainty's size."""
    stream = np.random.default_rng([seed, 1])
    score, uncertainty, truth = _noisy(rows, stream)
    label = (stream.random(rows) < truth).astype(np.uint8)
    return {"score": score, "uncertainty": uncertainty, "label": label}


def _noisy(rows: int, stream: np.random.Generator) -> tuple[Floats, Floats, Floats]:
    logit = -1.6 + 1.6 * stream.standard_normal(rows)
    uncertainty = np.exp(0.7 * stream.standard_normal(rows))
    seen = 1.3 * logit + 0.5 + uncertainty * stream.standard_normal(rows)
    return 1 / (1 + np.exp(-seen)), uncertainty, 1 / (1 + np.exp(-logit))


@dataclass(frozen=True)
class Truth:
    """What a generator knows: places with their mass and positive mass, by rising uncertainty."""

    score: Floats
    uncertainty: Floats
    mass: Floats
    positive: Floats
    oracle: dict[str, float]

    def judge(self, levels: Levels, thresholds: Floats) -> tuple[float, float]:
        """Return recall and precision of a boundary."""
        inner = np.searchsorted(self.uncertainty, levels.edges)
        limits = [0, *inner.tolist(), self.score.size]
        mass = hits = 0.0
        for threshold, low, high in zip(thresholds, limits[:-1], limits[1:], strict=True):
            chosen = self.score[low:high] >= threshold
            mass += float(self.mass[low:high][chosen].sum())
            hits += float(self.positive[low:high][chosen].sum())
        return hits / float(self.positive.sum()), hits / mass if mass else 1.0

    def path(self) -> tuple[Floats, Floats]:
        """Return positive mass and mass by falling rate: what the best boundaries take, in turn."""
        order = np.argsort(-self.positive / self.mass, kind="stable")
        return self.positive[order], self.mass[order]


@cache
def truth_of(generator: str) -> Truth:
    """Return the truth of a generator."""
    return _posterior_truth() if generator == "posterior" else _noisy_truth()


def _posterior_truth() -> Truth:
    """All pairs of evidence and positives with their probabilities, by quadrature over S."""
    nodes, widths = np.polynomial.legendre.leggauss(400)
    true, width = (nodes + 1) / 2, widths / 2
    density = 3 * (1 - true) ** 2 * width
    seen = 3 * true / (2 * true + 1)
    places = []
    for n in range(60, 1, -1):  # by rising uncertainty
        chance = math.log((n + 1) / n) / math.log(61 / 2)
        for k in range(n + 1):
            likelihood = math.comb(n, k) * seen**k * (1 - seen) ** (n - k) * density
            mass = float(likelihood.sum()) * chance
            positive = float((likelihood * true).sum()) * chance
            places.append(((0.05 + k) / (0.1 + n), -(0.1 + n), mass, positive))
    truth = Truth(*np.array(places).T, {})
    hits, rows = (np.cumsum(own) for own in truth.path())
    for bound in BOUNDS:
        truth.oracle[bound] = float(hits[hits >= float(bound) * rows].max(initial=0.0) / hits[-1])
    return truth


def ceiling(rows: int, bound: str, confidence: str, files: int) -> float:
    """Return the share of the oracle's recall kept by who knows the path and tests on all rows.

    A fixed sequence along the best boundaries, from where its power is largest to the first that
    is not certified; nan where no boundary meets the bound.
    """
    truth, limit, allowed = truth_of("posterior"), float(bound), 1.0 - float(confidence)
    if not truth.oracle[bound]:
        return math.nan
    positive, mass = truth.path()
    recall, share = np.cumsum(positive) / positive.sum(), np.cumsum(mass)
    start = int(np.argmax((np.cumsum(positive) - limit * share) / np.sqrt(share)))
    kept = 0.0
    for seed in range(files):
        stream = np.random.default_rng([seed, 3])
        seen = stream.multinomial(rows, np.append(mass, max(0.0, 1.0 - mass.sum())))[:-1]
        count, hits = np.cumsum(seen), np.cumsum(stream.binomial(seen, positive / mass))
        end = start
        while end < count.size and upper_tail(hits[end], count[end], limit, 1 - limit) <= allowed:
            end += 1
        kept += float(recall[end - 1]) if end > start else 0.0
    return kept / files / truth.oracle[bound]


def _noisy_truth() -> Truth:
    stream = np.random.default_rng([0, 2])
    score, uncertainty, truth = _noisy(JUDGED, stream)
    order = np.argsort(uncertainty, kind="stable")
    score, uncertainty, truth = score[order], uncertainty[order], truth[order]
    label = (stream.random(JUDGED) < truth).astype(np.uint8)
    level = (np.arange(JUDGED) * ORACLE_LEVELS // JUDGED).astype(np.uint16)
    points = count_rows(score, level, label, ORACLE_LEVELS).points()
    totals = Totals(JUDGED, int(label.sum()))
    oracle = {
        bound: prefixes.solve(
            points, RecallAtPrecision(decimal_bound(bound), totals), cap=1
        ).ceiling
        for bound in BOUNDS
    }
    return Truth(score, uncertainty, np.ones(JUDGED), truth, oracle)


MAKERS: dict[str, Callable[[int, int], Columns]] = {
    "posterior": posterior_rows,
    "noisy": noisy_rows,
}
