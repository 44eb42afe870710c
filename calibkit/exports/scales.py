"""Inputs as a fit takes them, and the maps that several kinds of model share."""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibkit.exports.nodes import (
    ONE,
    Between,
    Binary,
    Case,
    Compare,
    Exp,
    Log,
    Node,
    Number,
    Ref,
    Rounded,
    Tame,
    add,
    clipped,
    divide,
    multiply,
    subtract,
    when,
)
from calibkit.exports.preimages import Scores
from calibkit.exports.program import Input, Program
from calibkit.models import Column

#: The largest finite float64 and the first number that float32 rounds to infinity.
LARGEST = 1.7976931348623157e308
SINGLE_OVERFLOW = 2.0**128 - 2.0**103
SINGLE_LARGEST = 2.0**128 - 2.0**104

#: How far, relatively, numbers made of logarithms and exponentials may be from what another machine
#: makes of them.
NEAR = 1e-13


def bind_input(
    program: Program, name: str, column: str, description: Column, *, finite: bool = True
) -> Ref:
    """Bind a column of numbers as the fit took it; see `as_fitted`."""
    value = as_fitted(program, program.number(column), description, finite=finite)
    bound = program.bind(name, value)
    if column not in program.available:
        program.inputs[bound.name] = Input(column, description)
    elif column in program.inexact:
        program.loose.add(bound.name)
    return bound


def as_fitted(program: Program, value: Node, column: Column, *, finite: bool = True) -> Node:
    """Return a number as a fit took it, missing where `apply` would refuse it.

    Parameters
    ----------
    program
        Where it is read.
    value
        The number.
    column
        What the model says of it: scale and dtype.
    finite
        Whether infinities are refused.
    """
    low, high = _range(column, finite)
    found = Between(value, low, high)
    if column.dtype != "float32":
        return found
    read = program.bind("read", found)
    if high < math.inf:
        return Rounded(read)
    return Case(
        (
            (Compare(">=", read, Number(SINGLE_OVERFLOW)), Number(math.inf)),
            (Compare("<=", read, Number(-SINGLE_OVERFLOW)), Number(-math.inf)),
        ),
        Rounded(read),
    )


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
        return Compare(">=", x, cut)
    if isinstance(cut, Number):
        return Compare(">=", x, Number(near_knots(program, x, [cut.value])[0]))
    lower = multiply(cut, Number(1.0 + NEAR)), multiply(cut, Number(1.0 - NEAR))
    return Compare(">=", x, when(Compare("<", cut, Number(0.0)), *lower))


def _range(column: Column, finite: bool) -> tuple[float, float]:
    if column.scale == "probability":
        return 0.0, 1.0
    if not finite:
        return -math.inf, math.inf
    most = math.nextafter(SINGLE_OVERFLOW, 0.0) if column.dtype == "float32" else LARGEST
    return -most, most


def scores_of(column: Column) -> Scores:
    """Return the finite scores that a column may hold."""
    single = column.dtype == "float32"
    if column.scale == "probability":
        return Scores(single, 0.0, 1.0)
    most = SINGLE_LARGEST if single else LARGEST
    return Scores(single, -most, most)


def expit(program: Program, z: Node, name: str = "linear") -> Node:
    """Return 1 / (1 + exp(-z)), in the form that does not overflow."""
    if isinstance(z, Number):
        return Number(_expit(z.value))
    z = z if isinstance(z, Ref) else program.bind(name, z)
    power = program.bind(
        "power", Exp(when(Compare(">=", z, Number(0.0)), subtract(Number(0.0), z), z))
    )
    return when(
        Compare(">=", z, Number(0.0)),
        divide(ONE, add(ONE, power)),
        divide(power, add(ONE, power)),
    )


def _expit(z: float) -> float:
    if z >= 0.0:
        return 1.0 / (1.0 + math.exp(-z))
    return math.exp(z) / (1.0 + math.exp(z))


def inside(program: Program, value: Node, least: float, name: str) -> Node:
    """Return a probability moved `least` inside (0, 1)."""
    if isinstance(value, Number):
        return Number(min(max(value.value, least), 1.0 - least))
    if least == 0.0:
        return value
    value = value if isinstance(value, Ref) else program.bind(name, value)
    return clipped(value, least, 1.0 - least)


def log_odds(program: Program, probability: Node, least: float) -> Node:
    """Return the logit of a probability that is moved `least` inside (0, 1) first.

    Without that (`least` 0) the logits of 0 and 1 are infinite.
    """
    p = program.bind("probability", inside(program, probability, least, "probability"))
    logit: Node = Log(divide(p, subtract(ONE, p)))
    if least > 0.0:
        return logit
    return Case(
        (
            (Compare("<=", p, Number(0.0)), Number(-math.inf)),
            (Compare(">=", p, Number(1.0)), Number(math.inf)),
        ),
        logit,
    )


def log_parts(program: Program, z: Node) -> tuple[Node, Node]:
    """Return ln s and -ln(1 - s) of s = 1 / (1 + exp(-z))."""
    positive = Compare(">", z, Number(0.0))
    power = Exp(when(positive, subtract(Number(0.0), z), z))
    rest = program.bind("rest", Log(add(ONE, power)))
    low = program.bind("low_log", subtract(when(positive, Number(0.0), z), rest))
    return low, program.bind("high_log", add(when(positive, z, Number(0.0)), rest))


def line(a: Node, x: Node, b: Node) -> Node:
    """Return a x + b."""
    if a == Number(0.0):
        return b
    if a == ONE:
        return add(x, b)
    return add(multiply(a, x), b) if b != Number(0.0) else Binary("*", a, x)


def tame(program: Program, x: Node, scale: str) -> Node:
    """Return scores that are multiplied; logits of probabilities are never too large for that."""
    return x if scale == "probability" else program.bind("score", Tame(x))
