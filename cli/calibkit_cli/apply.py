"""``calibkit apply``: add a model's columns to rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from . import cluster, options, typed
from .console import Console
from .each_input import Rows, Tell, write_rows
from .options import option

if TYPE_CHECKING:
    from calibkit.files.sources import Source

HELP = """Apply a model to rows: every row is kept, in order, and the model's columns are added.

A boundary adds `decision` (0 or 1) and `margin`: how far the score lies beyond the threshold of the
row's level, in logits; a stochastic one also `decision_probability`, and needs --key. Calibrators and
vad add `calibrated` (of class probabilities `calibrated_<class>`), hetcal also `leaf`; alpha-cal adds
`calibrated_<class>`, `alpha0`, `disagreement` and `disagreement_<class>`. A bundle adds what its parts
add, `decision_<name>` for each boundary, and `action`: the name of the first that selects the row.

Examples:

  calibkit apply boundary.json test.parquet -o decided.parquet

  calibkit apply cal.json scores.parquet --column p -o calibrated.parquet

  cat scores.csv | calibkit apply boundary.json - -o - | head

  calibkit apply boundary.json scores/ --selected --keep 'id,score' -o alarms.csv
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("apply", help=HELP)(apply)


def apply(
    model: options.Model,
    inputs: options.Inputs,
    keep: Annotated[
        list[str] | None,
        option(
            "--keep",
            metavar="PATTERN",
            panel=options.OUTPUT,
            help="Input columns to keep (globs; commas or repetition).",
            show_default="all",
        ),
    ] = None,
    selected: Annotated[
        bool,
        option("--selected", panel=options.OUTPUT, help="Only rows with a positive decision."),
    ] = False,
    column: Annotated[
        str | None,
        option(
            "--column",
            metavar="NAME",
            panel=options.OUTPUT,
            help="A name for the added column (of several: the first).",
            show_default="decision, calibrated",
        ),
    ] = None,
    overwrite_columns: Annotated[
        bool,
        option(
            "--overwrite-columns",
            panel=options.OUTPUT,
            help="Replace columns that have the names of added ones.",
        ),
    ] = False,
    key: Annotated[
        str | None,
        option(
            "--key",
            metavar="NAME",
            panel=options.COLUMNS,
            help="For a stochastic boundary: the column (integers or text) whose hash decides a row; "
            "row-number: the number of the row.",
            show_default=False,
        ),
    ] = None,
    seed: options.SeedElsewhere = None,
    max_missing: Annotated[
        str | None,
        option(
            "--max-missing",
            metavar="SHARE",
            panel=options.INPUT,
            help="With --on-missing null: refuse files with a larger share of such rows.",
            show_default=False,
        ),
    ] = None,
    score: options.ScoreElsewhere = None,
    uncertainty: options.UncertaintyElsewhere = None,
    probs: options.ProbsElsewhere = None,
    on_missing: options.OnMissingApply = "error",
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    output_format: options.OutputFormat = None,
    as_json: options.Json = False,
    dask: cluster.Dask = None,
    memory: options.Memory = None,
    threads: options.Threads = None,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
    dry_run: options.DryRun = False,
) -> None:
    """Parse, apply, write."""
    console = Console(
        output, as_json, quiet, verbose, warnings, tabular=True, output_format=output_format
    )
    from calibkit.apply import ApplySpec, plan_application
    from calibkit.applying import Run
    from calibkit.errors import UsageError
    from calibkit.files.sources import open_source
    from calibkit.makers import footer
    from calibkit.maths.bounds import decimal_bound
    from calibkit.memory import memory_budget
    from calibkit.models import load
    from calibkit.threads import thread_count

    if max_missing is not None and on_missing != "null":
        raise UsageError("--max-missing goes with --on-missing null.")
    spec = ApplySpec(
        columns={
            role: name
            for role, name in (("score", score), ("uncertainty", uncertainty), ("probs", probs))
            if name is not None
        },
        keep=typed.listed(keep) or None,
        selected=selected,
        rename=column,
        overwrite=overwrite_columns,
        key=key,
        seed=seed,
        on_missing=on_missing,
        max_missing=None if max_missing is None else decimal_bound(max_missing, "--max-missing"),
    )
    loaded = load(model)
    budget = memory_budget(memory)
    if dask is not None and not dry_run:
        cluster.apply_far(
            console,
            inputs,
            dask,
            (loaded, spec),
            (input_format, dtype, budget),
            thread_count(threads),
        )
        return
    source = open_source(inputs, input_format=input_format, dtype=dtype, memory=budget)
    plan = plan_application(loaded, source, spec)
    read = ", ".join(map(repr, [*plan.reads.needed.values(), *plan.reads.optional]))
    files = f"{len(source.parts)} file{'s' if len(source.parts) > 1 else ''}"
    console.detail(
        f"{model}: {loaded.kind}, reads {read}; {source.rows:,} rows of {files}; "
        f"{thread_count(threads)} threads"
    )
    if dry_run:
        from .dry_run import show_plan

        show_plan(console, source, plan.reads.needed, [f"add {', '.join(plan.added)} by {model}"])
        return

    def make(part: Source, tell: Tell) -> Rows:
        own = plan_application(loaded, part, spec)
        run = Run(own, part, spec, budget, thread_count(threads))
        return Rows(run.frames(tell), own.added, metadata=footer(own.made_by))

    write_rows(console, source, make)
