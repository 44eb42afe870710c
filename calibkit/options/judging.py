"""The options of what judges scores by labels or votes: shared by ``evaluate`` and ``plot``."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from calibkit.errors import UsageError
from calibkit.options.option import listed, option
from calibkit.options.shared import COLUMNS, FrameLike, Names

SLICES, METRICS, VOTES = "Slices", "Metrics", "Votes of several raters"

#: Numbers, by their shortest decimal, or as text; one or several.
Numbers = float | str | tuple[str, ...] | list[float] | list[str]


def decimals(value: Any, flag: str) -> tuple[str, ...]:
    """Return numbers as they would be typed: one, several, or text with commas between them.

    Raises
    ------
    UsageError
        For what is neither number nor text.
    """
    if isinstance(value, str):
        return listed(value)
    several = list(value) if isinstance(value, Sequence) else [value]
    if not all(isinstance(one, str | int | float) for one in several):
        raise UsageError(f"{flag} is {value!r}; expected a number, or a list of numbers.")
    return tuple(map(str, several))


Scores = Annotated[
    Names | None,
    option(
        "--score",
        metavar="NAME",
        group=COLUMNS,
        help="Column with the score of the positive class; may be repeated.",
        shown="score",
        many="commas",
        read=listed,
    ),
]

Baseline = Annotated[
    str | None,
    option(
        metavar="NAME",
        group=COLUMNS,
        help="The score that the others are compared with.",
        shown="the first score",
    ),
]

Top = Annotated[
    Numbers | None,
    option(
        metavar="SHARES",
        group=SLICES,
        help="Also on the rows with the highest scores: shares such as 0.02,0.1, ties kept whole.",
        shown=False,
        many="commas",
        read=decimals,
    ),
]

TopBy = Annotated[
    str | None,
    option(
        metavar="NAME",
        group=SLICES,
        help="The column that ranks rows for --top.",
        shown="the baseline",
    ),
]

MinRows = Annotated[
    int,
    option(
        metavar="ROWS",
        group=SLICES,
        least=0,
        help="Metrics of values of --by with fewer rows are null.",
    ),
]

Bins = Annotated[
    int, option(metavar="M", group=METRICS, least=1, most=65_535, help="Bins of ece and mce.")
]

BIN_STRATEGY = option(
    group=METRICS,
    help="Bins of equal width over [0, 1], of equal mass, or of equal width over the range of "
    "the scores.",
)

Decision = Annotated[
    str | None,
    option(
        metavar="NAME",
        group=METRICS,
        help="Judge a column of decisions: 0/1, boolean or t/f.",
        shown=False,
    ),
]

Threshold = Annotated[
    Numbers | None,
    option(
        metavar="X",
        group=METRICS,
        help="Judge the decision to flag rows with score >= X, under the score 'threshold:X'; may be "
        "repeated. Of several scores the baseline decides.",
        shown=False,
        many="commas",
        read=decimals,
    ),
]

Grid = Annotated[
    FrameLike | None,
    option(
        metavar="FILE",
        group=METRICS,
        path=True,
        help="A table of `calibkit bin`: calibration error over its cells, ece_at:J for score bin J.",
        shown=False,
    ),
]

GridScore = Annotated[
    str | None,
    option(
        metavar="NAME",
        group=METRICS,
        help="The column with the score that the grid bins.",
        shown="as the grid names it",
    ),
]

Confidence = Annotated[
    float, option(metavar="C", group=METRICS, help="Confidence of the intervals.")
]

Intervals = Annotated[bool, option("--no-intervals", group=METRICS, help="No intervals.")]

Ensemble = Annotated[
    bool,
    option(
        group=VOTES,
        help="With --counts: the patterns of --probs are members of one predictor, their mean.",
    ),
]

Alpha0 = Annotated[
    Names | None,
    option(
        metavar="NAME",
        group=VOTES,
        help="With --counts: column of strengths, as alpha-cal adds it; one for all patterns of "
        "--probs, or one for each.",
        shown=False,
        many="commas",
        read=listed,
    ),
]

Disagreement = Annotated[
    str | None,
    option(
        metavar="NAME",
        group=VOTES,
        help="With --counts: column of the predicted probability that two raters differ.",
        shown="as the class probabilities (and --alpha0) say",
    ),
]
