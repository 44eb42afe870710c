"""A page in a notebook: paragraphs and tables, without a style."""

from __future__ import annotations

from calibkit.models.page import Page, cell_text
from calibkit.reports.html import escaped, joined, paragraphs, tag


def html_of_page(page: Page) -> str:
    """Return a page as a piece of HTML."""
    shown = []
    for part in page.parts:
        if isinstance(part, str):
            shown.append(paragraphs([part] if part else []))
            continue
        lines = [joined(tag("th", escaped(name)) for name in part.header)]
        lines += [joined(tag("td", escaped(cell_text(cell))) for cell in row) for row in part.rows]
        title = tag("caption", escaped(part.title)) if part.title else None
        rows = joined(tag("tr", line) for line in lines)
        shown.append(tag("table", joined([title, rows] if title else [rows])))
    return joined(shown)
