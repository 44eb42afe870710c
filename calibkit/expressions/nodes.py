"""What an exported model computes, as a small tree of expressions that every printer writes.

A condition whose operand is missing does not hold, and a `Case` then goes on to its next branch, as
in SQL.  Everything else made from a missing value is missing.  NaN occurs in one place only: it is
the threshold that no score reaches.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

import msgspec
from msgspec.structs import astuple


def _comparison(sign: str) -> Callable[[Node, Operand], Node]:
    """Return the method that compares an expression with another one."""
    return lambda self, other: Compare(sign, self, node_of(other))


class Node(msgspec.Struct, frozen=True):
    """An expression.

    Arithmetic with expressions and floats makes expressions (a summand 0 and a factor 1 are left
    out), ``< <= > >=`` and `equals` make conditions; ``==`` tells whether two expressions are the
    same.
    """

    def __add__(self, other: Operand) -> Node:
        right = node_of(other)
        return self if right == ZERO else Binary("+", self, right)

    def __sub__(self, other: Operand) -> Node:
        return Binary("-", self, node_of(other))

    def __rsub__(self, other: float) -> Node:
        return Binary("-", Number(other), self)

    def __mul__(self, other: Operand) -> Node:
        right = node_of(other)
        if self == ONE:
            return right
        return self if right == ONE else Binary("*", self, right)

    def __truediv__(self, other: Operand) -> Node:
        return Binary("/", self, node_of(other))

    __lt__, __le__ = _comparison("<"), _comparison("<=")
    __gt__, __ge__ = _comparison(">"), _comparison(">=")
    equals = _comparison("=")


Operand: TypeAlias = Node | float


class Number(Node, frozen=True):
    """A float."""

    value: float


class Whole(Node, frozen=True):
    """An integer; `kind` is the type that `apply` gives it."""

    value: int
    kind: str = "Int32"


class Text(Node, frozen=True):
    """A text."""

    value: str


class Missing(Node, frozen=True):
    """No value."""


class Ref(Node, frozen=True):
    """The value of a binding."""

    name: str


class Read(Node, frozen=True):
    """A column of the table."""

    column: str


class Field(Read, frozen=True):
    """A column of numbers, as float64."""


class Words(Read, frozen=True):
    """A column as text."""


class Segment(Words, frozen=True):
    """The place of a row's segment among some that `places` find, else `otherwise`; see `place_of`."""

    places: tuple[tuple[object, int], ...]
    otherwise: int


class Item(Read, frozen=True):
    """One number of a column of lists, all of length `size`; missing in a list of another length."""

    place: int
    size: int


class Between(Node, frozen=True):
    """A number if it lies in [low, high], else missing; NaN lies nowhere."""

    value: Node
    low: float
    high: float


class Clamped(Node, frozen=True):
    """A number about to be multiplied, without those whose products would under- or overflow.

    Where arithmetic fails on them, one so small is replaced by 0, one so large by the limit.
    """

    value: Node
    small: float = 1e-290
    large: float = 1e290


class Unary(Node, frozen=True):
    """Something made of one number."""

    value: Node


class Rounded(Unary, frozen=True):
    """A number rounded to float32."""


class Exp(Unary, frozen=True):
    """The exponential of a number up to 700."""


class Log(Unary, frozen=True):
    """The natural logarithm of a positive number."""


class IsNan(Unary, frozen=True):
    """Whether a threshold is NaN."""


class Binary(Node, frozen=True):
    """Two numbers joined by ``+ - * /``."""

    sign: str
    left: Node
    right: Node


class Compare(Binary, frozen=True):
    """Two numbers compared by ``< <= > >= =``."""


class Every(Node, frozen=True):
    """Whether all conditions hold."""

    conditions: tuple[Node, ...]


class Lacks(Node, frozen=True):
    """Whether one of some bindings has no value."""

    refs: tuple[Ref, ...]


class OneOf(Node, frozen=True):
    """Whether a text is among some."""

    value: Node
    texts: tuple[str, ...]


class Case(Node, frozen=True):
    """The value of the first branch whose condition holds."""

    branches: tuple[tuple[Node, Node], ...]
    otherwise: Node


class Steps(Node, frozen=True):
    """A step function: ``values[number of knots <= x]`` (`strict`: knots < x).

    There is one value more than there are knots, which rise.
    """

    x: Node
    knots: tuple[float, ...]
    values: tuple[Node, ...]
    strict: bool = False

    def levels(self) -> list[float]:
        """Return the values if all of them are numbers, else nothing."""
        found = [value.value for value in self.values if isinstance(value, Number)]
        return found if len(found) == len(self.values) else []

    def comparisons(self, most: int) -> Case:
        """Return the same as comparisons: one after the other up to `most`, else halves."""
        sign = "<=" if self.strict else "<"
        tests = [Compare(sign, self.x, Number(knot)) for knot in self.knots]
        if len(tests) <= most:
            return Case(tuple(zip(tests, self.values, strict=False)), self.values[-1])
        middle = len(tests) // 2
        low = Steps(self.x, self.knots[:middle], self.values[: middle + 1], self.strict)
        high = Steps(self.x, self.knots[middle + 1 :], self.values[middle + 1 :], self.strict)
        return Case(((tests[middle], low),), high)


class Table(Node, frozen=True):
    """Step functions of numbers over the same x; of several, `index` says which is a row's."""

    index: Node | None
    parts: tuple[Steps, ...]


class Draw(Node, frozen=True):
    """What decides a row at random, a number in [0, 1).

    The first 13 hexadecimal digits of ``md5(seed ":" key)`` over 16^13; `key` is a column as text.
    """

    key: Node
    seed: int


class Descending(Node, frozen=True):
    """Numbers as a list, the largest first."""

    values: tuple[Node, ...]


class Element(Node, frozen=True):
    """A number of a list, by its place from 0."""

    value: Node
    place: int


MISSING = Missing()
NAN = Number(math.nan)
ZERO, ONE = Number(0.0), Number(1.0)

#: Decisions.
NO, YES = Whole(0, "UInt8"), Whole(1, "UInt8")


def node_of(value: Operand) -> Node:
    """Return a number as an expression; NaN, which is no threshold, as one that equals itself."""
    if isinstance(value, Node):
        return value
    return NAN if math.isnan(value) else Number(float(value))


def when(condition: Node, value: Operand, otherwise: Operand = MISSING) -> Case:
    """Return one of two values; where the second is a `Case`, its branches go on here."""
    branch = condition, node_of(value)
    if isinstance(otherwise, Case):
        return Case((branch, *otherwise.branches), otherwise.otherwise)
    return Case((branch,), node_of(otherwise))


def clipped(value: Node, low: Operand, high: Operand) -> Case:
    """Return a number moved into [low, high]; `value` should be short, it is written three times."""
    return when(value < low, low, when(value > high, high, value))


def line(a: Operand, x: Node, b: Operand) -> Node:
    """Return a x + b."""
    a, b = node_of(a), node_of(b)
    return b if a == ZERO else a * x + b


def total(values: Sequence[Node]) -> Node:
    """Return the sum of some numbers, added in their order."""
    return functools.reduce(operator.add, values)


def steps(
    x: Node, knots: Sequence[float], values: Sequence[Operand], *, strict: bool = False
) -> Node:
    """Return a step function.

    Of equal knots the last one holds, and steps that change nothing are left out.
    """
    kept: list[float] = []
    found = [node_of(values[0])]
    for place, (knot, value) in enumerate(zip(knots, map(node_of, values[1:]), strict=True)):
        if place + 1 < len(knots) and knots[place + 1] == knot:
            continue
        if value != found[-1]:
            kept.append(knot)
            found.append(value)
    return Steps(x, tuple(kept), tuple(found), strict) if kept else found[0]


def chosen(code: Node, values: Sequence[Operand]) -> Node:
    """Return the value whose place a code is."""
    return steps(code, [float(place) for place in range(1, len(values))], values)


def every_node(node: Node) -> Iterator[Node]:
    """Yield an expression and all within it."""
    waiting: list[object] = [node]
    while waiting:
        found = waiting.pop()
        if isinstance(found, Node):
            yield found
            waiting += astuple(found)
        elif isinstance(found, tuple):
            waiting += found


def refs_of(node: Node) -> set[str]:
    """Return the names of the bindings that an expression uses."""
    return {part.name for part in every_node(node) if isinstance(part, Ref)}
