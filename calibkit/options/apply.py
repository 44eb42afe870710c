"""The options of ``apply``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from calibkit.errors import UsageError
from calibkit.options.option import Options, listed, option
from calibkit.options.shared import (
    COLUMNS,
    INPUT,
    OUTPUT,
    Names,
    OnMissingApply,
    ProbsElsewhere,
    ScoreElsewhere,
    SeedElsewhere,
    UncertaintyElsewhere,
    elsewhere,
)

if TYPE_CHECKING:
    from calibkit.models.applier import Request
    from calibkit.numerics.bounds import Bound


def _share(value: Any, flag: str) -> str:
    """Return a share in its shortest decimal form."""
    from calibkit.numerics.bounds import decimal_bound

    return str(decimal_bound(value, flag))


@dataclass(frozen=True, kw_only=True)
class ApplyOptions(Options):
    """How a model is applied."""

    keep: Annotated[
        Names | None,
        option(
            metavar="PATTERN",
            group=OUTPUT,
            help="Input columns to keep (globs; commas or repetition).",
            shown="all",
            many="commas",
            read=listed,
        ),
    ] = None
    selected: Annotated[
        bool, option(group=OUTPUT, help="Only rows with a positive decision, or any but pass.")
    ] = False
    add_level: Annotated[
        bool,
        option(
            group=OUTPUT,
            help="Of a boundary: also the uncertainty level of each row (from 0), and of mist the "
            "probability of its block.",
        ),
    ] = False
    column: Annotated[
        str | None,
        option(
            metavar="NAME",
            group=OUTPUT,
            help="A name for the added column (of several: the first).",
            shown="decision, calibrated",
        ),
    ] = None
    overwrite_columns: Annotated[
        bool, option(group=OUTPUT, help="Replace columns that have the names of added ones.")
    ] = False
    key: Annotated[
        str | None,
        option(
            metavar="NAME",
            group=COLUMNS,
            help="For a stochastic boundary: the column (integers or text) whose hash decides a row; "
            "row-number: the number of the row.",
            shown=False,
        ),
    ] = None
    seed: SeedElsewhere = None
    max_missing: Annotated[
        float | str | None,
        option(
            metavar="SHARE",
            group=INPUT,
            help="With --on-missing null: refuse files with a larger share of such rows.",
            shown=False,
            read=_share,
        ),
    ] = None
    score: ScoreElsewhere = None
    uncertainty: UncertaintyElsewhere = None
    probs: ProbsElsewhere = None
    on_missing: OnMissingApply = "error"

    def check(self) -> None:
        """Refuse a share of rows that may be lost where none may."""
        if self.max_missing is not None and self.on_missing != "null":
            raise UsageError("--max-missing goes with --on-missing null.")

    @property
    def request(self) -> Request:
        """What is asked of the model besides its own word."""
        from calibkit.models.applier import Request

        return Request(columns=elsewhere(self), key=self.key, seed=self.seed, level=self.add_level)

    @property
    def most_missing(self) -> Bound | None:
        """The largest share of rows that may lack a value."""
        from calibkit.numerics.bounds import decimal_bound

        return None if self.max_missing is None else decimal_bound(str(self.max_missing))
