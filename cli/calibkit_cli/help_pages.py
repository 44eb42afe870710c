"""The order in which ``--help`` tells things: what to do and on which columns, then how to run."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_command

from calibkit.options.shared import INPUT, OUTPUT, RUN, Seed, Threaded

from . import declare
from .lines import Budget, Voice

#: Panels that every command may have, after those of its own.
LAST = (OUTPUT, INPUT, RUN)

#: Choices that are for few: the command, a title, and each with its meaning, below all options.
ASIDE = {
    "boundary": (
        "The paper's methods (--method), for comparison and reruns",
        {
            "mist": "Isotonic regression in each level, then one cut on the fitted rate.",
            "gmt": "In each level on its own, the best threshold that meets the bound.",
            "vw-dpmt": "The optimum over a grid, by a table over the number of rows.",
            "vw-dpmt-mono": "The same, with never more bins in a more uncertain level.",
            "ew-dpmt": "As if all bins of the grid held equally many rows.",
            "ew-dpmt-mono": "The same, with never more bins in a more uncertain level.",
            "staircase": "Two numbers of bins: one up to some level, one from there on.",
        },
    )
}

_WRAPPED = re.compile(r"(?<=\S)\n(?=\S)")


class Page(TyperCommand):
    """A command whose panels stand in one order everywhere, and whose paragraphs fit the terminal."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params.sort(key=_place)
        self.help = _WRAPPED.sub(" ", self.help or "")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help, and what it has aside."""
        super().format_help(ctx, formatter)
        if self.name in ASIDE:
            _print_aside(*ASIDE[self.name])

    def get_help_option(self, ctx: Any) -> Any:
        """Put ``--help`` where one looks last."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.rich_help_panel = RUN
        return option

    def get_params(self, ctx: Any) -> list[Any]:
        """Take the options of every run too where they change nothing: one set suits a Makefile."""
        own = super().get_params(ctx)
        names = {name for param in own for name in param.opts}
        return own + [param for param in _of_every_run() if names.isdisjoint(param.opts)]


@dataclass(frozen=True, kw_only=True)
class EveryRun(Voice, Budget, Threaded):
    """What every run takes."""

    seed: Seed = 0


@functools.cache
def _of_every_run() -> tuple[Any, ...]:
    """Return the options of every run as ones that are read, checked and then left."""
    app = typer.Typer(add_completion=False)
    declare.add(app, "any", "", lambda given: None, EveryRun)
    params: list[Any] = get_command(app).params
    for param in params:
        param.hidden, param.expose_value, param.envvar = True, False, None
    return tuple(params)


def _place(param: Any) -> int:
    panel = getattr(param, "rich_help_panel", None)
    return 1 + LAST.index(panel) if panel in LAST else 0


def _print_aside(title: str, choices: dict[str, str]) -> None:
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table

    table = Table.grid(padding=(0, 2))
    for name, meaning in choices.items():
        table.add_row(f"[bold cyan]{name}[/]", meaning)
    Console().print(Panel(table, title=title, title_align="left", border_style="dim"))


def arrange(app: typer.Typer, purpose: Mapping[str, str]) -> None:
    """Make every command of an application a `Page`, listed under its purpose."""
    for command in app.registered_commands:
        command.cls = Page
        command.rich_help_panel = purpose.get(command.name or "")
    for group in app.registered_groups:
        group.rich_help_panel = purpose.get(group.name or "")
        if group.typer_instance is not None:
            arrange(group.typer_instance, {})
