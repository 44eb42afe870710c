"""Exporting a model: its program, and the text in a language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from calibkit.errors import UsageError, nearest
from calibkit.exports.modules import Polars, Python
from calibkit.exports.printer import Printer
from calibkit.exports.request import Request
from calibkit.exports.sql import DuckDb, Postgres
from calibkit.expressions.program import Program, used_bindings
from calibkit.models.kinds import KINDS
from calibkit.models.model import Model
from calibkit.version import __version__

#: What writes each language; SQL by its dialects.
PRINTERS: Final[Mapping[str, type[Printer]]] = {
    "duckdb": DuckDb,
    "postgres": Postgres,
    "polars": Polars,
    "python": Python,
}


def program_of(model: Model, request: Request) -> Program:
    """Return what a model computes; a kind that cannot be exported is refused."""
    if model.kind not in KINDS:
        raise UsageError(
            f"a model of kind {model.kind!r} cannot be exported{nearest(model.kind, KINDS)}."
        )
    program = Program()
    program.outputs = KINDS[model.kind].translate()(program, model, request)
    program.bindings = used_bindings(program, list(program.outputs.values()))
    return program


def export_model(
    model: Model, dialect: str, request: Request | None = None, table: str = "scores"
) -> str:
    """Return a model as the text of a file, in a language of `PRINTERS`.

    Of SQL, `table` is the table that is read; a dot parts a schema from it.
    """
    program = program_of(model, request or Request())
    about = f"calibkit {__version__}: a model of kind {model.kind}"
    return PRINTERS[dialect]().file(program, about, table)
