"""The options of ``export``."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from calibkit.errors import UsageError
from calibkit.options import shared
from calibkit.options.option import option
from calibkit.options.shared import named_column, of_output, of_run


@dataclass(frozen=True, kw_only=True)
class ExportOptions(shared.OfModel):
    """Which model becomes code, in which language, and on which rows that is checked."""

    model: Annotated[
        shared.ModelLike,
        option("A model file (JSON).", "MODEL", argument=True, read=shared.model_of),
    ] = field(kw_only=False)
    to: Annotated[
        Literal["sql", "polars", "python"],
        of_output("SQL, a Python file for polars frames, or one for plain Python."),
    ]
    dialect: Literal["duckdb", "postgres"] | None = of_output("Dialect of SQL.", shown="duckdb")
    table: str | None = of_output(
        "For SQL: the table to read. A dot separates its schema, unless in double quotes.",
        "NAME",
        shown="scores",
    )
    check_on: shared.FrameLike | None = of_run(
        "Run the export and the model on this file and compare every row; SQL runs in "
        "DuckDB (pip install duckdb).",
        "FILE",
        flags=("--check",),
        path=True,
    )
    key: str | None = named_column(
        "For a stochastic boundary: the column (integers or text) whose hash decides a row."
    )
    seed: shared.SeedElsewhere = None
    probs: shared.ProbsElsewhere = None

    def check(self) -> None:
        """Refuse words of SQL for another language."""
        if self.to != "sql" and (self.dialect is not None or self.table is not None):
            raise UsageError("--dialect and --table go with --to sql.")
