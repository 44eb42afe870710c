"""What a person reads of a result: lines and tables, which a console, a notebook or a page shows."""

from __future__ import annotations

import re
from collections.abc import Sequence

from msgspec import Struct

#: Control characters but line feed and tab, and those that turn the direction of what follows.
_COMMANDS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


class Table(Struct, frozen=True):
    """A table."""

    header: Sequence[str]
    rows: Sequence[Sequence[object]]  # of cells: text, numbers, booleans or None
    title: str | None = None  # what it shows
    codes: tuple[int, ...] = ()  # columns of names as typed, which HTML shows as code


class Page(Struct):
    """What a view says of a result, in its order."""

    short: bool = False  # only as much as one screen has room for, `width` characters wide
    everything: bool = False  # all there is, in tables too that are cut elsewhere
    width: int = 80
    parts: list[str | Table] = []  # empty lines part paragraphs

    def say(self, *lines: str) -> None:
        """Add lines."""
        self.parts += lines

    def table(
        self, header: Sequence[str], rows: Sequence[Sequence[object]], *, title: str | None = None
    ) -> None:
        """Add a table."""
        self.parts.append(Table(header, rows, title))

    def first(
        self, most: int, header: Sequence[str], rows: Sequence[Sequence[object]], rest: str = "more"
    ) -> None:
        """Add a table of the first `most` rows of a short page, and say how many more there are."""
        most = self.shown(len(rows), most)
        self.table(header, rows[:most])
        if len(rows) > most:
            self.say(f"… {len(rows) - most} {rest}.")

    def some(
        self, most: int, header: Sequence[str], rows: Sequence[Sequence[object]], what: str
    ) -> None:
        """Add a table after an empty line: of a short page `most` rows, from the first to the last."""
        some = spread(rows, self.shown(len(rows), most))
        self.say("")
        self.table(header, some)
        if len(some) < len(rows):
            self.say(f"Some of {len(rows):,} {what}; --all shows more.")

    def shown(self, count: int, most: int) -> int:
        """Return how many of `count` lines there is room for: on a short page `most`."""
        return min(count, most) if self.short and not self.everything else count

    def text(self) -> str:
        """Return the page as plain text."""
        return "\n".join(
            printable(part) if isinstance(part, str) else table_text(part) for part in self.parts
        )


def spread(table: Sequence[Sequence[object]], most: int) -> Sequence[Sequence[object]]:
    """Return at most so many lines of a table: the first, the last and some between."""
    if len(table) <= most:
        return table
    return [table[place * (len(table) - 1) // (most - 1)] for place in range(most)]


def printable(text: str) -> str:
    r"""Return text with control characters as escapes such as ``\x1b``.

    A name from a file or a model must not command the terminal.
    """
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def cell_text(value: object) -> str:
    """Return a table cell: '-' for null, six significant digits for a float."""
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.6g}"
    if isinstance(value, int):
        return f"{value:,}"
    return printable(str(value))


def table_text(table: Table) -> str:
    """Return a table as text: columns two blanks apart, numbers right, a rule under the header."""
    cells = [[cell_text(cell) for cell in row] for row in table.rows]
    right = [numeric([row[place] for row in table.rows]) for place in range(len(table.header))]
    columns = list(zip(table.header, *cells, strict=True))
    widths = [max(map(len, column)) for column in columns]

    def line(row: Sequence[str]) -> str:
        parts = [
            text.rjust(width) if on_right else text.ljust(width)
            for text, width, on_right in zip(row, widths, right, strict=True)
        ]
        return "  ".join(parts).rstrip()

    rule = "  ".join("-" * width for width in widths)
    lines = [line(table.header), rule, *(line(row) for row in cells)]
    return printable("\n".join([table.title, *lines] if table.title else lines))


def some_of(names: Sequence[str], most: int) -> str:
    """Return the first names of a list, and how many more there are."""
    more = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + more


def numeric(values: Sequence[object]) -> bool:
    """Tell whether a column holds numbers, perhaps with gaps."""
    present = [value for value in values if value is not None]
    return bool(present) and all(
        isinstance(value, int | float) and not isinstance(value, bool) for value in present
    )
