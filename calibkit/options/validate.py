"""The options of ``validate``."""

from __future__ import annotations

from dataclasses import dataclass

from calibkit.options import shared
from calibkit.options.option import Options
from calibkit.options.shared import named_column, of_columns


@dataclass(frozen=True, kw_only=True)
class ValidateOptions(Options):
    """Which columns are looked at, and what they are claimed to hold.

    A column (or pattern) that is not named has a default name, and need not be there; one that is
    named must be.
    """

    score: shared.Names | None = named_column(
        shared.SCORE_HELP[:-1] + "; may be repeated.",
        shown="score, if the input has it",
        many="commas",
    )
    scale: shared.Scale = "probability"
    label: str | None = named_column(
        "Column with the label: 0/1, boolean or t/f; with --probs the class.",
        shown="label, if the input has it",
    )
    positive: shared.Positive = None
    unlabelled: shared.Unlabelled = "error"
    uncertainty: shared.Uncertainty = None
    weight: shared.Weight = None
    groups: shared.Groups = None
    time: shared.Time = None
    by: shared.By = None
    members: shared.Names | None = of_columns(
        "Scores of replicate predictors (names and globs; commas or repetition).",
        "PATTERN",
        shown="score_*, if the input has them",
        many="commas",
    )
    probs: shared.Probs = None
    counts: shared.Counts = None
    features: shared.Features = None
    on_missing: shared.OnMissing = "error"
