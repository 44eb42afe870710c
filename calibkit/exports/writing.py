"""Exporting a model: its program, and the text in a language."""

from __future__ import annotations

import importlib
from dataclasses import dataclass

from calibkit import __version__
from calibkit.errors import UsageError, nearest
from calibkit.exports.bundle import PARTS
from calibkit.exports.program import Program, used_bindings
from calibkit.exports.request import Request
from calibkit.models import Model

#: What can be written, and the dialects of SQL.
LANGUAGES = ("sql", "polars", "python")
DIALECTS = ("duckdb", "postgres")

#: Where each kind becomes a program.
TRANSLATORS = PARTS | {"bundle": "calibkit.exports.bundle"}


@dataclass(frozen=True, kw_only=True)
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

    def __post_init__(self) -> None:
        if self.language not in LANGUAGES:
            raise UsageError(
                f"--to {self.language!r} is not known; use one of {', '.join(LANGUAGES)}."
            )
        if self.dialect not in DIALECTS:
            raise UsageError(
                f"--dialect {self.dialect!r} is not known; use one of {', '.join(DIALECTS)}."
            )


def program_of(model: Model, request: Request) -> Program:
    """Return what a model computes.

    Raises
    ------
    UsageError
        For a kind that cannot be exported, or options that do not fit the model.
    """
    if model.kind not in TRANSLATORS:
        raise UsageError(
            f"a model of kind {model.kind!r} cannot be exported{nearest(model.kind, TRANSLATORS)}."
        )
    program = Program(model.kind)
    translate = importlib.import_module(TRANSLATORS[model.kind]).translate
    program.outputs = translate(program, model, request)
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
    about = f"calibkit {__version__}: a model of kind {program.kind}"
    if target.language == "sql":
        from calibkit.exports.duckdb_sql import DuckDb
        from calibkit.exports.postgres_sql import Postgres
        from calibkit.exports.sql import table_name

        dialect = DuckDb() if target.dialect == "duckdb" else Postgres()
        name = "DuckDB" if target.dialect == "duckdb" else "PostgreSQL"
        statement = dialect.statement(program, table_name(target.table))
        return f"-- {about}, for {name}\n{statement}\n"
    module = importlib.import_module(f"calibkit.exports.{target.language}_code")
    text: str = module.write(program, about)
    return text
