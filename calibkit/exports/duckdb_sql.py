"""DuckDB: nested selects, one for each layer of bindings; long step functions by ASOF joins.

Every bound value is a column of the inner select that the outermost one leaves out.  An ASOF join
keeps each row once but in no order, so rows are numbered before the first and put back by the last
select.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from msgspec.structs import astuple
from msgspec.structs import replace as with_fields

from calibkit.exports.sql import Sql, identifier
from calibkit.expressions import nodes
from calibkit.expressions.nodes import Node, Number, Steps, Table
from calibkit.expressions.program import Program, layers

#: Of the columns between the inner selects and the outermost one.
_PREFIX = "_calibkit_"
_ROW = f'"{_PREFIX}row"'


class DuckDb(Sql):
    """SQL for DuckDB."""

    database = "DuckDB"
    position = "LIST_POSITION([{}], {})"
    spellings: ClassVar = Sql.spellings | {
        nodes.Words: "CAST({column} AS VARCHAR)",
        nodes.WholeWords: (
            "CASE WHEN TYPEOF({column}) IN ('FLOAT', 'DOUBLE') "
            "THEN REGEXP_REPLACE(CAST({column} AS VARCHAR), '\\.0$', '') "
            "ELSE CAST({column} AS VARCHAR) END"
        ),
        nodes.Draw: (
            "(CAST(('0x' || SUBSTR(MD5('{seed}:' || {key}), 1, 13)) AS BIGINT) "
            "/ 4503599627370496e0)"
        ),
        nodes.Item: (
            "CASE WHEN LEN({column}) = {size} THEN CAST({column}[{place}] AS DOUBLE PRECISION) END"
        ),
        nodes.Rounded: "CAST(CAST({value} AS REAL) AS DOUBLE PRECISION)",
        nodes.IsNan: "{value} = 'nan'::DOUBLE",
        nodes.Descending: "LIST_SORT([{values}], 'DESC')",
    }

    def statement(self, program: Program, table: str) -> str:
        """Return nested selects."""
        program = _tabled(program, self.longest)
        joins = {
            name: value for name, value in program.bindings.items() if isinstance(value, Table)
        }
        source = [table]
        more = [f"ROW_NUMBER() OVER () AS {_ROW}"] * bool(joins)
        for layer in layers(program.bindings):
            plain = [name for name in layer if name not in joins]
            if plain:
                values = {self.ref(name): program.bindings[name] for name in plain}
                source, more = _inner(_select("*", self.columns(values, more), source)), []
            for name in layer:
                if name in joins:
                    source = _inner(self._joined_steps(name, joins[name], source))
        hidden = [self.ref(name) for name in program.bindings] + ([_ROW] if joins else [])
        added = {identifier(name): value for name, value in program.outputs.items()}
        everything = f"* EXCLUDE ({', '.join(hidden)})" if hidden else "*"
        order = [f"ORDER BY {_ROW}"] if joins else []
        return "\n".join([*_select(everything, self.columns(added), source), *order])

    def _joined_steps(self, name: str, node: Table, source: list[str]) -> list[str]:
        """Return a select that adds a long step function, a table of its steps joined."""
        rows = [  # the first step of each is from -inf up
            (float(place), knot, value)
            for place, (knots, values) in enumerate(zip(node.knots, node.values, strict=True))
            for knot, value in zip((-math.inf, *knots), values, strict=True)
        ]
        place, knot, value = (_array(column) for column in zip(*rows, strict=True))
        columns, same = [f'UNNEST({knot}) AS "knot"', f'UNNEST({value}) AS "value"'], ""
        if node.index is not None:
            columns.append(f'UNNEST({place}) AS "place"')
            same = f'{self.write(node.index)} = "_calibkit_steps"."place" AND '
        top, *below = source
        return [
            f'SELECT "_calibkit_rows".*, "_calibkit_steps"."value" AS {self.ref(name)}',
            f"FROM {top}",
            *below[:-1],
            f'{below[-1]} AS "_calibkit_rows"',
            f'ASOF LEFT JOIN (SELECT {", ".join(columns)}) AS "_calibkit_steps"',
            f"  ON {same}{self.write(node.x)} {'>' if node.strict else '>='} "
            '"_calibkit_steps"."knot"',
        ]

    def number(self, value: float) -> str:
        """Return a literal with an exponent, which makes it a double."""
        text = repr(float(value))
        if not math.isfinite(value):
            return f"'{text}'::DOUBLE"
        text = text if "e" in text else f"{text.removesuffix('.0')}e0"
        return f"({text})" if text.startswith("-") else text

    def text(self, value: str) -> str:
        """Return a text literal, its null characters apart."""
        parts = ["'" + part.replace("'", "''") + "'" for part in value.split("\0")]
        return parts[0] if len(parts) == 1 else "(" + " || chr(0) || ".join(parts) + ")"

    def ref(self, name: str) -> str:
        """Return the column of a binding."""
        return identifier(_PREFIX + name)

    def table(self, node: Steps) -> str:
        """Return half of a longer step function; whole ones are joins."""
        return self.case(node.comparisons(self.most))


def _select(everything: str, columns: Sequence[str], source: list[str]) -> list[str]:
    first, *rest = source
    return [f"SELECT {everything},", *(f"  {line}" for line in columns), f"FROM {first}", *rest]


def _inner(lines: list[str]) -> list[str]:
    """Return a select in brackets; a line may hold a name that goes on in the next one."""
    return ["(", *(f"  {line}" for line in lines), ")"]


def _array(values: Sequence[float]) -> str:
    return f"'[{', '.join(map(repr, values))}]'::DOUBLE[]"


def _tabled(program: Program, longest: int) -> Program:
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
