"""The options of ``validate``."""

from __future__ import annotations

from typing import Annotated

from calibkit.options import shared
from calibkit.options.hetcal import HetcalOptions


class ValidateOptions(shared.Segmented, shared.Labelled, shared.Folded, shared.ClassColumns):
    """Read rows as the other commands would, and report every problem.

    Checks types, ranges, missing values, labels of one class, duplicates, ties, constant columns,
    and scores on another scale than declared or in reverse order. A fit refuses errors (exit code
    3) and accepts warnings, which need a second look; --warnings error fails on these too.

    Columns that are not named are checked under their default names, where the input has them.

    Examples:
      calibkit validate calib.parquet
      calibkit validate scores.csv --score p --label y --by country -o report.json
      calibkit validate votes.parquet --probs 'prob_*' --counts 'count_*' --warnings error
      calibkit validate calib.parquet --json | jq '.findings[] | select(.level == "error")'
    """

    score: shared.Names | None = shared.named_column(
        shared.SCORE_HELP[:-1] + "; may be repeated.",
        shown="score, if the input has it",
        many="commas",
    )
    label: str | None = shared.named_column(
        "Column with the label: 0/1, boolean or t/f; with --probs the class.",
        shown="label, if the input has it",
    )  # type: ignore[assignment]
    uncertainty: Annotated[str | None, shared.ColumnOptions] = None
    members: shared.Names | None = shared.of_patterns(
        "Scores of replicate predictors (names and globs; commas or repetition).",
        shown="score_*, if the input has them",
    )
    features: Annotated[shared.Names | None, HetcalOptions] = None
