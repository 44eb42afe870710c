"""No calibration: scores as the probabilities they are, for whoever compares, or needs a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibkit.maps.method import Float64s, Floats, Found, Method, Writer
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.options.maps import MapOptions
from calibkit_kernels.maps import line_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker


def fit(_: Points, __: MapOptions, ___: list[Points]) -> Found:
    """Return no field: nothing is fitted."""
    return Found({})


def writer(one: ScoreMap, scale: str) -> Writer:
    """Return what writes probabilities as they are, of logits their probability."""

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        if scale == "probability":
            np.clip(score, one.clip, 1.0 - one.clip, out=out[0], dtype=np.float64)
        else:
            line_map(score, 1.0, 0.0, False, 0.0, one.clip, out[0])

    return write


def program(maker: Maker) -> tuple[Node, ...]:
    """Return the probability."""
    if maker.scale == "probability":
        return (maker.score,)
    return (maker.line(1.0, maker.logit(), 0.0),)


METHOD = Method(fit, writer, program, lambda _: True, as_it_is=True)
