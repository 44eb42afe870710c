"""How expressions become text: what all languages share; each has a table of its spellings."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

from calibkit.expressions import nodes
from calibkit.expressions.nodes import Case, Every, Lacks, Node, Steps
from calibkit.expressions.program import Program

#: What the columns that hold bindings are called by; they are dropped in the end.
PREFIX = "_calibkit_"


class Printer(ABC):
    """Writes expressions in one language."""

    #: Expressions by their kind; in braces stand their fields, written already, and as 0 the node.
    spellings: ClassVar[dict[type[Node], str]] = {
        nodes.Number: "{value}",
        nodes.Whole: "{value}",
        nodes.Text: "{value}",
        nodes.Ref: "{name}",
        nodes.Clamped: "{value}",
        nodes.Binary: "({left} {sign} {right})",
        nodes.Compare: "{left} {sign} {right}",
    }
    signs: ClassVar[dict[str, str]]  # ``=``, ``and`` and ``or``
    absent: ClassVar[str]  # a binding without a value
    each: ClassVar[str] = "({})"  # one of several conditions, and all of them
    whole: ClassVar[str] = "{}"
    branch: ClassVar[str]  # of a case: a condition and its value, what joins those,
    link: ClassVar[str]
    choice: ClassVar[str]  # and them with the value otherwise
    most: ClassVar[int]  # up to so many steps are written one after the other, more in halves
    longest: ClassVar[int]  # longer step functions whose values are numbers are tables

    @abstractmethod
    def file(self, program: Program, about: str, table: str) -> str:
        """Return a program as the text of a file, which begins with what it is about.

        `table`: what SQL reads, as the user names it.
        """

    @abstractmethod
    def number(self, value: float) -> str:
        """Return a float."""

    @abstractmethod
    def text(self, value: str) -> str:
        """Return a text, quoted."""

    @abstractmethod
    def ref(self, name: str) -> str:
        """Return a binding."""

    @abstractmethod
    def column(self, name: str) -> str:
        """Return a column of the table, quoted."""

    @abstractmethod
    def table(self, node: Steps) -> str:
        """Return a long step function whose values are numbers."""

    def write(self, node: Node) -> str:
        """Return an expression; one that is no single term is in brackets, or a case."""
        match node:
            case Case():
                return self.case(node)
            case Steps():
                long = self.is_long(node)
                return self.table(node) if long else self.case(node.comparisons(self.most))
            case Lacks(refs):
                return self._joined("or", [self.absent.format(self.write(one)) for one in refs])
            case Every(conditions):
                parts = [self.each.format(self.write(one)) for one in conditions]
                return self._joined("and", parts)
            case _:
                fields = {
                    name: self.field(name, getattr(node, name)) for name in node.__struct_fields__
                }
                return self.spellings[type(node)].format(node, **fields)

    def case(self, node: Case) -> str:
        """Return a choice among values."""
        return self.choice.format(self.link.join(self.branches(node)), self.write(node.otherwise))

    def branches(self, node: Case) -> list[str]:
        """Return the branches of a choice."""
        return [
            self.branch.format(self.write(condition), self.write(value))
            for condition, value in node.branches
        ]

    def is_long(self, node: Node) -> bool:
        """Whether an expression is a step function that becomes a table."""
        return isinstance(node, Steps) and len(node.knots) > self.longest and bool(node.levels())

    def field(self, name: str, value: object) -> str:
        """Return a part of an expression; what a text stands for its name tells."""
        match value:
            case Node():
                return self.write(value)
            case float():
                return self.number(value)
            case str():
                quoted = {"column": self.column, "name": self.ref, "value": self.text}
                return quoted[name](value) if name in quoted else self.signs.get(value, value)
            case tuple():
                return ", ".join(self.field("value", part) for part in value)
            case _:
                return str(value)

    def _joined(self, sign: str, parts: Iterable[str]) -> str:
        return self.whole.format(f" {self.signs[sign]} ".join(parts))
