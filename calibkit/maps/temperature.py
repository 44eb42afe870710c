"""Temperature scaling: logits divided by one number.

C. Guo, G. Pleiss, Y. Sun, K. Weinberger, On calibration of modern neural networks, 2017.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from calibkit.maps.method import Float64s, Floats, Found, Method, Writer
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.numerics.logistic import fit_logistic
from calibkit.options.maps import MapOptions
from calibkit_kernels.maps import LEAST, line_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

#: The largest inverse temperature: beyond, predictions are certain whatever the logits say.
MOST_INVERSE: Final = 1e6


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
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


def writer(one: ScoreMap, scale: str) -> Writer:
    """Return what writes expit(x / temperature)."""
    inverse, given = _inverse(one), scale == "probability"

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        line_map(score, inverse, 0.0, given, LEAST, one.clip, out[0])

    return write


def program(maker: Maker) -> tuple[Node, ...]:
    """Return expit(x / temperature)."""
    slope = maker.number("inverse", _inverse)
    return (maker.line(slope, maker.logit(), 0.0),)


def _inverse(one: ScoreMap) -> float:
    return 1.0 / one.temperature if isinstance(one.temperature, float) else 0.0


METHOD = Method(fit, writer, program, lambda _: True, takes_logits=True)
