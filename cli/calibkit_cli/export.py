"""``calibkit export``: a model as SQL, polars or plain Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from . import options
from .console import Console
from .options import option

if TYPE_CHECKING:
    from calibkit.exports.check import Agreement
    from calibkit.models import Model

HELP = """Export a model as code that needs no calibkit: SQL, polars, or plain Python.

SQL is one SELECT of every column of the table and the columns that `apply` would add. Python files
hold a function `apply`: of a polars frame, or of one row as a dictionary. A row that lacks a value,
or has one that `apply` refuses, has null in the added columns.

With --check the export and the model both run on a file, and on rows made from it on the model's
thresholds and next to them; where they differ nothing is written and the exit code is 1.

Examples:

  calibkit export boundary.json --to sql --table scores -o boundary.sql

  calibkit export boundary.json --to sql --dialect postgres -o boundary.sql

  calibkit export cal.json --to python --check test.parquet -o cal.py

  calibkit export service.json --to polars -o service.py
"""


_LANGUAGES = {"sql": "SQL", "polars": "polars code", "python": "Python code"}


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("export", help=HELP)(export)


def export(
    model: options.Model,
    to: Annotated[
        Literal["sql", "polars", "python"],
        option(
            "--to",
            panel=options.OUTPUT,
            help="SQL, a Python file for polars frames, or one that needs Python alone.",
        ),
    ],
    dialect: Annotated[
        Literal["duckdb", "postgres"] | None,
        option("--dialect", panel=options.OUTPUT, help="Of SQL.", show_default="duckdb"),
    ] = None,
    table: Annotated[
        str | None,
        option(
            "--table",
            metavar="NAME",
            panel=options.OUTPUT,
            help="Of SQL: the table that is read. A dot parts a schema from it, unless it stands in "
            "double quotes.",
            show_default="scores",
        ),
    ] = None,
    check: Annotated[
        str | None,
        option(
            "--check",
            metavar="FILE",
            panel=options.RUN,
            help="Run the export and the model on this file and compare every row; SQL runs in "
            "DuckDB (pip install duckdb).",
            show_default=False,
        ),
    ] = None,
    key: Annotated[
        str | None,
        option(
            "--key",
            metavar="NAME",
            panel=options.COLUMNS,
            help="For a stochastic boundary: the column (integers or text) whose hash decides a row.",
            show_default=False,
        ),
    ] = None,
    seed: options.SeedElsewhere = None,
    score: options.ScoreElsewhere = None,
    uncertainty: options.UncertaintyElsewhere = None,
    probs: options.ProbsElsewhere = None,
    input_format: options.InputFormat = None,
    dtype: options.Dtype = "float64",
    output: options.Output = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
) -> None:
    """Parse, write, check."""
    suffix = "sql" if to == "sql" else "py"
    console = Console(output, as_json, quiet, verbose, warnings, texts=(suffix,))
    from calibkit.errors import CheckError, UsageError
    from calibkit.exports.request import Request
    from calibkit.exports.writing import Target, export_model
    from calibkit.files.sources import open_source
    from calibkit.models import load

    if to != "sql" and (dialect is not None or table is not None):
        raise UsageError("--dialect and --table go with --to sql.")
    if console.per_input:
        raise UsageError(f"-o {output}: one model is one file; name it FILE.{suffix}.")
    loaded = load(model)
    target = Target(language=to, dialect=dialect or "duckdb", table=table or "scores")
    columns = {"score": score, "uncertainty": uncertainty, "probs": probs}
    request = Request(
        columns={role: name for role, name in columns.items() if name is not None},
        key=key,
        seed=seed,
    )
    found = None
    if check is not None:
        from calibkit.exports.check import check_export, with_classes

        source = open_source([check], input_format=input_format, dtype=dtype)
        request = with_classes(loaded, request, source)
        found = check_export(loaded, target, request, source)
    text = export_model(loaded, target, request)
    if found is not None and not found.holds:
        raise CheckError(f"{check}: the export is not the model: {found}. Nothing was written.")
    _deliver(console, text, loaded, target.language, found)


def _deliver(
    console: Console, text: str, model: Model, language: str, found: Agreement | None
) -> None:
    """Write the text where the command line says, then say what was done."""
    from calibkit.files.sinks import write_bytes

    output = console.output
    if output is not None or not console.as_json:
        write_bytes(text.encode(), output or "-")
    if console.as_json:
        console.json(
            {
                "kind": model.kind,
                "to": language,
                "output": output,
                "text": text if output is None else None,
                "checked": None if found is None else found.as_dict(),
            }
        )
    if found is not None:
        console.summary(f"Checked on {found}.")
    console.wrote(f"{model.kind.capitalize()} as {_LANGUAGES[language]}")
