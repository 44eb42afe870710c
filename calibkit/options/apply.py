"""The options of ``apply`` and ``export``, and of all that has a model."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Annotated, Final, Literal, cast

from calibkit.errors import UsageError
from calibkit.models.kinds import Request
from calibkit.numerics.bounds import decimal_bound
from calibkit.options import shared
from calibkit.options.option import Options, option
from calibkit.options.shared import named_column, of_output

if TYPE_CHECKING:
    from calibkit.models.model import Model

ModelFile = Annotated[
    shared.ModelLike, option("A model file (JSON).", "MODEL", argument=True, read=shared.model_of)
]

_AS_IN_MODEL: Final = "as the model names it"


class Elsewhere(Options):
    """Where the columns of a model are, if not where it says."""

    score: str | None = named_column(shared.SCORE_HELP, shown=_AS_IN_MODEL)
    uncertainty: str | None = named_column(shared.UNCERTAINTY_HELP, shown=_AS_IN_MODEL)

    @property
    def elsewhere(self) -> dict[str, str]:
        """The column of each role that is not where the model says."""
        named = {role: getattr(self, role, None) for role in ("score", "uncertainty", "probs")}
        return {role: name for role, name in named.items() if name is not None}


class Decided(Elsewhere):
    """The same of any kind of model, and another seed."""

    probs: str | None = shared.of_columns(shared.PROBS_HELP, "PATTERN", shown=_AS_IN_MODEL)
    seed: int | None = shared.of_seed(
        "Another seed for the decisions of a stochastic boundary.", shown=_AS_IN_MODEL
    )


class OfModel(Elsewhere):
    """What has a model, and may read its columns under other names."""

    model: ModelFile

    @property
    def fitted(self) -> Model:
        """The model."""
        return cast("Model", self.model)


class ApplyOptions(Decided):
    """Apply a model to rows: every row is kept, in order, and the model's columns are added.

    A boundary adds `decision` (0 or 1) and `margin`: how far the score is above the threshold of
    the row's level, in logits; a stochastic one also `decision_probability`, and needs --key;
    with --add-level `level`, and for mist `probability`. Calibrators and vad add `calibrated` (of
    class probabilities `calibrated_<class>`), hetcal also `leaf`; alpha-cal adds `alpha0`,
    `disagreement` and `disagreement_<class>`, with --map also `calibrated_<class>`. A bundle adds
    what its parts add, `decision_<name>` for each boundary, and `action`: the name of the first
    that selects the row.

    Examples:
      calibkit apply boundary.json test.parquet -o decided.parquet
      calibkit apply cal.json scores.parquet --column p -o calibrated.parquet
      cat scores.csv | calibkit apply boundary.json - -o - | head
      calibkit apply boundary.json scores/ --selected --keep 'id,score' -o alarms.csv
      calibkit apply boundary.json scores/ --in-place --overwrite-columns
    """

    keep: shared.Names | None = of_output(
        "Columns to keep (globs; commas or repetition).", "PATTERN", shown="all", many="commas"
    )
    selected: bool = of_output(
        "Only rows decided positive, or with any action but pass.", default=False
    )
    add_level: bool = of_output(
        "For a boundary: also add the uncertainty level of each row (from 0), and for mist the "
        "probability of its block.",
        default=False,
    )
    column: str | None = of_output(
        "Name of the added column (the first, if several).", "NAME", shown="decision, calibrated"
    )
    overwrite_columns: bool = of_output("Replace columns of the same names.", default=False)
    key: str | None = named_column(
        "For a stochastic boundary: the column (integers or text) whose hash decides a row; "
        "row-number: the number of the row."
    )
    max_missing: float | str | None = shared.of_input(
        "With --on-missing null: refuse files with a larger share of them.",
        "SHARE",
        read=decimal_bound,
    )
    on_missing: Literal["error", "null"] = shared.of_input(
        "Rows without a value where one is needed: refuse the file, or write null in "
        "the added columns.",
        default="error",
    )

    def check(self) -> None:
        """Refuse a share of rows that may be lost where none may."""
        if self.max_missing is not None and self.on_missing != "null":
            raise UsageError("--max-missing goes with --on-missing null.")

    @property
    def request(self) -> Request:
        """What is asked of the model besides its own word."""
        return Request(columns=self.elsewhere, key=self.key, seed=self.seed, level=self.add_level)


class ExportOptions(OfModel, Decided):
    """Export a model as code that needs no calibkit: SQL, polars, or plain Python.

    SQL is one SELECT of every column of the table and the columns that `apply` would add. Python
    files have a function `apply`, which takes a polars frame, or one row as a dictionary. A row
    that lacks a value, or has one that `apply` refuses, has null in the added columns.

    With --check the export and the model both run on a file, and on copies of its rows at the
    model's thresholds and next to them; if they differ, nothing is written and the exit code is
    1.

    Examples:
      calibkit export boundary.json --to sql --table scores -o boundary.sql
      calibkit export boundary.json --to sql --dialect postgres -o boundary.sql
      calibkit export cal.json --to python --check test.parquet -o cal.py
      calibkit export service.json --to polars -o service.py
    """

    model: ModelFile = field(kw_only=False)
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
    check_on: shared.FrameLike | None = shared.of_run(
        "Run the export and the model on this file and compare every row; SQL runs in "
        "DuckDB (pip install duckdb).",
        "FILE",
        flags=("--check",),
        path=True,
    )
    key: str | None = named_column(
        "For a stochastic boundary: the column (integers or text) whose hash decides a row."
    )

    def check(self) -> None:
        """Refuse words of SQL for another language."""
        if self.to != "sql" and (self.dialect is not None or self.table is not None):
            raise UsageError("--dialect and --table go with --to sql.")
