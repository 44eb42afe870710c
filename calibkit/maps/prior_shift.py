"""Prior shift: undoing that training rows kept only a share of the negatives."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from calibkit.maps.method import Float64s, Floats, Found, Method, Writer
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.options.maps import MapOptions
from calibkit_kernels.maps import line_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Return the share of negatives kept: nothing is fitted."""
    return Found({"negatives_kept": options.negatives_kept})


def writer(one: ScoreMap, scale: str) -> Writer:
    """Return what writes r s / (r s + 1 - s), r the share kept."""
    assert one.negatives_kept is not None  # the model was checked
    shift, given = math.log(one.negatives_kept), scale == "probability"

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        line_map(score, 1.0, shift, given, 0.0, one.clip, out[0])

    return write


def program(maker: Maker) -> tuple[Node, ...]:
    """Return expit(x + ln r), r the share kept."""
    shift = maker.number("shift", lambda one: math.log(one.negatives_kept or 1.0))
    return (maker.line(1.0, maker.logit(0.0), shift),)


METHOD = Method(fit, writer, program, lambda _: True)
