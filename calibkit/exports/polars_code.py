"""polars: a module with one function of a frame, made of expressions."""

from __future__ import annotations

from calibkit.exports import nodes
from calibkit.exports.code import FLAT, Constants, halves, number, table, text, texts
from calibkit.exports.program import Program, layers

#: Of the columns that are dropped in the end.
_PREFIX = "_calibkit_"

#: What the function calls, each written only where it is used.
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
_MODULES = ("hashlib", "math")


def write(program: Program, about: str) -> str:
    """Return the text of a module with the function ``apply``."""
    writer = _Writer()
    body = []
    for layer in layers(program.bindings):
        body += _with_columns(
            "frame = frame",
            {_PREFIX + name: writer.write(program.bindings[name]) for name in layer},
        )
    added = {name: writer.write(value) for name, value in program.outputs.items()}
    body += _with_columns("frame = frame", added)
    hidden = texts([_PREFIX + name for name in program.bindings])
    if "schema[" in "\n".join(body):
        body.insert(0, "    schema = frame.collect_schema()")
    called = "\n".join(body)
    parts = [code for name, code in _HELPERS.items() if f"{name}(" in called]
    function = [
        "def apply(frame):",
        '    """Return a frame (also a lazy one) with the columns of the model added.',
        "",
        "    They are null where a row lacks a value that the model needs, or has one that the model",
        "    does not take, as a probability outside [0, 1].",
        '    """',
        *body,
        f"    return frame.drop({hidden})",
    ]
    code = "\n".join([*writer.constants.lines, *parts, *function])
    modules = [f"import {name}" for name in _MODULES if f"{name}." in code]
    imports = "\n".join(modules) + "\n\n" * bool(modules) + "import polars as pl"
    head = f'"""{about}, as polars expressions."""'
    top = "\n\n".join(
        [head, imports, *(["\n".join(writer.constants.lines)] if writer.constants.lines else [])]
    )
    return "\n\n\n".join([top, *parts, "\n".join(function)]) + "\n"


def _with_columns(start: str, columns: dict[str, str]) -> list[str]:
    if not columns:
        return []
    lines = [f"        {code}.alias({text(name)})," for name, code in columns.items()]
    return [f"    {start}.with_columns(", *lines, "    )"]


class _Writer:
    def __init__(self) -> None:
        self.constants = Constants()

    def write(self, node: nodes.Node) -> str:
        """Return an expression that methods can be called on."""
        match node:
            case nodes.Number(value):
                return f"pl.lit({number(value)})"
            case nodes.Whole(value, kind):
                return f"pl.lit({int(value)}, pl.{kind})"
            case nodes.Text(value):
                return f"pl.lit({text(value)})"
            case nodes.Missing():
                return "pl.lit(None)"
            case nodes.Ref(name):
                return self._ref(name)
            case nodes.Field(column):
                return f"{self._column(column)}.cast(pl.Float64)"
            case nodes.Item(column, place, size):
                return f"_item({self._column(column)}, {place}, {size})"
            case nodes.Words(column, whole):
                if whole:
                    return f"_words({self._column(column)}, schema[{text(column)}])"
                return f"{self._column(column)}.cast(pl.String)"
            case nodes.Draw(key, seed):
                return f"_draw({int(seed)}, {self.write(key)})"
            case nodes.Code(value, names):
                return f"_code({self.write(value)}, {self.constants.named(texts(names))})"
            case nodes.Case(branches, otherwise):
                found = [
                    f"when({self.condition(test)}).then({self.write(value)})"
                    for test, value in branches
                ]
                return f"pl.{'.'.join(found)}.otherwise({self.write(otherwise)})"
            case nodes.Steps():
                return self._steps(node)
            case _:
                return self._arithmetic(node)

    def _arithmetic(self, node: nodes.Node) -> str:
        match node:
            case nodes.Between(value, low, high):
                return f"_between({self.write(value)}, {number(low)}, {number(high)})"
            case nodes.Rounded(value):
                return f"{self.write(value)}.cast(pl.Float32).cast(pl.Float64)"
            case nodes.Tame(value, _, _):
                return self.write(value)
            case nodes.Binary(sign, left, right):
                return f"({self._operand(left)} {sign} {self._operand(right)})"
            case nodes.Exp(value):
                return f"{self.write(value)}.exp()"
            case nodes.Log(value):
                return f"{self.write(value)}.log()"
            case nodes.Falling(values):
                listed = ", ".join(map(self.write, values))
                return f"pl.concat_list({listed}).list.sort(descending=True)"
            case nodes.Place(value, place):
                return f"{self.write(value)}.list.get({place})"
            case _:
                return f"({self.condition(node)})"

    def condition(self, node: nodes.Node) -> str:
        """Return a condition."""
        match node:
            case nodes.Compare(sign, left, right):
                return (
                    f"{self._operand(left)} {'==' if sign == '=' else sign} {self._operand(right)}"
                )
            case nodes.IsNever(value):
                return f"{self.write(value)}.is_nan()"
            case nodes.Lacks(names):
                return " | ".join(f"{self._ref(name)}.is_null()" for name in names)
            case nodes.OneOf(value, names):
                return f"{self.write(value)}.is_in({self.constants.named(texts(names))})"
            case nodes.Every(conditions):
                return " & ".join(f"({self.condition(part)})" for part in conditions)
            case nodes.Some(conditions):
                return " | ".join(f"({self.condition(part)})" for part in conditions)
            case _:
                raise TypeError(f"no polars for {type(node).__name__}")

    def _operand(self, node: nodes.Node) -> str:
        return number(node.value) if isinstance(node, nodes.Number) else self.write(node)

    def _ref(self, name: str) -> str:
        return f"pl.col({text(_PREFIX + name)})"

    def _column(self, name: str) -> str:
        plain = name.replace("_", "a").replace(" ", "a").isalnum()
        return f"pl.col({text(name)})" if plain else f"_column({text(name)})"

    def _steps(self, node: nodes.Steps) -> str:
        x, below = self.write(node.x), "<=" if node.strict else "<"
        if len(node.knots) <= FLAT:
            pairs = zip(node.knots, node.values, strict=False)
            found = [
                f"when({x} {below} {number(knot)}).then({self.write(value)})"
                for knot, value in pairs
            ]
            return f"pl.{'.'.join(found)}.otherwise({self.write(node.values[-1])})"
        if node.is_table:
            knots, values = self.constants.floats(node.knots), self.constants.floats(table(node))
            return f"_steps({x}, {knots}, {values}, {text('left' if node.strict else 'right')})"
        knot, low, high = halves(node)
        test = f"pl.when({x} {below} {number(knot)})"
        return f"{test}.then({self.write(low)}).otherwise({self.write(high)})"
