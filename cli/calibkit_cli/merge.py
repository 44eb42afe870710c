"""``calibkit merge``: put states together, and finish them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

import typer

from calibkit.errors import UsageError
from calibkit.fits import FITS
from calibkit.options.option import option
from calibkit.options.shared import INPUT, Threaded

from . import declare
from .bin import deliver_grid
from .evaluate import deliver as deliver_metrics
from .fitting import deliver
from .judging import TEXTS
from .lines import STATE, Budgeted, OutputFormat, Plan, Results

HELP = """Put the states of many shards together, and finish them.

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
class MergeLine(Results, Budgeted, Threaded):
    """Which states are put together, and where the result goes."""

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
    plan: Plan = None
    output_format: OutputFormat = None

    def check(self) -> None:
        """Refuse several results."""
        if self.output is not None and self.output.endswith("/"):
            raise UsageError("merge makes one result; give -o a file.")

    @property
    def is_state(self) -> bool:
        """Whether the result is the merged state itself."""
        return self.output is not None and self.output.endswith(STATE)


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    declare.add(app, "merge", HELP, run, MergeLine)


def run(line: MergeLine) -> None:
    """Merge, finish."""
    from calibkit.files.sinks import Transaction
    from calibkit.summaries.states import merge_states, read_state, state_files

    budget, paths = line.budget, state_files(line.inputs)
    merged = merge_states([read_state(path) for path in paths], line.expect)
    kind, shards = merged.header.kind, len(merged.header.shards)
    table = kind in TABLES and not line.is_state
    console = line.console(
        tabular=table,
        output_format=line.output_format if table else None,
        texts=TEXTS if kind == "evaluate" else (),
    )
    console.detail(f"{len(paths)} states, {shards} shards, {merged.rows:,} rows")
    if not line.is_state:
        made = FITS[kind]().finish(merged, budget, line.workers)
        _DELIVER.get(kind, deliver)(console, made)
        return
    output = str(line.output)
    if output in paths:
        raise UsageError(f"{output}: is one of the states to merge; name another file.")
    with Transaction() as transaction:
        transaction.write(merged.write, output)
    if line.as_json:
        content = {"rows": merged.rows, "shards": shards}
        console.json({**content, "states": len(paths), "output": output})
    console.wrote(f"State of {merged.rows:,} rows")
