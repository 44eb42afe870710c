"""Programs as SQL: what the dialects have in common."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Sequence
from typing import ClassVar

from calibkit.errors import UsageError
from calibkit.exports.printer import Printer
from calibkit.expressions import nodes
from calibkit.expressions.program import Program

#: Texts up to this many are compared one by one, more are looked up in a list.
MOST_TEXTS = 16

#: One part of the name of a table, as a pattern.
_PART = r'(?:"(?:[^"]|"")*"|(?!")[^.]*)'


def identifier(name: str) -> str:
    """Return a name as a quoted identifier.

    Raises
    ------
    UsageError
        For a name that no database takes: an empty one, or one with a null character.
    """
    if not name or "\0" in name:
        raise UsageError(f"{name!r} cannot be the name of a column or a table of a database.")
    return '"' + name.replace('"', '""') + '"'


def table_name(text: str) -> str:
    """Return the name of a table, quoted; dots part a schema from it, unless in double quotes.

    Raises
    ------
    UsageError
        For empty parts or quotes that do not close.
    """
    if not re.fullmatch(rf"{_PART}(\.{_PART})*", text):
        raise UsageError(f"--table {text!r}: a double quote does not close.")
    parts = (found.group(1) for found in re.finditer(rf"(?:^|(?<=\.))({_PART})(?=\.|\Z)", text))
    return ".".join(
        identifier(part[1:-1].replace('""', '"') if part.startswith('"') else part)
        for part in parts
    )


class Sql(Printer):
    """Writes expressions; a dialect says what differs.

    Attributes
    ----------
    database
        Its name.
    position
        The place, from 1, of a text in a list.
    """

    database: ClassVar[str]
    position: ClassVar[str]
    signs: ClassVar = {"=": "=", "and": "AND", "or": "OR"}
    absent, branch = "{} IS NULL", "WHEN {} THEN {}"
    most, longest = 16, 256
    spellings: ClassVar = Printer.spellings | {
        nodes.Missing: "NULL",
        nodes.Field: "CAST({column} AS DOUBLE PRECISION)",
        nodes.OneOf: "{value} IN ({texts})",
        nodes.Between: "CASE WHEN {value} BETWEEN {low} AND {high} THEN {value} END",
        nodes.Exp: "EXP({value})",
        nodes.Log: "LN({value})",
        nodes.Element: "({value})[{place}]",
    }

    def file(self, program: Program, about: str, table: str) -> str:
        """Return a statement after a comment; dots in `table` part a schema from it."""
        return f"-- {about}, for {self.database}\n{self.statement(program, table_name(table))}\n"

    @abstractmethod
    def statement(self, program: Program, table: str) -> str:
        """Return the whole statement; `table` is quoted."""

    def columns(self, values: dict[str, nodes.Node], more: Sequence[str] = ()) -> list[str]:
        """Return the lines of columns by their (quoted) names, with commas between columns.

        A line may hold a name or a text that goes on in the next one.
        """
        found = [self._column_lines(name, value) for name, value in values.items()]
        found += [[column] for column in more]
        for lines in found[:-1]:
            lines[-1] += ","
        return [line for lines in found for line in lines]

    def _column_lines(self, name: str, value: nodes.Node) -> list[str]:
        if isinstance(value, nodes.Steps) and not self.is_long(value):
            value = value.comparisons(self.most)
        if not isinstance(value, nodes.Case) or len(value.branches) < 2:
            return [f"{self.write(value)} AS {name}"]
        return ["CASE", *(f"  {line}" for line in self.branches(value)), f"END AS {name}"]

    def case(self, node: nodes.Case) -> str:
        """Return a choice among values."""
        return f"CASE {' '.join(self.branches(node))} END"

    def branches(self, node: nodes.Case) -> list[str]:
        """Return the branches of a CASE, which gives NULL anyway where none of them holds."""
        otherwise = self.write(node.otherwise)
        return [*super().branches(node), *[f"ELSE {otherwise}"] * (otherwise != "NULL")]

    def column(self, name: str) -> str:
        """Return a column of the table."""
        return identifier(name)

    def write(self, node: nodes.Node) -> str:
        """Return an expression; one that is no single term is in brackets, or a CASE."""
        if not isinstance(node, nodes.Code):
            return super().write(node)
        own, count = self.write(node.value), len(node.texts)
        if count > MOST_TEXTS:
            place = self.position.format(self.field("texts", node.texts), own)
            return f"COALESCE({place} - 1, {count})"
        found = [f"WHEN {self.text(text)} THEN {place}" for place, text in enumerate(node.texts)]
        return f"CASE {own} {' '.join(found)} ELSE {count} END"

    def field(self, name: str, value: object) -> str:
        """Return a part of an expression; places are counted from 1."""
        if name == "place" and isinstance(value, int):
            value += 1
        return super().field(name, value)
