"""A page of HTML from plain Python strings: everything that is shown goes through `escaped`.

A page is one file.  It has no script and loads nothing; its policy (CSP) forbids both, whatever a
column may be called.  What is a string of HTML has the type `Markup`, which type checks tell from text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import NewType

Markup = NewType("Markup", str)

NOTHING = Markup("")

#: What HTML has no way to write, or what would not be seen.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

#: The only template: what every page has around its content, and how it looks.
_PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Span:
    """A value with its interval: a table shows them in one cell."""

    value: float | None
    low: float | None
    high: float | None
    signed: bool = False


#: What a cell may hold.
Cell = str | int | float | Span | None


@dataclass(frozen=True)
class Table:
    """A table; the first cell of each row is its heading.

    Attributes
    ----------
    caption
        What it shows, for people who hear the page as well.
    header, rows
        Names of the columns, and as many cells in each row.
    codes
        Columns (by place) that hold names as typed, shown in the typeface of code.
    """

    caption: str
    header: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    codes: tuple[int, ...] = (0,)


def escaped(value: object) -> Markup:
    """Return text as HTML that shows it, inside a tag and inside an attribute."""
    return Markup(html.escape(_UNWRITABLE.sub("\ufffd", str(value)), quote=True))


def breakable(content: Markup) -> Markup:
    """Return text that may go on in the next line after an underscore."""
    return Markup(content.replace("_", "_<wbr>"))


def tag(name: str, content: Markup = NOTHING, **attributes: str) -> Markup:
    """Return an element; attributes are escaped, and ``class_`` and ``aria_label`` find their names."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{shown}>{content}</{name}>")


def joined(parts: Iterable[Markup]) -> Markup:
    """Return pieces one after the other, a line each."""
    return Markup("\n".join(part for part in parts if part))


def paragraphs(lines: Iterable[str], **attributes: str) -> Markup:
    """Return a paragraph for each line of text."""
    return joined(tag("p", escaped(line), **attributes) for line in lines)


def number(value: float | None, *, signed: bool = False) -> str:
    """Return a number with four significant digits, whole ones in full; a dash for null."""
    if value is None:
        return "–"
    text = f"{value:,}" if isinstance(value, int) else f"{float(f'{value:.4g}'):,.6g}"
    text = f"+{text}" if signed and value > 0 else text
    return text.replace("-", "−")


def cell_text(cell: Cell) -> Markup:
    """Return what stands in a cell."""
    if isinstance(cell, Span):
        shown = escaped(number(cell.value, signed=cell.signed))
        if cell.low is None or cell.high is None:
            return shown
        ends = escaped(f"{number(cell.low)} to {number(cell.high)}")
        return Markup(f"{shown} {tag('span', ends, class_='interval')}")
    if cell is None or isinstance(cell, int | float):
        return escaped(number(cell) if not isinstance(cell, bool) else "yes" if cell else "no")
    return escaped(cell)


def table(content: Table) -> Markup:
    """Return a table in a box of its own, which scrolls sideways where the page is narrow."""
    places = range(len(content.header))
    right = [
        place > 0 and all(not isinstance(row[place], str | bool) for row in content.rows)
        for place in places
    ]
    head = Markup(
        "".join(
            tag("th", escaped(name), scope="col", **_aligned(numeric))
            for name, numeric in zip(content.header, right, strict=True)
        )
    )
    lines = [tag("tr", _cells(row, right, content.codes)) for row in content.rows]
    caption = tag("caption", escaped(content.caption))
    inside = joined([caption, tag("thead", tag("tr", head)), tag("tbody", joined(lines))])
    box = {"class_": "wide", "role": "region", "aria_label": content.caption, "tabindex": "0"}
    return tag("div", tag("table", inside), **box)


def _cells(row: Sequence[Cell], right: Sequence[bool], codes: tuple[int, ...]) -> Markup:
    shown = []
    for place, cell in enumerate(row):
        content = cell_text(cell)
        if place in codes and isinstance(cell, str):
            content = tag("code", breakable(content))
        if place == 0:
            shown.append(tag("th", content, scope="row"))
        else:
            shown.append(tag("td", content, **_aligned(right[place])))
    return Markup("".join(shown))


def _aligned(right: bool) -> dict[str, str]:
    return {"class_": "number"} if right else {}


def section(heading: str, *parts: Markup, level: int = 2) -> Markup:
    """Return a part of the page with its heading; nothing where there is nothing in it."""
    content = joined(parts)
    whole = joined([tag(f"h{level}", escaped(heading)), content])
    return tag("section", whole) if content else NOTHING


def folded(summary: str, *parts: Markup) -> Markup:
    """Return a part that opens at a click; nothing where there is nothing in it."""
    content = joined(parts)
    return (
        tag("details", joined([tag("summary", escaped(summary)), content])) if content else NOTHING
    )


def figure(drawing: Markup, caption: str) -> Markup:
    """Return a picture with the words under it."""
    return tag("figure", joined([drawing, tag("figcaption", escaped(caption))]))


def page(title: str, *parts: Markup) -> bytes:
    """Return a whole page, in UTF-8."""
    return _PAGE.substitute(
        policy=escaped(_POLICY), title=escaped(title), content=joined(parts)
    ).encode()
