"""What programs in Python and in polars share: a module with one function, and constants before it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from calibkit.exports.printer import Printer
from calibkit.expressions import nodes

_FUNCTION = '''def apply({argument}):
    """Return {what} with the columns of the model added.

    They are {nothing} row lacks a value that the model needs, or has one that the model
    does not take, as a probability outside [0, 1].
    """'''


class Module(Printer):
    """Writes modules; names of columns are texts in them.

    Attributes
    ----------
    about
        What the function is, its argument, what it returns and what stands for no value.
    helpers
        What the function calls, each written only where it is used, before those that call it.
    modules, imports
        What may be imported of the standard library, and lines that are there anyway.
    lookup
        A value of a table.
    """

    about: ClassVar[dict[str, str]]
    helpers: ClassVar[dict[str, str]]
    modules: ClassVar[tuple[str, ...]]
    imports: ClassVar[tuple[str, ...]] = ()
    lookup: ClassVar[str]
    most = longest = 4
    spellings: ClassVar = Printer.spellings | {
        nodes.Item: "_item({column}, {place}, {size})",
        nodes.WholeWords: "_words({column})",
        nodes.Draw: "_draw({seed}, {key})",
        nodes.Between: "_between({value}, {low}, {high})",
    }

    def __init__(self) -> None:
        self.constants: dict[str, str] = {}

    def module(self, about: str, body: list[str]) -> str:
        """Return the text of a module; `body`: the lines of the function."""
        helpers: list[str] = []
        called = "\n".join(body)
        for name, code in reversed(self.helpers.items()):
            if f"{name}(" in called:
                helpers.insert(0, code)
                called += code
        function = "\n".join([_FUNCTION.format(**self.about), *body])
        constants = "\n".join(f"{name} = {text}" for text, name in self.constants.items())
        code = "\n".join([constants, *helpers, function])
        imports = "\n".join(f"import {name}" for name in self.modules if f"{name}." in code)
        top = [f'"""{about}, as {self.about["kind"]}."""', imports, *self.imports, constants]
        return "\n\n\n".join(["\n\n".join(filter(None, top)), *helpers, function]) + "\n"

    def constant(self, text: str) -> str:
        """Return the name of a constant with this text."""
        return self.constants.setdefault(text, f"_C{len(self.constants) + 1}")

    def number(self, value: float) -> str:
        """Return a float as Python writes it."""
        found = repr(float(value))
        return {"nan": "math.nan", "inf": "math.inf", "-inf": "(-math.inf)"}.get(found, found)

    def text(self, value: str) -> str:
        """Return a text as Python writes it, in ASCII and free of line ends."""
        return ascii(str(value))

    def listed(self, parts: Iterable[str]) -> str:
        """Return a tuple."""
        return f"({''.join(f'{part}, ' for part in parts)})"

    def table(self, node: nodes.Steps) -> str:
        """Return a long step function."""
        knots, values = (
            self.constant(self.listed(map(self.number, found)))
            for found in (node.knots, node.levels())
        )
        side = "left" if node.strict else "right"
        return self.lookup.format(x=self.write(node.x), knots=knots, values=values, side=side)
