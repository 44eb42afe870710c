"""Scores of a logistic regression and of its bootstrap refits, under a shift of the inputs."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.numerics.hashes import stream
from calibkit.numerics.solve import newton
from calibkit.options.simulate import SelectionOptions
from calibkit.simulate.streams import simulated
from calibkit_kernels.classes import affine_rows
from calibkit_kernels.logistic import newton_sums
from calibkit_kernels.metrics import expit

Floats = NDArray[np.float64]

#: The standard deviation of each input.
SPREAD: Final = 0.1

# Numbers of the random streams; part of what a seed means.  A part has two: inputs and labels.
_TRAINING_INPUTS, _TRAINING_LABELS, _BOOTSTRAP = range(3)
_FIRST_OF_PART: Final = {"test": 3, "validation": 5, "train": 7}

#: Where a fit ends; part of what a seed means.
_FLAT: Final = 1e-9


def simulate(options: SelectionOptions) -> pl.DataFrame:
    """Return scores of a logistic regression fitted on few rows, and of its bootstrap refits.

    Labels are 1 with probability expit(x_1 + … + x_d).  In training the inputs are independent
    normal with mean `shift`, elsewhere with mean ``-shift``; their standard deviation is 0.1.  The
    models are logistic regressions with intercept, without a penalty: `score_1` is fitted on
    `train_rows` rows, the others on bootstrap samples of the same rows.

    Fan, Si, Zhang, "Calibration matters: tackling maximization bias in large-scale advertising
    recommendation systems", section 6.1, which the defaults are those of (with two refits).
    """
    seed, part, models = options.seed, options.part, models_of(options)
    inputs, labels = _FIRST_OF_PART[part], _FIRST_OF_PART[part] + 1
    mean = options.shift if part == "train" else -options.shift

    def block(number: int, size: int, kept: object) -> dict[str, Any]:
        x = stream(seed, inputs, number).normal(mean, SPREAD, (size, options.inputs))
        truth = _probability(x, np.append(0.0, np.ones(options.inputs)))
        values = {"true_probability": truth}
        if part != "validation":
            uniform = stream(seed, labels, number).random(size)
            values["label"] = (uniform < truth).astype(np.int8)
        for name, weights in zip(options.scores, models, strict=True):
            values[name] = _probability(x, weights)
        return values

    known = [] if part == "validation" else ["label"]
    return simulated(options, ["id", *known, *options.scores, "true_probability"], block)


def models_of(options: SelectionOptions) -> Floats:
    """Return the fitted models: a row each, intercept first.

    A model without a finite optimum is a `UsageError`: the training rows are too few.
    """
    seed, rows, inputs = options.seed, options.train_rows, options.inputs
    x = stream(seed, _TRAINING_INPUTS, 0).normal(options.shift, SPREAD, (rows, inputs))
    truth = _probability(x, np.append(0.0, np.ones(inputs)))
    label = (stream(seed, _TRAINING_LABELS, 0).random(rows) < truth).astype(np.float64)
    design = np.column_stack([np.ones(rows), x])
    found = [_fit(design, label, np.ones(rows))]
    for refit in range(options.refits):
        drawn = stream(seed, _BOOTSTRAP, refit).integers(0, rows, rows)
        found.append(_fit(design, label, np.bincount(drawn, minlength=rows).astype(np.float64)))
    return np.array(found)


def _probability(x: Floats, weights: Floats) -> Floats:
    """Return expit(intercept + x @ slopes), summed in order; `weights` has the intercept first."""
    link, found = np.empty((x.shape[0], 1)), np.empty(x.shape[0])
    affine_rows(x, weights[1:].reshape(1, -1).copy(), weights[:1].copy(), link)
    expit(link[:, 0].copy(), found)
    return found


def _fit(design: Floats, label: Floats, times: Floats) -> Floats:
    """Return the maximum likelihood weights."""
    size = design.shape[1]

    def sums(weights: Floats) -> tuple[float, Floats, Floats]:
        gradient, hessian = np.zeros(size), np.zeros((size, size))
        loss = newton_sums(design, label, times, weights, gradient, hessian)
        return loss, gradient, hessian

    found = newton(sums, np.zeros(size), scale=label.size, slope=_FLAT, last_step=False)
    if found.converged:
        return found.point
    raise UsageError(
        f"{label.size} training rows are too few: a model of {size - 1} inputs separates their "
        "classes and has no finite optimum; give more by --train-rows."
    )
