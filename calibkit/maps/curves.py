"""Maps whose logit is a rising spline of the logit of the score: quadratic and spline calibration.

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
from typing import TYPE_CHECKING, Final

import numpy as np

from calibkit.errors import DataError
from calibkit.maps.lines import refuse_steep
from calibkit.maps.method import Float64s, Floats, Found, Method, Points, Writer
from calibkit.maps.score_map import ScoreMap
from calibkit.numerics.logistic import fit_rising_spline
from calibkit.options.calibrate import MapOptions
from calibkit_kernels.maps import LEAST, spline_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

#: Where to put the knots of some points, given rising scores and the weights of both classes.
Knots = Callable[[Float64s, Float64s, Float64s], Float64s]

#: From here on squares of differences of scores may be infinite.
_HUGE: Final = 1e150
#: Knots of a spline: more than a curve needs, for the penalty and not their number smooths it.
_COUNT: Final = 12
#: The share of rows, half of the weight in each class, beyond each outer knot.
_BEYOND: Final = 0.05
#: How far the slope is expected to stray, as a share of itself: see `fit_rising_spline`.
_BEND: Final = 1.0


def fit_rising_logit(points: Points, knots: Knots, threads: int, bend: float) -> Found:
    """Fit a rising spline by maximum likelihood, penalised where it is expected to `bend` little.

    Raises
    ------
    DataError
        For one class, or where every positive row has at least the score of every negative one:
        the best map is infinitely steep.  For scores of 1e150 and more.
    """
    x = points.linear(threads)[::-1].copy()
    positive, negative = (weights[::-1].copy() for weights in points.weights(threads))
    refuse_steep(points, x, positive, negative)
    if max(-x[0], x[-1]) >= _HUGE:
        raise DataError(
            f"{points.what} have scores from {x[0]:g} to {x[-1]:g}, too far apart for a curve; use "
            "--method platt"
        )
    places = knots(x, positive, negative)
    found = fit_rising_spline(x, positive, negative, places, threads, bend=bend)
    fields = {
        "logit_knots": found.knots.tolist(),
        "logits": found.logits.tolist(),
        "slopes": found.slopes.tolist(),
    }
    said: tuple[str, ...] = ()
    if not found.slopes.any() and points.score.size > 1:
        said = (
            f"every slope is 0 for {points.what}: higher scores are not more often positive, so all "
            "get the same probability (see --positive)",
        )
    return Found(fields, said)


def _ends(x: Float64s, positive: Float64s, negative: Float64s) -> Float64s:
    """Return the lowest and the highest score that has weight.

    A slope that goes over in a line from one end to the other is that of a quadratic function.
    """
    held = x[positive + negative > 0]
    return np.unique(held[[0, -1]])


def _spread(x: Float64s, positive: Float64s, negative: Float64s) -> Float64s:
    """Return distinct quantiles of scores, each class half of the weight.

    They lie where scores of both classes do, so that each slope moves rows of both.
    """
    share = np.cumsum(positive / np.add.reduce(positive) + negative / np.add.reduce(negative))
    wanted = np.linspace(_BEYOND, 1.0 - _BEYOND, _COUNT) * share[-1]
    places = np.minimum(np.searchsorted(share, wanted), x.size - 1)
    low, high = x[positive > 0][0], x[negative > 0][-1]
    return np.unique(x[places].clip(min(low, high), max(low, high)))


def pieces(one: ScoreMap) -> tuple[list[float], tuple[list[float], ...]]:
    """Return the knots, and of the pieces they part: knot, logit, slope and half the bend there.

    On a piece the logit is ``logit + d (slope + bend d)``, d the distance from its knot; the first
    and the last piece are lines.
    """
    assert one.logit_knots is not None and one.logits is not None and one.slopes is not None
    knots, logits, slopes = (np.array(each) for each in (one.logit_knots, one.logits, one.slopes))
    bends = np.append(0.5 * np.diff(slopes) / np.diff(knots), 0.0)
    table = [np.append(each[:1], each).tolist() for each in (knots, logits, slopes)]
    return one.logit_knots, (*table, [0.0, *bends.tolist()])


def write_rising_logit(one: ScoreMap, scale: str) -> Writer:
    """Return what writes expit of the spline."""
    knots, table = pieces(one)
    places, numbers, given = np.array(knots), np.array(table), scale == "probability"

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        spline_map(score, places, numbers, given, LEAST, one.clip, out[0])

    return write


def rising_logit_program(maker: Maker) -> tuple[Node, ...]:
    """Return expit of the spline."""
    x = maker.program.short("x", maker.logit())
    found = [pieces(one) for one in maker.maps]
    away = maker.program.bind("away", x - maker.of_piece("knot", x, found, 0))
    first = maker.of_piece("first_slope", x, found, 2)
    slope = maker.program.bind("slope", first + maker.of_piece("bend", x, found, 3) * away)
    return (maker.expit(slope * away + maker.of_piece("level", x, found, 1)),)


def _rising(knots: Knots, bend: float) -> Method:
    def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
        return fit_rising_logit(points, knots, options.workers, bend)

    return Method(fit, write_rising_logit, rising_logit_program, lambda _: True, takes_logits=True)


QUADRATIC, SPLINE = _rising(_ends, math.inf), _rising(_spread, _BEND)
