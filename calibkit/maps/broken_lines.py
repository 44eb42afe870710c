"""Maps that go over in a line from knot to knot of the score, which several methods fit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from calibkit.maps.method import Float64s, Floats, Writer
from calibkit.maps.score_map import ScoreMap

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker


def pieces(one: ScoreMap) -> tuple[Float64s, tuple[Float64s, Float64s, Float64s]]:
    """Return the knots, and of the pieces they part: knot, value and slope there.

    The first and the last piece are flat; so is one too narrow for a slope that is a number.
    """
    assert one.knots is not None and one.values is not None  # the model was checked
    knots, values = np.array(one.knots), np.array(one.values)
    with np.errstate(over="ignore", divide="ignore"):
        rises = np.diff(values) / np.diff(knots)
    slopes = np.concatenate([[0.0], np.where(np.isfinite(rises), rises, 0.0), [0.0]])
    return knots, (np.append(knots[:1], knots), np.append(values[:1], values), slopes)


def write_broken_line(one: ScoreMap, _: str) -> Writer:
    """Return what writes the line between the knots on both sides of each score."""
    knots, (starts, levels, slopes) = pieces(one)

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        x = score.astype(np.float64)
        piece = np.searchsorted(knots, x, side="right")
        value = slopes[piece] * (x - starts[piece]) + levels[piece]
        np.clip(value, one.clip, 1.0 - one.clip, out=out[0])

    return write


def broken_line_program(maker: Maker) -> tuple[Node, ...]:
    """Return the line between the knots on both sides of the score."""
    from calibkit.expressions.nodes import clipped, steps

    found = [pieces(one) for one in maker.maps]

    def of_piece(name: str, place: int) -> Node:
        values = [
            steps(maker.score, knots.tolist(), table[place].tolist()) for knots, table in found
        ]
        return maker.of_segment(name, values)

    away = maker.program.bind("away", maker.score - of_piece("knot", 0))
    value = maker.program.bind("line", of_piece("slope", 2) * away + of_piece("level", 1))
    return (clipped(value, 0.0, 1.0),)
