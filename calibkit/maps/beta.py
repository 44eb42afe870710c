"""Beta calibration: a logistic regression on ln s and -ln(1 - s) with slopes of at least 0.

M. Kull, T. Silva Filho, P. Flach, Beta calibration: a well-founded and easily implemented
improvement on logistic calibration for binary classifiers, 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibkit.maps.method import Float64s, Floats, Found, Method, Writer
from calibkit.maps.platt import refuse_separated
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.numerics.logistic import fit_line, fit_logistic
from calibkit.options.maps import MapOptions
from calibkit_kernels.logistic import is_separated
from calibkit_kernels.maps import LEAST, beta_map, log_parts

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit expit(a ln s - b ln(1 - s) + c), a and b at least 0, by maximum likelihood.

    Raises
    ------
    DataError
        For one class, or where every positive row has at least the score of every negative one:
        the best map is infinitely steep.
    """
    low, high = np.empty(points.score.size), np.empty(points.score.size)
    log_parts(points.score, points.is_probability, LEAST, low, high)
    positive, negative = points.weights(options.workers)
    x = low + high
    line = [0.0, 0.0]
    if is_separated(x, positive, negative):
        ones, zeros = x[positive > 0], x[negative > 0]
        if not ones.size or not zeros.size or ones.min() >= zeros.max():
            refuse_separated(points, x, positive, negative, "--method platt")
    else:
        start = fit_line(x, positive, negative, options.workers)
        line = [start.slopes[0], start.intercept]
    # The line on the logit is the case a = b: starting there, the loss only falls.
    begin = None if line[0] <= 0.0 else (line[0], line[0], line[1])
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


def writer(one: ScoreMap, scale: str) -> Writer:
    """Return what writes expit(a ln s - b ln(1 - s) + c)."""
    assert one.a is not None and one.b is not None and one.c is not None  # checked
    line, given = np.array([one.a, one.b, one.c]), scale == "probability"

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        beta_map(score, line, given, LEAST, one.clip, out[0])

    return write


def program(maker: Maker) -> tuple[Node, ...]:
    """Return expit(a ln s - b ln(1 - s) + c)."""
    a, b, c = (maker.parameter(name) for name in "abc")
    low, high = maker.log_parts()
    return (maker.expit(a * low + b * high + c),)


def rises(one: ScoreMap) -> bool:
    """Whether the map rises: its slopes may be 0."""
    return min(one.a or 0.0, one.b or 0.0) >= 0.0


METHOD = Method(fit, writer, program, rises, takes_logits=True)
