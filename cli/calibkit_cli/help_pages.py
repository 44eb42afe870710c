"""The order in which ``--help`` tells things: what to do and on which columns, then how to run."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from copy import copy
from typing import Any, cast

import typer
from typer import core
from typer.core import TyperCommand
from typer.main import get_command

from calibkit.options.option import COLUMNS
from calibkit.options.shared import INPUT, OUTPUT, RUN, Seeded, of_run

from . import declare
from .lines import Budget, Talk

#: Panels that every command may have, after those of its own.
LAST = (OUTPUT, INPUT, RUN)

#: Options for few, wherever they are, beside those of input and run.
FEW = (
    *("provenance", "tags", "partial", "output_format", "unlabelled", "weight_kind"),
    *("size", "width", "height", "dark"),
)

#: What everybody needs of a command with so many options that others have to wait.
EVERYDAY = {
    "boundary": "inputs score label uncertainty precision recall fpr capacity maximize minimize method "
    "confidence test by output",
    "calibrate": "inputs score label probs counts scale weight method by apply output as_json",
    "hetcal": "inputs features score label scale weight groups time train partition map output as_json",
    "evaluate": "inputs scores label scale weight by boundary decision threshold metrics confidence "
    "report output as_json fail_if",
}

#: Where a context keeps that all options are asked for.
_ALL = "calibkit.help-all"

_WRAPPED = re.compile(r"(?<=\S)\n(?=\S)")


class Page(TyperCommand):
    """A command whose panels stand in one order everywhere, and whose paragraphs fit the terminal."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        self.params.sort(key=_place)
        self.help = _WRAPPED.sub(" ", self.help or "")

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help: what everybody needs, or all there is."""
        page: Any = copy(self)
        page.params = [copy(param) for param in self.params]
        shown = [param for param in page.params if not param.hidden]
        rare = [] if ctx.meta.get(_ALL) else [param for param in shown if self._is_rare(param)]
        if rare:
            # Without most examples, defaults that are told in words, and a panel of the output.
            before, title, examples = page.help.partition("Examples:")
            if title:
                some = [one for one in examples.split("\n\n") if one.strip()][:1]
                page.help = "\n\n".join([before + title, *some])
            for param in shown:
                param.hidden = param in rare
                if isinstance(getattr(param, "show_default", None), str):
                    param.show_default = False
                if getattr(param, "rich_help_panel", None) == OUTPUT:
                    param.rich_help_panel = RUN
        declare.load_printer()
        TyperCommand.format_help(page, ctx, formatter)
        if rare:
            more = [
                f"{ctx.command_path} --help-all shows {len(rare)} more option{'s' * (len(rare) != 1)}"
            ]
            if self.name == "boundary":
                from calibkit.options.boundary import METHODS

                more += [f"and what each method is: {', '.join(METHODS)}"]
            _print_text(f" {', '.join(more)}.")
        elif self.name == "boundary":
            _print_methods()

    def _is_rare(self, param: Any) -> bool:
        if self.name in EVERYDAY:
            return param.name not in EVERYDAY[self.name].split()
        return getattr(param, "rich_help_panel", None) in (INPUT, RUN) or param.name in FEW

    def get_help_option(self, ctx: Any) -> Any:
        """Put ``--help`` where one looks last."""
        option = super().get_help_option(ctx)
        if option is not None:
            option.rich_help_panel = RUN
        return option

    def get_params(self, ctx: Any) -> list[Any]:
        """Take the options of every run too where they change nothing: one set suits a Makefile."""
        help_all, *others = _of_every_run()
        own = [*super().get_params(ctx), help_all]
        names = {name for param in own for name in param.opts}
        return own + [param for param in others if names.isdisjoint(param.opts)]


class EveryRun(Seeded, Talk, Budget):
    """What every run takes."""

    #: The first: `Page.get_params` shows it, and no other.
    help_all: bool = of_run("Show all options and exit.", default=False)


def _place(param: Any) -> int:
    panel = getattr(param, "rich_help_panel", None)
    return 1 + LAST.index(panel) if panel in LAST else -(panel == COLUMNS)


def _show_all(ctx: Any, param: Any, asked: bool) -> None:
    if asked:
        ctx.meta[_ALL] = True
        typer.echo(ctx.get_help(), color=ctx.color)
        raise typer.Exit


@functools.cache
def _of_every_run() -> tuple[Any, ...]:
    """Return ``--help-all``, then the options of every run as ones that are read, checked and left."""
    app = typer.Typer(add_completion=False)
    declare.add(app, "any", lambda given: None, EveryRun)
    params: list[Any] = cast("Any", get_command(app)).params
    for param in params:
        param.expose_value = False
        if param.name == "help_all":
            param.is_eager, param.callback = True, _show_all
        else:
            param.hidden, param.envvar = True, None
    return tuple(params)


def _print_methods() -> None:
    from rich.panel import Panel
    from rich.table import Table

    from calibkit.options.boundary import METHODS

    table = Table.grid(padding=(0, 2))
    for name, meaning in METHODS.items():
        table.add_row(f"[bold cyan]{name}[/]", meaning)
    _print_text(Panel(table, title="Methods (--method)", title_align="left", border_style="dim"))


def _print_text(text: Any) -> None:
    from rich.console import Console

    Console(highlight=False).print(text)


@functools.cache
def name_no_types() -> None:
    """Let the help of flags and of arguments name no type: ``<bool>``, ``<list[str]>``."""
    own: Any = core
    for kind in (own.TyperOption, own.TyperArgument):

        def shown(param: Any, ctx: Any, given: Any = kind.display_type_rich) -> str | None:
            if getattr(param, "is_flag", False) or param.param_type_name == "argument":
                return None
            return given(param, ctx)

        kind.display_type_rich = shown


def arrange(app: typer.Typer, purpose: Mapping[str, str]) -> None:
    """Make every command of an application a `Page`, listed under its purpose."""
    for command in app.registered_commands:
        command.cls = Page
        command.rich_help_panel = purpose.get(command.name or "")
    for group in app.registered_groups:
        group.rich_help_panel = purpose.get(group.name or "")
        if group.typer_instance is not None:
            arrange(group.typer_instance, {})
