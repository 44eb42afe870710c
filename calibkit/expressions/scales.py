"""Inputs as a fit takes them, and the maps that several kinds of model share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibkit.expressions.nodes import (
    ONE,
    ZERO,
    Between,
    Clamped,
    Exp,
    Log,
    Node,
    Number,
    Operand,
    Ref,
    Rounded,
    clipped,
    node_of,
    when,
)
from calibkit.expressions.preimages import Scores
from calibkit.expressions.program import Input, Program
from calibkit.models.model import Column
from calibkit_kernels.decide import LEAST

#: The largest finite float64 and the first number that float32 rounds to infinity.
LARGEST = 1.7976931348623157e308
SINGLE_OVERFLOW = 2.0**128 - 2.0**103
SINGLE_LARGEST = 2.0**128 - 2.0**104

#: How far, relatively, numbers made of logarithms and exponentials may be from what another machine
#: makes of them.
NEAR = 1e-13


def bind_input(
    program: Program,
    name: str,
    column: str,
    description: Column,
    *,
    finite: bool = True,
    value: Node | None = None,
) -> Ref:
    """Bind a column of numbers as the fit took it; see `as_fitted`.

    `value`: what stands for the column, if not what is read.
    """
    value = program.number(column) if value is None else value
    bound = program.bind(name, as_fitted(program, value, description, finite=finite))
    if column not in program.available:
        program.inputs[bound.name] = Input(column, description)
    elif program.available[column].name in program.loose:
        program.loose.add(bound.name)
    return bound


def as_fitted(program: Program, value: Node, column: Column, *, finite: bool = True) -> Node:
    """Return a number as a fit took it, missing where `apply` would refuse it.

    `column` tells scale and dtype, `finite` whether infinities are refused.
    """
    low, high = _range(column, finite)
    found: Node = Between(value, low, high)
    if column.scale == "percent":
        read = program.bind("percent", found)
        share = (Rounded(read) if column.dtype == "float32" else read) / 100.0
        return Rounded(program.bind("read", share)) if column.dtype == "float32" else share
    if column.dtype != "float32":
        return found
    read = program.bind("read", found)
    if high < math.inf:
        return Rounded(read)
    below = when(read <= -SINGLE_OVERFLOW, -math.inf, Rounded(read))
    return when(read >= SINGLE_OVERFLOW, math.inf, below)


def near_knots(
    program: Program, x: Node, knots: Sequence[float], *, above: bool = False
) -> list[float]:
    """Return the knots of x, moved down a little (or up) where its last digits are not certain.

    A number that another machine would have put on the knot is then on the same side of it.
    """
    if not (isinstance(x, Ref) and x.name in program.loose):
        return list(knots)
    share = NEAR if above else -NEAR
    return [knot + share * abs(knot) if math.isfinite(knot) else knot for knot in knots]


def at_least(program: Program, x: Ref, cut: Node) -> Node:
    """Return whether x reaches a cut, which is moved down a little as that of `near_knots`."""
    if x.name not in program.loose:
        return x >= cut
    if isinstance(cut, Number):
        return x >= near_knots(program, x, [cut.value])[0]
    return x >= when(cut < 0.0, cut * (1.0 + NEAR), cut * (1.0 - NEAR))


def _range(column: Column, finite: bool) -> tuple[float, float]:
    if column.scale in ("probability", "percent"):
        return 0.0, 100.0 if column.scale == "percent" else 1.0
    if not finite:
        return -math.inf, math.inf
    most = math.nextafter(SINGLE_OVERFLOW, 0.0) if column.dtype == "float32" else LARGEST
    return -most, most


def scores_of(column: Column) -> Scores:
    """Return the finite scores that a column may hold."""
    single = column.dtype == "float32"
    if column.scale in ("probability", "percent"):
        return Scores(single, 0.0, 1.0)
    most = SINGLE_LARGEST if single else LARGEST
    return Scores(single, -most, most)


def expit(program: Program, z: Node, name: str = "linear") -> Node:
    """Return 1 / (1 + exp(-z)), in the form that does not overflow."""
    if isinstance(z, Number):
        small = math.exp(-abs(z.value))
        return Number((1.0 if z.value >= 0.0 else small) / (1.0 + small))
    z = program.short(name, z)
    power = program.bind("power", Exp(when(z >= 0.0, 0.0 - z, z)))
    whole = ONE + power
    return when(z >= 0.0, ONE / whole, power / whole)


def inside(program: Program, value: Node, least: float, name: str) -> Node:
    """Return a probability moved `least` inside (0, 1)."""
    if isinstance(value, Number):
        return Number(min(max(value.value, least), 1.0 - least))
    if least == 0.0:
        return value
    return clipped(program.short(name, value), least, 1.0 - least)


def link(program: Program, score: Node, scale: str, least: float = LEAST) -> Node:
    """Return a score on the scale of a line: of a probability the logit; to be multiplied."""
    if scale == "probability":
        return log_odds(program, score, least)
    return program.bind("score", Clamped(score))


def log_odds(program: Program, probability: Node, least: float) -> Node:
    """Return the logit of a probability that is moved `least` inside (0, 1) first.

    Without that (`least` 0) the logits of 0 and 1 are infinite.
    """
    p = program.bind("probability", inside(program, probability, least, "probability"))
    logit = Log(p / (1.0 - p))
    if least > 0.0:
        return logit
    return when(p <= 0.0, -math.inf, when(p >= 1.0, math.inf, logit))


def log_parts(program: Program, z: Node) -> tuple[Node, Node]:
    """Return ln s and -ln(1 - s) of s = 1 / (1 + exp(-z))."""
    positive = z > 0.0
    rest = program.bind("rest", Log(ONE + Exp(when(positive, 0.0 - z, z))))
    low = program.bind("low_log", when(positive, 0.0, z) - rest)
    return low, program.bind("high_log", when(positive, z, 0.0) + rest)


def line(a: Operand, x: Node, b: Operand) -> Node:
    """Return a x + b."""
    a, b = node_of(a), node_of(b)
    return b if a == ZERO else a * x + b
