"""What the formula of a calibrator is written with, as a program."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from msgspec import Struct

from calibkit.arrays import Numbers
from calibkit.expressions.nodes import Log, Node, Operand, Ref, clipped, steps
from calibkit.expressions.program import Function, Inverse, Program, Scores
from calibkit.maps.model import ScoreMap
from calibkit.models.model import Column
from calibkit_kernels.maps import LEAST


class Maker(Struct, frozen=True):
    """Writes the map of a method; its parameters depend on the segment.

    It has the score as the map takes it, and its column; the map of each segment, the last one that of
    all others, and which of them is a row's.
    """

    program: Program
    score: Ref
    column: Column
    maps: Sequence[ScoreMap]
    segment: Ref | None

    @property
    def scale(self) -> str:
        """The scale of the score: ``probability``, ``logit`` or ``raw``."""
        return self.column.measure

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
        x = self.program.link(self.score, self.scale, least)
        return self.program.bind("logit", x) if self.scale == "probability" else x

    def log_parts(self) -> tuple[Node, Node]:
        """Return ln s and -ln(1 - s)."""
        program = self.program
        if self.scale != "probability":
            return program.log_parts(program.link(self.score, self.scale))
        p = program.bind("probability", program.inside(self.score, LEAST, "score"))
        return program.bind("low_log", Log(p)), program.bind("high_log", 0.0 - Log(1.0 - p))

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
            near = self.program.near_knots(self.score, knots, above=strict)
            made.append(steps(self.score, near, values, strict=strict))
        return self.of_segment(name, made)

    def of_piece(
        self, name: str, x: Node, found: Sequence[tuple[Numbers, Numbers]], place: int
    ) -> Node:
        """Return a number of the piece that x lies on: of each map its knots, and tables of pieces."""
        values = [steps(x, knots.tolist(), tables[place].tolist()) for knots, tables in found]
        return self.of_segment(name, values)

    def inverse(self, function: Function, slope: float) -> Inverse:
        """Return a function of the score, which has the sign of a slope, seen from the score."""
        return Inverse(self.score, function, slope, Scores.of(self.column))

    def clipped(self, value: Node) -> Node:
        """Return a result moved inside (0, 1) by the clip of its map."""
        clips = [one.clip for one in self.maps]
        if len(set(clips)) == 1:
            return self.program.inside(value, clips[0], "raw")
        value = self.program.bind("raw", value)
        low, high = self.parameter("clip"), self.number("limit", lambda one: 1.0 - one.clip)
        return clipped(value, low, high)
