"""A page of HTML from plain Python strings: everything that is shown goes through `escaped`.

A page is one file.  It has no script and loads nothing; its policy (CSP) forbids both, whatever a
column may be called.  What is a string of HTML has the type `Markup`, which type checks tell from text.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterable
from pathlib import Path
from string import Template

from msgspec import Struct

from calibkit.models.page import Page, Table
from calibkit.models.page import cell_text as plain_text


class Markup(str):
    """A string of HTML."""

    __slots__ = ()


NOTHING = Markup("")

#: What HTML has no way to write, or what would not be seen.
_UNWRITABLE = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\ud800-\udfff\ufffe\uffff]")

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"

#: The only template: what every page has around its content, and how it looks.
_PAGE = Template(Path(__file__).with_name("page.html").read_text(encoding="utf-8"))


class Span(Struct, frozen=True):
    """A value with its interval: a table shows them in one cell."""

    value: float | None
    low: float | None
    high: float | None
    signed: bool = False

    @property
    def ends(self) -> str:
        """Its interval in words."""
        return f"{number(self.low)} to {number(self.high)}"


def escaped(value: object) -> Markup:
    """Return text as HTML that shows it, inside a tag and inside an attribute; HTML as it is."""
    if isinstance(value, Markup):
        return value
    return Markup(html.escape(_UNWRITABLE.sub("\ufffd", str(value)), quote=True))


def tag(name: str, *content: object, **attributes: str) -> Markup:
    """Return an element, with what is not HTML escaped; ``class_``, ``aria_label`` find their names."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
    )
    return Markup(f"<{name}{shown}>{''.join(map(escaped, content))}</{name}>")


def joined(parts: Iterable[object]) -> Markup:
    """Return pieces one after the other, a line each; what is not HTML is escaped."""
    return Markup("\n".join(escaped(part) for part in parts if part))


def paragraphs(lines: Iterable[str], **attributes: str) -> Markup:
    """Return a paragraph for each line of text, which breaks before no ``%``."""
    return joined(tag("p", line.replace(" %", "\u00a0%"), **attributes) for line in lines)


def number(value: float | None, *, signed: bool = False) -> str:
    """Return a number with four significant digits, whole ones in full; a dash for null."""
    if value is None:
        return "–"
    text = f"{value:,}" if isinstance(value, int) else f"{float(f'{value:.4g}'):,.6g}"
    text = f"+{text}" if signed and value > 0 else text
    return text.replace("-", "−")


def cell_text(cell: object) -> Markup:
    """Return what stands in a cell."""
    if isinstance(cell, Span):
        shown = escaped(number(cell.value, signed=cell.signed))
        if cell.low is None or cell.high is None:
            return shown
        return Markup(f"{shown} {tag('span', cell.ends, class_='interval')}")
    return escaped(number(cell) if cell is None or isinstance(cell, int | float) else cell)


def table(content: Table) -> Markup:
    """Return a table in a box of its own, which scrolls sideways where the page is narrow.

    The first cell of each row is its heading.  Without a title it has no caption.
    """
    looks = [
        {"class_": "number"}
        if place and all(isinstance(row[place], int | float | Span | None) for row in content.rows)
        else {}
        for place in range(len(content.header))
    ]
    names = zip(content.header, looks, strict=True)
    head = [tag("th", name, scope="col", **look) for name, look in names]
    lines = []
    for row in content.rows:
        shown = []
        for place, (cell, look) in enumerate(zip(row, looks, strict=True)):
            inner = cell_text(cell)
            if place in content.codes and isinstance(cell, str):  # names break after an underscore
                inner = tag("code", Markup(inner.replace("_", "_<wbr>")))
            shown.append(tag("td", inner, **look) if place else tag("th", inner, scope="row"))
        lines.append(tag("tr", *shown))
    first, *others = content.header
    title = content.title or f"{first or 'figures'}: {', '.join(others)}"
    caption = tag("caption", content.title) if content.title else NOTHING
    heading = [caption, tag("thead", tag("tr", *head))]
    inside = joined([*heading, tag("tbody", joined(lines))])
    box = {"class_": "wide", "role": "region", "aria_label": title, "tabindex": "0"}
    return tag("div", tag("table", inside), **box)


def plain(page: Page) -> Markup:
    """Return a page as a piece of HTML, paragraphs and tables without a style: for a notebook."""
    shown = []
    for part in page.parts:
        if isinstance(part, str):
            shown.append(paragraphs([part] if part else []))
            continue
        lines = [joined(tag("th", name) for name in part.header)]
        lines += [joined(tag("td", plain_text(cell)) for cell in row) for row in part.rows]
        title = tag("caption", part.title) if part.title else NOTHING
        shown.append(tag("table", joined([title, joined(tag("tr", line) for line in lines)])))
    return joined(shown)


def section(heading: str, *parts: Markup) -> Markup:
    """Return a part of the page with its heading; nothing where there is nothing in it."""
    content = joined(parts)
    return tag("section", joined([tag("h2", heading), content])) if content else NOTHING


def folding(main: Table, summary: str, rest: Table) -> Markup:
    """Return a table, and one that opens at a click where it has rows."""
    inside = joined([tag("summary", summary), table(rest)])
    return joined([table(main), tag("details", inside) if rest.rows else NOTHING])


def page(title: str, *parts: Markup) -> bytes:
    """Return a whole page, in UTF-8."""
    shown = {"policy": escaped(_POLICY), "title": escaped(title), "content": joined(parts)}
    return _PAGE.substitute(shown).encode()
