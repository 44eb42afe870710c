"""The options of ``plot``: a class a kind of picture, whose docstring is its help.

Of each kind `KIND` is its name, `HEADING` its title, `SIZE` that of the picture in inches.  Several
have in common that a label judges scores (`ScorePlot`), votes class probabilities (`VotePlot`), or that
rows are put into a grid (`GridPlot`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, Literal, TypeAlias, cast

from msgspec import Struct

from calibkit.errors import UsageError
from calibkit.models.scales import measure
from calibkit.options import evaluate as own
from calibkit.options import shared
from calibkit.options.evaluate import EvaluateOptions, Intervals, Scored
from calibkit.options.option import Options, listed, option

if TYPE_CHECKING:
    #: Boundaries, or their files; `read_models` makes them a tuple.
    Boundaries: TypeAlias = shared.ModelLike | Sequence[shared.ModelLike] | None
else:
    Boundaries = Any

of_picture = partial(option, group="Picture")
of_bins = partial(option, group="Bins and boundaries")

#: Sizes that can be drawn, in inches.
LEAST, MOST = 2.5, 40.0

_SIZE = re.compile(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)")


class Look(Struct, frozen=True, kw_only=True):
    """How a picture looks."""

    width: float | None = None  # in inches; None: what suits the kind
    height: float | None = None
    title: str | None = None  # None: that of the kind; empty: no title
    dark: bool = False  # light lines on dark ground
    transparent: bool = False  # without the ground: for pages that have their own

    def __post_init__(self) -> None:
        for name, value in (("width", self.width), ("height", self.height)):
            if value is not None and not LEAST <= value <= MOST:
                raise UsageError(f"--{name} is {value:g} inches; expected {LEAST:g} to {MOST:g}.")


def _size(value: Any, flag: str) -> tuple[float, float]:
    """Return width and height of two numbers, or of text such as ``6x4``."""
    pair = isinstance(value, list | tuple) and len(value) == 2
    text = "x".join(map(str, value)) if pair else str(value)
    found = _SIZE.fullmatch(text.strip().lower())
    if found is None:
        raise UsageError(f"--size is {text!r}; expected WIDTHxHEIGHT in inches, such as 6x4.")
    return float(found[1]), float(found[2])


def read_models(value: Any, flag: str) -> tuple[Any, ...]:
    """Return models, or their files: one, several, or text with commas between them."""
    several: Any = listed(value) if isinstance(value, str) else value
    several = several if isinstance(several, list | tuple) else [value]
    found = [
        os.fspath(one) if isinstance(one, str | os.PathLike) else shared.model_of(one, flag)
        for one in several
        if one is not None
    ]
    return tuple(one for place, one in enumerate(found) if one not in found[:place])


of_boundaries = partial(of_bins, metavar="MODEL", default=(), many="commas", read=read_models)
_levels = partial(of_bins, "Uncertainty bins.", "K", least=1)
_score_bins = partial(of_bins, metavar="L", least=1)

#: All kinds of pictures, in the order of the help: that of their classes.
KINDS: Final[dict[str, type[PlotOptions]]] = {}


class PlotOptions(Options):
    """Draw scores and boundaries as SVG, PNG or PDF, or write the points as a table.

    Examples:
      calibkit plot reliability test.parquet -o reliability.svg
      calibkit plot roc test.parquet --boundary boundary.json -o roc.png
      calibkit plot heatmap test.parquet --boundary boundary.json -o heatmap.svg
    """

    KIND: ClassVar[str]
    HEADING: ClassVar[str]
    SIZE: ClassVar[tuple[float, float]]

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        if "KIND" in vars(cls):
            KINDS[cls.KIND] = cls

    on_missing: Annotated[Literal["error", "drop"], shared.Rows] = "error"
    size: str | tuple[float, float] | None = of_picture(
        "Width and height in inches, such as 6x4; a PNG has 200 dots an inch.",
        "WxH",
        read=_size,
        shown="what suits the kind",
    )
    width: float | None = of_picture("Width alone.", "INCHES")
    height: float | None = of_picture("Height alone.", "INCHES")
    title: str | None = of_picture("The title; '' for none.", "TEXT", shown="that of the kind")
    dark: bool = of_picture("Light lines on dark ground, for screens.", default=False)
    ax: Any = option(
        "The matplotlib axes to draw on, as they look; a title stands there if one is given.",
        typed=False,
        shown="those of a new figure",
    )

    def check(self) -> None:
        """Refuse an impossible size, and a look for axes that have one."""
        if self.look != Look(title=self.title) and self.ax is not None:
            raise UsageError(
                "--size, --width, --height and --dark are for a new figure; leave them out with ax."
            )

    @property
    def look(self) -> Look:
        """How the picture looks."""
        if self.size is not None and (self.width is not None or self.height is not None):
            raise UsageError("--size is width and height; leave --width and --height out.")
        wide, high = cast("tuple[float, float]", self.size) or (self.width, self.height)
        return Look(width=wide, height=high, title=self.title, dark=self.dark)

    @property
    def boundaries(self) -> list[tuple[str, Any]]:
        """The boundaries to draw, each with what a picture calls it: its file, or its kind."""
        models: tuple[Any, ...] = getattr(self, "boundary", ())
        several = sum(not isinstance(one, str) for one in models) > 1
        return [
            (one if isinstance(one, str) else f"{one.kind} {place}" if several else one.kind, one)
            for place, one in enumerate(models, 1)
        ]


class JudgedPlot(Intervals, PlotOptions, shared.Weighted):
    """Metrics, with their intervals."""

    groups: Annotated[str | None, EvaluateOptions] = None

    @property
    def judged(self) -> EvaluateOptions:
        """What to evaluate for the picture, whatever boundaries are drawn there."""
        return self.part(EvaluateOptions, boundary=None, uncertainty=None)


class ScorePlot(Scored, JudgedPlot, shared.Labelled, shared.Threaded):
    """Scores, judged by labels."""

    weight_kind: Annotated[Literal["frequency", "sampling"], shared.ColumnOptions] = "frequency"


class ReliabilityOptions(ScorePlot, shared.ClassColumns):
    """Draw reliability diagrams: bins with intervals, isotonic regression (CORP), a histogram.

    Several scores, or slices by `--by`, share one picture. With `--probs` and a label: the
    probability of the class that is predicted, against its being right. With `--counts`: class
    probabilities against the share of raters who chose the class.

    Examples:
      calibkit plot reliability test.parquet -o reliability.svg
      calibkit plot reliability test.parquet --score old,new --size 6x6 -o reliability.png
      calibkit plot reliability test.csv --bins 10 --bin-strategy equal-mass --data bins.csv -o r.svg
      calibkit plot reliability test.parquet --probs 'prob_*' --label class -o reliability.svg
      calibkit plot reliability votes.parquet --probs 'a_*,b_*' --counts 'count_*' -o reliability.svg
    """

    KIND, HEADING, SIZE = "reliability", "Reliability diagram", (5.0, 5.2)

    ensemble: Annotated[bool, EvaluateOptions] = False
    by: Annotated[str | None, EvaluateOptions] = None
    min_rows: Annotated[int, EvaluateOptions] = 100
    bins: Annotated[int, EvaluateOptions] = 15
    bin_strategy: Annotated[own.BinStrategy, EvaluateOptions] = "equal-width"

    def check(self) -> None:
        """Refuse scores beside class probabilities."""
        super().check()
        if self.probs and self.scores:
            raise UsageError("--probs and --score: draw one of them at a time.")
        if self.counts is not None and (self.bins, self.bin_strategy) != (15, "equal-width"):
            raise UsageError("--bins and --bin-strategy: votes have 15 bins of equal width.")


class CurveOptions(ScorePlot):
    """A score at every threshold."""

    uncertainty: Annotated[str | None, shared.ColumnOptions] = None
    boundary: Boundaries = of_boundaries(
        "Mark where a boundary stands; may be repeated.", group="Metrics"
    )
    decision: Annotated[str | None, EvaluateOptions] = None


class PrecisionRecallOptions(CurveOptions):
    """Draw precision against recall at every threshold, and where boundaries stand.

    Steps, under which average precision is the area. Models of `--boundary` and decisions of
    `--decision` are points with intervals.

    Examples:
      calibkit plot precision-recall test.parquet -o pr.svg
      calibkit plot precision-recall test.parquet --score old,new --boundary boundary.json -o pr.svg
    """

    KIND, HEADING, SIZE = "precision-recall", "Precision and recall", (5.5, 4.5)


class RocOptions(CurveOptions):
    """Draw the ROC curve: recall against the false positive rate, and where boundaries stand.

    Examples:
      calibkit plot roc test.parquet -o roc.svg
      calibkit plot roc test.parquet --score old,new --boundary boundary.json,other.json -o roc.png
    """

    KIND, HEADING, SIZE = "roc", "ROC curve", (5.0, 4.8)


class DecisionCurveOptions(CurveOptions):
    """Draw net benefit at every threshold probability: decision curves with simultaneous bands.

    Of scores that are probabilities (a row is flagged from the threshold up), of `--boundary` and
    `--decision`, of flagging every row and of flagging none (Vickers and Elkin, 2006).

    Examples:
      calibkit plot decision-curve test.parquet --score old,new -o benefit.svg
      calibkit plot decision-curve test.parquet --score calibrated --boundary boundary.json -o benefit.svg
    """

    KIND, HEADING, SIZE = "decision-curve", "Decision curves", (5.5, 4.5)


class CostCurveOptions(CurveOptions):
    """Draw the expected cost of decisions at every ratio of costs, with simultaneous bands.

    The two costs add up to 1; x is that of a false alarm. What is drawn is that of `decision-curve`.

    Examples:
      calibkit plot cost-curve test.parquet --score old,new -o cost.svg
      calibkit plot cost-curve test.parquet --score calibrated --boundary boundary.json -o cost.svg
    """

    KIND, HEADING, SIZE = "cost-curve", "Expected cost", (5.5, 4.5)


class RiskCoverageOptions(ScorePlot):
    """Draw the share of errors among the rows of which a score is surest, and its area (AURC).

    The score is a probability; a row is said to be positive from 1/2 up.

    Examples:
      calibkit plot risk-coverage test.parquet --score old,new -o risk.svg
    """

    KIND, HEADING, SIZE = "risk-coverage", "Risk and coverage", (5.5, 4.5)


class ThresholdOptions(CurveOptions):
    """Draw precision, recall and the share of alerts against the threshold of a score.

    Thresholds of `--threshold`, and those of boundaries that have one, are marked.

    Examples:
      calibkit plot threshold test.parquet -o threshold.svg
      calibkit plot threshold test.parquet --threshold 0.5,0.7 -o threshold.pdf
      calibkit plot threshold test.parquet --boundary one.json -o threshold.png
    """

    KIND, HEADING, SIZE = "threshold", "Precision, recall and alerts by threshold", (5.5, 4.5)

    threshold: Annotated[own.Numbers | None, EvaluateOptions] = None

    def check(self) -> None:
        """Refuse several scores, whose thresholds have no axis in common."""
        super().check()
        if len(self.names) > 1:
            raise UsageError("plot threshold draws one score; name one by --score.")
        if self.decision is not None:
            raise UsageError("--decision has no threshold to mark; leave it out.")


class GridPlot(PlotOptions, shared.LabelledColumns, shared.Threaded):
    """The grid of the rows, or of a table of ``calibkit bin``."""

    uncertainty: Annotated[str | None, shared.ColumnOptions] = None
    strategy: Literal["equal-mass", "equal-width"] | None = of_bins(
        "Bins equal in rows, or equally wide.",
        shown="equal-mass; scores equally wide in log-odds where the axis is",
    )
    axis: Literal["auto", "value", "logit"] = of_picture(
        "Axis of scores: their values or their log-odds; auto: log-odds where all limits of bins "
        "are probabilities below 0.1, or all above 0.9.",
        default="auto",
    )
    uncertainty_bins: int | None = None
    score_bins: int | None = None

    def check(self) -> None:
        """Refuse log-odds of what is no probability."""
        super().check()
        if self.axis == "logit" and measure(self.scale) != "probability":
            raise UsageError("--axis logit is of probabilities; the scores are on another scale.")


class PositivityOptions(Intervals, GridPlot):
    """Draw the share of positives by score, a line for each uncertainty level.

    Where the lines differ, one threshold on the score is not enough (Arora et al., figure 1a).
    INPUT: rows, or a table of `calibkit bin`.

    Examples:
      calibkit plot positivity test.parquet -o positivity.svg
      calibkit plot positivity test.parquet --uncertainty-bins 5 --score-bins 20 -o positivity.svg
      calibkit plot positivity grid.parquet -o positivity.png
    """

    KIND, HEADING, SIZE = "positivity", "Positivity by score and uncertainty", (5.5, 4.8)

    uncertainty_bins: int | None = _levels(shown="3; 1 for rows without uncertainty")
    score_bins: int | None = _score_bins("Score bins.", shown="12, fewer for few rows")


class HeatmapOptions(GridPlot):
    """Draw the share of positives over score and uncertainty, with boundaries drawn in.

    Uncertainties stand at their rank: the height of a level is its share of the rows (Arora et al.,
    figure 1b). INPUT: rows, or a table of `calibkit bin`.

    Examples:
      calibkit plot heatmap test.parquet --boundary boundary.json -o heatmap.svg
      calibkit plot heatmap test.parquet --boundary st.json,exact.json --score-bins 30 -o heatmap.png
    """

    KIND, HEADING, SIZE = "heatmap", "Positivity over score and uncertainty", (6.0, 4.5)

    uncertainty_bins: int | None = _levels(shown="10; 1 for rows without uncertainty")
    score_bins: int | None = _score_bins("Score bins.", shown="20, fewer for few rows")
    boundary: Boundaries = of_boundaries("A boundary to draw; may be repeated.")


class RegionsOptions(PlotOptions):
    """Draw what a boundary over several uncertainties selects, over two of them.

    A cell shows the share of its rows that is selected, whatever the score and the other uncertainties,
    and the score from which on they are; three-way decisions have a panel for block and one for review.
    Uncertainties stand at their rank. INPUT: rows.

    Examples:
      calibkit plot regions test.parquet --boundary boundary.json -o regions.svg
      calibkit plot regions test.parquet --boundary boundary.json --uncertainty age,epistemic -o regions.png
    """

    KIND, HEADING, SIZE = "regions", "Decisions over two uncertainties", (6.0, 5.0)

    boundary: Boundaries = of_boundaries("The boundary, of several uncertainties.", many=None)
    uncertainty: shared.Names | None = shared.named_column(
        "Two of its uncertainties, across and up.",
        shown="the first two",
        many="commas",
        read=listed,
    )

    @property
    def names(self) -> tuple[str, ...]:
        """The uncertainties that are drawn, if they are named."""
        return tuple(self.uncertainty or ())

    def check(self) -> None:
        """Refuse any number of boundaries but one, and of uncertainties but two."""
        super().check()
        if len(self.boundaries) != 1:
            raise UsageError("plot regions draws one boundary: name its model by --boundary.")
        if len(set(self.names)) != len(self.names) or len(self.names) not in (0, 2):
            raise UsageError(
                f"--uncertainty takes two columns, each once; got {', '.join(self.names)}."
            )


class RecallGainOptions(
    shared.Seeded, Intervals, PlotOptions, shared.ColumnOptions, shared.Threaded
):
    """Draw how much recall uncertainty gains over one threshold, by the bound on precision.

    Below stands by how much each misses its bound on the rows it is judged on: a gain bought with
    precision is none (Arora et al., figure 6a, shows recall alone). Each point is a fit.

    Examples:
      calibkit plot recall-gain calib.parquet --test test.parquet -o gain.svg
      calibkit plot recall-gain calib.parquet --precision 0.6,0.7,0.8 --method exact,logistic -o gain.svg
    """

    KIND, HEADING, SIZE = "recall-gain", "Recall gained by uncertainty", (5.5, 5.0)

    precision: own.Numbers = own.of_numbers(
        "Bounds on precision.",
        "LIST",
        default=("0.5", "0.6", "0.7", "0.8", "0.9"),
        group="Bins and boundaries",
    )
    method: shared.Names = of_bins(
        "Methods of `calibkit boundary` to compare with st, one threshold.",
        "LIST",
        default=("exact", "mist", "logistic"),
        many="commas",
    )
    test: shared.FrameLike | None = of_bins(
        "Rows on which boundaries are judged.", "FILE", path=True, shown="cross-validation"
    )
    uncertainty_bins: int | None = _levels(shown="3 (logistic: 100); 1 without uncertainty")
    score_bins: int | None = _score_bins("Score bins, for methods that need them.", shown="500")
    folds: int = of_bins("Folds of the cross-validation.", "F", default=5, least=2)

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, each once."""
        return tuple(dict.fromkeys(listed(self.method)))


class EceAtOptions(Intervals, Scored, PlotOptions, shared.Labelled, shared.Threaded):
    """Draw calibration error by score bin over the cells of a grid: ECE@j, and cumulative.

    The grid bins the first score, or is a table of `calibkit bin` (Arora et al., section C.6,
    figure 8).

    Examples:
      calibkit plot ece-at test.parquet --score score,calibrated -o ece.svg
      calibkit plot ece-at test.parquet --score a,b --grid grid.parquet --grid-score score -o ece.svg
    """

    KIND, HEADING, SIZE = "ece-at", "Calibration error by score bin", (5.5, 5.0)

    uncertainty: Annotated[str | None, shared.ColumnOptions] = None
    weight: Annotated[str | None, shared.Weighted] = None
    grid: Annotated[shared.FrameLike | None, EvaluateOptions] = None
    grid_score: Annotated[str | None, EvaluateOptions] = None
    uncertainty_bins: int | None = _levels(shown="3; 1 for rows without uncertainty")
    score_bins: int = _score_bins("Score bins.", default=20)

    @property
    def columns(self) -> shared.ColumnOptions:
        """What the columns are called; the score is the one that the grid bins."""
        return self.part(shared.ColumnOptions, score=self.grid_score or self.names[0])


class BiasOptions(shared.Seeded, ScorePlot):
    """Draw calibration bias and error among the rows with the highest scores.

    Such as of scores before and after VAD. The rows of a share are the same for all scores: those
    with the highest first score, or `--top-by` (Fan et al., figure 2).

    Examples:
      calibkit plot bias test.parquet --score score_1,calibrated -o bias.svg
      calibkit plot bias test.parquet --score score_1,calibrated --top 0.01,0.1,1 --bins 50 -o bias.svg
    """

    KIND, HEADING, SIZE = "bias", "Calibration among the highest scores", (5.5, 5.0)

    top: Annotated[own.Numbers | None, EvaluateOptions] = ("0.02", "0.04", "0.06", "0.08", "0.1")
    top_by: Annotated[str | None, EvaluateOptions] = None
    bins: Annotated[int, EvaluateOptions] = 15
    bin_strategy: Annotated[own.BinStrategy, EvaluateOptions] = "equal-mass"

    def check(self) -> None:
        """Refuse a picture of no rows."""
        super().check()
        if not self.top:
            raise UsageError(
                "a plot of the bias needs shares of the rows; name some by --top 0.02,0.1."
            )


class VotePlot(JudgedPlot):
    """Class probabilities, judged by the votes of several raters."""

    probs: Annotated[shared.Names | None, shared.ClassColumns] = ("prob_*",)
    counts: Annotated[str | None, shared.ClassColumns] = "count_*"
    ensemble: Annotated[bool, EvaluateOptions] = False
    alpha0: Annotated[shared.Names | None, EvaluateOptions] = ()

    def check(self) -> None:
        """Refuse probabilities without votes."""
        super().check()
        if self.counts is None or not self.probs:
            raise UsageError("this picture needs the votes of several raters; name --counts.")


class DispersionOptions(VotePlot):
    """Draw the calibration-dispersion map of class probabilities that several raters judge.

    Each pattern of `--probs` is a point; calibration and dispersion loss add up to the epistemic
    loss (Mimori et al., figure 2a).

    Examples:
      calibkit plot dispersion votes.parquet --probs 'prob_*' --counts 'count_*' -o map.svg
      calibkit plot dispersion votes.parquet --probs 'a_*,b_*' --counts 'count_*' -o map.png
    """

    KIND, HEADING, SIZE = "dispersion", "Calibration-dispersion map", (5.5, 4.8)


class DisagreementOptions(VotePlot):
    """Draw how often raters disagree against the predicted probability that they do.

    The prediction follows from the class probabilities, or is a column, `--disagreement`. With
    `--alpha0`, strengths as alpha-cal adds them, it is drawn with them and without (Mimori et al.,
    figure 2b).

    Examples:
      calibkit plot disagreement votes.parquet --probs 'prob_*' --counts 'count_*' -o disagree.svg
      calibkit plot disagreement votes.parquet --probs 'prob_*' --alpha0 alpha0 -o disagree.svg
    """

    KIND, HEADING, SIZE = "disagreement", "Reliability of predicted disagreement", (5.0, 5.2)

    disagreement: Annotated[str | None, EvaluateOptions] = None
    by: Annotated[str | None, EvaluateOptions] = None
    min_rows: Annotated[int, EvaluateOptions] = 100


class AucLiftOptions(ScorePlot):
    """Draw by how much the AUC of scores exceeds the baseline's, on all rows or run by run.

    With `--by` (a column, or `key=value` folders, one a run) a box stands over the runs of each
    score; without, the paired interval (Durfee et al., figure 3).

    Examples:
      calibkit plot auc-lift test.parquet --baseline score --score calibrated -o lift.svg
      calibkit plot auc-lift runs/ --baseline score --score calibrated --by run -o lift.svg
    """

    KIND, HEADING, SIZE = "auc-lift", "AUC lift", (5.0, 4.2)

    baseline: Annotated[str | None, EvaluateOptions] = None
    by: Annotated[str | None, EvaluateOptions] = None
    min_rows: Annotated[int, EvaluateOptions] = 100


class WatchPlotOptions(PlotOptions):
    """Draw what a watch has found: each promise over the nights, and the evidence against it.

    A panel a promise: the rate of each night, that of all nights so far with its confidence sequence,
    and the bound; below the e-values, and where they alarm. INPUT: states of `calibkit watch`, or a
    table of these points.

    Examples:
      calibkit plot watch watch.state -o watch.svg
      calibkit plot watch 1.state 2.state --data nights.csv -o watch.png
    """

    KIND, HEADING, SIZE = "watch", "Promises over the nights", (6.0, 5.0)
