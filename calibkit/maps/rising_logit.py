"""Maps whose logit is a rising spline of the logit of the score, which several methods fit."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from calibkit.errors import DataError
from calibkit.maps.method import Float64s, Floats, Found, Writer
from calibkit.maps.platt import refuse_separated
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.numerics.splines import fit_rising_spline
from calibkit_kernels.maps import LEAST, spline_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

#: Where to put the knots of some points, given rising scores and the weights of both classes.
Knots = Callable[[Float64s, Float64s, Float64s], Float64s]

#: From here on squares of differences of scores may be infinite.
_HUGE: Final = 1e150


def fit_rising_logit(points: Points, knots: Knots, threads: int, bend: float = math.inf) -> Found:
    """Fit a rising spline by maximum likelihood, penalised where it is expected to `bend` little.

    Raises
    ------
    DataError
        For one class, or where every positive row has at least the score of every negative one:
        the best map is infinitely steep.  For scores of 1e150 and more.
    """
    x = points.linear(threads)[::-1]
    positive, negative = (weights[::-1].copy() for weights in points.weights(threads))
    x = x.copy()
    ones, zeros = x[positive > 0], x[negative > 0]
    if not ones.size or not zeros.size or ones.min() >= zeros.max():
        refuse_separated(points, x, positive, negative, "--method platt")
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
    from calibkit.expressions.nodes import steps

    x = maker.program.short("x", maker.logit())
    found = [pieces(one) for one in maker.maps]

    def of_piece(name: str, place: int) -> Node:
        values: Sequence[Node] = [steps(x, knots, table[place]) for knots, table in found]
        return maker.of_segment(name, values)

    away = maker.program.bind("away", x - of_piece("knot", 0))
    slope = maker.program.bind("slope", of_piece("first_slope", 2) + of_piece("bend", 3) * away)
    return (maker.expit(slope * away + of_piece("level", 1)),)
