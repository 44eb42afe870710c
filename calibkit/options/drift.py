"""The options of ``drift``."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from calibkit.errors import UsageError
from calibkit.options import shared
from calibkit.options.option import option
from calibkit.options.shared import named_column, of_output

of_estimate = partial(option, group="Without labels")


@dataclass(frozen=True, kw_only=True)
class DriftOptions(shared.OfModel, shared.Threaded):
    """What new rows are compared with, and on which columns.

    Rows without a label, where ``unlabelled`` lets them pass, judge nothing but count otherwise.
    """

    label: str | None = named_column(
        "Column with the label: 0/1, boolean or t/f.", shown="none: nothing is judged"
    )
    positive: shared.Positive = None
    unlabelled: shared.Unlabelled = "error"
    weight: str | None = named_column(
        "Column with non-negative weights: a weight 2 is two rows.",
        shown="as the model names it, if it was fitted on weighted rows",
    )
    confidence: float = of_output("Confidence of the intervals.", "C", default=0.95)
    estimate: bool = of_estimate(
        "Estimate precision, recall and AUC without labels, from calibrated scores.", default=False
    )
    calibrator: Any = of_estimate(
        "The model that turns scores into probabilities (of calibrate or hetcal).",
        "FILE",
        shown="none: the score is a probability",
        read=shared.model_of,
    )
    assume: Literal["covariate", "prior"] | None = of_estimate(
        "What has not changed: the probability of a positive at a score (covariate), or the "
        "scores of positives and of negatives, while their shares may change (prior).",
        shown="covariate",
    )

    def check(self) -> None:
        """Refuse how labels are read, or rates estimated, where they are not; a wrong confidence."""
        if self.label is None and (self.positive is not None or self.unlabelled != "error"):
            raise UsageError("--positive and --unlabelled say how --label is read; name it.")
        if not 0.0 < self.confidence < 1.0:
            raise UsageError(
                f"--confidence is {self.confidence:g}; expected a number above 0 and below 1."
            )

        if not self.estimate and (self.calibrator is not None or self.assume is not None):
            raise UsageError("--calibrator and --assume say how to --estimate; ask for it.")
        if self.calibrator is not None and "score" not in self.calibrator.columns:
            raise UsageError(
                f"--calibrator holds a model of kind {self.calibrator.kind!r} that reads no score; "
                "give one of `calibkit calibrate` or `calibkit hetcal`."
            )

    @property
    def assumed(self) -> str | None:
        """What is taken not to have changed, where rates are estimated."""
        return (self.assume or "covariate") if self.estimate else None
