"""Small changes of a kernel's source: one comparison, sign, number, condition or statement each."""

from __future__ import annotations

import ast
import copy
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
}
OPERATORS: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.BitXor: ast.BitOr,
}


@dataclass(frozen=True)
class Mutant:
    """A changed source: the file's name, the function, the line before and after, the whole text."""

    file: str
    function: str
    before: str
    after: str
    text: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names this mutant as long as its line stays as it is."""
        return self.file, self.function, self.before, self.after


class Change:
    """An edit of a node that is made when called."""

    def __init__(self, node: ast.AST, **fields: object) -> None:
        self.node, self.fields = node, fields

    def __call__(self) -> None:
        """Make the edit."""
        for name, value in self.fields.items():
            setattr(self.node, name, value)


def sample(path: Path, count: int) -> list[Mutant]:
    """Return some mutants of a file, the same ones each time."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    found = sum(1 for _ in _changes(tree))
    chosen = sorted(random.Random(path.name).sample(range(found), min(count, found)))
    return [mutant for place in chosen if (mutant := _mutant(path.name, tree, place))]


def size(path: Path) -> int:
    """Return how many mutants a file has."""
    return sum(1 for _ in _changes(ast.parse(path.read_text(encoding="utf-8"))))


def _mutant(name: str, tree: ast.Module, place: int) -> Mutant | None:
    changed = copy.deepcopy(tree)
    function, change = next(pair for k, pair in enumerate(_changes(changed)) if k == place)
    change()
    before, after = ast.unparse(tree).splitlines(), ast.unparse(changed).splitlines()
    pairs = [(a, b) for a, b in zip(before, after, strict=False) if a != b]
    return Mutant(name, function, *(line.strip() for line in pairs[0]), "\n".join(after))


def _changes(tree: ast.Module) -> Iterator[tuple[str, Change]]:
    for function in tree.body:
        if isinstance(function, ast.FunctionDef):
            described = ast.get_docstring(function) is not None
            for statement in function.body[described:]:
                for node in ast.walk(statement):
                    for change in _changes_of(node):
                        yield function.name, change


def _changes_of(node: ast.AST) -> Iterator[Change]:
    match node:
        case ast.Compare(ops=[op]) if type(op) in COMPARISONS:
            yield Change(node, ops=[COMPARISONS[type(op)]()])
        case ast.BinOp(op=op) | ast.AugAssign(op=op) if type(op) in OPERATORS:
            yield Change(node, op=OPERATORS[type(op)]())
        case ast.BoolOp(op=op):
            yield Change(node, op=ast.Or() if isinstance(op, ast.And) else ast.And())
        case ast.UnaryOp(op=ast.USub()):
            yield Change(node, op=ast.UAdd())
        case ast.UnaryOp(op=ast.Not()):
            yield Change(node, operand=ast.UnaryOp(ast.Not(), node.operand))
        case ast.Constant(value=bool() as value):
            yield Change(node, value=not value)
        case ast.Constant(value=int() as value):
            yield Change(node, value=value + 1)
        case ast.Constant(value=float() as value):
            yield Change(node, value=value * 1.5 + (value == 0.0))
        case ast.If() | ast.While() | ast.IfExp():
            yield Change(node, test=ast.Constant(False))
            if not isinstance(node, ast.While):
                yield Change(node, test=ast.Constant(True))
        case _:
            pass
    for name in ("body", "orelse"):
        block = getattr(node, name, None)
        if isinstance(block, list):
            for k, inner in enumerate(block):
                if isinstance(
                    inner, ast.Expr | ast.Assign | ast.AugAssign | ast.Continue | ast.Break
                ):
                    yield Change(node, **{name: [*block[:k], ast.Pass(), *block[k + 1 :]]})
