"""An exported model before it is written: named steps, and the columns they end in.

Here are also the columns as a fit took them, and the maps that several kinds of model share.
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from calibkit.expressions.nodes import (
    MISSING,
    ONE,
    ZERO,
    Between,
    Clamped,
    Code,
    Exp,
    Field,
    Lacks,
    Log,
    Node,
    Number,
    Operand,
    Read,
    Ref,
    Rounded,
    WholeWords,
    Words,
    chosen,
    clipped,
    every_node,
    node_of,
    refs_of,
    when,
)
from calibkit.expressions.preimages import Inverse, Scores
from calibkit.models.model import Column
from calibkit_kernels.maps import LEAST


@dataclass(frozen=True)
class Rising:
    """A column that rises with a score: of each segment the function, and the segment of a row."""

    segment: Ref | None
    inverses: tuple[Inverse, ...]


@dataclass
class Program:
    """What a model computes of a row."""

    #: Named values, each made of columns and of earlier ones; and their names by the values.
    bindings: dict[str, Node] = field(default_factory=dict)
    names: dict[tuple[Node, bool], Ref] = field(default_factory=dict)
    #: The bindings whose missing values mean something: what is made of them need not be missing;
    #: and whether the next ones are such.
    optional: set[str] = field(default_factory=set)
    lenient: bool = False
    outputs: dict[str, Node] = field(default_factory=dict)  # the columns to add
    #: The bindings that hold a column of numbers of the table, and how the fit took it.
    inputs: dict[str, Column] = field(default_factory=dict)
    #: The bindings without which a row has no result; whether this is part of a bundle.
    needed: dict[str, None] = field(default_factory=dict)
    bundled: bool = False
    #: Columns that are not the table's but were added by an earlier part.
    available: dict[str, Ref] = field(default_factory=dict)
    #: Bindings that hold such a column into which logarithms or exponentials went, of which another
    #: machine may compute the last digits otherwise.
    loose: set[str] = field(default_factory=set)
    #: How `calibrated` of the part written last rises with a score of the table; the same of columns.
    rising: Rising | None = None
    inverses: dict[str, Rising] = field(default_factory=dict)

    def bind(self, name: str, value: Node) -> Ref:
        """Give an expression a name (or one like it, if it is taken) and return what stands for it.

        An expression that has a name already keeps it.
        """
        known = self.names.get((value, self.lenient))
        if known is not None:
            return known
        own, number = name, 1
        while own in self.bindings:
            number += 1
            own = f"{name}_{number}"
        self.bindings[own] = value
        if self.lenient:
            self.optional.add(own)
        self.names[value, self.lenient] = Ref(own)
        return Ref(own)

    def short(self, name: str, value: Node) -> Node:
        """Return an expression that may be written again and again: a binding or a number."""
        return value if isinstance(value, Ref | Number) else self.bind(name, value)

    def number(self, column: str) -> Node:
        """Return a column of numbers: the table's, or one that an earlier part added."""
        return self.available.get(column, Field(column))

    def words(self, column: str) -> Node:
        """Return a column as text."""
        return self.available.get(column, Words(column))

    def segment(self, column: str, names: Iterable[str]) -> Ref:
        """Return the place of a row's segment among some; their number for another segment."""
        words = self.available.get(column, WholeWords(column))
        return self.bind("segment", Code(words, tuple(names)))

    def choose(self, name: str, code: Node | None, values: Sequence[Operand]) -> Node:
        """Return the value whose place a code is, without one the first, to be written anywhere."""
        return self.short(name, node_of(values[0]) if code is None else chosen(code, values))

    def result(self, needed: Iterable[Node], value: Node) -> Node:
        """Return a value that is missing where one of the bindings needed is.

        In a bundle that is settled for all parts together.
        """
        names = dict.fromkeys(node.name for node in needed if isinstance(node, Ref))
        self.needed |= names
        return value if self.bundled else when(Lacks(tuple(names)), MISSING, value)

    def nodes(self) -> Iterator[Node]:
        """Yield the expressions of all bindings and outputs, and all within them."""
        for value in (*self.bindings.values(), *self.outputs.values()):
            yield from every_node(value)


def layers(bindings: dict[str, Node]) -> list[list[str]]:
    """Return the names of bindings in layers: each uses those of earlier layers only."""
    depth: dict[str, int] = {}
    graph = {name: refs_of(value) & bindings.keys() for name, value in bindings.items()}
    for name in graphlib.TopologicalSorter(graph).static_order():
        depth[name] = 1 + max((depth[used] for used in graph[name]), default=-1)
    found: list[list[str]] = [[] for _ in range(1 + max(depth.values(), default=-1))]
    for name in bindings:
        found[depth[name]].append(name)
    return found


def columns_of(program: Program, kind: type[Read] = Read) -> list[str]:
    """Return the columns of the table that a program reads, in order of appearance."""
    return list(dict.fromkeys(node.column for node in program.nodes() if isinstance(node, kind)))


def used_bindings(program: Program, outputs: Sequence[Node]) -> dict[str, Node]:
    """Return the bindings that some outputs need, directly or not."""
    needed: set[str] = set()
    waiting = [name for value in outputs for name in refs_of(value)]
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed.add(name)
            waiting += refs_of(program.bindings[name])
    return {name: value for name, value in program.bindings.items() if name in needed}


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
        program.inputs[bound.name] = replace(description, name=column)
    elif program.available[column].name in program.loose:
        program.loose.add(bound.name)
    return bound


def as_fitted(program: Program, value: Node, column: Column, *, finite: bool = True) -> Node:
    """Return a number as a fit took it, missing where `apply` would refuse it.

    `column` tells scale and dtype, `finite` whether infinities are refused.
    """
    if column.scale in ("probability", "percent"):
        low, high = 0.0, 100.0 if column.scale == "percent" else 1.0
    elif finite:
        high = math.nextafter(SINGLE_OVERFLOW, 0.0) if column.dtype == "float32" else LARGEST
        low = -high
    else:
        low, high = -math.inf, math.inf
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


def scores_of(column: Column) -> Scores:
    """Return the finite scores that a column may hold."""
    single = column.dtype == "float32"
    if column.scale in ("probability", "percent"):
        return Scores(single, 0.0, 1.0)
    most = SINGLE_LARGEST if single else LARGEST
    return Scores(single, -most, most)


def expit(program: Program, z: Node) -> Node:
    """Return 1 / (1 + exp(-z)), in the form that does not overflow."""
    if isinstance(z, Number):
        small = math.exp(-abs(z.value))
        return Number((1.0 if z.value >= 0.0 else small) / (1.0 + small))
    z = program.short("linear", z)
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
    """Return a score on the scale of a line, to be multiplied: of a probability the logit.

    Probabilities are moved `least` inside (0, 1) first; without that 0 and 1 have infinite logits.
    """
    if scale != "probability":
        return program.bind("score", Clamped(score))
    p = program.bind("probability", inside(program, score, least, "probability"))
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
