"""What the formula of a calibrator is written with, as a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from calibkit.expressions import program as scales
from calibkit.expressions.nodes import Log, Node, Operand, Ref, clipped, steps, when
from calibkit.expressions.preimages import Function, Inverse
from calibkit.expressions.program import Program
from calibkit.maps.score_map import ScoreMap
from calibkit.models.model import Column
from calibkit_kernels.maps import LEAST


class Maker:
    """Writes the map of a method; its parameters depend on the segment.

    It has the score as the map takes it, its scale, and the scores that occur; the map of each segment,
    the last one that of all others, and which of them is a row's.
    """

    def __init__(
        self,
        program: Program,
        score: Ref,
        column: Column,
        maps: Sequence[ScoreMap],
        segment: Ref | None,
    ) -> None:
        self.program, self.score, self.maps, self.segment = program, score, maps, segment
        self.scale = column.measure
        self.scores = scales.scores_of(column)

    def of_segment(self, name: str, found: Sequence[Operand]) -> Node:
        """Return which of some values, one a map, is a row's."""
        return self.program.choose(name, self.segment, found)

    def number(self, name: str, value: Callable[[ScoreMap], float]) -> Node:
        """Return a number that follows from the map of a row's segment."""
        return self.of_segment(name, [value(one) for one in self.maps])

    def parameter(self, name: str) -> Node:
        """Return a field of the map of a row's segment."""
        return self.number(name, lambda one: float(getattr(one, name)))

    def logit(self, least: float = LEAST) -> Node:
        """Return the score on the scale of a line; probabilities are moved `least` inside (0, 1)."""
        x = scales.link(self.program, self.score, self.scale, least)
        return self.program.bind("logit", x) if self.scale == "probability" else x

    def log_parts(self) -> tuple[Node, Node]:
        """Return ln s and -ln(1 - s)."""
        program = self.program
        if self.scale == "probability":
            p = program.bind("probability", scales.inside(program, self.score, LEAST, "score"))
            low = program.bind("low_log", Log(p))
            high = program.bind("high_log", 0.0 - Log(1.0 - p))
            return low, high
        return scales.log_parts(program, scales.link(program, self.score, self.scale))

    def expit(self, z: Node) -> Node:
        """Return 1 / (1 + exp(-z))."""
        return scales.expit(self.program, z)

    def line(self, slope: Operand, x: Node, intercept: Operand) -> Node:
        """Return expit(slope x + intercept)."""
        return self.expit(scales.line(slope, x, intercept))

    def steps(
        self,
        name: str,
        found: Callable[[ScoreMap], tuple[Sequence[float], Sequence[float]]],
        *,
        strict: bool = False,
    ) -> Node:
        """Return steps of the score by knots and one value more; `strict`: a knot is below its step."""
        made = []
        for knots, values in map(found, self.maps):
            near = scales.near_knots(self.program, self.score, knots, above=strict)
            made.append(steps(self.score, near, values, strict=strict))
        return self.of_segment(name, made)

    def of_piece(
        self, name: str, x: Node, found: Sequence[tuple[Any, Sequence[Any]]], place: int
    ) -> Node:
        """Return a number of the piece that x lies on: of each map its knots, and tables of pieces."""
        values = [
            steps(x, np.asarray(knots).tolist(), np.asarray(tables[place]).tolist())
            for knots, tables in found
        ]
        return self.of_segment(name, values)

    def steps_of(self, name: str, curve: Callable[[ScoreMap, str], tuple[Function, float]]) -> Node:
        """Return the steps of maps on a function of the score, which has the sign of a slope."""
        made = []
        for one in self.maps:
            function, slope = curve(one, self.scale)
            inverse = Inverse(self.score, function, slope, self.scores)
            made.append(inverse.steps((one.knots or [])[1:], one.values or []))
        return self.of_segment(name, made)

    def merged(self, low: Node, high: Node) -> tuple[Node, Node, Node]:
        """Return high / (1 - low + high), 1/2 where that is 0 / 0, and the two."""
        whole = self.program.bind("whole", 1.0 - low + high)
        return when(whole > 0.0, high / whole, 0.5), low, high

    def clipped(self, value: Node) -> Node:
        """Return a result moved inside (0, 1) by the clip of its map."""
        clips = [one.clip for one in self.maps]
        if len(set(clips)) == 1:
            return scales.inside(self.program, value, clips[0], "raw")
        value = self.program.bind("raw", value)
        low, high = self.parameter("clip"), self.number("limit", lambda one: 1.0 - one.clip)
        return clipped(value, low, high)
