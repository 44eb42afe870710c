"""Maps whose logit is a line or a rising spline of the logit of the score; and beta, temperature, none.

J. Platt, Probabilistic outputs for support vector machines and comparisons to regularized likelihood
methods, 1999.  C. Guo, G. Pleiss, Y. Sun, K. Weinberger, On calibration of modern neural networks,
2017.  M. Kull, T. Silva Filho, P. Flach, Beta calibration: a well-founded and easily implemented
improvement on logistic calibration for binary classifiers, 2017.

Quadratic: a logistic regression on 1, z and z squared, z the logit of the score.  E. Berta,
D. Holzmüller, M. Jordan, F. Bach, Structured matrix scaling for multi-class calibration, 2025, fit it
freely; here it may fall nowhere between the lowest and the highest score of the rows, and goes on as a
line beyond them.

Spline: a sum of I-splines with coefficients of at least 0 and a line beyond the outer knots, which are
at quantiles.  Few rows give a line, the curve comes with more: that its slope changes by about as much
as it is, from the first knot to the last, is expected with the weight of one such observation (a random
walk; G. Wahba, Improper priors, spline smoothing and the problem of guarding against model errors in
regression, 1978).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import numpy as np

from calibkit.arrays import Floats, distinct_values
from calibkit.errors import DataError
from calibkit.maps.method import Found, Method, Points, Writer
from calibkit.maps.model import ScoreMap
from calibkit.numerics.logistic import fit_logistic, fit_rising_spline
from calibkit.options.calibrate import MapOptions
from calibkit_kernels.logistic import is_separated
from calibkit_kernels.maps import LEAST, beta_map, line_map, log_parts, spline_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

#: The largest inverse temperature: beyond, predictions are certain whatever the logits say.
MOST_INVERSE: Final = 1e6


def line_method(
    fit: Callable[[Points, MapOptions, list[Points]], Found],
    names: tuple[str, str],
    of: Callable[[ScoreMap], tuple[float, float]],
    *,
    moves: bool = True,
) -> Method:
    """Return the method whose maps are expit(slope x + intercept), x the logit of a probability.

    `names`: what slope and intercept are called in an export; `of`: what they are of a map; `moves`:
    whether probabilities are moved inside (0, 1) first.  Of other scores x is the score.
    """
    least = LEAST if moves else 0.0

    def writer(one: ScoreMap, scale: str) -> Writer:
        (a, b), given = of(one), scale == "probability"
        return lambda score, out: line_map(score, a, b, given, least, one.clip, out)

    def program(maker: Maker) -> tuple[Node, ...]:
        from calibkit.expressions.nodes import line

        a = maker.number(names[0], lambda one: of(one)[0])
        x = maker.logit(least)
        b = maker.number(names[1], lambda one: of(one)[1])
        return (maker.program.expit(line(a, x, b)),)

    return Method(fit, writer, program, lambda one: of(one)[0] >= 0.0, takes_logits=moves)


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


def falling_note(points: Points, a: float) -> str | None:
    """Return a warning where the line falls."""
    said = f"a = {a:.4g} is negative for {points.what}: higher scores are less often positive"
    return f"{said} (see --positive VALUE)" if a < 0.0 else None


def flat_note(points: Points, what: str, *, flat: bool) -> str | None:
    """Return a warning where the map of several scores is the same for all."""
    said = (
        f"{what} 0 for {points.what}: higher scores are not more often positive, so all get the same "
        "probability (see --positive VALUE)"
    )
    return said if flat and points.score.size > 1 else None


def refuse_separated(
    points: Points, x: Floats, positive: Floats, negative: Floats, way_out: str
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


def refuse_steep(points: Points, x: Floats, positive: Floats, negative: Floats) -> None:
    """Raise `DataError` where the likelihood of a rising map of x has no finite maximum."""
    ones, zeros = x[positive > 0], x[negative > 0]
    if not ones.size or not zeros.size or ones.min() >= zeros.max():
        refuse_separated(points, x, positive, negative, "--method platt")


def fit_temperature(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit expit(x / temperature) by maximum likelihood, the inverse temperature from 0 to 1e6."""
    x, (positive, negative) = points.linear(options.workers), points.weights(options.workers)
    ones, zeros = x[positive > 0], x[negative > 0]
    if (ones >= 0).all() and (zeros <= 0).all() and np.any(x != 0.0):
        said = (
            f"{points.what} all lie on their side of probability 1/2, so that no temperature is low "
            f"enough: capped at {1 / MOST_INVERSE:g}"
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
        "that all get 1/2 (see --positive VALUE)"
    )
    return Found({"temperature": None}, said)


def fit_beta(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit expit(a ln s - b ln(1 - s) + c), a and b at least 0, by maximum likelihood.

    Raises `DataError` for one class, or where every positive row has at least the score of every
    negative one: the best map is infinitely steep.
    """
    low, high = np.empty(points.score.size), np.empty(points.score.size)
    log_parts(points.score, points.scale == "probability", low, high)
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
    said = flat_note(points, "a and b are", flat=a == 0.0 and b == 0.0)
    return Found({"a": a, "b": b, "c": found.intercept}, said)


def write_beta(one: ScoreMap, scale: str) -> Writer:
    """Return what writes expit(a ln s - b ln(1 - s) + c)."""
    line, given = np.array([one.a, one.b, one.c]), scale == "probability"
    return lambda score, out: beta_map(score, line, given, one.clip, out)


def beta_program(maker: Maker) -> tuple[Node, ...]:
    """Return expit(a ln s - b ln(1 - s) + c)."""
    a, b, c = (maker.parameter(name) for name in "abc")
    low, high = maker.log_parts()
    return (maker.program.expit(a * low + b * high + c),)


def write_as_it_is(one: ScoreMap, scale: str) -> Writer:
    """Return what writes probabilities as they are, of logits their probability."""
    if scale == "probability":
        limits = one.clip, 1.0 - one.clip
        return lambda score, out: np.clip(score, *limits, out=out, dtype=np.float64)
    return lambda score, out: line_map(score, 1.0, 0.0, False, 0.0, one.clip, out)


def program_as_it_is(maker: Maker) -> tuple[Node, ...]:
    """Return the probability."""
    given = maker.scale == "probability"
    return (maker.score if given else maker.program.expit(maker.logit()),)


PLATT = line_method(fit_platt, ("a", "b"), lambda one: (one.a or 0.0, one.b or 0.0))
BETA = Method(
    fit_beta,
    write_beta,
    beta_program,
    lambda one: min(one.a or 0.0, one.b or 0.0) >= 0.0,
    takes_logits=True,
)
TEMPERATURE = line_method(
    fit_temperature,
    ("inverse", ""),
    lambda one: (1.0 / one.temperature if isinstance(one.temperature, float) else 0.0, 0.0),
)
#: r s / (r s + 1 - s), r the share of the negatives that the training rows kept.
PRIOR_SHIFT = line_method(
    lambda _, options, __: Found({"negatives_kept": options.negatives_kept}),
    ("", "shift"),
    lambda one: (1.0, math.log(one.negatives_kept or 1.0)),
    moves=False,
)
#: Scores as the probabilities they are, for whoever compares, or needs a model.
NONE = Method(lambda *_: Found({}), write_as_it_is, program_as_it_is, lambda _: True, as_it_is=True)


#: Where to put the knots of some points, given rising scores and the weights of both classes.
Knots = Callable[[Floats, Floats, Floats], Floats]

#: From here on squares of differences of scores may be infinite, or those of 1 over it be 0.
_HUGE: Final = 1e150
#: Knots of a spline: more than a curve needs, for the penalty and not their number smooths it.
_COUNT: Final = 12
#: The share of rows, half of the weight in each class, beyond each outer knot.
_BEYOND: Final = 0.05
#: How far the slope is expected to stray, as a share of itself: see `fit_rising_spline`.
_BEND: Final = 1.0


def fit_rising_logit(
    points: Points, options: MapOptions, _: list[Points], *, knots: Knots, bend: float
) -> Found:
    """Fit a rising spline by maximum likelihood, penalised where it is expected to `bend` little.

    Raises `DataError` for one class, or where every positive row has at least the score of every
    negative one (the best map is infinitely steep); for scores of 1e150 and more, or all within 1e-150.
    """
    x = points.linear(options.workers)[::-1].copy()
    positive, negative = (weights[::-1].copy() for weights in points.weights(options.workers))
    refuse_steep(points, x, positive, negative)
    if max(-x[0], x[-1]) >= _HUGE or 0.0 < x[-1] - x[0] <= 1.0 / _HUGE:
        raise DataError(
            f"{points.what} have scores from {x[0]:g} to {x[-1]:g}, too far apart or too near for a "
            "curve; use --method platt"
        )
    places = knots(x, positive, negative)
    found = fit_rising_spline(x, positive, negative, places, options.workers, bend=bend)
    fields = {"logit_knots": found.knots, "logits": found.logits, "slopes": found.slopes}
    return Found(fields, flat_note(points, "every slope is", flat=not found.slopes.any()))


def _ends(x: Floats, positive: Floats, negative: Floats) -> Floats:
    """Return the lowest and the highest score that has weight.

    A slope that goes over in a line from one end to the other is that of a quadratic function.
    """
    held = x[positive + negative > 0]
    return distinct_values(held[[0, -1]])


def _spread(x: Floats, positive: Floats, negative: Floats) -> Floats:
    """Return distinct quantiles of scores, each class half of the weight.

    They lie where scores of both classes do, so that each slope moves rows of both.
    """
    share = np.cumsum(positive / np.add.reduce(positive) + negative / np.add.reduce(negative))
    wanted = np.linspace(_BEYOND, 1.0 - _BEYOND, _COUNT) * share[-1]
    places = np.minimum(np.searchsorted(share, wanted), x.size - 1)
    low, high = x[positive > 0][0], x[negative > 0][-1]
    return distinct_values(x[places].clip(min(low, high), max(low, high)))


def pieces(one: ScoreMap) -> tuple[Floats, Floats]:
    """Return the knots, and of the pieces they part: knot, logit, slope and half the bend there.

    On a piece the logit is ``logit + d (slope + bend d)``, d the distance from its knot; the first
    and the last piece are lines.
    """
    table = np.array([one.logit_knots, one.logits, one.slopes])
    bends = 0.5 * np.diff(table[2]) / np.diff(table[0])
    return table[0], np.vstack([table[:, [0, *range(table.shape[1])]], [0.0, *bends, 0.0]])


def write_rising_logit(one: ScoreMap, scale: str) -> Writer:
    """Return what writes expit of the spline."""
    (knots, table), given = pieces(one), scale == "probability"
    return lambda score, out: spline_map(score, knots, table, given, one.clip, out)


def rising_logit_program(maker: Maker) -> tuple[Node, ...]:
    """Return expit of the spline."""
    x = maker.program.short("x", maker.logit())
    found = [pieces(one) for one in maker.maps]
    away = maker.program.bind("away", x - maker.of_piece("knot", x, found, 0))
    first = maker.of_piece("first_slope", x, found, 2)
    slope = maker.program.bind("slope", first + maker.of_piece("bend", x, found, 3) * away)
    return (maker.program.expit(slope * away + maker.of_piece("level", x, found, 1)),)


QUADRATIC, SPLINE = (
    Method(
        partial(fit_rising_logit, knots=knots, bend=bend),
        write_rising_logit,
        rising_logit_program,
        lambda _: True,
        takes_logits=True,
    )
    for knots, bend in ((_ends, math.inf), (_spread, _BEND))
)
