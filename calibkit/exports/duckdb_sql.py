"""DuckDB: nested selects, one for each layer of bindings; long step functions by ASOF joins.

Every bound value is a column of the inner select that the outermost one leaves out.  An ASOF join
keeps each row once but in no order, so rows are numbered before the first and put back by the last
select.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from calibkit.exports.nodes import (
    Code,
    Draw,
    Item,
    Node,
    Number,
    Steps,
    TableSteps,
    Words,
)
from calibkit.exports.program import Program, layers
from calibkit.exports.rewrite import changed, hoisted, joined
from calibkit.exports.sql import TREE, Sql, identifier, is_long

#: Of the columns between the inner selects and the outermost one.
_PREFIX = "_calibkit_"
_ROW = f'"{_PREFIX}row"'


class DuckDb(Sql):
    """SQL for DuckDB."""

    def statement(self, program: Program, table: str) -> str:
        """Return nested selects."""
        program = hoisted(changed(program, lambda node: joined(node, TREE)), _is_join)
        joins = {
            name: value
            for name, value in program.bindings.items()
            if isinstance(value, Steps | TableSteps) and _is_join(value)
        }
        source, numbered = [table], False
        for layer in layers(program.bindings):
            plain = [name for name in layer if name not in joins]
            if plain:
                more = [f"ROW_NUMBER() OVER () AS {_ROW}"] if joins and not numbered else []
                numbered = True
                values = {self.ref(name): program.bindings[name] for name in plain}
                source = _inner(self._select("*", self.columns(values, more), source))
            for name in layer:
                if name in joins:
                    source = _inner(self._joined(name, joins[name], source))
        hidden = [self.ref(name) for name in program.bindings] + ([_ROW] if joins else [])
        added = {identifier(name): value for name, value in program.outputs.items()}
        everything = f"* EXCLUDE ({', '.join(hidden)})" if hidden else "*"
        order = [f"ORDER BY {_ROW}"] if joins else []
        return "\n".join([*self._select(everything, self.columns(added), source), *order])

    def _select(self, everything: str, columns: Sequence[str], source: list[str]) -> list[str]:
        first, *rest = source
        return [f"SELECT {everything},", *(f"  {line}" for line in columns), f"FROM {first}", *rest]

    def _joined(self, name: str, node: Steps | TableSteps, source: list[str]) -> list[str]:
        """Return a select that adds a long step function, a table of its steps joined."""
        tables = node.tables if isinstance(node, TableSteps) else (node,)
        place, knot, value = zip(*_steps_of(tables), strict=True)
        columns = [f'{self._array(knot)}) AS "knot"', f'{self._array(value)}) AS "value"']
        same = ""
        if isinstance(node, TableSteps):
            columns.append(f'{self._array(place)}) AS "place"')
            same = f'{self.write(node.index)} = "_calibkit_steps"."place" AND '
        steps = f"(SELECT {', '.join(f'UNNEST({column}' for column in columns)})"
        sign = ">" if tables[0].strict else ">="
        top, *below = source
        return [
            f'SELECT "_calibkit_rows".*, "_calibkit_steps"."value" AS {self.ref(name)}',
            f"FROM {top}",
            *below[:-1],
            f'{below[-1]} AS "_calibkit_rows"',
            f'ASOF LEFT JOIN {steps} AS "_calibkit_steps"',
            f'  ON {same}{self.write(tables[0].x)} {sign} "_calibkit_steps"."knot"',
        ]

    def _array(self, values: Sequence[float]) -> str:
        return f"'[{', '.join(map(_plain, values))}]'::DOUBLE[]"

    def number(self, value: float) -> str:
        """Return a literal with an exponent, which makes it a double."""
        if not math.isfinite(value):
            return f"'{_plain(value)}'::DOUBLE"
        text = repr(float(value))
        text = text if "e" in text else f"{text.removesuffix('.0')}e0"
        return f"({text})" if text.startswith("-") else text

    def text(self, value: str) -> str:
        """Return a text literal, its null characters apart."""
        parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
        return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"

    def ref(self, name: str) -> str:
        """Return the column of a binding."""
        return identifier(_PREFIX + name)

    def column(self, name: str) -> str:
        """Return a column of the table."""
        return identifier(name)

    def words(self, node: Words) -> str:
        """Return a column as text; of floats 1.0 becomes 1, if asked for."""
        column = self.column(node.column)
        words = f"CAST({column} AS VARCHAR)"
        if not node.whole:
            return words
        short = f"REGEXP_REPLACE({words}, '\\.0$', '')"
        return f"CASE WHEN TYPEOF({column}) IN ('FLOAT', 'DOUBLE') THEN {short} ELSE {words} END"

    def table_steps(self, node: Steps) -> str:
        """Long step functions have been hoisted into joins."""
        raise TypeError("a long step function within an expression")

    def draw(self, node: Draw) -> str:
        """Return 13 hexadecimal digits over 16^13."""
        digest = f"MD5({self.text(f'{int(node.seed)}:')} || {self.write(node.key)})"
        return f"(CAST(('0x' || SUBSTR({digest}, 1, 13)) AS BIGINT) / {self.number(2.0**52)})"

    def code(self, node: Code) -> str:
        """Return the place of a text in a list."""
        texts = ", ".join(map(self.text, node.texts))
        place = f"LIST_POSITION([{texts}], {self.write(node.value)}) - 1"
        return f"COALESCE({place}, {len(node.texts)})"

    def item(self, node: Item) -> str:
        """Return one number of a list."""
        column = self.column(node.column)
        number = f"CAST({column}[{node.place + 1}] AS DOUBLE PRECISION)"
        return f"CASE WHEN LEN({column}) = {node.size} THEN {number} END"

    def falling(self, values: Sequence[str]) -> str:
        """Return a sorted list."""
        return f"LIST_SORT([{', '.join(values)}], 'DESC')"

    def rounded(self, value: str) -> str:
        """Return a number rounded to single precision."""
        return f"CAST(CAST({value} AS REAL) AS DOUBLE PRECISION)"


def _is_join(node: Node) -> bool:
    """Whether an expression becomes a join."""
    return isinstance(node, TableSteps) or is_long(node)


def _steps_of(tables: Sequence[Steps]) -> Iterator[tuple[float, float, float]]:
    """Yield the table, the knot and the value of each step; the first one is from -inf up."""
    for place, table in enumerate(tables):
        values = [value.value for value in table.values if isinstance(value, Number)]
        for knot, value in zip((-math.inf, *table.knots), values, strict=True):
            yield float(place), knot, value


def _inner(lines: list[str]) -> list[str]:
    """Return a select in brackets; a line may hold a name that goes on in the next one."""
    return ["(", *(f"  {line}" for line in lines), ")"]


def _plain(value: float) -> str:
    """Return a float as DuckDB reads it from text."""
    if math.isnan(value):
        return "nan"
    if math.isinf(value):
        return "inf" if value > 0 else "-inf"
    return repr(float(value))
