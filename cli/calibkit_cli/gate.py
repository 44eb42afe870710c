"""``calibkit gate``: fail a build by what result files hold."""

from __future__ import annotations

from typing import Annotated

import typer

from calibkit.errors import UsageError

from . import options
from .console import Console

HELP = """Fail (exit code 1) if metrics, models or other results are not good enough.

A gate writes nothing, so a Makefile can run it after the result is safely written. A number that is
not defined fails the gate; an expression that finds nothing is a mistake, exit code 2.

Examples:

  calibkit gate metrics.json --fail-if 'auc<0.75' --fail-if 'ece>0.02'

  calibkit gate metrics.json --fail-if 'new/auc.low < old/auc'

  calibkit gate metrics.json --fail-if 'country:*/precision<0.6'

  calibkit gate boundary.json --fail-if 'fit/cross_validated/recall<0.3'
"""


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    app.command("gate", help=HELP)(gate)


def gate(
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILE",
            help="Files of metrics, models or other JSON results; - for standard input.",
            show_default=False,
        ),
    ],
    fail_if: options.FailIf = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
) -> None:
    """Parse, read, judge."""
    console = Console(as_json=as_json, quiet=quiet)
    if not fail_if:
        raise UsageError("a gate needs --fail-if EXPR, such as --fail-if 'auc<0.75'.")
    from calibkit.gates.figures import check_files
    from calibkit.gates.results import read_result

    from .gates import expressions, settle

    wanted = expressions(fail_if)
    twice = sorted({file for file in files if files.count(file) > 1})
    if twice:
        raise UsageError(f"{twice[0]} is named twice.", file=twice[0])
    judged = check_files({file: read_result(file) for file in files}, wanted)
    if as_json:
        failed = sum(outcome.failed for _, outcome in judged)
        outcomes = [{"file": file, **outcome.as_dict()} for file, outcome in judged]
        console.json({"passed": not failed, "failed": failed, "outcomes": outcomes})
    settle([(file if len(files) > 1 else None, outcome) for file, outcome in judged])
    console.summary(f"{len(judged)} {'check' if len(judged) == 1 else 'checks'} passed.")
