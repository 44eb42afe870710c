"""What the library's views say, on a console."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calibkit import views
from calibkit.views.page import Page

if TYPE_CHECKING:
    from calibkit_cli.console import Console

View = Callable[[Any, "Console"], None]


def lines_of(model: Any) -> list[str]:
    """Return the summary of a model."""
    found: list[str] = views.views()[model.kind].lines(model)
    return found


def printed(view: Callable[[Any, Page], None]) -> View:
    """Return a view that prints: on a terminal one screen, unless all was asked for."""

    def show(result: Any, console: Console) -> None:
        width = shutil.get_terminal_size().columns
        page = Page(short=console.on_terminal, everything=console.everything, width=width)
        view(result, page)
        for part in page.parts:
            if isinstance(part, str):
                console.say(part)
            else:
                console.table(part.header, part.rows, title=part.title)

    return show


def view_of(kind: str) -> View:
    """Return the view of a kind of model, which prints it."""
    return printed(views.view_of(kind))
