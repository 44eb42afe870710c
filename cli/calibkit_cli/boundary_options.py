"""The options of ``calibkit boundary`` alone, one alias each: objectives, methods, judging."""

from __future__ import annotations

from typing import Annotated, Literal

from . import completers
from .options import COLUMNS, OUTPUT, option

OBJECTIVE, METHOD = "Objective (exactly one)", "Method"

#: The option that takes a number of levels or ``auto``.
LEVELS = "--uncertainty-bins"

Precision = Annotated[
    str | None,
    option("--precision", metavar="P", panel=OBJECTIVE, help="Most recall at precision >= P."),
]

Recall = Annotated[
    str | None,
    option("--recall", metavar="R", panel=OBJECTIVE, help="Most precision at recall >= R."),
]

Fpr = Annotated[
    str | None,
    option("--fpr", metavar="A", panel=OBJECTIVE, help="Most recall at false positive rate <= A."),
]

Capacity = Annotated[
    str | None,
    option(
        "--capacity",
        metavar="N",
        panel=OBJECTIVE,
        help="Most recall with at most N rows selected; below 1: a share of the rows.",
    ),
]

Maximize = Annotated[
    str | None,
    option(
        "--maximize",
        metavar="METRIC",
        panel=OBJECTIVE,
        help="accuracy, weighted-accuracy:W, balanced-accuracy, precision, f1, fbeta:B, "
        "jaccard, mcc, kappa, gmean, fowlkes-mallows, youden, lift or utility:TP,FP,FN,TN.",
        autocompletion=completers.one_of(completers.MEASURES),
    ),
]

Minimize = Annotated[
    str | None,
    option(
        "--minimize",
        metavar="cost:FP,FN",
        panel=OBJECTIVE,
        help="Least expected cost a row; a cost is a number or a column.",
    ),
]

Value = Annotated[
    str | None,
    option(
        "--value",
        metavar="NAME",
        panel=COLUMNS,
        help="Column of values: recall is the share of its sum among the positives.",
        show_default="none: recall counts rows",
    ),
]

Prevalence = Annotated[
    str | None,
    option(
        "--prevalence",
        metavar="P",
        panel=METHOD,
        help="Reweight the classes to this base rate; all rates are those at it.",
        show_default="that of the rows",
    ),
]

Bounded = Annotated[
    Literal["overall", "each"],
    option(
        "--bound",
        panel=METHOD,
        help="With --by: the bound holds for all rows together, or for each segment.",
    ),
]

MinGroupPositives = Annotated[
    int | None,
    option(
        "--min-group-positives",
        metavar="N",
        panel=METHOD,
        min=0,
        help="With --by: segments with fewer positive rows share the thresholds of one, other.",
        show_default="50 with --bound each, else 0",
    ),
]

Method = Annotated[
    str,
    option(
        "--method",
        metavar="METHOD",
        panel=METHOD,
        help="auto: st, logistic or exact, whichever cross-validation favours. exact: the optimum, "
        "with proof. st: one threshold for all levels. logistic: one cut on a logistic surface. "
        "stochastic: the optimum over randomised boundaries. The paper's, for comparison (see "
        "--compare): mist, gmt, vw-dpmt, vw-dpmt-mono, ew-dpmt, ew-dpmt-mono, staircase.",
        autocompletion=completers.one_of(completers.BOUNDARY_METHODS),
    ),
]

UncertaintyBins = Annotated[
    str | None,
    option(
        LEVELS,
        metavar="K|auto",
        panel=METHOD,
        help="Uncertainty levels; auto: chosen among 1, 2, 3, 5, 7 and 11 by cross-validation.",
        show_default="auto with auto; 3; 100 for logistic, 1 for st and without uncertainty",
    ),
]

ScoreBins = Annotated[
    int | None,
    option(
        "--score-bins",
        metavar="L",
        panel=METHOD,
        min=0,
        help="Score bins within each level; 0: every distinct score.",
        show_default="0; 500 for the -dpmt methods and staircase",
    ),
]

Strategy = Annotated[
    Literal["equal-mass", "equal-width"],
    option("--strategy", panel=METHOD, help="Bins of equal mass or of equal width."),
]

Order = Annotated[
    Literal["uncertainty-score", "score-uncertainty"],
    option("--order", panel=METHOD, help="Which axis is binned first."),
]

Randomise = Annotated[
    Literal["block", "tie"],
    option(
        "--randomise",
        panel=METHOD,
        help="With --method stochastic: random over a block of scores in one level (the optimum "
        "over randomised boundaries), or at one score of all rows together.",
    ),
]

Folds = Annotated[
    int,
    option("--folds", metavar="F", panel=METHOD, help="Folds of cross-validation; 0: none."),
]

Confidence = Annotated[
    str | None,
    option(
        "--confidence",
        metavar="C",
        panel=METHOD,
        help="Certify the bound: it holds on new data with this probability. Goes with --method "
        "auto, st, logistic and exact.",
        show_default="none: nothing is guaranteed",
    ),
]

Test = Annotated[
    str | None,
    option("--test", metavar="FILE", panel=METHOD, help="Labelled rows to judge it on."),
]

Compare = Annotated[
    bool,
    option("--compare", panel=METHOD, help="A table of all methods that take the objective."),
]

Frontier = Annotated[
    str | None,
    option(
        "--frontier",
        metavar="FILE",
        panel=OUTPUT,
        help="Every boundary that no other beats in precision and recall, as rows.",
        show_default=False,
    ),
]

Calibrator = Annotated[
    str | None,
    option(
        "--calibrator",
        metavar="MODEL",
        panel=COLUMNS,
        help="The model that made the score column: scores of any other are refused from then on. "
        "Parquet files that apply wrote say it themselves.",
        show_default=False,
    ),
]
