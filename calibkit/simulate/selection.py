"""Scores of a logistic regression and of its bootstrap refits, under a shift of the inputs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.maths.streams import stream
from calibkit.simulate.streams import BLOCK_ROWS, block_sizes, kept_columns
from calibkit_kernels.dense import affine_rows
from calibkit_kernels.regression import newton_sums
from calibkit_kernels.reliability import expit
from calibkit_kernels.surface import solve_cholesky

Floats = NDArray[np.float64]
Part = Literal["test", "validation", "train"]

PARTS: Final = ("test", "validation", "train")

#: The standard deviation of each input.
SPREAD: Final = 0.1

# Numbers of the random streams; part of what a seed means.  A part has two: inputs and labels.
_TRAINING_INPUTS, _TRAINING_LABELS, _BOOTSTRAP = range(3)
_FIRST_OF_PART: Final = {"test": 3, "validation": 5, "train": 7}

_MOST_STEPS: Final = 50
_MOST_INPUTS: Final = 1000
_MOST_REFITS: Final = 1000


@dataclass(frozen=True, kw_only=True)
class SelectionSimulation:
    """A logistic regression fitted on few rows, and the rows it scores.

    Labels are 1 with probability expit(x_1 + … + x_d).  In training the inputs are independent
    normal with mean `shift`, elsewhere with mean ``-shift``; their standard deviation is 0.1.  The
    models are logistic regressions with intercept, without a penalty: `score_1` is fitted on
    `train_rows` rows, the others on bootstrap samples of the same rows.

    Parameters
    ----------
    refits
        Bootstrap refits beside `score_1`.
    train_rows
        On how many rows the models are fitted.
    inputs
        d.
    shift
        Of the inputs' means.

    Raises
    ------
    UsageError
        For a parameter out of range.

    Notes
    -----
    Fan, Si, Zhang, "Calibration matters: tackling maximization bias in large-scale advertising
    recommendation systems", section 6.1, which the defaults are those of (with two refits).
    """

    refits: int = 2
    train_rows: int = 3000
    inputs: int = 20
    shift: float = 0.05

    def __post_init__(self) -> None:
        if not 1 <= self.refits <= _MOST_REFITS:
            raise UsageError(f"refits is {self.refits}; expected 1 to {_MOST_REFITS}.")
        if not 1 <= self.inputs <= _MOST_INPUTS:
            raise UsageError(f"inputs is {self.inputs}; expected 1 to {_MOST_INPUTS}.")
        if self.train_rows < 2 or self.train_rows * self.inputs > 10**9:
            raise UsageError(f"train rows is {self.train_rows}; expected 2 to 10^9 / inputs.")
        if not abs(self.shift) <= 10:
            raise UsageError(f"shift is {self.shift:g}; expected -10 to 10.")

    @property
    def scores(self) -> list[str]:
        """The names of the models' scores."""
        return [f"score_{place}" for place in range(1, self.refits + 2)]

    def columns(self, part: Part) -> list[str]:
        """Return the names of the columns of a part; validation rows have no label."""
        known = [] if part == "validation" else ["label"]
        return ["id", *known, *self.scores, "true_probability"]

    def models(self, seed: int) -> Floats:
        """Return the fitted models: a row each, intercept first.

        Raises
        ------
        UsageError
            If a model has no finite optimum: the training rows are too few.
        """
        draw = stream(seed, _TRAINING_INPUTS, 0).normal
        x = draw(self.shift, SPREAD, (self.train_rows, self.inputs))
        truth = _probability(x, np.append(0.0, np.ones(self.inputs)))
        uniform = stream(seed, _TRAINING_LABELS, 0).random(self.train_rows)
        label = (uniform < truth).astype(np.uint8)
        design = np.column_stack([np.ones(self.train_rows), x])
        found = [_fit(design, label, np.ones(self.train_rows, np.int64))]
        for refit in range(self.refits):
            rows = stream(seed, _BOOTSTRAP, refit).integers(0, self.train_rows, self.train_rows)
            times = np.bincount(rows, minlength=self.train_rows)
            found.append(_fit(design, label, times.astype(np.int64)))
        return np.array(found)

    def blocks(self, rows: int, *, part: Part = "test", seed: int = 0) -> Iterator[pl.DataFrame]:
        """Yield the rows in frames of `BLOCK_ROWS` (the last one shorter)."""
        if part not in PARTS:
            raise UsageError(f"part is {part!r}; expected one of {', '.join(PARTS)}.")
        sizes = block_sizes(rows, seed)
        first = next(sizes)
        models = self.models(seed)
        inputs, labels = _FIRST_OF_PART[part], _FIRST_OF_PART[part] + 1
        mean = self.shift if part == "train" else -self.shift
        for block, size in (first, *sizes):
            x = stream(seed, inputs, block).normal(mean, SPREAD, (size, self.inputs))
            truth = _probability(x, np.append(0.0, np.ones(self.inputs)))
            start = block * BLOCK_ROWS + 1
            values: dict[str, NDArray[np.generic]] = {
                "id": np.arange(start, start + size, dtype=np.int64)
            }
            if part != "validation":
                uniform = stream(seed, labels, block).random(size)
                values["label"] = (uniform < truth).astype(np.int8)
            for name, weights in zip(self.scores, models, strict=True):
                values[name] = _probability(x, weights)
            yield pl.DataFrame({**values, "true_probability": truth})


def simulate_selection(
    rows: int,
    *,
    part: Part = "test",
    seed: int = 0,
    refits: int = 2,
    train_rows: int = 3000,
    inputs: int = 20,
    shift: float = 0.05,
    keep: Sequence[str] | None = None,
) -> pl.DataFrame:
    """Return scores of replicate models, to see what selecting by one of them does to it.

    Parameters
    ----------
    rows
        How many, at least 1.
    part
        ``test``: labelled rows with shifted inputs; ``validation``: other such rows, without
        labels; ``train``: labelled rows with inputs like those of training (but not among these).
        All parts of one seed are scored by the same models.
    seed
        From 0 to 2**64 - 1.
    refits, train_rows, inputs, shift
        As in `SelectionSimulation`.
    keep
        Names or shell patterns of the columns wanted; None: all.

    Returns
    -------
    DataFrame
        `id` (from 1), `label` (not in validation), `score_1` (the model), `score_2`, … (its
        bootstrap refits), `true_probability` (that `label` is 1).

    Raises
    ------
    UsageError
        For a parameter out of range.

    Examples
    --------
    >>> simulate_selection(2, part="validation", seed=1).columns
    ['id', 'score_1', 'score_2', 'score_3', 'true_probability']
    """
    simulation = SelectionSimulation(
        refits=refits, train_rows=train_rows, inputs=inputs, shift=shift
    )
    frames = simulation.blocks(rows, part=part, seed=seed)
    columns = kept_columns(simulation.columns(part), keep)
    return pl.concat([frame.select(columns) for frame in frames], rechunk=True)


def _probability(x: Floats, weights: Floats) -> Floats:
    """Return expit(intercept + x @ slopes), summed in order; `weights` has the intercept first."""
    link, found = np.empty((x.shape[0], 1)), np.empty(x.shape[0])
    affine_rows(x, weights[1:].reshape(1, -1).copy(), weights[:1].copy(), link)
    expit(link[:, 0].copy(), found)
    return found


def _fit(design: Floats, label: NDArray[np.uint8], times: NDArray[np.int64]) -> Floats:
    """Return the maximum likelihood weights, by Newton's method with step halving."""
    size = design.shape[1]
    weights, gradient, hessian = np.zeros(size), np.empty(size), np.empty((size, size))
    loss = newton_sums(design, label, times, weights, gradient, hessian)
    for _ in range(_MOST_STEPS):
        if np.abs(gradient).max() <= 1e-9 * label.size:
            return weights
        step = solve_cholesky(hessian, gradient)
        for halving in range(_MOST_STEPS):
            trial = weights - step * 0.5**halving
            reached = newton_sums(design, label, times, trial, gradient, hessian)
            if reached <= loss + 1e-12 * abs(loss):
                break
        weights, loss = trial, reached
    raise UsageError(
        f"{label.size} training rows are too few: a model of {size - 1} inputs separates their "
        "classes and has no finite optimum; give more by --train-rows."
    )
