"""PostgreSQL: a chain of lateral selects, one for each layer of bindings; tables are arrays.

Without ``OFFSET 0`` the planner would put every expression in the place of its name, again and
again.  Where PostgreSQL raises an error for a float that over- or underflows, numbers are moved out
of harm's way first: the results differ by less than 1e-290.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from calibkit.errors import UsageError
from calibkit.exports.sql import Sql, identifier
from calibkit.expressions import nodes
from calibkit.expressions.program import Program, layers

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
    position = "ARRAY_POSITION(ARRAY[{}], {})"
    spellings: ClassVar = Sql.spellings | {
        nodes.Words: "CAST({column} AS text)",
        nodes.WholeWords: "CAST({column} AS text)",  # without a point anyway
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

    def __init__(self) -> None:
        self.layer: dict[str, int] = {}

    def statement(self, program: Program, table: str) -> str:
        """Return one select from a table and its layers."""
        found = layers(program.bindings)
        self.layer = {name: place for place, layer in enumerate(found) for name in layer}
        joins = [f"CROSS JOIN (SELECT NULL::json AS {_FENCE} OFFSET 0) AS {_FENCE}"]
        for place, layer in enumerate(found):
            columns = self.columns({identifier(name): program.bindings[name] for name in layer})
            joins += ["CROSS JOIN LATERAL (", "  SELECT", *(f"    {line}" for line in columns)]
            joins[-1] += ","
            joins += [f"    {_FENCE}.{_FENCE}", "  OFFSET 0", f") AS {self._layer(place)}"]
        added = self.columns({self._added(name): node for name, node in program.outputs.items()})
        first = ['SELECT "calibkit".*,', *(f"  {line}" for line in added)]
        return "\n".join([*first, f'FROM {table} AS "calibkit"', *joins])

    def _layer(self, place: int) -> str:
        return identifier(f"layer_{place + 1}")

    def _added(self, name: str) -> str:
        if len(name.encode()) > _LONGEST:
            raise UsageError(
                f"the added column {name!r} has a name longer than the {_LONGEST} bytes that "
                "PostgreSQL keeps; fit on columns with shorter names."
            )
        return identifier(name)

    def number(self, value: float) -> str:
        """Return a typed literal."""
        return f"'{_plain(value)}'::float8"

    def text(self, value: str) -> str:
        """Return a text literal that means the same under all settings of backslashes."""
        if "\0" in value:
            raise UsageError(f"{value!r} holds a null character, which PostgreSQL has no text for.")
        quoted = "'" + value.replace("'", "''") + "'"
        return "E" + quoted.replace("\\", "\\\\") if "\\" in value else quoted

    def ref(self, name: str) -> str:
        """Return a binding with its layer."""
        return f"{self._layer(self.layer[name])}.{identifier(name)}"

    def column(self, name: str) -> str:
        """Return a column of the table."""
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
