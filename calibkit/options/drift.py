"""The options of ``drift``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, cast

from calibkit.errors import UsageError
from calibkit.options.option import Options, option
from calibkit.options.shared import (
    COLUMNS,
    OUTPUT,
    ModelLike,
    Positive,
    ScoreElsewhere,
    UncertaintyElsewhere,
    Unlabelled,
    elsewhere,
    model_of,
)

if TYPE_CHECKING:
    from calibkit.models.model import Model


@dataclass(frozen=True, kw_only=True)
class DriftOptions(Options):
    """What new rows are compared with, and on which columns.

    Rows without a label, where ``unlabelled`` lets them pass, judge nothing but count otherwise.
    """

    model: Annotated[
        ModelLike,
        option(argument=True, metavar="MODEL", help="A model file (JSON).", read=model_of),
    ]
    label: Annotated[
        str | None,
        option(
            metavar="NAME",
            group=COLUMNS,
            help="Column with the label: 0/1, boolean or t/f.",
            shown="none: nothing is judged",
        ),
    ] = None
    positive: Positive = None
    unlabelled: Unlabelled = "error"
    score: ScoreElsewhere = None
    uncertainty: UncertaintyElsewhere = None
    weight: Annotated[
        str | None,
        option(
            metavar="NAME",
            group=COLUMNS,
            help="Column with non-negative weights: a weight 2 is two rows.",
            shown="as the model names it, if it was fitted on weighted rows",
        ),
    ] = None
    confidence: Annotated[
        float, option(metavar="C", group=OUTPUT, help="Confidence of the intervals.")
    ] = 0.95

    def check(self) -> None:
        """Refuse how labels are read where there are none, and an impossible confidence."""
        if self.label is None and (self.positive is not None or self.unlabelled != "error"):
            raise UsageError("--positive and --unlabelled say how --label is read; name it.")
        if not 0.0 < self.confidence < 1.0:
            raise UsageError(
                f"--confidence is {self.confidence:g}; expected a number above 0 and below 1."
            )

    @property
    def fitted(self) -> Model:
        """The model."""
        return cast("Model", self.model)

    @property
    def elsewhere(self) -> dict[str, str]:
        """The column of each role that is not where the model says."""
        return elsewhere(self)
