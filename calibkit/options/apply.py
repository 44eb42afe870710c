"""The options of ``apply``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from calibkit.errors import UsageError
from calibkit.models.kinds import Request
from calibkit.numerics.bounds import Bound, decimal_bound
from calibkit.options import shared
from calibkit.options.shared import named_column, of_input, of_output


def _share(value: Any, flag: str) -> Bound:
    return value if isinstance(value, Bound) else decimal_bound(value, flag)


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(shared.Elsewhere):
    """How a model is applied."""

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
    seed: shared.SeedElsewhere = None
    max_missing: float | str | None = of_input(
        "With --on-missing null: refuse files with a larger share of them.", "SHARE", read=_share
    )
    probs: shared.ProbsElsewhere = None
    on_missing: Literal["error", "null"] = of_input(
        "Rows with null or NaN where a number is needed: refuse the file, or write null in "
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
