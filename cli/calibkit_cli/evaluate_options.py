"""The options of ``calibkit evaluate`` alone, one alias each."""

from __future__ import annotations

from typing import Annotated, Literal

from . import completers
from .options import COLUMNS, OUTPUT, option

SLICES, METRICS = "Slices", "Metrics"

Scores = Annotated[
    list[str] | None,
    option(
        "--score",
        metavar="NAME",
        panel=COLUMNS,
        help="Column with the score of the positive class; may be repeated.",
        show_default="score",
    ),
]

Baseline = Annotated[
    str | None,
    option(
        "--baseline",
        metavar="NAME",
        panel=COLUMNS,
        help="The score that the others are compared with.",
        show_default="the first score",
    ),
]

Top = Annotated[
    list[str] | None,
    option(
        "--top",
        metavar="SHARES",
        panel=SLICES,
        help="Also on the rows with the highest scores: shares such as 0.02,0.1, ties kept whole.",
        show_default=False,
    ),
]

TopBy = Annotated[
    str | None,
    option(
        "--top-by",
        metavar="NAME",
        panel=SLICES,
        help="The column that ranks rows for --top.",
        show_default="the baseline",
    ),
]

MinRows = Annotated[
    int,
    option(
        "--min-rows",
        metavar="ROWS",
        panel=SLICES,
        min=0,
        help="Metrics of values of --by with fewer rows are null.",
    ),
]

Bins = Annotated[
    int,
    option("--bins", metavar="M", panel=METRICS, min=1, max=65_535, help="Bins of ece and mce."),
]

BinStrategy = Annotated[
    Literal["equal-width", "equal-mass", "range"],
    option(
        "--bin-strategy",
        panel=METRICS,
        help="Bins of equal width over [0, 1], of equal mass, or of equal width over the range of "
        "the scores.",
    ),
]

RecallAtPrecision = Annotated[
    list[str] | None,
    option(
        "--recall-at-precision",
        metavar="P",
        panel=METRICS,
        help="The highest recall of one threshold with precision >= P; may be repeated.",
        show_default=False,
    ),
]

PrecisionAtRecall = Annotated[
    list[str] | None,
    option(
        "--precision-at-recall",
        metavar="R",
        panel=METRICS,
        help="The highest precision of one threshold with recall >= R; may be repeated.",
        show_default=False,
    ),
]

Boundary = Annotated[
    str | None,
    option(
        "--boundary",
        metavar="MODEL",
        panel=METRICS,
        help="Judge the decisions of a boundary, under the score 'boundary'.",
        show_default=False,
    ),
]

Decision = Annotated[
    str | None,
    option(
        "--decision",
        metavar="NAME",
        panel=METRICS,
        help="Judge a column of decisions: 0/1, boolean or t/f.",
        show_default=False,
    ),
]

Grid = Annotated[
    str | None,
    option(
        "--grid",
        metavar="FILE",
        panel=METRICS,
        help="A table of `calibkit bin`: calibration error over its cells, ece_at:J for score bin J.",
        show_default=False,
    ),
]

GridScore = Annotated[
    str | None,
    option(
        "--grid-score",
        metavar="NAME",
        panel=METRICS,
        help="The column with the score that the grid bins.",
        show_default="as the grid names it",
    ),
]

MetricNames = Annotated[
    list[str] | None,
    option(
        "--metrics",
        metavar="LIST",
        panel=METRICS,
        help="Only these metrics.",
        autocompletion=completers.metrics,
        show_default="all",
    ),
]

Prevalence = Annotated[
    str | None,
    option(
        "--prevalence",
        metavar="P",
        panel=METRICS,
        help="Reweight the classes to this share of positives.",
        show_default=False,
    ),
]

Confidence = Annotated[
    float,
    option("--confidence", metavar="C", panel=METRICS, help="Confidence of the intervals."),
]

NoIntervals = Annotated[bool, option("--no-intervals", panel=METRICS, help="No intervals.")]

Reliability = Annotated[
    str | None,
    option(
        "--reliability",
        metavar="FILE",
        panel=OUTPUT,
        help="Reliability diagrams as rows: bins, and the pools of isotonic regression (CORP).",
        show_default=False,
    ),
]

Report = Annotated[
    str | None,
    option(
        "--report",
        metavar="FILE.html",
        panel=OUTPUT,
        help="A page for people: all figures, pictures and the story of the boundary in one file.",
        show_default=False,
    ),
]

Plot = Annotated[
    str | None,
    option(
        "--plot",
        metavar="FILE",
        panel=OUTPUT,
        help="Also draw a reliability diagram (.svg, .png): of votes that of the disagreement, of raw "
        "scores the ROC curve.",
        show_default=False,
    ),
]

VOTES = "Votes of several raters"

Ensemble = Annotated[
    bool,
    option(
        "--ensemble",
        panel=VOTES,
        help="With --counts: the patterns of --probs are members of one predictor, their mean.",
    ),
]

Alpha0 = Annotated[
    list[str] | None,
    option(
        "--alpha0",
        metavar="NAME",
        panel=VOTES,
        help="With --counts: column of strengths, as alpha-cal adds it; one for all patterns of "
        "--probs, or one for each.",
        show_default=False,
    ),
]

Disagreement = Annotated[
    str | None,
    option(
        "--disagreement",
        metavar="NAME",
        panel=VOTES,
        help="With --counts: column of the predicted probability that two raters differ.",
        show_default="as the class probabilities (and --alpha0) say",
    ),
]

ClassDisagreement = Annotated[
    str | None,
    option(
        "--class-disagreement",
        metavar="PATTERN",
        panel=VOTES,
        help="With --counts: columns of the predicted probability that they differ about a class.",
        show_default="as the class probabilities (and --alpha0) say",
    ),
]
