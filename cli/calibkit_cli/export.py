"""``calibkit export``: a model as SQL, polars or plain Python."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from calibkit.errors import UsageError
from calibkit.options.export import ExportOptions

from . import declare
from .lines import Reads, Results

if TYPE_CHECKING:
    from calibkit.models.model import Model

HELP = """\
SQL is one SELECT of every column of the table and the columns that `apply` would add. Python files
have a function `apply`, which takes a polars frame, or one row as a dictionary. A row that lacks a
value, or has one that `apply` refuses, has null in the added columns.

With --check the export and the model both run on a file, and on copies of its rows at the model's
thresholds and next to them; if they differ, nothing is written and the exit code is 1.

Examples:
  calibkit export boundary.json --to sql --table scores -o boundary.sql
  calibkit export boundary.json --to sql --dialect postgres -o boundary.sql
  calibkit export cal.json --to python --check test.parquet -o cal.py
  calibkit export service.json --to polars -o service.py
"""

_LANGUAGES = {"sql": "SQL", "polars": "polars code", "python": "Python code"}


@dataclass(frozen=True, kw_only=True)
class ExportLine(Reads, Results):
    """What the command line of an export has besides its options."""


def run(options: ExportOptions, line: ExportLine) -> None:
    """Export, write the text where the line says, then say what was done."""
    from calibkit.exports.export import export
    from calibkit.files.sinks import write_bytes

    suffix = "sql" if options.to == "sql" else "py"
    console = line.console(texts=(suffix,))
    output, kind = line.output, cast("Model", options.model).kind
    if console.per_input:
        raise UsageError(f"-o {output}: one model is one file; name it FILE.{suffix}.")
    rows = cast("str | None", options.check_on)
    text, agreement = export(options, None if rows is None else line.source([rows]))
    if output is not None or not line.as_json:
        write_bytes(text.encode(), output or "-")
    if line.as_json:
        checked = None if agreement is None else agreement.as_dict()
        shown = text if output is None else None
        told = {"kind": kind, "to": options.to, "output": output, "text": shown, "checked": checked}
        console.json(told)
    if agreement is not None:
        console.summary(f"Checked on {agreement}.")
    console.wrote(f"{kind.capitalize()} as {_LANGUAGES[options.to]}")


register = declare.command(HELP, run, ExportOptions, ExportLine)
