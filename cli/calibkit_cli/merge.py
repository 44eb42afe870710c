"""``calibkit merge``: put states together, and finish them."""

from __future__ import annotations

from importlib import import_module
from typing import Annotated, Any

import typer

from calibkit.errors import UsageError
from calibkit.fits import FITS

from . import options
from .bin import deliver_grid
from .console import Console
from .finishers import FINISHERS
from .fitting import deliver
from .options import INPUT, option
from .states import SUFFIX, Plan

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


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("merge", help=HELP)(merge)


def merge(
    inputs: Annotated[
        list[str],
        typer.Argument(metavar="STATE...", help="State files, globs or folders of them, or -."),
    ],
    expect: Annotated[
        int | None,
        option(
            "--expect",
            metavar="N",
            panel=INPUT,
            min=1,
            help="How many shards there must be in all; another number is an error.",
            show_default="any number",
        ),
    ] = None,
    plan: Plan = None,
    output: options.Output = None,
    output_format: options.OutputFormat = None,
    as_json: options.Json = False,
    threads: options.Threads = None,
    memory: options.Memory = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
) -> None:
    """Read, merge, finish."""
    from calibkit.files.inputs import find_files
    from calibkit.files.sinks import Transaction
    from calibkit.memory import memory_budget
    from calibkit.summaries.states import merge_states, read_state
    from calibkit.threads import thread_count

    if output is not None and output.endswith("/"):
        raise UsageError("merge makes one result; give -o a file.")
    budget = memory_budget(memory)
    paths = [path for path, _ in find_files(inputs)]
    merged = merge_states([read_state(path) for path in paths], expect)
    shards = merged.header.shards
    table = merged.header.kind in TABLES and not str(output).endswith(SUFFIX)
    console = Console(
        output,
        as_json,
        quiet,
        verbose,
        warnings,
        tabular=table,
        output_format=output_format if table else None,
        texts=("json", "prom", "csv", "md") if merged.header.kind == "evaluate" else (),
    )
    console.detail(f"{len(paths)} states, {len(shards)} shards, {merged.rows:,} rows")
    if output is None or not output.endswith(SUFFIX):
        if merged.header.kind in FITS:
            made: Any = FITS[merged.header.kind]().finish(merged, budget, thread_count(threads))
            (deliver_grid if table else deliver)(console, made)
            return
        run = import_module(f"calibkit_cli.{FINISHERS[merged.header.kind]}")
        run.finish_state(console, merged, budget, thread_count(threads))
        return
    if output in paths:
        raise UsageError(f"{output}: is one of the states to merge; name another file.")
    with Transaction() as transaction:
        transaction.write(merged.write, output)
    if as_json:
        content = {"rows": merged.rows, "shards": len(shards)}
        console.json({**content, "states": len(paths), "output": output})
    console.wrote(f"State of {merged.rows:,} rows")
