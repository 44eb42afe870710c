"""Linear maps of logits fitted on rows in memory."""

from __future__ import annotations

from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from calibkit.maths.questions import answered
from calibkit.raters.logit_maps import LogitMap, map_logits
from calibkit.raters.map_search import FOLDS, FoldSizes, MapAt, MapSums, map_search
from calibkit.raters.order import canonical_order, hashes
from calibkit_kernels.dense import column_sums, outer_sums, paired_sums, softmax_residuals

Floats = NDArray[np.float64]
Counts = NDArray[np.int64]


def fit_logit_map(
    logits: Floats,
    counts: Counts,
    method: str,
    regularization: tuple[float, float] | None = (0.0, 0.0),
    *,
    seed: int = 0,
) -> LogitMap:
    """Fit a map of logits to votes by penalised maximum likelihood.

    Parameters
    ----------
    logits, counts
        Rows x classes; every row has a vote.
    method
        ``temperature`` (one inverse temperature, at least 0), ``vector`` (a diagonal and an
        intercept) or ``matrix``.
    regularization
        Penalties of the mean squared intercept and the mean squared weight off the diagonal, not
        divided by the number of votes; None chooses both by cross-validation over `GRID`.
    seed
        Of the folds.

    Raises
    ------
    UsageError
        For cross-validated matrix scaling of more than 100 classes.

    Notes
    -----
    The loss is the mean over all votes.  All three problems are convex.  Without a penalty the
    intercept is known up to a constant: its sum is made 0.  Rows are put into an order of their
    own first, so the result does not depend on that of the file.
    """
    order = canonical_order(logits, counts)
    rows = _Rows(np.ascontiguousarray(logits[order]), np.ascontiguousarray(counts[order]), seed)
    return answered(map_search(logits.shape[1], method, regularization), rows.answer)


class _Rows:
    """Rows in memory, which answer the questions of a search."""

    def __init__(self, logits: Floats, counts: Counts, seed: int) -> None:
        self.logits, self.counts, self.seed = logits, counts, seed
        self.residual = np.empty_like(logits)
        self.mapped = np.empty_like(logits)
        self.parts: dict[tuple[int, bool], _Rows] = {}

    @cached_property
    def votes(self) -> int:
        """How many there are."""
        return int(self.counts.sum())

    @cached_property
    def folds(self) -> NDArray[np.int64]:
        """The fold of each row."""
        return folds_of(self.logits, self.counts, self.seed)

    def answer(self, question: MapAt | FoldSizes) -> MapSums | list[int]:
        """Return the answer to a question."""
        if isinstance(question, FoldSizes):
            sizes: list[int] = np.bincount(self.folds, minlength=FOLDS).tolist()
            return sizes
        rows = self if question.fold is None else self._part(question.fold, question.held)
        return rows.sums(*question.arrays)

    def _part(self, fold: int, held: bool) -> _Rows:
        """Return the rows of a fold, or all others; those of the folds before are forgotten."""
        if (fold, held) not in self.parts:
            self.parts = {key: part for key, part in self.parts.items() if key[0] == fold}
            chosen = (self.folds == fold) == held
            part = _Rows(self.logits[chosen], self.counts[chosen], self.seed)
            self.parts[fold, held] = part
        return self.parts[fold, held]

    def sums(self, weights: Floats, intercept: Floats) -> MapSums:
        """Return the sums over all rows at a map."""
        map_logits(self.logits, weights, intercept, self.mapped)
        loss = float(softmax_residuals(self.mapped, self.counts, self.residual))
        rise = np.empty(intercept.size)
        column_sums(self.residual, rise)
        square = weights.ndim == 2
        products = np.empty(weights.shape if square else intercept.shape)
        (outer_sums if square else paired_sums)(self.residual, self.logits, products)
        return MapSums(self.votes, loss, rise, products)


def folds_of(logits: Floats, counts: Counts, seed: int) -> NDArray[np.int64]:
    """Return the fold of each row, by a hash of what it holds."""
    keys = hashes(logits, counts, np.full((logits.shape[0], 1), seed))
    return ((keys >> np.uint64(32)) % np.uint64(FOLDS)).astype(np.int64)
