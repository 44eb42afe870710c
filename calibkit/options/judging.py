"""The options of what judges scores by labels or votes: shared by ``evaluate`` and ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Annotated, Any, Literal

from calibkit.errors import UsageError
from calibkit.options.option import listed, option
from calibkit.options.shared import FrameLike, Names, named_column

of_slices, of_metrics = partial(option, group="Slices"), partial(option, group="Metrics")
of_votes = partial(option, group="Votes of several raters")

#: Numbers, by their shortest decimal, or as text; one or several.
Numbers = float | str | tuple[str, ...] | list[float] | list[str]


def decimals(value: Any, flag: str) -> tuple[str, ...]:
    """Return numbers as they would be typed: one, several, or text with commas between them."""
    if isinstance(value, str):
        return listed(value)
    several = list(value) if isinstance(value, Sequence) else [value]
    if not all(isinstance(one, str | int | float) for one in several):
        raise UsageError(f"{flag} is {value!r}; expected a number, or a list of numbers.")
    return tuple(map(str, several))


Scores = Annotated[
    Names | None,
    named_column(
        "Column with the score of the positive class; may be repeated.",
        flags=("--score",),
        shown="score",
        many="commas",
    ),
]

Baseline = Annotated[
    str | None,
    named_column("The score that the others are compared with.", shown="the first score"),
]

Top = Annotated[
    Numbers | None,
    of_slices(
        "Also judge the rows with the highest scores: shares such as 0.02,0.1; ties are kept whole.",
        "SHARES",
        many="commas",
        read=decimals,
    ),
]

TopBy = Annotated[
    str | None, of_slices("The column that ranks rows for --top.", "NAME", shown="the baseline")
]

MinRows = Annotated[
    int, of_slices("Metrics of a --by value with fewer rows are null.", "ROWS", least=0)
]

Bins = Annotated[int, of_metrics("Bins of ece and mce.", "M", least=1, most=65_535)]

BinStrategy = Annotated[
    Literal["equal-width", "equal-mass", "range"],
    of_metrics(
        "Bins of equal width over [0, 1], of equal mass, or of equal width over the range of "
        "the scores."
    ),
]

Decision = Annotated[
    str | None, of_metrics("Judge a column of decisions: 0/1, boolean or t/f.", "NAME")
]

Threshold = Annotated[
    Numbers | None,
    of_metrics(
        "Judge the decision to flag rows with score >= X, under the score 'threshold:X'; may be "
        "repeated. Of several scores the baseline decides.",
        "X",
        many="commas",
        read=decimals,
    ),
]

Grid = Annotated[
    FrameLike | None,
    of_metrics(
        "A table of `calibkit bin`: calibration error over its cells, ece_at:J for score bin J.",
        "FILE",
        path=True,
    ),
]

GridScore = Annotated[
    str | None,
    of_metrics(
        "The column with the score that the grid bins.", "NAME", shown="as the grid names it"
    ),
]

Confidence = Annotated[float, of_metrics("Confidence of the intervals.", "C")]

Intervals = Annotated[bool, of_metrics("No intervals.", flags=("--no-intervals",))]

Ensemble = Annotated[
    bool,
    of_votes("With --counts: the patterns of --probs are members of one predictor, their mean."),
]

Alpha0 = Annotated[
    Names | None,
    of_votes(
        "With --counts: column of strengths, as alpha-cal adds it; one for all patterns of "
        "--probs, or one for each.",
        "NAME",
        many="commas",
    ),
]

Disagreement = Annotated[
    str | None,
    of_votes(
        "With --counts: column of the predicted probability that two raters differ.",
        "NAME",
        shown="as the class probabilities (and --alpha0) say",
    ),
]
