"""``calibkit merge``: put states together, and finish them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from calibkit.errors import UsageError
from calibkit.options.option import option
from calibkit.options.shared import INPUT, Threaded
from calibkit.registry.methods import RUNS

from . import declare
from .bin import deliver_grid
from .console import Console
from .evaluate import deliver as deliver_metrics
from .fitting import deliver
from .judging import TEXTS
from .lines import STATE, Budget, NoPlan, OutputFormat, Results

if TYPE_CHECKING:
    from calibkit.summaries.states import State

HELP = """\
A state is what a command writes with --partial: a summary of some of the rows, and the options of the
command. Merged in any order and any grouping they give the result that the command would give of all
rows at once; a result named .state is the merged state itself.

The states of fits that go through their rows many times (hetcal, alpha-cal, calibrate --probs) are the
rows themselves, with the columns that the fit uses; merge fits on them in one step.

Examples:

  calibkit merge part-1.state part-2.state -o boundary.json

  calibkit merge parts/ --expect 100 -o boundary.json

  calibkit merge part-1.state part-2.state -o half.state
"""

#: Kinds whose result is a table.
TABLES = ("bin",)

#: What delivers the results that are no models.
_DELIVER: Final[dict[str, Any]] = {"bin": deliver_grid, "evaluate": deliver_metrics}


@dataclass(frozen=True, kw_only=True)
class MergeLine(NoPlan, Results, Threaded, Budget):
    """The line of `merge`."""

    inputs: Annotated[
        list[str],
        option(
            argument=True,
            many="repetition",
            metavar="STATE...",
            help="State files, globs or folders of them, or -.",
        ),
    ]
    expect: Annotated[
        int | None,
        option(
            metavar="N",
            group=INPUT,
            least=1,
            help="How many shards there must be in all; another number is an error.",
            shown="any number",
        ),
    ] = None
    output_format: OutputFormat = None

    def check(self) -> None:
        """Refuse a folder for a result."""
        if (self.output or "").endswith("/"):
            raise UsageError("merge makes one result; give -o a file.")


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    declare.add(app, "merge", HELP, _merge, MergeLine)


def _merge(line: MergeLine) -> None:
    from calibkit.registry.states import merge_files

    paths, merged = merge_files(line.inputs, line.expect)
    kind, whole = merged.header.kind, (line.output or "").endswith(STATE)
    table = kind in TABLES and not whole
    console = line.console(
        tabular=table,
        output_format=line.output_format if table else None,
        texts=TEXTS if kind == "evaluate" else (),
    )
    shards = len(merged.header.shards)
    console.detail(f"{len(paths)} states, {shards} shards, {merged.rows:,} rows")
    if whole:
        _write(console, merged, len(paths))
        return
    made = RUNS[kind]().finish(merged, line.budget, line.workers)
    _DELIVER.get(kind, deliver)(console, made)


def _write(console: Console, merged: State, states: int) -> None:
    from calibkit.files.sinks import Transaction

    output = str(console.output)
    with Transaction() as transaction:
        transaction.write(merged.write, output)
    if console.as_json:
        content = {"rows": merged.rows, "shards": len(merged.header.shards)}
        console.json({**content, "states": states, "output": output})
    console.wrote(f"State of {merged.rows:,} rows")
