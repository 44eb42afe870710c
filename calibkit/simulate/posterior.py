"""Scores of a classifier that counts, trained on data of varying density."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl

from calibkit.numerics.hashes import stream
from calibkit.numerics.positivity import beta_entropy, expected_true_positivity
from calibkit.options.simulate import PosteriorOptions
from calibkit.simulate.streams import simulated

#: The columns, in order.
POSTERIOR_COLUMNS = (
    "id",
    "label",
    "score",
    "uncertainty",
    "evidence",
    "entropy",
    "true_positivity",
)

#: What `--theory` adds.
THEORY_COLUMNS = ("expected_positivity", "bias")

# Numbers of the random streams of a block; part of what a seed means.
_TRUTH, _EVIDENCE, _TRAINING, _LABEL = range(4)


def simulate(options: PosteriorOptions) -> pl.DataFrame:
    """Return rows of a classifier that counts, trained on data of varying density.

    Each row is an input of its own.  Its true positivity S is drawn from Beta(b1, b0), its
    evidence n log-uniformly from the whole numbers in a range, the positives among the n training
    rows near it from Bin(n, tau S / ((tau - 1) S + 1)), and its label is 1 with probability S.
    The score is (p1 + positives) / (p1 + p0 + n).  With `theory` there are also E[S | score, n] and
    the score less it (theorems 3.1 and E.4).

    Arora et al., "Leveraging uncertainty estimates to improve classifier performance",
    appendix E.1 (with one test row an input).  With the defaults, a weak model prior and evidence
    over three orders of magnitude, the uncertainty helps a great deal; with the model prior
    (1, 1) and evidence from 3 to 300 it does not help at all.
    """
    seed, tau, (p1, p0) = options.seed, options.tau, options.model_prior
    smallest, largest = options.evidence

    def block(number: int, rows: int, kept: Sequence[str]) -> dict[str, Any]:
        truth = stream(seed, _TRUTH, number).beta(*options.true_prior, size=rows)
        # The floors of log-uniform real numbers from the smallest to the largest + 1.
        uniform = stream(seed, _EVIDENCE, number).random(rows)
        spread = math.log((largest + 1) / smallest)
        drawn = np.floor(smallest * np.exp(uniform * spread)).astype(np.int64)
        evidence = np.clip(drawn, smallest, largest)
        # tau S / ((tau - 1) S + 1), written so that rounding cannot take it above 1
        seen = tau * truth / (tau * truth + (1 - truth))
        positives = stream(seed, _TRAINING, number).binomial(evidence, seen)
        label = stream(seed, _LABEL, number).random(rows) < truth
        values = {
            "label": label.astype(np.int8),
            "score": (p1 + positives) / (p1 + p0 + evidence),
            "uncertainty": -(p1 + p0 + evidence),
            "evidence": evidence.astype(np.int32),
            "true_positivity": truth,
        }
        if "entropy" in kept:
            values["entropy"] = beta_entropy(p1 + positives, p0 + (evidence - positives))
        if options.theory and not {*THEORY_COLUMNS}.isdisjoint(kept):
            share, prior = positives / evidence, options.true_prior
            expected = expected_true_positivity(share, evidence, true_prior=prior, tau=tau)
            values |= {"expected_positivity": expected, "bias": values["score"] - expected}
        return values

    names = POSTERIOR_COLUMNS + (THEORY_COLUMNS if options.theory else ())
    frame = simulated(options, names, block)
    return frame.cast({pl.Float64: pl.Float32}) if options.dtype == "float32" else frame
