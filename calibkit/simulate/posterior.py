"""Scores of a classifier that counts, trained on data of varying density."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.maths.positivity import LARGEST_TAU, LEAST_TAU, beta_entropy
from calibkit.maths.streams import stream
from calibkit.simulate.streams import BLOCK_ROWS, block_sizes, kept_columns

FloatType = Literal["float64", "float32"]

#: The columns of `simulate_posterior`, in order.
POSTERIOR_COLUMNS = (
    "id",
    "label",
    "score",
    "uncertainty",
    "evidence",
    "entropy",
    "true_positivity",
)

_LARGEST_EVIDENCE = 10**9

# Numbers of the random streams of a block; part of what a seed means.
_TRUTH, _EVIDENCE, _TRAINING, _LABEL = range(4)


@dataclass(frozen=True, kw_only=True)
class PosteriorSimulation:
    """A classifier that counts: training data of varying density, scored by a posterior network.

    Each row is an input of its own.  Its true positivity S is drawn from Beta(b1, b0), its
    evidence n log-uniformly from the whole numbers in a range, the positives among the n training
    rows near it from Bin(n, tau S / ((tau - 1) S + 1)), and its label is 1 with probability S.
    The score is (p1 + positives) / (p1 + p0 + n).

    Parameters
    ----------
    true_prior
        (b1, b0).
    model_prior
        (p1, p0), the prior counts of the model.
    tau
        Negatives were kept at the rate 1/tau in training.
    evidence
        Smallest and largest n: n is the floor of a log-uniform real number from smallest to
        largest + 1.
    dtype
        Of the real columns: score, uncertainty, entropy, true_positivity.
    keep
        Names or shell patterns of the columns wanted; None: all of `POSTERIOR_COLUMNS`.

    Raises
    ------
    UsageError
        For a prior that is not positive, tau or evidence out of range, no such column.

    Notes
    -----
    Arora et al., "Leveraging uncertainty estimates to improve classifier performance",
    appendix E.1 (with one test row an input).  With the defaults, a weak model prior and evidence
    over three orders of magnitude, the uncertainty helps a great deal; with the model prior
    (1, 1) and evidence from 3 to 300 it does not help at all.
    """

    true_prior: tuple[float, float] = (0.5, 1.5)
    model_prior: tuple[float, float] = (0.05, 0.05)
    tau: float = 3.0
    evidence: tuple[int, int] = (2, 1000)
    dtype: FloatType = "float64"
    keep: Sequence[str] | None = None

    def __post_init__(self) -> None:
        for name, prior in (("true prior", self.true_prior), ("model prior", self.model_prior)):
            if not all(math.isfinite(number) and number > 0 for number in prior):
                raise UsageError(
                    f"the {name} is {_pair(prior)}; expected two positive numbers, "
                    "for the positives and for the negatives."
                )
        if not LEAST_TAU <= self.tau <= LARGEST_TAU:
            raise UsageError(
                f"tau is {self.tau:g}; expected {LEAST_TAU:g} to {LARGEST_TAU:g} "
                "(negatives are kept at the rate 1/tau in training)."
            )
        smallest, largest = self.evidence
        if not 1 <= smallest <= largest <= _LARGEST_EVIDENCE:
            raise UsageError(
                f"the evidence is {_pair(self.evidence)}; expected a smallest and a largest "
                f"number of training rows, 1 <= smallest <= largest <= {_LARGEST_EVIDENCE}."
            )
        if self.dtype not in ("float64", "float32"):
            raise UsageError(f"dtype is {self.dtype!r}; expected float64 or float32.")
        self.columns()

    def columns(self) -> list[str]:
        """Return the names of the columns that are kept, in the order of `POSTERIOR_COLUMNS`."""
        return kept_columns(POSTERIOR_COLUMNS, self.keep)

    def blocks(self, rows: int, *, seed: int = 0) -> Iterator[pl.DataFrame]:
        """Yield the rows in frames of `BLOCK_ROWS` (the last one shorter).

        Raises
        ------
        UsageError
            For fewer than one row, or a seed outside 0 to 2**64 - 1.
        """
        for block, size in block_sizes(rows, seed):
            yield self._block(block, size, seed)

    def _block(self, block: int, rows: int, seed: int) -> pl.DataFrame:
        truth = stream(seed, _TRUTH, block).beta(*self.true_prior, size=rows)
        evidence = self._evidence(stream(seed, _EVIDENCE, block).random(rows))
        # tau S / ((tau - 1) S + 1), written so that rounding cannot take it above 1
        seen = self.tau * truth / (self.tau * truth + (1 - truth))
        positives = stream(seed, _TRAINING, block).binomial(evidence, seen)
        label = stream(seed, _LABEL, block).random(rows) < truth
        p1, p0 = self.model_prior
        values: dict[str, NDArray[np.generic]] = {
            "label": label.astype(np.int8),
            "score": (p1 + positives) / (p1 + p0 + evidence),
            "uncertainty": -(p1 + p0 + evidence),
            "evidence": evidence.astype(np.int32),
            "true_positivity": truth,
        }
        columns = self.columns()
        if "id" in columns:
            first = block * BLOCK_ROWS + 1
            values["id"] = np.arange(first, first + rows, dtype=np.int64)
        if "entropy" in columns:
            values["entropy"] = beta_entropy(p1 + positives, p0 + (evidence - positives))
        frame = pl.DataFrame({name: values[name] for name in columns})
        if self.dtype == "float32":
            frame = frame.cast({pl.Float64: pl.Float32})
        return frame

    def _evidence(self, uniform: NDArray[np.float64]) -> NDArray[np.int64]:
        smallest, largest = self.evidence
        spread = math.log((largest + 1) / smallest)
        drawn = np.floor(smallest * np.exp(uniform * spread)).astype(np.int64)
        return np.asarray(np.clip(drawn, smallest, largest))


def simulate_posterior(
    rows: int,
    *,
    seed: int = 0,
    true_prior: tuple[float, float] = (0.5, 1.5),
    model_prior: tuple[float, float] = (0.05, 0.05),
    tau: float = 3.0,
    evidence: tuple[int, int] = (2, 1000),
    dtype: FloatType = "float64",
    keep: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Return simulated scores with labels, uncertainty and the truth behind them.

    The same seed gives the same rows, and the first rows of a longer simulation are those of a
    shorter one (for one version of numpy, which may change how it draws from a distribution).

    Parameters
    ----------
    rows
        How many, at least 1.
    seed
        From 0 to 2**64 - 1.
    true_prior, model_prior, tau, evidence, dtype, keep
        As in `PosteriorSimulation`, which also makes the rows block by block.

    Returns
    -------
    DataFrame
        `id` (from 1), `label` (0/1), `score`, `uncertainty` = -(p1 + p0 + evidence) (larger = less
        certain; minus the strength of the posterior, which serves better than its entropy),
        `evidence` (whole numbers), `entropy` (differential, of the posterior network's
        Beta distribution, in nats), `true_positivity` (the probability that `label` is 1).

    Raises
    ------
    UsageError
        For a parameter out of range.

    Examples
    --------
    >>> simulate_posterior(1000, seed=1).height
    1000
    >>> simulate_posterior(2, keep=["score", "label"]).columns
    ['label', 'score']
    """
    simulation = PosteriorSimulation(
        true_prior=true_prior,
        model_prior=model_prior,
        tau=tau,
        evidence=evidence,
        dtype=dtype,
        keep=keep,
    )
    return pl.concat(simulation.blocks(rows, seed=seed), rechunk=True)


def _pair(numbers: tuple[float, float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)
