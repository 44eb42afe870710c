"""Exporting a model: its program, and the text in a language."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from calibkit.exports.request import Request
from calibkit.expressions.program import Program, used_bindings
from calibkit.models.kinds import KINDS
from calibkit.models.model import Model
from calibkit.version import __version__

#: What can be written.
LANGUAGES: Final = ("sql", "polars", "python")


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
    if target.language == "sql":
        from calibkit.exports.duckdb_sql import DuckDb
        from calibkit.exports.postgres_sql import Postgres
        from calibkit.exports.sql import table_name

        dialect = DuckDb() if target.dialect == "duckdb" else Postgres()
        name = "DuckDB" if target.dialect == "duckdb" else "PostgreSQL"
        statement = dialect.statement(program, table_name(target.table))
        return f"-- {about}, for {name}\n{statement}\n"
    if target.language == "polars":
        from calibkit.exports import polars_code

        return polars_code.write(program, about)
    from calibkit.exports import python_code

    return python_code.write(program, about)
