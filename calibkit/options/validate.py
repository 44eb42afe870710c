"""The options of ``validate``."""

from __future__ import annotations

from dataclasses import dataclass

from calibkit.options.option import Options
from calibkit.options.shared import (
    SCORE_HELP,
    By,
    Counts,
    Features,
    Groups,
    Names,
    OnMissing,
    Positive,
    Probs,
    Scale,
    Time,
    Uncertainty,
    Unlabelled,
    Weight,
    named_column,
    of_columns,
)


@dataclass(frozen=True, kw_only=True)
class ValidateOptions(Options):
    """Which columns are looked at, and what they are claimed to hold.

    A column (or pattern) that is not named has a default name, and need not be there; one that is
    named must be.
    """

    score: Names | None = named_column(
        SCORE_HELP[:-1] + "; may be repeated.", shown="score, if the input has it", many="commas"
    )
    scale: Scale = "probability"
    label: str | None = named_column(
        "Column with the label: 0/1, boolean or t/f; of class probabilities the class.",
        shown="label, if the input has it",
    )
    positive: Positive = None
    unlabelled: Unlabelled = "error"
    uncertainty: Uncertainty = None
    weight: Weight = None
    groups: Groups = None
    time: Time = None
    by: By = None
    members: Names | None = of_columns(
        "Scores of replicate predictors (names and globs; commas or repetition).",
        "PATTERN",
        shown="score_*, if the input has them",
        many="commas",
    )
    probs: Probs = None
    counts: Counts = None
    features: Features = None
    on_missing: OnMissing = "error"
