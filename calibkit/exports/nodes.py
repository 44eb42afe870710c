"""What an exported model computes, as a small tree of expressions that every writer renders.

A condition whose operand is missing does not hold, and a `Case` then goes on to its next branch, as
in SQL.  Everything else made from a missing value is missing.  NaN occurs in one place only: it is
the threshold that no score reaches.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any


@dataclass(frozen=True)
class Node:
    """An expression."""


@dataclass(frozen=True)
class Number(Node):
    """A float."""

    value: float


@dataclass(frozen=True)
class Whole(Node):
    """An integer; `kind` is the type that `apply` gives it."""

    value: int
    kind: str = "Int32"


@dataclass(frozen=True)
class Text(Node):
    """A text."""

    value: str


@dataclass(frozen=True)
class Missing(Node):
    """No value."""


@dataclass(frozen=True)
class Ref(Node):
    """The value of a binding."""

    name: str


@dataclass(frozen=True)
class Field(Node):
    """A column of numbers, as float64."""

    column: str


@dataclass(frozen=True)
class Item(Node):
    """One number of a column of lists, all of length `size`; missing in a list of another length."""

    column: str
    place: int
    size: int


@dataclass(frozen=True)
class Words(Node):
    """A column as text; `whole`: whole floats are written as integers."""

    column: str
    whole: bool = False


@dataclass(frozen=True)
class Rounded(Node):
    """A number rounded to float32."""

    value: Node


@dataclass(frozen=True)
class Between(Node):
    """A number if it lies in [low, high], else missing; NaN lies nowhere."""

    value: Node
    low: float
    high: float


@dataclass(frozen=True)
class Tame(Node):
    """A number about to be multiplied, without those whose products would under- or overflow.

    Where arithmetic fails on them, one so small is replaced by 0, one so large by the limit.
    """

    value: Node
    small: float = 1e-290
    large: float = 1e290


@dataclass(frozen=True)
class Binary(Node):
    """Two numbers joined by ``+ - * /``."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True)
class Exp(Node):
    """The exponential of a number up to 700."""

    value: Node


@dataclass(frozen=True)
class Log(Node):
    """The natural logarithm of a positive number."""

    value: Node


@dataclass(frozen=True)
class Compare(Node):
    """Two numbers compared by ``< <= > >= =``."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True)
class IsNever(Node):
    """Whether a threshold is NaN."""

    value: Node


@dataclass(frozen=True)
class Every(Node):
    """Whether all conditions hold."""

    conditions: tuple[Node, ...]


@dataclass(frozen=True)
class Some(Node):
    """Whether a condition holds."""

    conditions: tuple[Node, ...]


@dataclass(frozen=True)
class Lacks(Node):
    """Whether one of some bindings has no value."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class OneOf(Node):
    """Whether a text is among some."""

    value: Node
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Case(Node):
    """The value of the first branch whose condition holds."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node


@dataclass(frozen=True)
class Steps(Node):
    """A step function: ``values[number of knots <= x]`` (`strict`: knots < x).

    There is one value more than there are knots, which rise.
    """

    x: Node
    knots: tuple[float, ...]
    values: tuple[Node, ...]
    strict: bool = False

    @property
    def is_table(self) -> bool:
        """Whether all values are numbers."""
        return all(isinstance(value, Number) for value in self.values)


@dataclass(frozen=True)
class TableSteps(Node):
    """A step function of several: that of the table whose place `index` is, all over the same x."""

    index: Node
    x: Node
    tables: tuple[Steps, ...]


@dataclass(frozen=True)
class Code(Node):
    """The place of a text among some, or their number for another text or none."""

    value: Node
    texts: tuple[str, ...]


@dataclass(frozen=True)
class Draw(Node):
    """What decides a row at random, a number in [0, 1).

    The first 13 hexadecimal digits of ``md5(seed ":" key)`` over 16^13; `key` is a column as text.
    """

    key: Node
    seed: int


@dataclass(frozen=True)
class Falling(Node):
    """Numbers as a list, the largest first."""

    values: tuple[Node, ...]


@dataclass(frozen=True)
class Place(Node):
    """A number of a list, by its place from 0."""

    value: Node
    place: int


NEVER = Number(math.nan)
ZERO, ONE = Number(0.0), Number(1.0)

#: Decisions.
NO, YES = Whole(0, "UInt8"), Whole(1, "UInt8")


def add(left: Node, right: Node) -> Node:
    """Return a sum; 0 is left out."""
    return left if right == ZERO else Binary("+", left, right)


def subtract(left: Node, right: Node) -> Node:
    """Return a difference."""
    return Binary("-", left, right)


def multiply(left: Node, right: Node) -> Node:
    """Return a product; a factor 1 is left out."""
    if left == ONE:
        return right
    return left if right == ONE else Binary("*", left, right)


def divide(left: Node, right: Node) -> Node:
    """Return a quotient."""
    return Binary("/", left, right)


def when(condition: Node, value: Node, otherwise: Node) -> Case:
    """Return one of two values; where the second is a `Case`, its branches go on here."""
    if isinstance(otherwise, Case):
        return Case(((condition, value), *otherwise.branches), otherwise.otherwise)
    return Case(((condition, value),), otherwise)


def clipped(value: Node, low: float, high: float) -> Node:
    """Return a number moved into [low, high]; `value` should be short, it is written three times."""
    return when(
        Compare("<", value, Number(low)),
        Number(low),
        when(Compare(">", value, Number(high)), Number(high), value),
    )


def steps(x: Node, knots: Sequence[float], values: Sequence[Node], *, strict: bool = False) -> Node:
    """Return a step function.

    Of equal knots the last one holds, and steps that change nothing are left out.
    """
    kept: list[float] = []
    found = [values[0]]
    for place, (knot, value) in enumerate(zip(knots, values[1:], strict=True)):
        if place + 1 < len(knots) and knots[place + 1] == knot:
            continue
        if value != found[-1]:
            kept.append(knot)
            found.append(value)
    if not kept:
        return found[0]
    return Steps(x, tuple(kept), tuple(found), strict)


def numbers(values: Sequence[float]) -> list[Node]:
    """Return numbers as expressions."""
    return [Number(float(value)) for value in values]


def chosen(code: Node, values: Sequence[Node]) -> Node:
    """Return the value whose place a code is."""
    return steps(code, [float(place) for place in range(1, len(values))], values)


def parts_of(node: Node) -> Iterator[Node]:
    """Yield the expressions directly within one."""
    for field in fields(node):
        yield from _nodes(getattr(node, field.name))


def _nodes(value: Any) -> Iterator[Node]:
    if isinstance(value, Node):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from _nodes(item)


def every_node(node: Node) -> Iterator[Node]:
    """Yield an expression and all within it."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += parts_of(found)


def refs_of(node: Node) -> set[str]:
    """Return the names of the bindings that an expression uses."""
    found = set()
    for part in every_node(node):
        if isinstance(part, Ref):
            found.add(part.name)
        elif isinstance(part, Lacks):
            found.update(part.names)
    return found
