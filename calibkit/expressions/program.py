"""An exported model before it is written: named steps, and the columns they end in."""

from __future__ import annotations

import graphlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from calibkit.expressions.nodes import (
    MISSING,
    Code,
    Field,
    Lacks,
    Node,
    Number,
    Operand,
    Read,
    Ref,
    WholeWords,
    Words,
    chosen,
    every_node,
    node_of,
    refs_of,
    when,
)
from calibkit.expressions.preimages import Inverse
from calibkit.models.model import Column


@dataclass(frozen=True)
class Input:
    """A column of numbers that a binding holds, as the fit took it."""

    column: str
    description: Column


@dataclass(frozen=True)
class Rising:
    """A column that rises with a score: of each segment the function, and the segment of a row."""

    segment: Ref | None
    inverses: tuple[Inverse, ...]


@dataclass
class Program:
    """What a model computes of a row.

    Attributes
    ----------
    bindings
        Named values, each made of columns and of earlier ones.
    optional, lenient
        The bindings whose missing values mean something: what is made of them need not be missing;
        and whether the next ones are such.
    names
        The bindings by their values.
    outputs
        The columns to add.
    inputs
        The bindings that hold a column of the table as it was read.
    needed, bundled
        The bindings without which a row has no result; whether this is part of a bundle.
    available
        Columns that are not the table's but were added by an earlier part.
    loose
        Bindings that hold such a column into which logarithms or exponentials went, of which another
        machine may compute the last digits otherwise.
    rising
        How the column `calibrated` of the part written last rises with a score of the table.
    inverses
        The same of columns by their names.
    """

    bindings: dict[str, Node] = field(default_factory=dict)
    optional: set[str] = field(default_factory=set)
    lenient: bool = False
    names: dict[tuple[Node, bool], Ref] = field(default_factory=dict)
    outputs: dict[str, Node] = field(default_factory=dict)
    inputs: dict[str, Input] = field(default_factory=dict)
    needed: dict[str, None] = field(default_factory=dict)
    bundled: bool = False
    available: dict[str, Ref] = field(default_factory=dict)
    loose: set[str] = field(default_factory=set)
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
