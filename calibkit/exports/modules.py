"""Modules with one function: plain Python of one row, and polars of a frame.

That of Python imports the standard library alone, that of polars is made of expressions.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterable
from typing import ClassVar

from calibkit.columns.segments import place_of
from calibkit.exports.printer import PREFIX, Printer
from calibkit.expressions import nodes
from calibkit.expressions.program import Program


class Module(Printer):
    """Writes modules; names of columns are texts in them."""

    #: What the module has, and the function with its docstring, up to its first line.
    kind: ClassVar[str]
    function: ClassVar[str]
    #: What the function calls, each written only where it is used, before those that call it.
    helpers: ClassVar[dict[str, str]]
    modules: ClassVar[tuple[str, ...]]  # what may be imported of the standard library
    imports: ClassVar[tuple[str, ...]] = ()  # lines that are there anyway
    lookup: ClassVar[str]  # a value of a table
    most = longest = 4
    spellings: ClassVar = Printer.spellings | {
        nodes.Item: "_item({column}, {place}, {size})",
        nodes.Draw: "_draw({seed}, {key})",
        nodes.Between: "_between({value}, {low}, {high})",
    }

    def __init__(self) -> None:
        self.constants: dict[str, str] = {}

    def module(self, about: str, body: list[str]) -> str:
        """Return the text of a module; `body`: the lines of the function."""
        function = "\n".join([self.function, *body])
        helpers, called = list[str](), "\n".join(body)
        for name, code in reversed(self.helpers.items()):
            if f"{name}(" in called:
                helpers.insert(0, code)
                called += code
        constants = "\n".join(f"{name} = {text}" for text, name in self.constants.items())
        code = "\n".join([constants, *helpers, function])
        imports = "\n".join(f"import {name}" for name in self.modules if f"{name}." in code)
        top = [f'"""{about}, as {self.kind}."""', imports, *self.imports, constants]
        return "\n\n\n".join(["\n\n".join(filter(None, top)), *helpers, function]) + "\n"

    def constant(self, text: str) -> str:
        """Return the name of a constant with this text."""
        return self.constants.setdefault(text, f"_C{len(self.constants) + 1}")

    def number(self, value: float) -> str:
        found = repr(float(value))
        return {"nan": "math.nan", "inf": "math.inf", "-inf": "(-math.inf)"}.get(found, found)

    def text(self, value: str) -> str:
        """Return a text as Python writes it, in ASCII and free of line ends."""
        return ascii(str(value))

    def field(self, name: str, value: object) -> str:
        """Return a part of an expression; where segments have their places is a constant."""
        if name != "places" or not isinstance(value, tuple):
            return super().field(name, value)
        written = (self.number(key) if isinstance(key, float) else ascii(key) for key, _ in value)
        pairs = map("{}: {}".format, written, (place for _, place in value))
        return self.constant(f"{{{', '.join(pairs)}}}")

    def listed(self, parts: Iterable[str]) -> str:
        """Return a tuple."""
        return f"({''.join(f'{part}, ' for part in parts)})"

    def table(self, node: nodes.Steps) -> str:
        knots, values = (
            self.constant(self.listed(map(self.number, found)))
            for found in (node.knots, node.levels())
        )
        side = "left" if node.strict else "right"
        return self.lookup.format(x=self.write(node.x), knots=knots, values=values, side=side)


_PYTHON_HELPERS = {
    "_number": '''def _number(value):
    """Return a value as a float; None for none, empty text and NaN."""
    if value is None or value == "":
        return None
    value = float(value)
    return None if math.isnan(value) else value''',
    "_between": '''def _between(value, low, high):
    """Return a number that lies in a range, else None."""
    return value if value is not None and low <= value <= high else None''',
    "_item": '''def _item(values, place, size):
    """Return one number of a list, None if the list has another length."""
    if values is None or len(values) != size:
        return None
    return _number(values[place])''',
    "_single": '''def _single(value):
    """Return a number rounded to single precision."""
    return value if value is None else struct.unpack("f", struct.pack("f", value))[0]''',
    "_words": '''def _words(value):
    """Return a value as text: true, false, whole floats as integers."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)''',
    "place_of": inspect.getsource(place_of).rstrip(),
    "_draw": '''def _draw(seed, key):
    """Return the number in [0, 1) that decides the row with a key."""
    digest = hashlib.md5(f"{seed}:{key}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:13], 16) / 16**13''',
}


class Python(Module):
    """Bindings are local variables; conditions of several are in brackets."""

    kind = "a function of one row"
    function = '''def apply(row):
    """Return a row (a dictionary) with the columns of the model added.

    They are None where the row lacks a value that the model needs, or has one that the model
    does not take, as a probability outside [0, 1].
    """'''
    helpers: ClassVar = _PYTHON_HELPERS
    modules = ("bisect", "datetime", "hashlib", "math", "struct")
    signs: ClassVar = {"=": "==", "and": "and", "or": "or"}
    absent, each, whole = "{} is None", "{}", "({})"
    branch, link, choice = "{1} if {0}", " else ", "({} else {})"
    lookup = "{values}[bisect.bisect_{side}({knots}, {x})]"
    spellings: ClassVar = Module.spellings | {
        nodes.Missing: "None",
        nodes.Field: "_number({column})",
        nodes.Words: "_words({column})",
        nodes.Segment: "place_of({column}, {places}, {otherwise})",
        nodes.Rounded: "_single({value})",
        nodes.Exp: "math.exp({value})",
        nodes.Log: "math.log({value})",
        nodes.IsNan: "math.isnan({value})",
        nodes.Descending: "sorted([{values}], reverse=True)",
        nodes.Element: "{value}[{place}]",
    }

    def file(self, program: Program, about: str, table: str) -> str:
        self.program = program
        bound = [self._binding(name) for layer in program.layers() for name in layer]
        added = [
            f"        {self.text(name)}: {self.write(value)},"
            for name, value in program.outputs.items()
        ]
        return self.module(about, [*bound, "    return {", "        **row,", *added, "    }"])

    def _binding(self, name: str) -> str:
        """Return the line that computes a binding: None where one that it needs is None."""
        value, optional = self.program.bindings[name], self.program.optional
        code, parts = self.write(value), nodes.every_node(value)
        used = dict.fromkeys(part.name for part in parts if isinstance(part, nodes.Ref))
        lacks = " or ".join(f"{one} is None" for one in used if one not in optional)
        if lacks and not isinstance(value, nodes.Between):
            code = f"None if {lacks} else {code}"
        return f"    {name} = {code}"

    def write(self, node: nodes.Node) -> str:
        """Return an expression; comparisons are of what has a value, long lists are constants."""
        match node:
            case nodes.Compare(_, nodes.Ref(name), _) if name in self.program.optional:
                return f"({name} is not None and {super().write(node)})"
            case nodes.OneOf(value, texts):
                known = self.listed(map(self.text, texts))
                if len(texts) > self.most:
                    known = self.constant(f"frozenset({known})")
                return f"{self.write(value)} in {known}"
            case _:
                return super().write(node)

    def ref(self, name: str) -> str:
        return name

    def column(self, name: str) -> str:
        return f"row[{self.text(name)}]"


_POLARS_HELPERS = {
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
    "place_of": inspect.getsource(place_of).rstrip(),
    "_segment": '''def _segment(column, places, otherwise):
    """Return the places of segments."""
    def find(values):
        known = values.unique()
        found = [place_of(value, places, otherwise) for value in known.to_list()]
        return values.replace_strict(known, found, return_dtype=pl.Int64).cast(pl.Int64)
    return column.map_batches(find, return_dtype=pl.Int64)''',
    "_steps": '''def _steps(column, knots, values, side):
    """Return values[number of knots <= column], or < under side left."""
    def find(numbers):
        place = pl.Series(knots, dtype=pl.Float64).search_sorted(numbers.fill_null(0.0), side=side)
        return pl.Series(values, dtype=pl.Float64).gather(place)
    return column.cast(pl.Float64).map_batches(find, return_dtype=pl.Float64)''',
    "_draw": _PYTHON_HELPERS["_draw"],
    "_draws": '''def _draws(seed, keys):
    """Return the numbers in [0, 1) that decide the rows with some keys."""
    return keys.map_elements(lambda key: _draw(seed, key), return_dtype=pl.Float64)''',
}


class Polars(Module):
    """Every expression is one that methods can be called on."""

    kind = "polars expressions"
    function = '''def apply(frame):
    """Return a frame (also a lazy one) with the columns of the model added.

    They are null where a row lacks a value that the model needs, or has one that the model
    does not take, as a probability outside [0, 1].
    """'''
    helpers: ClassVar = _POLARS_HELPERS
    modules = ("datetime", "hashlib", "math")
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
        nodes.Segment: "_segment({column}, {places}, {otherwise})",
        nodes.OneOf: "{value}.is_in({texts})",
        nodes.Rounded: "{value}.cast(pl.Float32).cast(pl.Float64)",
        nodes.Exp: "{value}.exp()",
        nodes.Log: "{value}.log()",
        nodes.IsNan: "{value}.is_nan()",
        nodes.Descending: "pl.concat_list({values}).list.sort(descending=True)",
        nodes.Draw: "_draws({seed}, {key})",
        nodes.Element: "{value}.list.get({place})",
    }

    def file(self, program: Program, about: str, table: str) -> str:
        layers = [
            {PREFIX + name: program.bindings[name] for name in layer} for layer in program.layers()
        ]
        body: list[str] = []
        for columns in [*layers, program.outputs]:
            lines = [
                f"        {self.write(value)}.alias({self.text(name)}),"
                for name, value in columns.items()
            ]
            body += ["    frame = frame.with_columns(", *lines, "    )"] if lines else []
        hidden = self.listed(self.text(PREFIX + name) for name in program.bindings)
        return self.module(about, [*body, f"    return frame.drop({hidden})"])

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
        return f"pl.col({self.text(PREFIX + name)})"

    def column(self, name: str) -> str:
        """Return a column; `pl.col` would take some names for patterns."""
        plain = name.replace("_", "a").replace(" ", "a").isalnum()
        return f"{'pl.col' if plain else '_column'}({self.text(name)})"
