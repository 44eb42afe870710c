"""PostgreSQL: a chain of lateral selects, one for each layer of bindings; tables are arrays.

Without ``OFFSET 0`` the planner would put every expression in the place of its name, again and
again.  Where PostgreSQL raises an error for a float that over- or underflows, numbers are moved out
of harm's way first: the results differ by less than 1e-290.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from calibkit.errors import UsageError
from calibkit.exports.nodes import Code, Draw, Item, Number, Steps, Words
from calibkit.exports.program import Program, layers
from calibkit.exports.sql import Sql, identifier

#: A value that cannot be hashed, which every layer mentions: the planner would keep results of rows
#: in a cache otherwise (Memoize), which costs more than the arithmetic.
_FENCE = '"fence"'

#: Longer names are cut off by PostgreSQL.
_LONGEST = 63

#: Where exp(x) comes near the smallest floats; half the smallest float32.
_LEAST_EXPONENT, _LEAST_SINGLE = -700.0, 2.0**-150


class Postgres(Sql):
    """SQL for PostgreSQL."""

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

    def words(self, node: Words) -> str:
        """Return a column as text; whole floats have no point there anyway."""
        return f"CAST({self.column(node.column)} AS text)"

    def table_steps(self, node: Steps) -> str:
        """Return an element of an array, whose place a binary search among the knots finds."""
        values = [value.value for value in node.values if isinstance(value, Number)]
        x = self.write(node.x)
        if node.strict:  # as many knots are below x as there are, without those at or above it
            knots = self._array([-knot for knot in reversed(node.knots)])
            place = f"{len(node.knots) + 1} - WIDTH_BUCKET(-({x}), {knots})"
        else:
            place = f"WIDTH_BUCKET({x}, {self._array(node.knots)}) + 1"
        return f"({self._array(values)})[{place}]"

    def _array(self, values: Sequence[float]) -> str:
        return f"'{{{','.join(map(_plain, values))}}}'::float8[]"

    def draw(self, node: Draw) -> str:
        """Return 13 hexadecimal digits over 16^13."""
        key = f"{self.text(f'{int(node.seed)}:')} || {self.write(node.key)}"
        digits = f"SUBSTR(MD5(CONVERT_TO({key}, 'UTF8')), 1, 13)"
        return f"(CAST(CAST('x' || {digits} AS bit(52)) AS bigint) / {self.number(2.0**52)})"

    def code(self, node: Code) -> str:
        """Return the place of a text in a list."""
        texts = ", ".join(map(self.text, node.texts))
        place = f"ARRAY_POSITION(ARRAY[{texts}], {self.write(node.value)}) - 1"
        return f"COALESCE({place}, {len(node.texts)})"

    def item(self, node: Item) -> str:
        """Return one number of an array."""
        column = self.column(node.column)
        number = f"CAST(({column})[{node.place + 1}] AS float8)"
        return f"CASE WHEN CARDINALITY({column}) = {node.size} THEN {number} END"

    def falling(self, values: Sequence[str]) -> str:
        """Return a sorted array."""
        listed = ", ".join(values)
        return f"(SELECT ARRAY_AGG(v ORDER BY v DESC) FROM UNNEST(ARRAY[{listed}]) AS v)"

    def rounded(self, value: str) -> str:
        """Return a number rounded to single precision, very small ones to 0."""
        small = f"ABS({value}) <= {self.number(_LEAST_SINGLE)}"
        single = f"CAST(CAST({value} AS real) AS float8)"
        return f"CASE WHEN {small} THEN {self.number(0.0)} ELSE {single} END"

    def tame(self, value: str, small: str, large: str) -> str:
        """Return a number about to be multiplied."""
        return (
            f"CASE WHEN ABS({value}) < {small} THEN {self.number(0.0)} "
            f"WHEN ABS({value}) > {large} THEN SIGN({value}) * {large} ELSE {value} END"
        )

    def exp(self, value: str) -> str:
        """Return the exponential, 0 where it would underflow."""
        least = self.number(_LEAST_EXPONENT)
        return f"CASE WHEN {value} < {least} THEN {self.number(0.0)} ELSE EXP({value}) END"


def _plain(value: float) -> str:
    """Return a float as PostgreSQL reads it from text."""
    if math.isnan(value):
        return "NaN"
    if math.isinf(value):
        return "Infinity" if value > 0 else "-Infinity"
    return repr(float(value)).removesuffix(".0")
