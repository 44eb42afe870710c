"""Maps that are a line on the logit of the score: Platt's, temperature, prior shift, none; and beta.

J. Platt, Probabilistic outputs for support vector machines and comparisons to regularized likelihood
methods, 1999.  C. Guo, G. Pleiss, Y. Sun, K. Weinberger, On calibration of modern neural networks,
2017.  M. Kull, T. Silva Filho, P. Flach, Beta calibration: a well-founded and easily implemented
improvement on logistic calibration for binary classifiers, 2017.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import numpy as np

from calibkit.errors import DataError
from calibkit.maps.method import Float64s, Floats, Found, Method, Points, Writer
from calibkit.maps.score_map import ScoreMap
from calibkit.numerics.logistic import fit_logistic
from calibkit.options.calibrate import MapOptions
from calibkit_kernels.logistic import is_separated
from calibkit_kernels.maps import LEAST, beta_map, line_map, log_parts

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

#: Slope or intercept: its name in an export and what it is of a map, or the number of every map.
Term = tuple[str, Callable[[ScoreMap], float]] | float

#: The largest inverse temperature: beyond, predictions are certain whatever the logits say.
MOST_INVERSE: Final = 1e6


def write_line(slope: Term, intercept: Term, least: float) -> Callable[[ScoreMap, str], Writer]:
    """Return what makes writers of expit(slope x + intercept).

    x is the logit of a probability, moved `least` inside (0, 1), or else the score.
    """

    def writer(one: ScoreMap, scale: str) -> Writer:
        a, b = (of if isinstance(of, float) else of[1](one) for of in (slope, intercept))
        given = scale == "probability"

        def write(score: Floats, out: tuple[Float64s, ...]) -> None:
            line_map(score, a, b, given, least, one.clip, out[0])

        return write

    return writer


def line_program(
    slope: Term, intercept: Term, least: float = LEAST
) -> Callable[[Maker], tuple[Node, ...]]:
    """Return what makes programs of expit(slope x + intercept)."""

    def program(maker: Maker) -> tuple[Node, ...]:
        a = slope if isinstance(slope, float) else maker.number(*slope)
        x = maker.logit(least)
        return (
            maker.line(
                a, x, intercept if isinstance(intercept, float) else maker.number(*intercept)
            ),
        )

    return program


def fit_platt(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit expit(a x + b) to smoothed targets, or to the labels by maximum likelihood.

    Raises `DataError`: under ``mle`` for one class, or classes that a threshold separates: the best
    line is infinitely steep.
    """
    a, b = platt_line(points, options.targets or "smoothed", options.workers)
    return Found({"a": a, "b": b}, falling_note(points, a))


def platt_line(points: Points, targets: str, threads: int) -> tuple[float, float]:
    """Return a and b; see `fit_platt`.  Rows of one class: a = 0, b the logit of Platt's target."""
    x = points.linear(threads)
    positive, negative = points.weights(threads, smoothed=targets == "smoothed")
    if targets == "mle":
        refuse_separated(points, x, positive, negative, "--targets smoothed")
    rows, hits = points.totals
    if hits in (0, rows):  # one target for all: no slope, not one of rounding errors
        mass = math.log(rows * points.unit.size + 1.0)
        return 0.0, mass if hits else -mass
    found = fit_logistic((x,), positive, negative, threads=threads)
    return found.slopes[0], found.intercept


def falling_note(points: Points, a: float) -> tuple[str, ...]:
    """Return a warning where the line falls."""
    if a >= 0.0:
        return ()
    return (
        f"a = {a:.4g} is negative for {points.what}: higher scores are less often positive (see "
        "--positive)",
    )


def refuse_separated(
    points: Points, x: Float64s, positive: Float64s, negative: Float64s, way_out: str
) -> None:
    """Raise `DataError` where the likelihood of a line on x has no finite maximum."""
    if is_separated(x, positive, negative):
        one_class = not positive.any() or not negative.any()
        problem = (
            "are all of one class" if one_class else "are separated by a threshold on the score"
        )
        raise DataError(
            f"{points.what} {problem}, so that the best map is infinitely steep; use {way_out}, "
            "whose targets keep away from 0 and 1, or more rows"
        )


def refuse_steep(points: Points, x: Float64s, positive: Float64s, negative: Float64s) -> None:
    """Raise `DataError` where the likelihood of a rising map of x has no finite maximum."""
    ones, zeros = x[positive > 0], x[negative > 0]
    if not ones.size or not zeros.size or ones.min() >= zeros.max():
        refuse_separated(points, x, positive, negative, "--method platt")


def fit_temperature(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit expit(x / temperature) by maximum likelihood, the inverse temperature from 0 to 1e6."""
    x = points.linear(options.workers)
    positive, negative = points.weights(options.workers)
    ones, zeros = x[positive > 0], x[negative > 0]
    unanimous = bool((ones >= 0).all() and (zeros <= 0).all())
    if unanimous and np.any(x != 0.0):
        said = (
            f"every row of {points.what} lies on its side of probability 1/2, so that no temperature "
            f"is low enough: capped at {1 / MOST_INVERSE:g}",
        )
        return Found({"temperature": 1.0 / MOST_INVERSE}, said)
    found = fit_logistic(
        (x,), positive, negative, rising=True, intercept=False, threads=options.workers
    )
    inverse = min(found.slopes[0], MOST_INVERSE)
    if inverse > 0.0:
        return Found({"temperature": 1.0 / inverse})
    said = (
        f"the temperature is infinite for {points.what}: the scores say nothing about the label, so "
        "that all get 1/2 (see --positive)",
    )
    return Found({"temperature": None}, said)


def fit_beta(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit expit(a ln s - b ln(1 - s) + c), a and b at least 0, by maximum likelihood.

    Raises `DataError` for one class, or where every positive row has at least the score of every
    negative one: the best map is infinitely steep.
    """
    low, high = np.empty(points.score.size), np.empty(points.score.size)
    log_parts(points.score, points.is_probability, LEAST, low, high)
    positive, negative = points.weights(options.workers)
    x = low + high
    begin = None
    if is_separated(x, positive, negative):
        refuse_steep(points, x, positive, negative)
    else:
        # The line on the logit is the case a = b: starting there, the loss only falls.
        line = fit_logistic((x,), positive, negative, threads=options.workers)
        if line.slopes[0] > 0.0:
            begin = (line.slopes[0], line.slopes[0], line.intercept)
    found = fit_logistic(
        (low, high), positive, negative, rising=True, start=begin, threads=options.workers
    )
    a, b = found.slopes
    said: tuple[str, ...] = ()
    if a == 0.0 and b == 0.0 and points.score.size > 1:
        said = (
            f"a and b are 0 for {points.what}: higher scores are not more often positive, so all "
            "get the same probability (see --positive)",
        )
    return Found({"a": a, "b": b, "c": found.intercept}, said)


def write_beta(one: ScoreMap, scale: str) -> Writer:
    """Return what writes expit(a ln s - b ln(1 - s) + c)."""
    line, given = np.array([one.a, one.b, one.c]), scale == "probability"

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        beta_map(score, line, given, LEAST, one.clip, out[0])

    return write


def beta_program(maker: Maker) -> tuple[Node, ...]:
    """Return expit(a ln s - b ln(1 - s) + c)."""
    a, b, c = (maker.parameter(name) for name in "abc")
    low, high = maker.log_parts()
    return (maker.expit(a * low + b * high + c),)


def write_as_it_is(one: ScoreMap, scale: str) -> Writer:
    """Return what writes probabilities as they are, of logits their probability."""
    if scale != "probability":
        return write_line(1.0, 0.0, 0.0)(one, scale)

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        np.clip(score, one.clip, 1.0 - one.clip, out=out[0], dtype=np.float64)

    return write


def program_as_it_is(maker: Maker) -> tuple[Node, ...]:
    """Return the probability."""
    return (maker.score,) if maker.scale == "probability" else line_program(1.0, 0.0)(maker)


def _a(one: ScoreMap) -> float:
    return one.a or 0.0


def _b(one: ScoreMap) -> float:
    return one.b or 0.0


def _inverse(one: ScoreMap) -> float:
    return 1.0 / one.temperature if isinstance(one.temperature, float) else 0.0


def _shift(one: ScoreMap) -> float:
    return math.log(one.negatives_kept or 1.0)


PLATT = Method(
    fit_platt,
    write_line(("a", _a), ("b", _b), LEAST),
    line_program(("a", _a), ("b", _b)),
    lambda one: _a(one) >= 0.0,
    takes_logits=True,
)
BETA = Method(
    fit_beta, write_beta, beta_program, lambda one: min(_a(one), _b(one)) >= 0.0, takes_logits=True
)
TEMPERATURE = Method(
    fit_temperature,
    write_line(("inverse", _inverse), 0.0, LEAST),
    line_program(("inverse", _inverse), 0.0),
    lambda _: True,
    takes_logits=True,
)
#: r s / (r s + 1 - s), r the share of the negatives that the training rows kept.
PRIOR_SHIFT = Method(
    lambda _, options, __: Found({"negatives_kept": options.negatives_kept}),
    write_line(1.0, ("shift", _shift), 0.0),
    line_program(1.0, ("shift", _shift), 0.0),
    lambda _: True,
)
#: Scores as the probabilities they are, for whoever compares, or needs a model.
NONE = Method(lambda *_: Found({}), write_as_it_is, program_as_it_is, lambda _: True, as_it_is=True)
