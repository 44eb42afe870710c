"""A calibrator as a program: the map of a row's segment, or that of its class probabilities."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from calibkit.calibrators.maps import ScoreMap
from calibkit.calibrators.method import mapped
from calibkit.calibrators.methods import METHODS
from calibkit.calibrators.model import CalibratorModel
from calibkit.exports import classes
from calibkit.exports.nodes import (
    ONE,
    ZERO,
    Binary,
    Code,
    Compare,
    Log,
    Node,
    Number,
    Ref,
    add,
    chosen,
    clipped,
    divide,
    multiply,
    numbers,
    steps,
    subtract,
    when,
)
from calibkit.exports.preimages import Floats, Function, Inverse
from calibkit.exports.program import Program, Rising
from calibkit.exports.request import Request
from calibkit.exports.scales import (
    bind_input,
    expit,
    inside,
    line,
    log_odds,
    log_parts,
    near_knots,
    scores_of,
    tame,
)
from calibkit.models import Column
from calibkit_kernels.decide import LEAST
from calibkit_kernels.maps import line_map


def translate(program: Program, model: CalibratorModel, request: Request) -> dict[str, Node]:
    """Return `calibrated`, of venn-abers with its limits; of classes `calibrated_<class>`."""
    if model.classes is not msgspec.UNSET:
        return classes.translate(program, model, request)
    request.refuse_key(model)
    name = str(request.column(model, "score"))
    made = values(program, model, name)
    if name not in program.available and all(_rises(model.method, one) for one in made.maps):
        program.rising = _rising(model, made)
    return {column: program.result([made.score], value) for column, value in made.outputs.items()}


@dataclass(frozen=True)
class Made:
    """What a calibrator makes of a row that has a score.

    Attributes
    ----------
    score
        As the map takes it.
    maps, segment
        The map of each segment, the last one of all others; which of them is a row's.
    outputs
        The added columns.
    """

    score: Ref
    maps: tuple[ScoreMap, ...]
    segment: Ref | None
    outputs: dict[str, Node]


def values(program: Program, model: CalibratorModel, name: str) -> Made:
    """Return what a calibrator makes of the score in a column."""
    column = model.columns["score"]
    if model.out_of_range == "clip":
        read = Column(column.name, column.dtype, "raw")
        raw = bind_input(program, "score", name, read)
        score = program.bind("score", clipped(raw, 0.0, 1.0))
    else:
        score = bind_input(program, "score", name, column)
    maps, segment = [model.own_map], None
    if model.groups is not msgspec.UNSET:
        maps = [*model.groups.values(), model.own_map]
        words = program.words(model.columns["by"].name, whole=True)
        segment = program.bind("segment", Code(words, tuple(model.groups)))
    outputs = _Maker(program, score, column, maps, segment).outputs(model.method)
    return Made(score, tuple(maps), segment, outputs)


def _rising(model: CalibratorModel, made: Made) -> Rising:
    """Return `calibrated` as functions of the score."""
    column = model.columns["score"]
    method, scale = METHODS[model.method].load(), column.scale or "probability"

    def function(one: ScoreMap) -> Function:
        return lambda scores: mapped(method, one, np.ascontiguousarray(scores), scale, 1)[0]

    scores = scores_of(column)
    inverses = [Inverse(made.score, function(one), 1.0, scores) for one in made.maps]
    return Rising(made.segment, tuple(inverses))


def _rises(method: str, one: ScoreMap) -> bool:
    """Whether a map that takes logarithms rises; the others are the same to the last digit."""
    if method in ("platt", "beta"):
        return min(one.a or 0.0, one.b or 0.0 if method == "beta" else 1.0) >= 0.0
    return method in ("temperature", "prior-shift")


#: Methods that copy numbers or do plain arithmetic, the same on every machine.
EXACT = ("isotonic", "histogram", "scaling-binning", "venn-abers")


class _Maker:
    """Writes the map of each method; its parameters depend on the segment."""

    def __init__(
        self,
        program: Program,
        score: Ref,
        column: Column,
        maps: Sequence[ScoreMap],
        segment: Ref | None,
    ) -> None:
        self.program, self.score, self.maps, self.segment = program, score, maps, segment
        self.scale = column.scale or "probability"
        self.scores = scores_of(column)

    def outputs(self, method: str) -> dict[str, Node]:
        """Return the added columns."""
        if method == "venn-abers":
            return self._interval()
        found = {
            "beta": self._beta,
            "platt": self._platt,
            "isotonic": self._stepped,
            "histogram": self._stepped,
            "scaling-binning": self._binned,
            "temperature": self._temperature,
            "prior-shift": self._shifted,
        }[method]()
        return {"calibrated": self._clipped(found)}

    def _of_segment(self, name: str, found: Sequence[Node]) -> Node:
        value = found[0] if self.segment is None else chosen(self.segment, found)
        return value if isinstance(value, Number) else self.program.bind(name, value)

    def _parameter(self, name: str) -> Node:
        return self._of_segment(name, numbers([float(getattr(one, name)) for one in self.maps]))

    def _clipped(self, value: Node) -> Node:
        """Return a result moved inside (0, 1) by the clip of its map."""
        clips = [one.clip for one in self.maps]
        if len(set(clips)) == 1:
            return inside(self.program, value, clips[0], "raw")
        value = self.program.bind("raw", value)
        low = self._parameter("clip")
        high = self._of_segment("limit", numbers([1.0 - one.clip for one in self.maps]))
        return when(Compare("<", value, low), low, when(Compare(">", value, high), high, value))

    def _x(self, least: float = LEAST) -> Node:
        """Return the score on the scale of a line."""
        if self.scale == "probability":
            return self.program.bind("logit", log_odds(self.program, self.score, least))
        return tame(self.program, self.score, self.scale)

    def _platt(self) -> Node:
        return expit(self.program, line(self._parameter("a"), self._x(), self._parameter("b")))

    def _temperature(self) -> Node:
        inverse = [
            1.0 / one.temperature if isinstance(one.temperature, float) else 0.0
            for one in self.maps
        ]
        slope = self._of_segment("inverse", numbers(inverse))
        return expit(self.program, line(slope, self._x(), ZERO))

    def _shifted(self) -> Node:
        shift = [math.log(one.negatives_kept or 1.0) for one in self.maps]
        return expit(
            self.program, line(ONE, self._x(0.0), self._of_segment("shift", numbers(shift)))
        )

    def _beta(self) -> Node:
        a, b, c = (self._parameter(name) for name in "abc")
        low, high = self._log_parts()
        return expit(self.program, add(add(multiply(a, low), multiply(b, high)), c))

    def _log_parts(self) -> tuple[Node, Node]:
        """Return ln s and -ln(1 - s)."""
        program = self.program
        if self.scale == "probability":
            p = program.bind("probability", inside(program, self.score, LEAST, "score"))
            low = program.bind("low_log", Log(p))
            high = program.bind("high_log", subtract(ZERO, Log(subtract(ONE, p))))
            return low, high
        return log_parts(program, tame(program, self.score, self.scale))

    def _stepped(self) -> Node:
        found = [self._steps((one.knots or [])[1:], one.values or []) for one in self.maps]
        return self._of_segment("step", found)

    def _steps(
        self, knots: Sequence[float], values: Sequence[float], *, strict: bool = False
    ) -> Node:
        """Return steps of the score; `strict`: a score on a knot belongs to what is below."""
        near = near_knots(self.program, self.score, knots, above=strict)
        return steps(self.score, near, numbers(values), strict=strict)

    def _binned(self) -> Node:
        """Return the value of the bin of expit(a x + b), its edges as edges of the score."""
        return self._of_segment("step", [self._bins(one) for one in self.maps])

    def _bins(self, one: ScoreMap) -> Node:
        assert one.a is not None and one.b is not None  # the model was checked
        a, b, given = one.a, one.b, self.scale == "probability"

        def function(score: Floats) -> Floats:
            out = np.empty(score.size)
            line_map(score, a, b, given, LEAST, 0.0, out)
            return out

        knots, found = (one.knots or [])[1:], numbers(one.values or [])
        return Inverse(self.score, function, a, self.scores).steps(knots, found)

    def _interval(self) -> dict[str, Node]:
        """Return the merged probability and the two that it is made of."""
        lows = [self._steps(one.low_knots or [], [0.0, *(one.low or [])]) for one in self.maps]
        highs = [
            self._steps(one.high_knots or [], [*(one.high or []), 1.0], strict=True)
            for one in self.maps
        ]
        low = self.program.bind("low", self._of_segment("low", lows))
        high = self.program.bind("high", self._of_segment("high", highs))
        whole = self.program.bind("whole", Binary("+", subtract(ONE, low), high))
        merged = when(Compare(">", whole, ZERO), divide(high, whole), Number(0.5))
        return {
            "calibrated": self._clipped(merged),
            "calibrated_low": self._clipped(low),
            "calibrated_high": self._clipped(high),
        }
