"""The options of ``drift`` and ``watch``: new rows of a deployed model."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Any, Final, Literal

from calibkit.errors import UsageError
from calibkit.options import shared
from calibkit.options.apply import OfModel
from calibkit.options.option import inside, option

of_estimate = partial(option, group="Without labels")


class DriftOptions(OfModel, shared.Labelled, shared.Threaded):
    """Compare new rows with those that a boundary, or each boundary of a bundle, was fitted on.

    Reports the share of rows selected, the population stability index of score and uncertainty
    beside its expectation under chance, and the shares of rows outside the range of the fit or
    without a value; with labels also precision and recall, beside what the model promised; with
    --estimate an estimate of these and of AUC without labels. --fail-if judges all of it, as in
    evaluate.

    Examples:
      calibkit drift boundary.json today.parquet -o drift.json
      calibkit drift boundary.json today.parquet --fail-if 'psi_score.low>0.1' -q -o drift.json
      calibkit drift boundary.json today.parquet --estimate --calibrator cal.json -o drift.json
      calibkit drift service.json march.csv --label label --fail-if 'precision.high < fit/precision'
    """

    label: str | None = shared.named_column(
        "Column with the label: 0/1, boolean or t/f.", shown="none: nothing is judged"
    )  # type: ignore[assignment]
    weight: str | None = shared.named_column(
        "Column with non-negative weights: a weight 2 is two rows.",
        shown="as the model names it, if it was fitted on weighted rows",
    )
    confidence: float = shared.of_output("Confidence of the intervals.", "C", default=0.95)
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
        made = self.calibrator
        known = made is None or (made.kind in ("calibrator", "hetcal") and "score" in made.columns)
        if not known:
            raise UsageError(
                f"--calibrator holds a model of kind {made.kind!r} that reads no score, or makes no "
                "probability of it; give one of `calibkit calibrate` or `calibkit hetcal`."
            )

    @property
    def assumed(self) -> str | None:
        """What is taken not to have changed, where rates are estimated."""
        return (self.assume or "covariate") if self.estimate else None


of_promises = partial(option, group="Promises")
of_rates = partial(of_promises, shown="the model's own bound", read=inside)

#: The largest weight that can be declared: with more no row says anything.
MOST_WEIGHT: Final = 1e12


class WatchOptions(OfModel, shared.Labelled):
    """Test every night whether a deployed boundary keeps its promises, however often you look.

    Tests every night whether precision, recall or the false positive rate keeps its bound. The
    file of --state holds the counts so far. However often and however long you look, the chance
    of a false alarm is at most 1 - C. Rows of an earlier night are refused; giving those of the last
    night twice changes nothing.

    Examples:
      calibkit watch boundary.json tonight.parquet --state watch.state -o watch.json
      calibkit watch boundary.json labels.csv --state watch.state --period day --fail-if alarm
      calibkit watch boundary.json labels.csv --state watch.state --precision 0.7 --confidence 0.99
      calibkit watch boundary.json tonight.parquet --state watch.state --drift --unlabelled drop
    """

    model: Annotated[
        shared.ModelLike, option("A boundary (JSON).", "MODEL", argument=True, read=shared.model_of)
    ]
    state: Annotated[
        str, shared.of_output("File of the counts so far: read if it exists, then written.", "FILE")
    ]
    precision: Any = of_rates("Each night's precision is at least this.", "P")
    recall: Any = of_rates("Each night's recall is at least this.", "R")
    fpr: Any = of_rates("Each night's false positive rate is at most this.", "A")
    calibration: bool = of_promises(
        "Also test that each score is the probability of a positive.", default=False
    )
    drift: bool = of_promises(
        "Say from which night scores and uncertainties differ from those of the fitting rows; rows "
        "without a label count too. It never raises an alarm.",
        default=False,
    )
    confidence: Any = of_promises(
        "Probability that no promise ever raises a false alarm.",
        "C",
        shown="that of the model's certificate for its own bound, else 0.95",
        read=inside,
    )
    period: str | None = shared.named_column(
        "Column with the night of a row: a date, a time or a whole number.",
        shown="none: each run is the next night",
    )
    labelled_at: str | None = shared.named_column(
        "Column with the night on which a label arrived, to which its row belongs; a row "
        "without one has no label yet.",
        shown="as --period",
    )
    weight: str | None = shared.named_column(
        "Column with the sampling weight of a row: one over the chance that it was drawn for a label.",
        shown="none: each row counts once",
    )
    max_weight: float | None = of_promises(
        "The largest --weight that a row can ever have, as the sampling plan says: the tests rest on "
        "it.",
        "W",
    )
    maturity: int | None = of_promises(
        "Count a row so many nights after its --period, and not before.",
        "DAYS",
        least=0,
        most=100_000,
        shown="when its label arrives",
    )

    @property
    def named(self) -> dict[str, float]:
        """The promises that are named, with their bounds."""
        asked = {"precision": self.precision, "recall": self.recall, "fpr": self.fpr}
        return {name: float(bound) for name, bound in asked.items() if bound is not None}

    def check(self) -> None:
        """Refuse an age without a date, and a state that is no file."""
        if self.state in ("", "-") or self.state.endswith("/"):
            raise UsageError("--state names a file: it is read and written.")
        if self.maturity is not None and self.period is None:
            raise UsageError("--maturity counts nights from --period; name its column.")
        if self.drift and self.labelled_at is not None and self.period is None:
            raise UsageError("--drift counts a row on its --period; name its column.")
        if (self.weight is None) != (self.max_weight is None):
            raise UsageError(
                "--weight and --max-weight go together: the largest weight is declared beforehand, not "
                "taken from the rows seen."
            )
        if self.max_weight is not None and not 0.0 < self.max_weight <= MOST_WEIGHT:
            raise UsageError(
                f"--max-weight is {self.max_weight:g}; expected above 0, up to {MOST_WEIGHT:g}."
            )
        if self.weight is not None and self.calibration:
            raise UsageError("--calibration counts each row once; leave --weight out.")
