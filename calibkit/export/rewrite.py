"""Programs changed before they are written: expressions that need a binding of their own get one."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

from calibkit.export.nodes import Node, Ref
from calibkit.export.program import Program


def hoisted(program: Program, chosen: Callable[[Node], bool]) -> Program:
    """Return a program in which each expression chosen is a binding, and so is its x.

    Equal expressions share a binding.
    """
    made = replace(program, bindings=dict(program.bindings), outputs={})
    known: dict[Node, Ref] = {}

    def moved(node: Node, *, top: bool = False) -> Node:
        node = rebuilt(node, moved)
        if not chosen(node):
            return node
        x = getattr(node, "x", None)
        if isinstance(x, Node) and not isinstance(x, Ref):
            node = replace(node, x=made.bind("x", x))  # type: ignore[call-arg]
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
