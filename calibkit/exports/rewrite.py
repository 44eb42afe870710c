"""Programs changed before they are written: expressions that need a binding of their own get one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from calibkit.exports.nodes import Node, Number, Ref, Steps, TableSteps
from calibkit.exports.program import Program


def hoisted(program: Program, chosen: Callable[[Node], bool]) -> Program:
    """Return a program in which each expression chosen is a binding, and so is its x.

    Equal expressions share a binding.
    """
    made = replace(program, bindings=dict(program.bindings), names=dict(program.names), outputs={})
    known: dict[Node, Ref] = {}

    def moved(node: Node, *, top: bool = False) -> Node:
        if isinstance(node, TableSteps):
            node = replace(node, index=moved(node.index), x=moved(node.x))
        else:
            node = rebuilt(node, moved)
        if not chosen(node):
            return node
        for part in ("x", "index"):
            value = getattr(node, part, None)
            if isinstance(value, Node) and not isinstance(value, Ref):
                bound = made.bind(part, value)
                made.bindings[bound.name] = moved(value, top=True)
                node = replace(node, **{part: bound})
        if top:
            return node
        if node not in known:
            known[node] = made.bind("steps", node)
        return known[node]

    for name, value in program.bindings.items():
        made.bindings[name] = moved(value, top=True)
    for name, value in program.outputs.items():
        made.outputs[name] = moved(value)
    return made


def changed(program: Program, change: Callable[[Node], Node]) -> Program:
    """Return a program with all its expressions changed."""
    bindings = {name: change(value) for name, value in program.bindings.items()}
    outputs = {name: change(value) for name, value in program.outputs.items()}
    return replace(program, bindings=bindings, outputs=outputs)


def joined(node: Node, least: int) -> Node:
    """Return an expression in which long step functions, one for each segment, are one table each.

    `least`: how many steps they have together at least.
    """
    node = rebuilt(node, lambda part: joined(part, least))
    if not isinstance(node, Steps):
        return node
    first = next((value for value in node.values if isinstance(value, Steps)), None)
    if first is None:
        return node
    tables = []
    for value in node.values:
        if isinstance(value, Number):
            value = Steps(first.x, (), (value,), first.strict)
        if not (isinstance(value, Steps) and value.is_table):
            return node
        if (value.x, value.strict) != (first.x, first.strict):
            return node
        tables.append(value)
    if sum(len(table.knots) for table in tables) <= least:
        return node
    places = tuple(Number(float(place)) for place in range(len(tables)))
    return TableSteps(replace(node, values=places), first.x, tuple(tables))


def rebuilt(node: Node, change: Callable[[Node], Node]) -> Node:
    """Return an expression with the expressions directly within it changed."""
    found = {}
    for field in fields(node):
        old = getattr(node, field.name)
        new = _changed(old, change)
        if new is not old:
            found[field.name] = new
    return replace(node, **found) if found else node


def _changed(value: Any, change: Callable[[Node], Node]) -> Any:
    if isinstance(value, Node):
        return change(value)
    if isinstance(value, tuple):
        new = tuple(_changed(item, change) for item in value)
        return value if all(a is b for a, b in zip(new, value, strict=True)) else new
    return value
