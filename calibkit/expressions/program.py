"""An exported model before it is written: named steps, and the columns they end in.

Here are also the columns as a fit took them, the maps that several kinds of model share, and steps over
a function of a score, written as steps over the score itself.
"""

from __future__ import annotations

import graphlib
import math
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s, Numbers
from calibkit.columns.segments import segment_places
from calibkit.expressions import nodes
from calibkit.expressions.nodes import ONE, Log, Node, Number, Operand, Ref, Rounded, when
from calibkit.models.model import Column
from calibkit_kernels.maps import LEAST

#: A monotone function of scores, in their own dtype; its last digits may fall where it rises.
Function = Callable[[Numbers], Floats]

#: The largest finite float64 and the first number that float32 rounds to infinity.
LARGEST = 1.7976931348623157e308
SINGLE_OVERFLOW = 2.0**128 - 2.0**103

#: How far, relatively, numbers made of logarithms and exponentials may be from what another machine
#: makes of them.
NEAR = 1e-13

#: How many scores below the one that bisection ends at are looked at, for their last digits.
_NEAR = 256


class Scores(Struct, frozen=True):
    """The scores that occur: all floats of a dtype from `low` to `high`."""

    single: bool
    low: float
    high: float

    @classmethod
    def of(cls, column: Column) -> Self:
        """Return the finite scores that a column may hold."""
        single = column.dtype == "float32"
        if column.scale in ("probability", "percent"):
            return cls(single, 0.0, 1.0)
        most = float(np.finfo(np.float32 if single else np.float64).max)
        return cls(single, -most, most)

    @property
    def _kinds(self) -> tuple[type[np.floating[Any]], type[np.signedinteger[Any]]]:
        return (np.float32, np.int32) if self.single else (np.float64, np.int64)

    def keys(self, values: Sequence[float]) -> Int64s:
        """Return whole numbers in the order of floats, one up for the next float."""
        real, whole = self._kinds
        bits = np.array(values, real).view(whole).astype(np.int64)
        return np.where(bits < 0, np.iinfo(whole).min - bits, bits)

    def floats(self, keys: Int64s) -> Numbers:
        """Return the floats of whole numbers."""
        real, whole = self._kinds
        found = np.abs(keys).astype(whole).view(real)
        return np.where(keys < 0, -found, found)


def first_reaching(function: Function, cuts: Sequence[float], scores: Scores) -> Numbers:
    """Return for each cut the first score at which a rising function reaches it; inf: none does."""
    wanted = np.array(cuts, np.float64)
    lowest, highest = scores.keys([scores.low, scores.high])
    below, above = np.full(wanted.size, lowest - 1), np.full(wanted.size, highest + 1)
    while (above > below + 1).any():
        middle = (below >> 1) + (above >> 1) + (below & above & 1)  # their sum may not fit
        middle = np.clip(middle, lowest, highest)
        reached = function(scores.floats(middle)) >= wanted
        above = np.where(reached, np.minimum(middle, above), above)
        below = np.where(reached, below, np.maximum(middle, below))
    near = np.clip(above - np.arange(_NEAR)[:, None], lowest, highest)
    reached = function(scores.floats(near.ravel())).reshape(near.shape) >= wanted
    above = np.where(reached, near, above).min(axis=0)
    found: Numbers = scores.floats(np.minimum(above, highest)).astype(np.float64)
    return np.where(above > highest, np.inf, found)


class Inverse(Struct):
    """A monotone function of a score, seen from the score.

    A database's logarithm may differ from ours in the last digit, and a row whose value lies exactly on
    a knot, as those do that a fit took its knots from, would then fall on its other side.  So a knot k
    of a monotone function f is replaced by the first score at which ``f(score) >= k``, found by
    bisection among all floats, with the arithmetic that `apply` uses.
    """

    x: Node  # the score
    function: Function
    slope: float  # its sign says whether the function rises or falls; 0: it is constant
    scores: Scores  # those that occur
    known: dict[float, float] = {}  # by knot, its score that `learn` found

    def learn(self, knots: Sequence[float]) -> None:
        """Find the scores of knots; many at once take as long as one."""
        new = [knot for knot in dict.fromkeys(knots) if knot not in self.known]
        if not new or self.slope == 0.0:
            return
        if self.slope > 0.0:
            found = first_reaching(self.function, new, self.scores)
        else:  # the last score at which it is reached, from the other end
            mirror = Scores(self.scores.single, -self.scores.high, -self.scores.low)
            found = -first_reaching(lambda scores: self.function(0.0 - scores), new, mirror)
        self.known.update(zip(new, found.tolist(), strict=True))

    def steps(self, knots: Sequence[float], values: Sequence[Operand]) -> Node:
        """Return ``values[number of knots <= function(x)]`` as steps over x, by rising knots."""
        if self.slope == 0.0:
            one = self.scores.floats(self.scores.keys([self.scores.low]))
            level = float(self.function(one)[0])
            return nodes.node_of(values[sum(knot <= level for knot in knots)])
        self.learn(knots)
        places = [self.known[knot] for knot in knots]
        if self.slope > 0.0:
            return nodes.steps(self.x, places, values)
        return nodes.steps(self.x, places[::-1], list(values)[::-1], strict=True)


class Rising(Struct, frozen=True):
    """A column that rises with a score: of each segment the function, and the segment of a row."""

    segment: Ref | None
    inverses: tuple[Inverse, ...]


class Program(Struct):
    """What a model computes of a row."""

    #: Named values, each made of columns and of earlier ones; and their names by the values.
    bindings: dict[str, Node] = {}
    names: dict[tuple[Node, bool], Ref] = {}
    #: The bindings whose missing values mean something: what is made of them need not be missing;
    #: and whether the next ones are such.
    optional: set[str] = set()
    lenient: bool = False
    outputs: dict[str, Node] = {}  # the columns to add
    #: The bindings that hold a column of numbers of the table, and how the fit took it.
    inputs: dict[str, Column] = {}
    needed: dict[Ref, None] = {}  # the bindings without which a row has no result
    #: Columns that are not the table's but were added by an earlier part.
    available: dict[str, Ref] = {}
    #: Bindings that hold such a column into which logarithms or exponentials went, of which another
    #: machine may compute the last digits otherwise.
    loose: set[str] = set()
    #: Whether the part written last copies numbers or does plain arithmetic, the same on every machine;
    #: and how its `calibrated` rises with a score of the table; the same of columns.
    exact: bool = False
    rising: Rising | None = None
    inverses: dict[str, Rising] = {}

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
        return self.available.get(column, nodes.Field(column))

    def segment(self, column: str, names: Collection[str], others: Collection[str]) -> Ref:
        """Return the place of a row's segment among some; their number for one of others."""
        places = segment_places(names, others, len(names))
        made = self.available.get(column)
        found: Node = nodes.Segment(column, tuple(places.items()), len(names))
        if made is not None:  # a number
            known = {key: at for key, at in places.items() if isinstance(key, int | float)}
            same = tuple((made.equals(key), Number(at)) for key, at in known.items())
            found = nodes.Case(same, Number(len(names)))
        return self.bind("segment", found)

    def choose(self, name: str, code: Node | None, values: Sequence[Operand]) -> Node:
        """Return the value whose place a code is, without one the first, to be written anywhere."""
        found = nodes.node_of(values[0]) if code is None else nodes.chosen(code, values)
        return self.short(name, found)

    def require(self, *refs: Ref) -> None:
        """Let rows that lack one of some bindings have no result."""
        self.needed |= dict.fromkeys(refs)

    def finish(self, outputs: dict[str, Node]) -> None:
        """Take the columns to add, and leave out the bindings that none of them uses."""
        lacks = nodes.Lacks(tuple(self.needed))
        self.outputs = {name: when(lacks, nodes.MISSING, own) for name, own in outputs.items()}
        used = set[str]().union(*map(nodes.refs_of, self.outputs.values()))
        for name, value in reversed(self.bindings.items()):  # each uses earlier ones only
            if name in used:
                used |= nodes.refs_of(value)
        self.bindings = {name: value for name, value in self.bindings.items() if name in used}

    def every_node(self) -> Iterator[Node]:
        """Yield the expressions of all bindings and outputs, and all within them."""
        for value in (*self.bindings.values(), *self.outputs.values()):
            yield from nodes.every_node(value)

    def columns(self, kind: type[nodes.Read] = nodes.Read) -> list[str]:
        """Return the columns of the table that are read, in order of appearance."""
        return list(
            dict.fromkeys(node.column for node in self.every_node() if isinstance(node, kind))
        )

    def layers(self) -> list[list[str]]:
        """Return the names of bindings in layers: each uses those of earlier layers only."""
        graph = {name: nodes.refs_of(value) for name, value in self.bindings.items()}
        places = {name: place for place, name in enumerate(graph)}
        sorter, found = graphlib.TopologicalSorter(graph), list[list[str]]()
        sorter.prepare()
        while sorter.is_active():
            found.append(sorted(sorter.get_ready(), key=places.__getitem__))
            sorter.done(*found[-1])
        return found

    def bind_input(
        self,
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
        value = self.number(column) if value is None else value
        bound = self.bind(name, self.as_fitted(value, description, finite=finite))
        if column not in self.available:
            self.inputs[bound.name] = replace(description, name=column)
        elif self.available[column].name in self.loose:
            self.loose.add(bound.name)
        return bound

    def as_fitted(self, value: Node, column: Column, *, finite: bool = True) -> Node:
        """Return a number as a fit took it, missing where `apply` would refuse it.

        `column` tells scale and dtype, `finite` whether infinities are refused.
        """
        single = column.dtype == "float32"
        if column.scale in ("probability", "percent"):
            low, high = 0.0, 100.0 if column.scale == "percent" else 1.0
        elif finite:
            high = math.nextafter(SINGLE_OVERFLOW, 0.0) if single else LARGEST
            low = -high
        else:
            low, high = -math.inf, math.inf
        found: Node = nodes.Between(value, low, high)
        if column.scale == "percent":
            read = self.bind("percent", found)
            share = (Rounded(read) if single else read) / 100.0
            return Rounded(self.bind("read", share)) if single else share
        if not single:
            return found
        read = self.bind("read", found)
        if high < math.inf:
            return Rounded(read)
        below = when(read <= -SINGLE_OVERFLOW, -math.inf, Rounded(read))
        return when(read >= SINGLE_OVERFLOW, math.inf, below)

    def near_knots(self, x: Node, knots: Sequence[float], *, above: bool = False) -> list[float]:
        """Return the knots of x, moved down a little (or up) where its last digits are not certain.

        A number that another machine would have put on the knot is then on the same side of it.
        """
        if not (isinstance(x, Ref) and x.name in self.loose):
            return list(knots)
        share = NEAR if above else -NEAR
        return [knot + share * abs(knot) if math.isfinite(knot) else knot for knot in knots]

    def at_least(self, x: Ref, cut: Node) -> Node:
        """Return whether x reaches a cut, which is moved down a little as that of `near_knots`."""
        if x.name not in self.loose:
            return x >= cut
        if isinstance(cut, Number):
            return x >= self.near_knots(x, [cut.value])[0]
        return x >= when(cut < 0.0, cut * (1.0 + NEAR), cut * (1.0 - NEAR))

    def expit(self, z: Node) -> Node:
        """Return 1 / (1 + exp(-z)), in the form that does not overflow."""
        if isinstance(z, Number):
            small = math.exp(-abs(z.value))
            return Number((1.0 if z.value >= 0.0 else small) / (1.0 + small))
        z = self.short("linear", z)
        power = self.bind("power", nodes.Exp(when(z >= 0.0, 0.0 - z, z)))
        whole = ONE + power
        return when(z >= 0.0, ONE / whole, power / whole)

    def inside(self, value: Node, least: float, name: str) -> Node:
        """Return a probability moved `least` inside (0, 1)."""
        if isinstance(value, Number):
            return Number(min(max(value.value, least), 1.0 - least))
        if least == 0.0:
            return value
        return nodes.clipped(self.short(name, value), least, 1.0 - least)

    def link(self, score: Node, scale: str, least: float = LEAST) -> Node:
        """Return a score on the scale of a line, to be multiplied: of a probability the logit.

        Probabilities are moved `least` inside (0, 1) first; without that 0 and 1 have infinite logits.
        """
        if scale != "probability":
            return self.bind("score", nodes.Clamped(score))
        p = self.bind("probability", self.inside(score, least, "probability"))
        logit = Log(p / (1.0 - p))
        if least > 0.0:
            return logit
        return when(p <= 0.0, -math.inf, when(p >= 1.0, math.inf, logit))

    def log_parts(self, z: Node) -> tuple[Node, Node]:
        """Return ln s and -ln(1 - s) of s = 1 / (1 + exp(-z))."""
        positive = z > 0.0
        rest = self.bind("rest", Log(ONE + nodes.Exp(when(positive, 0.0 - z, z))))
        low = self.bind("low_log", when(positive, 0.0, z) - rest)
        return low, self.bind("high_log", when(positive, z, 0.0) + rest)
