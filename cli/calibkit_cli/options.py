"""The options that several commands share, one alias each.

A command declares ``score: options.Score = "score"`` and has name, help text and panel from here.
It declares only what it does something with.
"""

from __future__ import annotations

import os
from typing import Annotated, Any, Literal

import typer

COLUMNS, INPUT, OUTPUT, RUN = "Columns", "Input", "Output", "Run"


def option(*names: str, metavar: str | None = None, panel: str | None = None, **more: Any) -> Any:
    """Return a ``typer.Option`` with the names, metavar and help panel given.

    What `typer.Option` takes besides (`help`, `min`, `envvar`, …) passes through.
    """
    return typer.Option(*names, metavar=metavar, rich_help_panel=panel, **more)


# Input ---------------------------------------------------------------------------------------

Inputs = Annotated[
    list[str],
    typer.Argument(
        metavar="INPUT",
        help="Files, globs, directories (key=value folders become columns) or - for standard "
        "input, all of one schema.",
        show_default=False,
    ),
]

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="A model file (JSON).", show_default=False)
]

Format = Literal["parquet", "csv", "tsv", "ndjson", "arrow"]

InputFormat = Annotated[
    Format | None,
    option(
        "--input-format",
        panel=INPUT,
        help="Format of the input, whatever its suffix says.",
        show_default="by suffix; on standard input by its first bytes, else csv",
    ),
]

FloatType = Literal["float64", "float32"]

Dtype = Annotated[
    FloatType,
    option("--dtype", panel=INPUT, help="What numbers of a text file (CSV, NDJSON) become."),
]

OnMissing = Annotated[
    Literal["error", "drop"],
    option(
        "--on-missing",
        panel=INPUT,
        help="Rows with null or NaN where a number is needed: refuse the file, or leave them out "
        "and say how many.",
    ),
]

OnMissingApply = Annotated[
    Literal["error", "null"],
    option(
        "--on-missing",
        panel=INPUT,
        help="Rows with null or NaN where a number is needed: refuse the file, or write null in "
        "the added columns.",
    ),
]

# Columns -------------------------------------------------------------------------------------

_SCORE_HELP = "Column with the score of the positive class."
_UNCERTAINTY_HELP = "Column with the uncertainty: larger = less certain, any real scale."
_LABEL_HELP = "Column with the label: 0/1, boolean or t/f."
_WEIGHT_HELP = "Column with non-negative weights: a weight 2 is two rows."

Score = Annotated[str, option("--score", metavar="NAME", panel=COLUMNS, help=_SCORE_HELP)]

ScoreKind = Literal["probability", "logit", "raw"]

Scale = Annotated[
    ScoreKind,
    option(
        "--scale",
        panel=COLUMNS,
        help="What the scores hold; raw: any real number, of which only the order counts.",
    ),
]

Label = Annotated[str, option("--label", metavar="NAME", panel=COLUMNS, help=_LABEL_HELP)]

Positive = Annotated[
    str | None,
    option(
        "--positive",
        metavar="VALUE",
        panel=COLUMNS,
        help="The value of the label column that is the positive class; all others are negative.",
        show_default=False,
    ),
]

Unlabelled = Annotated[
    Literal["error", "drop"],
    option(
        "--unlabelled",
        panel=COLUMNS,
        help="Rows without a label: refuse the file, or leave them out and say how many.",
    ),
]

Uncertainty = Annotated[
    str | None,
    option(
        "--uncertainty",
        metavar="NAME",
        panel=COLUMNS,
        help=_UNCERTAINTY_HELP,
        show_default="uncertainty, if the file has it",
    ),
]

Weight = Annotated[
    str | None,
    option("--weight", metavar="NAME", panel=COLUMNS, help=_WEIGHT_HELP, show_default="none"),
]

Groups = Annotated[
    str | None,
    option(
        "--groups",
        metavar="NAME",
        panel=COLUMNS,
        help="Column of rows that belong together (user, patient): they share a fold.",
        show_default="none",
    ),
]

Time = Annotated[
    str | None,
    option(
        "--time",
        metavar="NAME",
        panel=COLUMNS,
        help="Column of times: folds go forward, each judged by a fit on what came before.",
        show_default="none",
    ),
]

By = Annotated[
    str | None,
    option(
        "--by",
        metavar="NAME",
        panel=COLUMNS,
        help="Column of segments: fit or report each of its values by itself.",
        show_default="none",
    ),
]

WeightKind = Annotated[
    Literal["frequency", "sampling"],
    option(
        "--weight-kind",
        panel=COLUMNS,
        help="What a weight 2 is: two rows, or one row that stands for two.",
    ),
]

Probs = Annotated[
    list[str] | None,
    option(
        "--probs",
        metavar="PATTERN",
        panel=COLUMNS,
        help="Class probabilities: columns by a glob, or one column of lists.",
        show_default=False,
    ),
]

Counts = Annotated[
    str | None,
    option(
        "--counts",
        metavar="PATTERN",
        panel=COLUMNS,
        help="Votes per class: columns by a glob that pair with --probs, or one column of lists.",
        show_default=False,
    ),
]

Features = Annotated[
    list[str] | None,
    option(
        "--features",
        metavar="PATTERN",
        panel=COLUMNS,
        help="Feature columns: numbers, text or categories (names and globs; commas or repetition).",
        show_default=False,
    ),
]

_AS_IN_MODEL = "as the model names it"

ScoreElsewhere = Annotated[
    str | None,
    option("--score", metavar="NAME", panel=COLUMNS, help=_SCORE_HELP, show_default=_AS_IN_MODEL),
]

UncertaintyElsewhere = Annotated[
    str | None,
    option(
        "--uncertainty",
        metavar="NAME",
        panel=COLUMNS,
        help=_UNCERTAINTY_HELP,
        show_default=_AS_IN_MODEL,
    ),
]

ProbsElsewhere = Annotated[
    str | None,
    option(
        "--probs",
        metavar="PATTERN",
        panel=COLUMNS,
        help="Class probabilities: columns by a glob, or one column of lists.",
        show_default=_AS_IN_MODEL,
    ),
]

# Output --------------------------------------------------------------------------------------

Output = Annotated[
    str | None,
    option(
        "-o",
        "--output",
        metavar="OUTPUT",
        panel=OUTPUT,
        help="Where the result goes: a file, - for standard output.",
        show_default="a table on a terminal, the content on a pipe",
    ),
]

OutputFormat = Annotated[
    Format | None,
    option(
        "--output-format",
        panel=OUTPUT,
        help="Format of the output, whatever its suffix says.",
        show_default="by suffix; on standard output that of the input",
    ),
]

Json = Annotated[
    bool,
    option(
        "--json",
        panel=OUTPUT,
        help="Print the summary of the run, or its error, as one JSON object on standard output.",
    ),
]

Provenance = Annotated[
    Literal["hash", "names", "none"],
    option(
        "--provenance",
        panel=OUTPUT,
        help="What the model says of its input: a hash of the rows, also the file names, nothing.",
    ),
]

Tags = Annotated[
    list[str] | None,
    option(
        "--tag",
        metavar="KEY=VALUE",
        panel=OUTPUT,
        help="Text copied into the model; may be repeated.",
        show_default=False,
    ),
]

FailIf = Annotated[
    list[str] | None,
    option(
        "--fail-if",
        metavar="EXPR",
        panel=OUTPUT,
        help="Exit with code 1 if this holds: [SCORE/][SLICE/]METRIC[.low|.high|.delta], one of "
        "< <= > >=, a number or another address; may be repeated.",
        show_default=False,
    ),
]

# Run -----------------------------------------------------------------------------------------

Quiet = Annotated[
    bool,
    option(
        "--quiet",
        "-q",
        panel=RUN,
        envvar="CALIBKIT_QUIET",
        help="No progress and no summary; warnings stay.",
    ),
]

Verbose = Annotated[bool, option("--verbose", "-v", panel=RUN, help="Say more on standard error.")]

Warnings = Annotated[
    Literal["show", "error"],
    option("--warnings", panel=RUN, help="error: a warning ends the run, before it writes."),
]

DryRun = Annotated[
    bool,
    option(
        "--dry-run",
        panel=RUN,
        help="Show the columns found, the plan and the first rows; write nothing.",
    ),
]

Seed = Annotated[
    int,
    option(
        "--seed",
        metavar="NUMBER",
        panel=RUN,
        min=0,
        max=2**63 - 1,
        envvar="CALIBKIT_SEED",
        help="Where randomness begins: same seed, same result.",
    ),
]

SeedElsewhere = Annotated[
    int | None,
    option(
        "--seed",
        metavar="NUMBER",
        panel=RUN,
        min=0,
        max=2**63 - 1,
        help="Another seed for the decisions of a stochastic boundary.",
        show_default=_AS_IN_MODEL,
    ),
]


def _limit_polars(threads: int | None) -> int | None:
    """Let polars, which is loaded later, use no more threads than the command."""
    if threads is not None:
        os.environ["POLARS_MAX_THREADS"] = str(threads)
    return threads


Threads = Annotated[
    int | None,
    option(
        "--threads",
        metavar="NUMBER",
        panel=RUN,
        min=1,
        envvar="CALIBKIT_THREADS",
        callback=_limit_polars,
        help="Threads to use; the result does not depend on it.",
        show_default="one a processor",
    ),
]

Memory = Annotated[
    str | None,
    option(
        "--memory",
        metavar="SIZE",
        panel=RUN,
        envvar="CALIBKIT_MEMORY",
        help="Memory to stay within, such as 500MB or 2GB; rows that do not fit are read in batches.",
        show_default="half of the machine's",
    ),
]
