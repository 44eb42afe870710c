"""Exporting a model: its program, and the text in a language."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from calibkit.exports.duckdb_sql import DuckDb
from calibkit.exports.polars_code import Polars
from calibkit.exports.postgres_sql import Postgres
from calibkit.exports.printer import Printer
from calibkit.exports.python_code import Python
from calibkit.exports.request import Request
from calibkit.expressions.program import Program, used_bindings
from calibkit.models.kinds import KINDS
from calibkit.models.model import Model
from calibkit.version import __version__

#: What can be written.
LANGUAGES: Final = ("sql", "polars", "python")

#: What writes each language and dialect.
PRINTERS: Final[Mapping[str, type[Printer]]] = {
    "duckdb": DuckDb,
    "postgres": Postgres,
    "polars": Polars,
    "python": Python,
}


@dataclass(frozen=True)
class Target:
    """What to write.

    Attributes
    ----------
    language
        ``sql``, ``polars`` or ``python``.
    dialect
        Of SQL: ``duckdb`` or ``postgres``.
    table
        Of SQL: the table that is read; a dot parts a schema from it.
    """

    language: str
    dialect: str = "duckdb"
    table: str = "scores"


def program_of(model: Model, request: Request) -> Program:
    """Return what a model computes.

    Raises
    ------
    UsageError
        For options that do not fit the model.
    """
    program = Program()
    program.outputs = KINDS[model.kind].translate()(program, model, request)
    program.bindings = used_bindings(program, list(program.outputs.values()))
    return program


def export_model(model: Model, target: Target, request: Request | None = None) -> str:
    """Return a model as the text of a file.

    Parameters
    ----------
    model
        Of any kind that is applied to rows.
    target
        The language.
    request
        Columns elsewhere, and the key of a stochastic boundary.

    Raises
    ------
    UsageError
        Options that do not fit the model, or names that the language cannot hold.
    """
    program = program_of(model, request or Request())
    about = f"calibkit {__version__}: a model of kind {model.kind}"
    printer = PRINTERS[target.dialect if target.language == "sql" else target.language]()
    return printer.file(program, about, target.table)
