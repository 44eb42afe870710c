"""Exporting a model: what is asked for besides it, its program, and the text in a language."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from calibkit.errors import UsageError, nearest
from calibkit.exports.modules import Polars, Python
from calibkit.exports.printer import Printer
from calibkit.exports.sql import DuckDb, Postgres
from calibkit.expressions.program import Program, used_bindings
from calibkit.models.kinds import KINDS
from calibkit.models.kinds import Request as Asked
from calibkit.models.model import Model
from calibkit.version import __version__

#: What writes each language; SQL by its dialects.
PRINTERS: Final[Mapping[str, type[Printer]]] = {
    "duckdb": DuckDb,
    "postgres": Postgres,
    "polars": Polars,
    "python": Python,
}

#: The key of `apply` that is no column; a table's rows have no numbers.
ROW_NUMBER = "row-number"


@dataclass(frozen=True, kw_only=True)
class Request(Asked):
    """How a model is exported: see also `calibkit.models.kinds.Request`."""

    #: The columns that a pattern of class probabilities stands for, where a file tells.
    class_columns: Sequence[str] | None = None

    def __post_init__(self) -> None:
        if self.key == ROW_NUMBER:
            raise UsageError(
                f"--key {ROW_NUMBER}: the rows of a table have no numbers; name a column that "
                "identifies a row."
            )

    def column(self, model: Model, role: str) -> str:
        """Return the column of a role."""
        return self.columns.get(role, model.columns[role].name)

    def refuse_key(self, model: Model) -> None:
        """Refuse a key or a seed for a model that decides nothing at random."""
        if self.key is not None or self.seed is not None:
            raise UsageError(
                f"a model of kind {model.kind!r} is not stochastic; leave --key and --seed out."
            )


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
