"""``calibkit merge``: put states together, and finish them."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Annotated

import typer

from calibkit.errors import UsageError

from . import options, rounds
from .console import Console
from .finishers import FINISHERS
from .options import INPUT, option
from .states import SUFFIX

if TYPE_CHECKING:
    from calibkit.memory import Memory
    from calibkit.summaries.states import State

HELP = """Put the states of many shards together, and finish them.

A state is what a command writes with --partial: a summary of some of the rows, and the options of the
command. Merged in any order and any grouping they give the result that the command would give of all
rows at once; a result named .state is the merged state itself.

Fits that go through the rows many times do so in rounds where the rows do not fit: then plan.json is
written beside the output, and --partial --plan plan.json makes the states of the next round.

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
    plan: Annotated[
        str | None,
        option(
            "--plan",
            metavar="FILE",
            panel=INPUT,
            help="The plan that the states answer; a fit that needs another round writes the next one.",
            show_default="plan.json beside the output",
        ),
    ] = None,
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
    from calibkit.files.inputs import expand_input
    from calibkit.files.readers import reading
    from calibkit.files.sinks import write_bytes
    from calibkit.memory import memory_budget
    from calibkit.summaries.held_states import bounded
    from calibkit.summaries.states import merge_states, read_state
    from calibkit.threads import thread_count

    if output is not None and output.endswith("/"):
        raise UsageError("merge makes one result; give -o a file.")
    budget = memory_budget(memory)
    paths: list[str] = []
    for name in inputs:
        with reading(name):
            paths += [path for path, _ in expand_input(name)]
    merged = merge_states(bounded(map(read_state, paths), budget), expect)
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
    rows = sum(shard.rows for shard in shards)
    console.detail(f"{len(paths)} states, {len(shards)} shards, {rows:,} rows")
    if output is None or not output.endswith(SUFFIX):
        _finish(console, merged, plan, budget, thread_count(threads))
        return
    if output in paths:
        raise UsageError(f"{output}: is one of the states to merge; name another file.")
    write_bytes(merged.to_bytes(), output)
    if as_json:
        console.json({"rows": rows, "shards": len(shards), "states": len(paths), "output": output})
    console.wrote(f"State of {rows:,} rows")


def _finish(console: Console, state: State, plan: str | None, memory: Memory, threads: int) -> None:
    """Make of a merged state the result, or the plan of the next round where one is needed."""
    from calibkit.rounds.loop import first_plan
    from calibkit.summaries.held_states import fits, in_rounds

    path = plan or rounds.plan_path(console.output)
    if state.round > 1:
        rounds.go_on(console, state, path)
    elif in_rounds(state) and not fits(state, memory):
        rounds.write_plan(console, first_plan(state), path)
    elif plan is not None and not in_rounds(state):
        raise UsageError(
            f"--plan is for fits in rounds; states of `calibkit {state.header.kind}` need one round "
            "only: leave it out."
        )
    else:
        run = import_module(f"calibkit_cli.{FINISHERS[state.header.kind]}")
        run.finish_state(console, state, memory, threads)
