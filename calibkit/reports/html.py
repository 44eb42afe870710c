"""A page of HTML from plain Python strings: everything that is shown goes through `escaped`.

A page is one file.  It has no script and loads nothing; its policy (CSP) forbids both, whatever a
column may be called.  What is a string of HTML has the type `Markup`, which type checks tell from text.
"""

from __future__ import annotations

import html
import re
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from string import Template
from typing import TYPE_CHECKING

from msgspec import Struct

from calibkit.models.page import Page, Table
from calibkit.models.page import cell_text as plain_text

if TYPE_CHECKING:
    import polars as pl


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


def figure(drawing: Markup, caption: str) -> Markup:
    """Return a picture with the words under it."""
    return tag("figure", joined([drawing, tag("figcaption", caption)]))


def page(title: str, *parts: Markup) -> bytes:
    """Return a whole page, in UTF-8."""
    shown = {"policy": escaped(_POLICY), "title": escaped(title), "content": joined(parts)}
    return _PAGE.substitute(shown).encode()


#: Side of the square of a reliability diagram, its margins, and the height of its histogram.
_SIDE, _LEFT, _TOP, _COUNTS = 280.0, 58.0, 8.0, 46.0

#: Of a picture of slices: the height of a line, the widths of names and of the scale.
_LINE, _NAMES, _SCALE = 22.0, 180.0, 240.0

#: Shares that an axis names.
_TICKS = (0.0, 0.25, 0.5, 0.75, 1.0)

#: Slices that one picture shows at most.
MOST_SLICES = 40

_LONGEST_NAME = 22


def _scale(low: float, high: float, start: float, end: float) -> Callable[[float], float]:
    """Return what lays a stretch of numbers over a stretch of the picture."""
    return lambda value: start + (value - low) / (high - low) * (end - start)


def reliability(curve: pl.DataFrame) -> Markup:
    """Return the reliability diagram of one score in one slice, nothing where it has no rows.

    Bins are dots with their intervals, isotonic regression (CORP) is a line, and the number of rows
    of each bin stands below.  `curve` has the columns of `calibkit.measures.reliability.SCHEMA`.
    """
    bins = curve.filter((curve["curve"] == "bins") & (curve["count"] > 0)).to_dicts()
    if not bins:
        return NOTHING
    right, bottom = _LEFT + _SIDE, _TOP + _SIDE
    x, y = _scale(0.0, 1.0, _LEFT, right), _scale(0.0, 1.0, bottom, _TOP)
    middle = (bottom + _TOP) / 2
    sides = {"x": _LEFT, "y": _TOP, "width": _SIDE, "height": _SIDE}
    turned = {"transform": f"rotate(-90 12 {middle:g})"}
    parts = [
        _shape("rect", class_="axis", **{name: f"{side:g}" for name, side in sides.items()}),
        _line("ideal", (_LEFT, bottom), (right, _TOP)),
        *(_text(f"{share:g}", _LEFT - 6, y(share) + 4, "end") for share in _TICKS),
        _text("share of positive rows", 12, middle, "middle", **turned),
    ]
    # A bar a bin below the diagram, of the bin's width and as high as its rows are many.
    floor, most = bottom + 14 + _COUNTS, max(one["count"] for one in bins)
    for one in bins:
        start, end = (x(min(max(one[end], 0.0), 1.0)) for end in ("score_low", "score_high"))
        high, wide = _COUNTS * one["count"] / most, max(end - start - 1.0, 1.0)
        parts.append(_shape("rect", class_="bar", x=start, y=floor - high, width=wide, height=high))
    parts += [
        _line("axis", (_LEFT, floor), (right, floor)),
        *(_text(f"{share:g}", x(share), floor + 15, "middle") for share in _TICKS),
        _text("rows", _LEFT - 6, floor - _COUNTS / 2 + 4, "end"),
        _text("score", (_LEFT + right) / 2, floor + 30, "middle"),
    ]
    points = [
        f"{x(pool[end]):.1f},{y(pool['mean_label']):.1f}"
        for pool in curve.filter(curve["curve"] == "corp").to_dicts()
        for end in ("score_low", "score_high")
    ]
    parts.append(_shape("polyline", class_="curve", points=" ".join(points)))
    for one in bins:
        across, up = x(one["mean_score"]), y(one["mean_label"])
        if one["low"] is not None:
            parts.append(_line("whisker", (across, y(one["low"])), (across, y(one["high"]))))
        parts.append(_shape("circle", class_="mark", cx=across, cy=up, r="3.5"))
    words = (
        f"{number(one['mean_score'])} came true {number(one['mean_label'])} of the time"
        for one in bins
    )
    alt = "Reliability diagram. Scores around " + "; ".join(words) + "."
    return _drawing(right + 12, bottom + 22 + _COUNTS + 34, alt, parts)


def slices(metric: str, values: Sequence[tuple[str, Span]]) -> Markup:
    """Return a metric with its interval, a line a slice; nothing for fewer than two values."""
    shown = [(name, one.value, one) for name, one in values if one.value is not None][:MOST_SLICES]
    if len(shown) < 2:
        return NOTHING
    ends = [end for _, value, one in shown for end in (value, one.low, one.high) if end is not None]
    low, high = min(ends), max(ends)
    slack = (high - low) * 0.05 or abs(low) * 0.05 or 1.0
    x = _scale(low - slack, high + slack, _NAMES, _NAMES + _SCALE)
    bottom = _LINE * len(shown) + 6
    parts = [_line("ideal", (x(shown[0][1]), 2), (x(shown[0][1]), bottom))]
    for place, (name, value, span) in enumerate(shown):
        y = _LINE * (place + 0.5) + 4
        parts.append(_text(_short(name), _NAMES - 8, y + 4, "end"))
        if span.low is not None and span.high is not None:
            parts.append(_line("whisker", (x(span.low), y), (x(span.high), y)))
        parts.append(_shape("circle", class_="mark", cx=x(value), cy=y, r="4"))
    parts.append(_line("axis", (_NAMES, bottom), (_NAMES + _SCALE, bottom)))
    for end in dict.fromkeys((low, high)):
        parts.append(_text(number(end), x(end), bottom + 16, "middle"))
    words = "; ".join(f"{name} {number(value)}" for name, value, _ in shown)
    return _drawing(_NAMES + _SCALE + 24, bottom + 24, f"{metric} by slice: {words}.", parts)


def _short(name: str) -> str:
    """Return as much of a name as has room; wide characters count as two."""
    room = _LONGEST_NAME
    for place, character in enumerate(name):
        room -= 2 if unicodedata.east_asian_width(character) in "WF" else 1
        if room < 0:
            return f"{name[: place - 1]}…"
    return name


def _drawing(width: float, height: float, alt: str, parts: Sequence[Markup]) -> Markup:
    sides = {"width": f"{width:g}", "height": f"{height:g}"}
    box = f"0 0 {sides['width']} {sides['height']}"
    return tag("svg", joined(parts), viewBox=box, **sides, role="img", aria_label=alt)


def _shape(name: str, *content: str, **attributes: float | str) -> Markup:
    """Return an element of a drawing, numbers to a tenth."""
    shown = {key: one if isinstance(one, str) else f"{one:.1f}" for key, one in attributes.items()}
    return tag(name, *content, **shown)


def _line(kind: str, start: tuple[float, float], end: tuple[float, float]) -> Markup:
    return _shape("line", class_=kind, x1=start[0], y1=start[1], x2=end[0], y2=end[1])


def _text(words: str, x: float, y: float, anchor: str, **more: str) -> Markup:
    return _shape("text", words, x=x, y=y, text_anchor=anchor, **more)
