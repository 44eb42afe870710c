"""Platt scaling: a logistic regression on the logit of the score.

J. Platt, Probabilistic outputs for support vector machines and comparisons to regularized
likelihood methods, 1999.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibkit.errors import DataError
from calibkit.maps.method import Float64s, Floats, Found, Method, Writer
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.numerics.logistic import fit_line
from calibkit.options.maps import MapOptions
from calibkit_kernels.logistic import is_separated
from calibkit_kernels.maps import LEAST, line_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit expit(a x + b) to smoothed targets, or to the labels by maximum likelihood.

    Raises
    ------
    DataError
        Under ``mle`` for one class, or classes that a threshold separates: the best line is
        infinitely steep.
    """
    a, b = platt_line(points, options.targets or "smoothed", options.workers)
    return Found({"a": a, "b": b}, falling_note(points, a))


def platt_line(points: Points, targets: str, threads: int) -> tuple[float, float]:
    """Return a and b; see `fit`.  Rows of one class: a = 0, b the logit of Platt's target."""
    x = points.linear(threads)
    positive, negative = points.weights(threads, smoothed=targets == "smoothed")
    if targets == "mle":
        refuse_separated(points, x, positive, negative, "--targets smoothed")
    rows, hits = points.totals
    if hits in (0, rows):  # one target for all: no slope, not one of rounding errors
        mass = math.log(rows * points.unit.size + 1.0)
        return 0.0, mass if hits else -mass
    found = fit_line(x, positive, negative, threads)
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


def writer(one: ScoreMap, scale: str) -> Writer:
    """Return what writes expit(a x + b)."""
    assert one.a is not None and one.b is not None  # the model was checked
    a, b, given = one.a, one.b, scale == "probability"

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        line_map(score, a, b, given, LEAST, one.clip, out[0])

    return write


def program(maker: Maker) -> tuple[Node, ...]:
    """Return expit(a x + b)."""
    return (maker.line(maker.parameter("a"), maker.logit(), maker.parameter("b")),)


def rises(one: ScoreMap) -> bool:
    """Whether the line rises, or is flat."""
    return (one.a or 0.0) >= 0.0


METHOD = Method(fit, writer, program, rises, takes_logits=True)
