"""The options of ``validate``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from calibkit.options.option import Options, listed, option
from calibkit.options.shared import (
    COLUMNS,
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
)


@dataclass(frozen=True, kw_only=True)
class ValidateOptions(Options):
    """Which columns are looked at, and what they are claimed to hold.

    A column (or pattern) that is not named has a default name, and need not be there; one that is
    named must be.
    """

    score: Annotated[
        Names | None,
        option(
            metavar="NAME",
            group=COLUMNS,
            help=SCORE_HELP[:-1] + "; may be repeated.",
            shown="score, if the input has it",
            many="commas",
            read=listed,
        ),
    ] = None
    scale: Scale = "probability"
    label: Annotated[
        str | None,
        option(
            metavar="NAME",
            group=COLUMNS,
            help="Column with the label: 0/1, boolean or t/f; of class probabilities the class.",
            shown="label, if the input has it",
        ),
    ] = None
    positive: Positive = None
    unlabelled: Unlabelled = "error"
    uncertainty: Uncertainty = None
    weight: Weight = None
    groups: Groups = None
    time: Time = None
    by: By = None
    members: Annotated[
        Names | None,
        option(
            metavar="PATTERN",
            group=COLUMNS,
            help="Scores of replicate predictors (names and globs; commas or repetition).",
            shown="score_*, if the input has them",
            many="commas",
            read=listed,
        ),
    ] = None
    probs: Probs = None
    counts: Counts = None
    features: Features = None
    on_missing: OnMissing = "error"
