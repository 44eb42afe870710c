"""Plain Python: a module with one function of one row, which imports the standard library alone."""

from __future__ import annotations

from calibkit.exports import nodes
from calibkit.exports.code import FLAT, Constants, halves, number, table, text, texts
from calibkit.exports.program import Program

#: What the function calls, each written only where it is used.
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
_NEEDS = {"_item": ("_number",)}
_MODULES = ("bisect", "hashlib", "math", "struct")


def write(program: Program, about: str) -> str:
    """Return the text of a module with the function ``apply``."""
    writer = _Writer(program)
    body = [writer.binding(name) for name in _in_order(program)]
    added = [
        f"        {text(name)}: {writer.write(value)}," for name, value in program.outputs.items()
    ]
    called = "\n".join([*body, *added])
    helpers = [name for name in _HELPERS if f"{name}(" in called]
    helpers = [
        *dict.fromkeys([*(need for name in helpers for need in _NEEDS.get(name, ())), *helpers])
    ]
    parts = [_HELPERS[name] for name in helpers]
    function = [
        "def apply(row):",
        '    """Return a row (a dictionary) with the columns of the model added.',
        "",
        "    They are None where the row lacks a value that the model needs, or has one that the model",
        "    does not take, as a probability outside [0, 1].",
        '    """',
        *body,
        "    return {",
        "        **row,",
        *added,
        "    }",
    ]
    code = "\n".join([*writer.constants.lines, *parts, *function])
    imports = [f"import {name}" for name in _MODULES if f"{name}." in code]
    head = f'"""{about}, as a function of one row."""'
    blocks = [head, "\n".join(imports), "\n".join(writer.constants.lines)]
    top = "\n\n".join(block for block in blocks if block)
    return "\n\n\n".join([top, *parts, "\n".join(function)]) + "\n"


def _in_order(program: Program) -> list[str]:
    from calibkit.exports.program import layers

    return [name for layer in layers(program.bindings) for name in layer]


class _Writer:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.constants = Constants()

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
        """Return an expression, in brackets or a single term."""
        match node:
            case nodes.Number(value):
                return number(value)
            case nodes.Whole(value, _):
                return str(int(value))
            case nodes.Text(value):
                return text(value)
            case nodes.Missing():
                return "None"
            case nodes.Ref(name):
                return name
            case nodes.Field(column):
                return f"_number(row[{text(column)}])"
            case nodes.Item(column, place, size):
                return f"_item(row[{text(column)}], {place}, {size})"
            case nodes.Words(column, _):
                return f"_words(row[{text(column)}])"
            case nodes.Draw(key, seed):
                return f"_draw({int(seed)}, {self.write(key)})"
            case nodes.Case(branches, otherwise):
                found = [
                    f"{self.write(value)} if {self.condition(test)}" for test, value in branches
                ]
                return f"({' else '.join([*found, self.write(otherwise)])})"
            case nodes.Steps():
                return self._steps(node)
            case _:
                return self._arithmetic(node)

    def _arithmetic(self, node: nodes.Node) -> str:
        match node:
            case nodes.Between(value, low, high):
                return f"_between({self.write(value)}, {number(low)}, {number(high)})"
            case nodes.Rounded(value):
                return f"_single({self.write(value)})"
            case nodes.Tame(value, _, _):
                return self.write(value)
            case nodes.Binary(sign, left, right):
                return f"({self.write(left)} {sign} {self.write(right)})"
            case nodes.Exp(value):
                return f"math.exp({self.write(value)})"
            case nodes.Log(value):
                return f"math.log({self.write(value)})"
            case nodes.Code(value, names):
                places = ", ".join(f"{text(name)}: {place}" for place, name in enumerate(names))
                table_name = self.constants.named(f"{{{places}}}")
                return f"{table_name}.get({self.write(value)}, {len(names)})"
            case nodes.Falling(values):
                return f"sorted([{', '.join(map(self.write, values))}], reverse=True)"
            case nodes.Place(value, place):
                return f"{self.write(value)}[{place}]"
            case _:
                return f"({self.condition(node)})"

    def condition(self, node: nodes.Node) -> str:
        """Return a condition, in brackets where it is no single comparison."""
        match node:
            case nodes.Compare(sign, left, right):
                sign = "==" if sign == "=" else sign
                code = f"{self.write(left)} {sign} {self.write(right)}"
                if isinstance(left, nodes.Ref) and left.name in self.program.optional:
                    code = f"({left.name} is not None and {code})"
                return code
            case nodes.IsNever(value):
                return f"math.isnan({self.write(value)})"
            case nodes.Lacks(names):
                return f"({' or '.join(f'{name} is None' for name in names)})"
            case nodes.OneOf(value, names):
                listed = texts(names)
                return (
                    f"{self.write(value)} in {listed if len(names) <= FLAT else self._set(listed)}"
                )
            case nodes.Every(conditions):
                return f"({' and '.join(map(self.condition, conditions))})"
            case nodes.Some(conditions):
                return f"({' or '.join(map(self.condition, conditions))})"
            case _:
                raise TypeError(f"no Python for {type(node).__name__}")

    def _set(self, listed: str) -> str:
        return self.constants.named(f"frozenset({listed})")

    def _steps(self, node: nodes.Steps) -> str:
        x, below = self.write(node.x), "<=" if node.strict else "<"
        if len(node.knots) <= FLAT:
            pairs = zip(node.knots, node.values, strict=False)
            found = [f"{self.write(value)} if {x} {below} {number(knot)}" for knot, value in pairs]
            return f"({' else '.join([*found, self.write(node.values[-1])])})"
        if node.is_table:
            knots, values = self.constants.floats(node.knots), self.constants.floats(table(node))
            side = "left" if node.strict else "right"
            return f"{values}[bisect.bisect_{side}({knots}, {x})]"
        knot, low, high = halves(node)
        return f"({self.write(low)} if {x} {below} {number(knot)} else {self.write(high)})"
