"""Programs as SQL: what the dialects have in common."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence

from calibkit.errors import UsageError
from calibkit.exports import nodes
from calibkit.exports.program import Program

#: Step functions up to this many steps are written one after the other, up to the next as a tree
#: of comparisons; longer ones become tables.
FLAT, TREE = 16, 256

#: Texts up to this many are compared one by one, more are looked up in a list.
MOST_TEXTS = 16


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
    parts, rest = [], text
    while True:
        if rest.startswith('"'):
            end = 1
            while (end := rest.find('"', end)) >= 0 and rest[end : end + 2] == '""':
                end += 2
            if end < 0 or rest[end + 1 : end + 2] not in ("", "."):
                raise UsageError(f"--table {text!r}: a double quote does not close.")
            part, rest = rest[1:end].replace('""', '"'), rest[end + 1 :]
        else:
            part, dot, more = rest.partition(".")
            rest = dot + more
        parts.append(identifier(part))
        if not rest:
            return ".".join(parts)
        rest = rest[1:]


class Sql(ABC):
    """Writes expressions; a dialect says what differs."""

    @abstractmethod
    def statement(self, program: Program, table: str) -> str:
        """Return the whole statement; `table` is quoted."""

    @abstractmethod
    def number(self, value: float) -> str:
        """Return a float as a literal of type double precision."""

    @abstractmethod
    def text(self, value: str) -> str:
        """Return a text literal."""

    @abstractmethod
    def ref(self, name: str) -> str:
        """Return a binding."""

    @abstractmethod
    def words(self, node: nodes.Words) -> str:
        """Return a column as text."""

    @abstractmethod
    def column(self, name: str) -> str:
        """Return a column of the table."""

    @abstractmethod
    def table_steps(self, node: nodes.Steps) -> str:
        """Return a long step function whose values are numbers."""

    @abstractmethod
    def draw(self, node: nodes.Draw) -> str:
        """Return the random number of a row."""

    @abstractmethod
    def code(self, node: nodes.Code) -> str:
        """Return the place of a text in a long list."""

    @abstractmethod
    def item(self, node: nodes.Item) -> str:
        """Return one number of a list."""

    @abstractmethod
    def falling(self, values: Sequence[str]) -> str:
        """Return numbers as a sorted list."""

    @abstractmethod
    def rounded(self, value: str) -> str:
        """Return a number rounded to single precision."""

    def tame(self, value: str, small: str, large: str) -> str:
        """Return a number about to be multiplied."""
        return value

    def exp(self, value: str) -> str:
        """Return the exponential."""
        return f"EXP({value})"

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
        if isinstance(value, nodes.Steps) and len(value.knots) <= FLAT:
            sign = "<=" if value.strict else "<"
            tests = (nodes.Compare(sign, value.x, nodes.Number(knot)) for knot in value.knots)
            value = nodes.Case(tuple(zip(tests, value.values, strict=False)), value.values[-1])
        if not isinstance(value, nodes.Case) or len(value.branches) < 2:
            return [f"{self.write(value)} AS {name}"]
        branches = [
            f"  WHEN {self.condition(condition)} THEN {self.write(found)}"
            for condition, found in value.branches
        ]
        otherwise = [f"  ELSE {self.write(value.otherwise)}"]
        return [
            "CASE",
            *branches,
            *(otherwise * (value.otherwise != nodes.Missing())),
            f"END AS {name}",
        ]

    def write(self, node: nodes.Node) -> str:
        """Return an expression; one that is no single term is in brackets, or a CASE."""
        match node:
            case nodes.Number(value):
                return self.number(value)
            case nodes.Whole(value, _):
                return str(int(value))
            case nodes.Text(value):
                return self.text(value)
            case nodes.Missing():
                return "NULL"
            case nodes.Ref(name):
                return self.ref(name)
            case nodes.Field(column):
                return f"CAST({self.column(column)} AS DOUBLE PRECISION)"
            case nodes.Words():
                return self.words(node)
            case nodes.Item():
                return self.item(node)
            case nodes.Draw():
                return self.draw(node)
            case nodes.Code():
                return self._code(node)
            case nodes.Steps():
                return self._steps(node)
            case nodes.Case(branches, otherwise):
                return self._case(branches, otherwise)
            case nodes.Falling(values):
                return self.falling([self.write(value) for value in values])
            case nodes.Place(value, place):
                return f"({self.write(value)})[{place + 1}]"
            case _:
                return self._arithmetic(node)

    def _arithmetic(self, node: nodes.Node) -> str:
        match node:
            case nodes.Binary(sign, left, right):
                return f"({self.write(left)} {sign} {self.write(right)})"
            case nodes.Exp(value):
                return self.exp(self.write(value))
            case nodes.Log(value):
                return f"LN({self.write(value)})"
            case nodes.Rounded(value):
                return self.rounded(self.write(value))
            case nodes.Tame(value, small, large):
                return self.tame(self.write(value), self.number(small), self.number(large))
            case nodes.Between(value, low, high):
                own = self.write(value)
                inside = f"{own} BETWEEN {self.number(low)} AND {self.number(high)}"
                return f"CASE WHEN {inside} THEN {own} END"
            case _:
                return self.condition(node)

    def condition(self, node: nodes.Node) -> str:
        """Return a condition."""
        match node:
            case nodes.Compare(sign, left, right):
                return f"{self.write(left)} {sign} {self.write(right)}"
            case nodes.IsNever(value):
                return f"{self.write(value)} = {self.number(math.nan)}"
            case nodes.Lacks(names):
                return " OR ".join(f"{self.ref(name)} IS NULL" for name in names)
            case nodes.OneOf(value, texts):
                return f"{self.write(value)} IN ({', '.join(map(self.text, texts))})"
            case nodes.Every(conditions):
                return " AND ".join(f"({self.condition(part)})" for part in conditions)
            case nodes.Some(conditions):
                return " OR ".join(f"({self.condition(part)})" for part in conditions)
            case _:
                raise TypeError(f"no SQL for {type(node).__name__}")

    def _case(
        self, branches: Sequence[tuple[nodes.Node, nodes.Node]], otherwise: nodes.Node
    ) -> str:
        found = [
            f"WHEN {self.condition(condition)} THEN {self.write(value)}"
            for condition, value in branches
        ]
        if otherwise != nodes.Missing():
            found.append(f"ELSE {self.write(otherwise)}")
        return f"CASE {' '.join(found)} END"

    def _steps(self, node: nodes.Steps) -> str:
        if is_long(node):
            return self.table_steps(node)
        x, below = self.write(node.x), "<=" if node.strict else "<"
        return self._tree(x, below, node.knots, node.values)

    def _tree(
        self, x: str, below: str, knots: Sequence[float], values: Sequence[nodes.Node]
    ) -> str:
        """Return nested comparisons: those of a short piece one after the other."""
        if not knots:
            return self.write(values[0])
        if len(knots) <= FLAT:
            found = [
                f"WHEN {x} {below} {self.number(knot)} THEN {self.write(value)}"
                for knot, value in zip(knots, values, strict=False)
            ]
            return f"CASE {' '.join(found)} ELSE {self.write(values[-1])} END"
        middle = len(knots) // 2
        left = self._tree(x, below, knots[:middle], values[: middle + 1])
        right = self._tree(x, below, knots[middle + 1 :], values[middle + 1 :])
        return f"CASE WHEN {x} {below} {self.number(knots[middle])} THEN {left} ELSE {right} END"

    def _code(self, node: nodes.Code) -> str:
        if len(node.texts) > MOST_TEXTS:
            return self.code(node)
        found = [f"WHEN {self.text(text)} THEN {place}" for place, text in enumerate(node.texts)]
        return f"CASE {self.write(node.value)} {' '.join(found)} ELSE {len(node.texts)} END"


def is_long(node: nodes.Node) -> bool:
    """Whether an expression is a step function that becomes a table."""
    return isinstance(node, nodes.Steps) and len(node.knots) > TREE and node.is_table
