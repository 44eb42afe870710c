"""``calibkit validate``: whether rows are what the other commands need, all of it in one report."""

from __future__ import annotations

import typer

from calibkit.errors import DataError
from calibkit.options.validate import ValidateOptions

from . import declare
from .console import Console
from .lines import Annotate, Inputs, Results
from .runs import deliver


class ValidateLine(Inputs, Results):
    """What is looked at, and where the report goes."""

    annotate: Annotate = None


@declare.command
def validate(options: ValidateOptions, line: ValidateLine) -> None:
    """Look, report."""
    from calibkit.validation.run import validate_files
    from calibkit.validation.view import shown

    said = "all inputs give one report; name a file"
    console = Console(line.output, line.as_json, line.quiet, one=said)
    report = validate_files(options, *line.open_readable(console))
    deliver(console, report, "Report")
    if not line.as_json:
        console.outline(report)
    for finding in report.findings if line.annotate else ():
        level = "notice" if finding.level == "note" else finding.level
        title = f"calibkit validate: {finding.check}"
        file = finding.file or (line.inputs[0] if len(line.inputs) == 1 else None)
        console.annotate(level, shown(finding), title=title, file=file)
    if report.errors or (line.warnings == "error" and report.warnings):
        raise typer.Exit(DataError.code)
