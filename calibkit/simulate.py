"""Score files from a known truth, a function a kind of simulation.

The rows come in blocks of fixed size, each from streams of a counter-based generator that is
addressed by seed, variable and block.  So row i does not depend on how many rows are made, and the
blocks of a simulation larger than memory can be made one by one, in any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import cache, partial
from typing import Any, Final

import numpy as np
import polars as pl

from calibkit.arrays import Floats
from calibkit.errors import UsageError, nearest
from calibkit.numerics.hashes import stream
from calibkit.numerics.positivity import beta_entropy, expected_true_positivity
from calibkit.numerics.solve import newton
from calibkit.options import simulate as kinds
from calibkit.options.option import listed
from calibkit_kernels.classes import affine_rows
from calibkit_kernels.logistic import newton_sums
from calibkit_kernels.metrics import expit

#: Rows of a block; part of what a seed means, as the numbers of the random streams below are.
BLOCK_ROWS: Final = 1 << 16


def simulate(options: kinds.SimulateOptions) -> pl.DataFrame:
    """Return the rows of a simulation, of the kind that its options are of."""
    work: dict[type[kinds.SimulateOptions], Callable[[Any], pl.DataFrame]] = {
        kinds.PosteriorOptions: _posterior,
        kinds.SelectionOptions: _selection,
        kinds.RatersOptions: _raters,
        kinds.PartitionsOptions: _partitions,
    }
    return work[type(options)](options)


def _simulated(
    options: kinds.SimulateOptions, block: Callable[[int, int], dict[str, Any]]
) -> pl.DataFrame:
    """Return the rows of a simulation, and of its columns those that are kept, in their own order.

    `block` makes the values of all columns, given the number of a block and its rows, or functions that
    make those which take long, called if they are kept; ``id`` is the number of the row.  A pattern of
    columns that matches nothing is a `UsageError`.
    """
    columns = ["id", *block(0, 0)]
    patterns = listed(options.keep or "*")
    for pattern in patterns:
        if not any(fnmatchcase(name, pattern) for name in columns):
            raise UsageError(
                f"no column {pattern!r}{nearest(pattern, columns)}; the simulation "
                f"has {', '.join(columns)}."
            )
    kept = [name for name in columns if any(fnmatchcase(name, one) for one in patterns)]
    frames = []
    for number, start in enumerate(range(0, options.rows, BLOCK_ROWS)):
        size = min(BLOCK_ROWS, options.rows - start)
        values = block(number, size)
        values["id"] = np.arange(start + 1, start + size + 1, dtype=np.int64)
        made = {name: values[name] for name in kept}
        frames.append(pl.DataFrame({n: own() if callable(own) else own for n, own in made.items()}))
    return pl.concat(frames, rechunk=True)


# Scores of a classifier that counts, trained on data of varying density ----------------------


def _posterior(options: kinds.PosteriorOptions) -> pl.DataFrame:
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
    of_truth, of_evidence, of_training, of_label = range(4)
    seed, tau, (p1, p0) = options.seed, options.tau, options.model_prior
    smallest, largest = options.evidence

    def block(number: int, rows: int) -> dict[str, Any]:
        truth = stream(seed, of_truth, number).beta(*options.true_prior, size=rows)
        # The floors of log-uniform real numbers from the smallest to the largest + 1.
        uniform = stream(seed, of_evidence, number).random(rows)
        spread = math.log((largest + 1) / smallest)
        drawn = np.floor(smallest * np.exp(uniform * spread)).astype(np.int64)
        evidence = np.clip(drawn, smallest, largest)
        # tau S / ((tau - 1) S + 1), written so that rounding cannot take it above 1
        seen = tau * truth / (tau * truth + (1 - truth))
        positives = stream(seed, of_training, number).binomial(evidence, seen)
        label = stream(seed, of_label, number).random(rows) < truth
        score = (p1 + positives) / (p1 + p0 + evidence)
        values: dict[str, Any] = {
            "label": label.astype(np.int8),
            "score": score,
            "uncertainty": -(p1 + p0 + evidence),
            "evidence": evidence.astype(np.int32),
            "entropy": partial(beta_entropy, p1 + positives, p0 + (evidence - positives)),
            "true_positivity": truth,
        }
        if options.theory:
            share, prior = positives / evidence, options.true_prior
            expected = cache(
                partial(expected_true_positivity, share, evidence, true_prior=prior, tau=tau)
            )
            values["expected_positivity"] = expected
            values["bias"] = lambda: score - expected()
        return values

    frame = _simulated(options, block)
    return frame.cast({pl.Float64: pl.Float32}) if options.dtype == "float32" else frame


# Scores of a logistic regression and of its bootstrap refits, under a shift of the inputs -----

#: The standard deviation of each input.
SPREAD: Final = 0.1

# A part has two streams: inputs and labels.
_TRAINING_INPUTS, _TRAINING_LABELS, _BOOTSTRAP = range(3)
_FIRST_OF_PART: Final = {"test": 3, "validation": 5, "train": 7}

#: Where a fit ends; part of what a seed means.
_FLAT: Final = 1e-9


def _selection(options: kinds.SelectionOptions) -> pl.DataFrame:
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

    def block(number: int, size: int) -> dict[str, Any]:
        x = stream(seed, inputs, number).normal(mean, SPREAD, (size, options.inputs))
        truth = _probability(x, np.append(0.0, np.ones(options.inputs)))
        values: dict[str, Any] = {}
        if part != "validation":
            uniform = stream(seed, labels, number).random(size)
            values["label"] = (uniform < truth).astype(np.int8)
        for name, weights in zip(options.scores, models, strict=True):
            values[name] = _probability(x, weights)
        return values | {"true_probability": truth}

    return _simulated(options, block)


def models_of(options: kinds.SelectionOptions) -> Floats:
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


# Votes of several raters beside the class probabilities of a model ---------------------------

_CONCENTRATION: Final = 20.0


def beta_parameters(kind: int) -> tuple[float, float]:
    """Return the Beta distribution of the share of raters for class 1, for one of ten kinds of row.

    Kinds 0 and 1 are clear cases, all raters alike; on kinds 2 to 5 raters agree about each row,
    but which way cannot be seen in the kind; on kinds 6 to 9 they disagree about every row.
    """
    if kind < 2:
        share, strength = 0.01 + 0.98 * kind, _CONCENTRATION
    elif kind < 6:
        share, strength = 0.2 * (kind - 1), 1.0 / _CONCENTRATION
    else:
        share, strength = 0.2 * (kind - 5), _CONCENTRATION
    return share * strength, (1.0 - share) * strength


def _raters(options: kinds.RatersOptions) -> pl.DataFrame:
    """Return votes of raters on two classes, with the class probabilities of a model.

    ``ideal``: the probability of class 1 is uniform and the model knows it, so calibration and
    dispersion loss are 0.  ``modes``: ten kinds of row, see `beta_parameters`; the model knows the
    mean of each kind only, and the kind is given as ten indicator features.

    Mimori et al., "Diagnostic uncertainty calibration", section 3.4 and appendix B (``ideal``),
    appendix E (``modes``).  Equation 52 gives clear cases a Beta distribution with a parameter of
    0; here their shares are 0.01 and 0.99.
    """
    of_truth, of_votes, of_kind = range(3)
    seed, ideal = options.seed, options.design == "ideal"

    def block(number: int, size: int) -> dict[str, Any]:
        random, modes = stream(seed, of_truth, number), dict[str, Any]()
        if ideal:
            truth = predicted = random.random(size)
        else:
            kind = stream(seed, of_kind, number).integers(0, 10, size)
            first, second = np.array([beta_parameters(k) for k in range(10)]).T
            truth = random.beta(first[kind], second[kind])
            predicted = (first / (first + second))[kind]
            names = ["clear"] * 2 + ["epistemic"] * 4 + ["aleatoric"] * 4
            modes = {"true_probability": truth, "mode": [names[k] for k in kind]}
            modes |= {f"feature_{k}": (kind == k).astype(np.int8) for k in range(10)}
        votes = stream(seed, of_votes, number).binomial(options.raters, truth)
        values = {"prob_0": 1.0 - predicted, "prob_1": predicted}
        return values | {"count_0": options.raters - votes, "count_1": votes} | modes

    return _simulated(options, block)


# Scores of a model that memorised its training rows, and so used a simple pattern too little --

_SPREAD, _STEEP, _PATTERN = 2.0, 1.0, 0.75


def _partitions(options: kinds.PartitionsOptions) -> pl.DataFrame:
    """Return labelled scores of a model that is over-confident on the rows it was trained on.

    Labels are balanced.  On new rows a linear score f is normal with mean 1 for positives, -1 for
    negatives, and standard deviation 2.  On the training rows the side towards the other class is
    steeper (standard deviation 1, a third of the rows): the hard ones were memorised.  A binary
    pattern, independent of f given the label, is 1 for three quarters of the positives and a
    quarter of the negatives.  The model's score is the probability of ``f + weight (pattern - 1/2)``;
    1.8 is the weight that the training rows ask for, new rows ask for more.

    Durfee, Gupta, Basu, "Heterogeneous calibration", sections 3.1 and 3.2.  On new rows the AUC is
    .830 at weight 1.8, .852 at 3.6 and at most .853, at 4 ln 3.
    """
    of_label, of_score, of_pattern, of_noise = range(4)
    seed = options.seed

    def block(number: int, size: int) -> dict[str, Any]:
        label = stream(seed, of_label, number).random(size) < 0.5
        side = np.where(label, 1.0, -1.0)
        random = stream(seed, of_score, number)
        away = random.standard_normal(size)
        if options.kind == "training":
            # A third of the rows lies on the steep side, where the other class is.
            hard = random.random(size) < 1.0 / 3.0
            linear = side * (1.0 + np.abs(away) * np.where(hard, -_STEEP, _SPREAD))
        else:
            linear = side + _SPREAD * away
        agrees = stream(seed, of_pattern, number).random(size) < _PATTERN
        pattern = np.where(agrees, label, ~label)
        truth = 2.0 * linear / _SPREAD**2 + math.log(3.0) * np.where(pattern, 1.0, -1.0)
        return {
            "label": label.astype(np.int8),
            "score": 1.0 / (1.0 + np.exp(-(linear + options.weight * (pattern - 0.5)))),
            "feature_pattern": pattern.astype(np.int8),
            "feature_noise": stream(seed, of_noise, number).standard_normal(size),
            "true_positivity": 1.0 / (1.0 + np.exp(-truth)),
        }

    return _simulated(options, block)
