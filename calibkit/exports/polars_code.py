"""polars: a module with one function of a frame, made of expressions."""

from __future__ import annotations

from typing import ClassVar

from calibkit.exports.code import Module
from calibkit.expressions import nodes
from calibkit.expressions.program import Program, layers

#: Of the columns that are dropped in the end.
_PREFIX = "_calibkit_"

_HELPERS = {
    "_column": '''def _column(name):
    """Return a column by its name, also by one that polars would take for a pattern."""
    return pl.selectors.by_name(name).as_expr()''',
    "_between": '''def _between(value, low, high):
    """Return a number that lies in a range, else null."""
    return pl.when(value.is_between(low, high)).then(value)''',
    "_item": '''def _item(column, place, size):
    """Return one number of a list, null if the list has another length."""
    values = column.cast(pl.List(pl.Float64))
    return pl.when(values.list.len() == size).then(values.list.get(place, null_on_oob=True))''',
    "_words": '''def _words(column, dtype):
    """Return values as text: true, false, whole floats as integers."""
    if dtype.is_temporal():
        def find(times):
            texts = [None if time is None else str(time) for time in times.to_list()]
            return pl.Series(texts, dtype=pl.String)
        return column.map_batches(find, return_dtype=pl.String)
    words = column.cast(pl.String)
    if not dtype.is_float():
        return words
    whole = column.cast(pl.Int64, strict=False).cast(pl.String)
    return pl.when(column == column.floor()).then(whole).otherwise(words)''',
    "_code": '''def _code(words, known):
    """Return the place of a text among some, or their number."""
    code = words.replace_strict(known, range(len(known)), default=len(known), return_dtype=pl.Int64)
    return code.fill_null(len(known))''',
    "_steps": '''def _steps(column, knots, values, side):
    """Return values[number of knots <= column], or < under side left."""
    def find(numbers):
        place = pl.Series(knots, dtype=pl.Float64).search_sorted(numbers.fill_null(0.0), side=side)
        return pl.Series(values, dtype=pl.Float64).gather(place)
    return column.cast(pl.Float64).map_batches(find, return_dtype=pl.Float64)''',
    "_draw": '''def _draw(seed, keys):
    """Return the numbers in [0, 1) that decide the rows with some keys."""
    def one(key):
        digest = hashlib.md5(f"{seed}:{key}".encode(), usedforsecurity=False).hexdigest()
        return int(digest[:13], 16) / 16**13
    def find(keys):
        found = [None if key is None else one(key) for key in keys.to_list()]
        return pl.Series(found, dtype=pl.Float64)
    return keys.map_batches(find, return_dtype=pl.Float64)''',
}


class Polars(Module):
    """Every expression is one that methods can be called on."""

    about: ClassVar = {
        "kind": "polars expressions",
        "argument": "frame",
        "what": "a frame (also a lazy one)",
        "nothing": "null where a",
    }
    helpers: ClassVar = _HELPERS
    modules = ("hashlib", "math")
    imports = ("import polars as pl",)
    signs: ClassVar = {"=": "==", "and": "&", "or": "|"}
    absent = "{}.is_null()"
    branch, link, choice = "when({}).then({})", ".", "pl.{}.otherwise({})"
    lookup = "_steps({x}, {knots}, {values}, '{side}')"
    spellings: ClassVar = Module.spellings | {
        nodes.Number: "pl.lit({value})",
        nodes.Whole: "pl.lit({value}, pl.{kind})",
        nodes.Text: "pl.lit({value})",
        nodes.Missing: "pl.lit(None)",
        nodes.Field: "{column}.cast(pl.Float64)",
        nodes.Words: "{column}.cast(pl.String)",
        nodes.WholeWords: "_words({column}, schema[{0.column!a}])",
        nodes.Code: "_code({value}, {texts})",
        nodes.OneOf: "{value}.is_in({texts})",
        nodes.Rounded: "{value}.cast(pl.Float32).cast(pl.Float64)",
        nodes.Exp: "{value}.exp()",
        nodes.Log: "{value}.log()",
        nodes.IsNan: "{value}.is_nan()",
        nodes.Descending: "pl.concat_list({values}).list.sort(descending=True)",
        nodes.Element: "{value}.list.get({place})",
    }

    def file(self, program: Program, about: str, table: str) -> str:
        """Return a module with the function ``apply``."""
        body = []
        for layer in layers(program.bindings):
            body += self.with_columns({_PREFIX + name: program.bindings[name] for name in layer})
        body += self.with_columns(program.outputs)
        if "schema[" in "\n".join(body):
            body.insert(0, "    schema = frame.collect_schema()")
        hidden = self.listed(self.text(_PREFIX + name) for name in program.bindings)
        return self.module(about, [*body, f"    return frame.drop({hidden})"])

    def with_columns(self, columns: dict[str, nodes.Node]) -> list[str]:
        """Return the lines that add columns."""
        if not columns:
            return []
        lines = [
            f"        {self.write(value)}.alias({self.text(name)}),"
            for name, value in columns.items()
        ]
        return ["    frame = frame.with_columns(", *lines, "    )"]

    def write(self, node: nodes.Node) -> str:
        """Return an expression; what is divided by a number polars would multiply by its inverse."""
        match node:
            case nodes.Binary("/", left, nodes.Number(value)):
                x = self.write(left)
                return f"({x} / ({x} * 0.0 + {self.number(value)}))"
            case _:
                return super().write(node)

    def field(self, name: str, value: object) -> str:
        """Return a part of an expression; operators take numbers as they are, texts are constants."""
        if name in ("left", "right") and isinstance(value, nodes.Number):
            return self.number(value.value)
        if isinstance(value, tuple) and name == "texts":
            return self.constant(self.listed(map(self.text, value)))
        return super().field(name, value)

    def ref(self, name: str) -> str:
        """Return the column of a binding."""
        return f"pl.col({self.text(_PREFIX + name)})"

    def column(self, name: str) -> str:
        """Return a column; `pl.col` would take some names for patterns."""
        plain = name.replace("_", "a").replace(" ", "a").isalnum()
        return f"{'pl.col' if plain else '_column'}({self.text(name)})"
