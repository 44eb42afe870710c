"""Plain Python: a module with one function of one row, which imports the standard library alone."""

from __future__ import annotations

from typing import ClassVar

from calibkit.exports.code import Module
from calibkit.expressions import nodes
from calibkit.expressions.program import Program, layers

_HELPERS = {
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
    return struct.unpack("f", struct.pack("f", value))[0]''',
    "_words": '''def _words(value):
    """Return a value as text: true, false, whole floats as integers."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)''',
    "_draw": '''def _draw(seed, key):
    """Return the number in [0, 1) that decides the row with a key."""
    digest = hashlib.md5(f"{seed}:{key}".encode(), usedforsecurity=False).hexdigest()
    return int(digest[:13], 16) / 16**13''',
}


class Python(Module):
    """Bindings are local variables; conditions of several are in brackets."""

    about: ClassVar = {
        "kind": "a function of one row",
        "argument": "row",
        "what": "a row (a dictionary)",
        "nothing": "None where the",
    }
    helpers: ClassVar = _HELPERS
    modules = ("bisect", "hashlib", "math", "struct")
    signs: ClassVar = {"=": "==", "and": "and", "or": "or"}
    absent, each, whole = "{} is None", "{}", "({})"
    branch, link, choice = "{1} if {0}", " else ", "({} else {})"
    lookup = "{values}[bisect.bisect_{side}({knots}, {x})]"
    spellings: ClassVar = Module.spellings | {
        nodes.Missing: "None",
        nodes.Field: "_number({column})",
        nodes.Words: "_words({column})",
        nodes.Rounded: "_single({value})",
        nodes.Exp: "math.exp({value})",
        nodes.Log: "math.log({value})",
        nodes.IsNan: "math.isnan({value})",
        nodes.Descending: "sorted([{values}], reverse=True)",
        nodes.Element: "{value}[{place}]",
    }

    def file(self, program: Program, about: str, table: str) -> str:
        """Return a module with the function ``apply``."""
        self.program = program
        body = [self.binding(name) for layer in layers(program.bindings) for name in layer]
        body += ["    return {", "        **row,"]
        body += [
            f"        {self.text(name)}: {self.write(value)},"
            for name, value in program.outputs.items()
        ]
        return self.module(about, [*body, "    }"])

    def binding(self, name: str) -> str:
        """Return the line that computes a binding: None where one that it needs is None."""
        value = self.program.bindings[name]
        used = {part.name: None for part in nodes.every_node(value) if isinstance(part, nodes.Ref)}
        needed = [used_name for used_name in used if used_name not in self.program.optional]
        code = self.write(value)
        if needed and not isinstance(value, nodes.Between):
            lacks = " or ".join(f"{one} is None" for one in needed)
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
            case nodes.Code(value, texts):
                places = ", ".join(f"{self.text(one)}: {place}" for place, one in enumerate(texts))
                return f"{self.constant(f'{{{places}}}')}.get({self.write(value)}, {len(texts)})"
            case _:
                return super().write(node)

    def ref(self, name: str) -> str:
        """Return the variable of a binding."""
        return name

    def column(self, name: str) -> str:
        """Return the value of a column."""
        return f"row[{self.text(name)}]"
