"""Scores of a classifier that counts, trained on data of varying density."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.numerics.positivity import beta_entropy
from calibkit.numerics.streams import stream
from calibkit.options.simulate import PosteriorOptions
from calibkit.simulate.streams import BLOCK_ROWS, block_sizes, kept_columns

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

# Numbers of the random streams of a block; part of what a seed means.
_TRUTH, _EVIDENCE, _TRAINING, _LABEL = range(4)


def simulate(options: PosteriorOptions) -> pl.DataFrame:
    """Return rows of a classifier that counts, trained on data of varying density.

    Each row is an input of its own.  Its true positivity S is drawn from Beta(b1, b0), its
    evidence n log-uniformly from the whole numbers in a range, the positives among the n training
    rows near it from Bin(n, tau S / ((tau - 1) S + 1)), and its label is 1 with probability S.
    The score is (p1 + positives) / (p1 + p0 + n).

    Raises
    ------
    UsageError
        For a column that there is not.

    Notes
    -----
    Arora et al., "Leveraging uncertainty estimates to improve classifier performance",
    appendix E.1 (with one test row an input).  With the defaults, a weak model prior and evidence
    over three orders of magnitude, the uncertainty helps a great deal; with the model prior
    (1, 1) and evidence from 3 to 300 it does not help at all.
    """
    return pl.concat(blocks(options), rechunk=True)


def blocks(options: PosteriorOptions) -> Iterator[pl.DataFrame]:
    """Yield the rows in frames of `BLOCK_ROWS` (the last one shorter)."""
    columns = kept_columns(POSTERIOR_COLUMNS, options.kept)
    for block, size in block_sizes(options.rows):
        yield _block(options, columns, block, size)


def _block(options: PosteriorOptions, columns: list[str], block: int, rows: int) -> pl.DataFrame:
    seed, tau = options.seed, options.tau
    truth = stream(seed, _TRUTH, block).beta(*options.true_prior, size=rows)
    evidence = _evidence(options.evidence, stream(seed, _EVIDENCE, block).random(rows))
    # tau S / ((tau - 1) S + 1), written so that rounding cannot take it above 1
    seen = tau * truth / (tau * truth + (1 - truth))
    positives = stream(seed, _TRAINING, block).binomial(evidence, seen)
    label = stream(seed, _LABEL, block).random(rows) < truth
    p1, p0 = options.model_prior
    values: dict[str, NDArray[np.generic]] = {
        "label": label.astype(np.int8),
        "score": (p1 + positives) / (p1 + p0 + evidence),
        "uncertainty": -(p1 + p0 + evidence),
        "evidence": evidence.astype(np.int32),
        "true_positivity": truth,
    }
    if "id" in columns:
        first = block * BLOCK_ROWS + 1
        values["id"] = np.arange(first, first + rows, dtype=np.int64)
    if "entropy" in columns:
        values["entropy"] = beta_entropy(p1 + positives, p0 + (evidence - positives))
    frame = pl.DataFrame({name: values[name] for name in columns})
    if options.dtype == "float32":
        frame = frame.cast({pl.Float64: pl.Float32})
    return frame


def _evidence(ends: tuple[int, int], uniform: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the floors of log-uniform real numbers from the smallest to the largest + 1."""
    smallest, largest = ends
    spread = math.log((largest + 1) / smallest)
    drawn = np.floor(smallest * np.exp(uniform * spread)).astype(np.int64)
    return np.asarray(np.clip(drawn, smallest, largest))
