"""Programs changed before they are written: long step functions become tables with a name each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from msgspec.structs import astuple
from msgspec.structs import replace as with_fields

from calibkit.expressions.nodes import Node, Number, Steps, Table
from calibkit.expressions.program import Program


def tabled(program: Program, longest: int) -> Program:
    """Return a program in which each long step function is a binding, and so is its x.

    Equal ones share a binding.  `longest`: a table has more steps than that.
    """
    made = replace(program, bindings=dict(program.bindings), names=dict(program.names), outputs={})

    def moved(node: Node) -> Node:
        found = unbound(node)
        return made.bind("steps", found) if isinstance(found, Table) else found

    def unbound(node: Node) -> Node:
        table = _table(node, longest)
        if table is None:
            return _rebuilt(node, moved)
        x, index = moved(table.x), table.index and made.short("index", moved(table.index))
        return with_fields(table, x=made.short("x", x), index=index)

    for name, value in program.bindings.items():
        made.bindings[name] = unbound(value)
    for name, value in program.outputs.items():
        made.outputs[name] = moved(value)
    return made


def _table(node: Node, longest: int) -> Table | None:
    """Return a long step function of numbers, or one of such functions, as a table."""
    if not isinstance(node, Steps):
        return None
    if levels := node.levels():
        long = len(node.knots) > longest
        return Table(None, node.x, (node.knots,), (tuple(levels),), node.strict) if long else None
    first = next((value for value in node.values if isinstance(value, Steps)), node)
    knots, values = [], []
    for value in node.values:
        if isinstance(value, Number):
            value = Steps(first.x, (), (value,), first.strict)
        if not isinstance(value, Steps) or (value.x, value.strict) != (first.x, first.strict):
            return None
        knots.append(value.knots)
        values.append(tuple(value.levels()))
    if not all(values) or sum(map(len, knots)) <= longest:
        return None
    places = tuple(Number(float(place)) for place in range(len(values)))
    index = with_fields(node, values=places)
    return Table(index, first.x, tuple(knots), tuple(values), first.strict)


def _rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return an expression with the expressions directly within it changed."""
    fields = astuple(node)
    found = _changed(fields, change)
    return node if found is fields else type(node)(*found)


def _changed(value: Any, change: Callable[[Node], Node]) -> Any:
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, tuple):
        new = tuple(_changed(item, change) for item in value)
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value
