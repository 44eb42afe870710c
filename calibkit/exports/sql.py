"""Programs as SQL.

DuckDB: nested selects, one for each layer of bindings; long step functions by ASOF joins.  Every bound
value is a column of the inner select that the outermost one leaves out.  An ASOF join keeps each row
once but in no order, so rows are numbered before the first and put back by the last select.

PostgreSQL: a chain of lateral selects, one for each layer of bindings; tables are arrays.  Without
``OFFSET 0`` the planner would put every expression in the place of its name, again and again.  Where
PostgreSQL raises an error for a float that over- or underflows, numbers are moved out of harm's way
first: the results differ by less than 1e-290.
"""

from __future__ import annotations

import math
import re
from abc import abstractmethod
from collections.abc import Sequence
from datetime import datetime
from typing import ClassVar

from msgspec.structs import replace

from calibkit.errors import UsageError
from calibkit.exports.printer import PREFIX, Printer
from calibkit.expressions import nodes
from calibkit.expressions.nodes import Node, Number, Steps, Table
from calibkit.expressions.program import Program

#: What segments are read as, by the pattern of a text that can be.
_DAY, _CLOCK = "[0-9]{4}-[0-9]{2}-[0-9]{2}", "[T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]+)?)?"
_NUMBER = "[+-]?(([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]+)?|[Ii]nf(inity)?)"
_READ = {
    "DOUBLE PRECISION": f"[[:space:]]*{_NUMBER}[[:space:]]*",
    "TIMESTAMP": f"{_DAY}({_CLOCK})?",
    "TIMESTAMPTZ": f"{_DAY}{_CLOCK}(Z|[+-][0-9:]+)",
}

#: One part of the name of a table, as a pattern.
_PART = r'(?:"(?:[^"]|"")*"|(?!")[^.]*)'


def identifier(name: str) -> str:
    """Return a name as a quoted identifier."""
    if not name or "\0" in name:
        raise UsageError(f"{name!r} cannot be the name of a column or a table of a database.")
    return '"' + name.replace('"', '""') + '"'


def table_name(text: str) -> str:
    """Return the name of a table, quoted; dots part a schema from it, unless in double quotes."""
    if not re.fullmatch(rf"{_PART}(\.{_PART})*", text):
        raise UsageError(f"--table {text!r}: a double quote does not close.")
    parts = (found.group(1) for found in re.finditer(rf"(?:^|(?<=\.))({_PART})(?=\.|\Z)", text))
    return ".".join(
        identifier(part[1:-1].replace('""', '"') if part.startswith('"') else part)
        for part in parts
    )


class Sql(Printer):
    """Writes expressions; a dialect says what differs."""

    database: ClassVar[str]  # its name
    cast: ClassVar[str]  # what changes the type of a text that looks like one of it
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
        return f"CASE {' '.join(self.branches(node))} END"

    def branches(self, node: nodes.Case) -> list[str]:
        """Return the branches of a CASE, which gives NULL anyway where none of them holds."""
        otherwise = self.write(node.otherwise)
        return [*super().branches(node), *[f"ELSE {otherwise}"] * (otherwise != "NULL")]

    def column(self, name: str) -> str:
        return identifier(name)

    def write(self, node: nodes.Node) -> str:
        """Return an expression; one that is no single term is in brackets, or a CASE."""
        return self._segment(node) if isinstance(node, nodes.Segment) else super().write(node)

    def _segment(self, node: nodes.Segment) -> str:
        """Return the place of a segment, as `place_of` finds it."""
        text = f"CAST({self.column(node.column)} AS TEXT)"
        known: dict[str, dict[str, int]] = {kind: {} for kind in ("TEXT", *_READ)}
        for key, place in node.places:
            if isinstance(key, datetime):
                kind = "TIMESTAMPTZ" if key.tzinfo else "TIMESTAMP"
                known[kind][f"CAST('{key}' AS {kind})"] = place
            elif isinstance(key, int | float):
                known["DOUBLE PRECISION"][self.number(key)] = place
            else:
                known["TEXT"][self.text(str(key))] = place
        found = []
        for kind, own in known.items():
            keys, places = ", ".join(own), ", ".join(map(str, own.values()))
            value = f"{self.cast}({text} AS {kind})" if kind in _READ else text
            place_of = f"(ARRAY[{places}])[ARRAY_POSITION(ARRAY[{keys}], {value})]"
            if kind in _READ:
                place_of = f"CASE WHEN {text} ~ '^{_READ[kind]}$' THEN {place_of} END"
            found += [place_of] * bool(own)
        return f"COALESCE({', '.join(found)}, {node.otherwise})"

    def field(self, name: str, value: object) -> str:
        """Return a part of an expression; places are counted from 1."""
        if name == "place" and isinstance(value, int):
            value += 1
        return super().field(name, value)


#: The number of a row.
_ROW = f'"{PREFIX}row"'


class DuckDb(Sql):
    """SQL for DuckDB."""

    database = "DuckDB"
    cast = "TRY_CAST"
    spellings: ClassVar = Sql.spellings | {
        nodes.Words: "CAST({column} AS VARCHAR)",
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
        tables = [name for name, value in program.bindings.items() if isinstance(value, Table)]
        source, more = [table], [f"ROW_NUMBER() OVER () AS {_ROW}"] * bool(tables)
        for layer in program.layers():
            plain = {self.ref(one): program.bindings[one] for one in layer if one not in tables}
            if plain:
                source, more = _inner(_select("*", self.columns(plain, more), source)), []
            for name in layer:
                value = program.bindings[name]
                if isinstance(value, Table):
                    source = _inner(self._joined_steps(name, value, source))
        hidden = [*map(self.ref, program.bindings), *[_ROW] * bool(tables)]
        added = {identifier(name): value for name, value in program.outputs.items()}
        hidden += [identifier(name) for name in program.columns() if name in program.outputs]
        everything = f"* EXCLUDE ({', '.join(hidden)})" if hidden else "*"
        order = [f"ORDER BY {_ROW}"] * bool(tables)
        return "\n".join([*_select(everything, self.columns(added), source), *order])

    def _joined_steps(self, name: str, node: Table, source: list[str]) -> list[str]:
        """Return a select that adds a long step function, a table of its steps joined."""
        rows = [  # the first step of each is from -inf up
            (float(place), knot, value)
            for place, part in enumerate(node.parts)
            for knot, value in zip((-math.inf, *part.knots), part.levels(), strict=True)
        ]
        columns = zip(*rows, strict=True)
        place, knot, value = (
            f"UNNEST('[{', '.join(map(repr, own))}]'::DOUBLE[])" for own in columns
        )
        read, same = f'{knot} AS "knot", {value} AS "value"', ""
        if node.index is not None:
            read += f', {place} AS "place"'
            same = f'{self.write(node.index)} = "_calibkit_steps"."place" AND '
        (x, strict), (top, *below) = (node.parts[0].x, node.parts[0].strict), source
        return [
            f'SELECT "_calibkit_rows".*, "_calibkit_steps"."value" AS {self.ref(name)}',
            f"FROM {top}",
            *below[:-1],
            f'{below[-1]} AS "_calibkit_rows"',
            f'ASOF LEFT JOIN (SELECT {read}) AS "_calibkit_steps"',
            f'  ON {same}{self.write(x)} {">" if strict else ">="} "_calibkit_steps"."knot"',
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
        return identifier(PREFIX + name)

    def table(self, node: Steps) -> str:
        """Return half of a longer step function; whole ones are joins."""
        return self.case(node.comparisons(self.most))


def _select(everything: str, columns: Sequence[str], source: list[str]) -> list[str]:
    first, *rest = source
    return [f"SELECT {everything},", *(f"  {line}" for line in columns), f"FROM {first}", *rest]


def _inner(lines: list[str]) -> list[str]:
    """Return a select in brackets; a line may hold a name that goes on in the next one."""
    return ["(", *(f"  {line}" for line in lines), ")"]


def _tabled(program: Program, longest: int) -> Program:
    """Return a program in which bindings that are long step functions are tables, over names.

    `longest`: a table has more steps than that.  Those within an expression are few.
    """
    made = replace(program, bindings=dict(program.bindings), names=dict(program.names))
    waiting = list(program.bindings)
    for name in waiting:
        table = _table(made.bindings[name], longest)
        if table is not None:
            x, index = made.short("x", table.parts[0].x), table.index
            if index is not None:
                index = made.bind("index" if _table(index, longest) is None else "steps", index)
                waiting.append(index.name)
            made.bindings[name] = Table(index, tuple(replace(one, x=x) for one in table.parts))
    return made


def _table(node: Node, longest: int) -> Table | None:
    """Return a long step function of numbers, or one of such functions, as a table."""
    if not isinstance(node, Steps):
        return None
    index, parts = None, [node]
    if not node.levels():
        first = next((value for value in node.values if isinstance(value, Steps)), node)
        places = tuple(Number(float(place)) for place in range(len(node.values)))
        index, parts = replace(node, values=places), []
        for value in node.values:
            if isinstance(value, Number):
                value = replace(first, knots=(), values=(value,))
            if not isinstance(value, Steps) or not value.levels():
                return None
            if (value.x, value.strict) != (first.x, first.strict):
                return None
            parts.append(value)
    return Table(index, tuple(parts)) if sum(len(one.knots) for one in parts) > longest else None


#: A value that cannot be hashed, which every layer mentions: the planner would keep results of rows
#: in a cache otherwise (Memoize), which costs more than the arithmetic.
_FENCE = '"fence"'

#: Longer names are cut off by PostgreSQL.
_LONGEST = 63

#: Half the smallest float32.
_LEAST_SINGLE = 2.0**-150


class Postgres(Sql):
    """SQL for PostgreSQL."""

    database = "PostgreSQL"
    cast = "CAST"
    spellings: ClassVar = Sql.spellings | {
        nodes.Words: "CAST({column} AS text)",
        nodes.Draw: (
            "(CAST(CAST('x' || SUBSTR(MD5(CONVERT_TO('{seed}:' || {key}, 'UTF8')), 1, 13) AS bit(52)) "
            "AS bigint) / '4503599627370496'::float8)"
        ),
        nodes.Item: "CASE WHEN CARDINALITY({column}) = {size} "
        "THEN CAST(({column})[{place}] AS float8) END",
        nodes.Rounded: f"CASE WHEN ABS({{value}}) <= '{_LEAST_SINGLE}'::float8 "
        "THEN '0'::float8 ELSE CAST(CAST({value} AS real) AS float8) END",
        nodes.Clamped: "CASE WHEN ABS({value}) < {small} THEN '0'::float8 "
        "WHEN ABS({value}) > {large} THEN SIGN({value}) * {large} ELSE {value} END",
        nodes.Exp: "CASE WHEN {value} < '-700'::float8 THEN '0'::float8 ELSE EXP({value}) END",
        nodes.IsNan: "{value} = 'NaN'::float8",
        nodes.Descending: "(SELECT ARRAY_AGG(v ORDER BY v DESC) FROM UNNEST(ARRAY[{values}]) AS v)",
    }

    layer: dict[str, int]  # of each binding, from 0

    def statement(self, program: Program, table: str) -> str:
        """Return one select from a table and its layers."""
        found = program.layers()
        self.layer = {name: place for place, layer in enumerate(found) for name in layer}
        joins = [f"CROSS JOIN (SELECT NULL::json AS {_FENCE} OFFSET 0) AS {_FENCE}"]
        for place, layer in enumerate(found):
            values = {identifier(name): program.bindings[name] for name in layer}
            columns = self.columns(values, [f"{_FENCE}.{_FENCE}"])
            joins += ["CROSS JOIN LATERAL (", "  SELECT", *(f"    {line}" for line in columns)]
            joins += ["  OFFSET 0", f') AS "layer_{place + 1}"']
        for name in program.outputs:
            if len(name.encode()) > _LONGEST:
                raise UsageError(
                    f"the added column {name!r} has a name longer than the {_LONGEST} bytes that "
                    "PostgreSQL keeps; fit on columns with shorter names."
                )
        added = self.columns({identifier(name): node for name, node in program.outputs.items()})
        first = ['SELECT "calibkit".*,', *(f"  {line}" for line in added)]
        return "\n".join([*first, f'FROM {table} AS "calibkit"', *joins])

    def number(self, value: float) -> str:
        return f"'{_plain(value)}'::float8"

    def text(self, value: str) -> str:
        """Return a text literal that means the same under all settings of backslashes."""
        if "\0" in value:
            raise UsageError(
                f"{value!r} holds a null character, which PostgreSQL text cannot hold."
            )
        quoted = "'" + value.replace("'", "''") + "'"
        return "E" + quoted.replace("\\", "\\\\") if "\\" in value else quoted

    def ref(self, name: str) -> str:
        """Return a binding with its layer."""
        return f'"layer_{self.layer[name] + 1}".{identifier(name)}'

    def column(self, name: str) -> str:
        return f'"calibkit".{identifier(name)}'

    def table(self, node: nodes.Steps) -> str:
        """Return an element of an array, whose place a binary search among the knots finds."""
        x = self.write(node.x)
        if node.strict:  # as many knots are below x as there are, without those at or above it
            knots = _array([-knot for knot in reversed(node.knots)])
            place = f"{len(node.knots) + 1} - WIDTH_BUCKET(-({x}), {knots})"
        else:
            place = f"WIDTH_BUCKET({x}, {_array(node.knots)}) + 1"
        return f"({_array(node.levels())})[{place}]"


def _array(values: Sequence[float]) -> str:
    return f"'{{{','.join(map(_plain, values))}}}'::float8[]"


def _plain(value: float) -> str:
    """Return a float as PostgreSQL reads it from text."""
    found = repr(float(value)).removesuffix(".0")
    return {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}.get(found, found)
