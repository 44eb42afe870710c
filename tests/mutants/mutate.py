"""Small changes of a source: one comparison, sign, number, condition or statement each."""

from __future__ import annotations

import ast
import copy
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
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
    """A changed source: its path, the function, the line before and after, the whole text.

    `lines` are the number of the line, and the first and the last one of the function.
    """

    file: str
    function: str
    before: str
    after: str
    text: str
    lines: tuple[int, int, int]

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What names this mutant as long as its line stays as it is."""
        return Path(self.file).name, self.function, self.before, self.after


class Change:
    """An edit of a node that is made when called."""

    def __init__(self, node: ast.AST, **fields: object) -> None:
        self.node, self.fields = node, fields
        self.line = getattr(node, "lineno", 0)

    def __call__(self) -> None:
        """Make the edit."""
        for name, value in self.fields.items():
            setattr(self.node, name, value)

    def at(self, node: ast.stmt) -> Change:
        """Return this edit, of a statement within."""
        self.line = getattr(node, "lineno", 0)
        return self


def size(path: Path) -> int:
    """Return how many mutants a file has."""
    return sum(1 for _ in _changes(ast.parse(path.read_text(encoding="utf-8"))))


def mutant(path: Path, name: str, place: int) -> Mutant:
    """Return a mutant of a file that is called `name`, by its place among them."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    changed = copy.deepcopy(tree)
    function, whole, change = next(one for k, one in enumerate(_changes(changed)) if k == place)
    change()
    before, after = ast.unparse(tree).splitlines(), ast.unparse(changed).splitlines()
    one, other = next((a, b) for a, b in zip(before, after, strict=False) if a != b)
    lines = (change.line, whole.lineno, whole.end_lineno or whole.lineno)
    return Mutant(name, function, one.strip(), other.strip(), "\n".join(after), lines)


def _functions(
    block: Iterable[ast.stmt], within: str = ""
) -> Iterator[tuple[str, ast.FunctionDef]]:
    for node in block:
        if isinstance(node, ast.FunctionDef):
            yield within + node.name, node
        elif isinstance(node, ast.ClassDef):
            yield from _functions(node.body, f"{within}{node.name}.")


def _changes(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef, Change]]:
    for name, function in _functions(tree.body):
        for statement in function.body:
            for node in ast.walk(statement):
                for change in _changes_of(node):
                    yield name, function, change
        for change in _left_out(function, "body"):
            yield name, function, change


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
        yield from _left_out(node, name)


def _left_out(node: ast.AST, name: str) -> Iterator[Change]:
    block = getattr(node, name, None)
    for k, inner in enumerate(block if isinstance(block, list) else ()):
        match inner:
            case ast.Expr(value=ast.Constant()):  # a docstring
                pass
            case ast.Expr() | ast.Assign() | ast.AugAssign() | ast.Continue() | ast.Break():
                yield Change(node, **{name: [*block[:k], ast.Pass(), *block[k + 1 :]]}).at(inner)
            case _:
                pass
