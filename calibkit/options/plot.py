"""The options of ``plot``: a class a kind of picture, whose docstring is its help.

Of each kind `KIND` is its name, `HEADING` its title, `SIZE` that of the picture in inches.

Here are those of scores that a label judges (`ScorePlot`) and of class probabilities that votes judge
(`VotePlot`); those of scores with an uncertainty stand in `calibkit.options.grid_plots`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeAlias, cast

from calibkit.errors import UsageError
from calibkit.options import judging as own
from calibkit.options import shared
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.option import Options, listed, option

if TYPE_CHECKING:
    from calibkit.models.model import Model

    #: Boundaries, or their files; `read_models` makes them a tuple.
    Boundaries: TypeAlias = (
        Model | str | os.PathLike[str] | Sequence[Model | str | os.PathLike[str]]
    )
else:
    Boundaries = Any

of_picture = partial(option, group="Picture")
of_bins = partial(option, group="Bins and boundaries")

#: Sizes that can be drawn, in inches.
LEAST, MOST = 2.5, 40.0

_SIZE = re.compile(r"(\d+(?:\.\d+)?)x(\d+(?:\.\d+)?)")


@dataclass(frozen=True, kw_only=True)
class Look:
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
    texts = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in several]
    return tuple(one for place, one in enumerate(texts) if one not in texts[:place])


of_boundaries = partial(of_bins, metavar="MODEL", default=(), many="commas", read=read_models)


@dataclass(frozen=True, kw_only=True)
class PlotOptions(Options):
    """What every picture takes: how it looks, and rows that lack a value."""

    KIND: ClassVar[str]
    HEADING: ClassVar[str]
    SIZE: ClassVar[tuple[float, float]]

    on_missing: shared.OnMissing = "error"
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


@dataclass(frozen=True, kw_only=True)
class WatchPlotOptions(PlotOptions):
    """Draw what a watch has found: each promise over the nights, and the evidence against it.

    A panel a promise: the rate of each night, that of all nights so far with its confidence sequence,
    and the bound; below the e-values, and where they alarm. INPUT: states of `calibkit watch`, or a
    table of these points.
    """

    KIND, HEADING, SIZE = "watch", "Promises over the nights", (6.0, 5.0)
    EXAMPLES = (
        "watch.state -o watch.svg",
        "1.state 2.state --data nights.csv -o watch.png",
    )


# Scores and classes, judged ----------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class JudgedPlot(PlotOptions):
    """Metrics, with their intervals."""

    scale: shared.Scale = "probability"
    weight: shared.Weight = None
    groups: shared.Groups = None
    confidence: own.Confidence = 0.95
    intervals: own.Intervals = True

    @property
    def judged(self) -> EvaluateOptions:
        """What to evaluate for the picture, whatever boundaries are drawn there."""
        return self.part(EvaluateOptions, boundary=None, uncertainty=None)


@dataclass(frozen=True, kw_only=True)
class ScorePlot(JudgedPlot, shared.Labelled, shared.Threaded):
    """Scores, judged by labels."""

    scores: own.Scores = None
    weight_kind: shared.WeightKind = "frequency"

    @property
    def names(self) -> tuple[str, ...]:
        """The scores, each once."""
        return tuple(dict.fromkeys(listed(self.scores or "score")))


@dataclass(frozen=True, kw_only=True)
class ReliabilityOptions(ScorePlot):
    """Draw reliability diagrams: bins with intervals, isotonic regression (CORP), a histogram.

    Several scores, or slices by `--by`, share one picture. With `--probs` and a label: the
    probability of the class that is predicted, against its being right. With `--counts`: class
    probabilities against the share of raters who chose the class.
    """

    KIND, HEADING, SIZE = "reliability", "Reliability diagram", (5.0, 5.2)
    EXAMPLES = (
        "test.parquet -o reliability.svg",
        "test.parquet --score old,new --size 6x6 -o reliability.png",
        "test.csv --bins 10 --bin-strategy equal-mass --data bins.csv -o r.svg",
        "test.parquet --probs 'prob_*' --label class -o reliability.svg",
        "votes.parquet --probs 'a_*,b_*' --counts 'count_*' -o reliability.svg",
    )

    probs: shared.Probs = None
    counts: shared.Counts = None
    ensemble: own.Ensemble = False
    by: shared.By = None
    min_rows: own.MinRows = 100
    bins: own.Bins = 15
    bin_strategy: own.BinStrategy = "equal-width"

    def check(self) -> None:
        """Refuse scores beside class probabilities."""
        super().check()
        if self.probs and self.scores:
            raise UsageError("--probs and --score: draw one of them at a time.")
        if self.counts is not None and (self.bins, self.bin_strategy) != (15, "equal-width"):
            raise UsageError("--bins and --bin-strategy: votes have 15 bins of equal width.")


@dataclass(frozen=True, kw_only=True)
class CurveOptions(ScorePlot):
    """A score at every threshold."""

    uncertainty: shared.Uncertainty = None
    boundary: Boundaries = of_boundaries(
        "Mark where a boundary stands; may be repeated.", group="Metrics"
    )
    decision: own.Decision = None


@dataclass(frozen=True, kw_only=True)
class PrecisionRecallOptions(CurveOptions):
    """Draw precision against recall at every threshold, and where boundaries stand.

    Steps, under which average precision is the area. Models of `--boundary` and decisions of
    `--decision` are points with intervals.
    """

    KIND, HEADING, SIZE = "precision-recall", "Precision and recall", (5.5, 4.5)
    EXAMPLES = (
        "test.parquet -o pr.svg",
        "test.parquet --score old,new --boundary boundary.json -o pr.svg",
    )


@dataclass(frozen=True, kw_only=True)
class RocOptions(CurveOptions):
    """Draw the ROC curve: recall against the false positive rate, and where boundaries stand."""

    KIND, HEADING, SIZE = "roc", "ROC curve", (5.0, 4.8)
    EXAMPLES = (
        "test.parquet -o roc.svg",
        "test.parquet --score old,new --boundary boundary.json,other.json -o roc.png",
    )


@dataclass(frozen=True, kw_only=True)
class DecisionCurveOptions(CurveOptions):
    """Draw net benefit at every threshold probability: decision curves with simultaneous bands.

    Of scores that are probabilities (a row is flagged from the threshold up), of `--boundary` and
    `--decision`, of flagging every row and of flagging none (Vickers and Elkin, 2006).
    """

    KIND, HEADING, SIZE = "decision-curve", "Decision curves", (5.5, 4.5)
    EXAMPLES = (
        "test.parquet --score old,new -o benefit.svg",
        "test.parquet --score calibrated --boundary boundary.json -o benefit.svg",
    )


@dataclass(frozen=True, kw_only=True)
class CostCurveOptions(CurveOptions):
    """Draw the expected cost of decisions at every ratio of costs, with simultaneous bands.

    The two costs add up to 1; x is that of a false alarm. What is drawn is that of `decision-curve`.
    """

    KIND, HEADING, SIZE = "cost-curve", "Expected cost", (5.5, 4.5)
    EXAMPLES = (
        "test.parquet --score old,new -o cost.svg",
        "test.parquet --score calibrated --boundary boundary.json -o cost.svg",
    )


@dataclass(frozen=True, kw_only=True)
class RiskCoverageOptions(ScorePlot):
    """Draw the share of errors among the rows of which a score is surest, and its area (AURC).

    The score is a probability; a row is said to be positive from 1/2 up.
    """

    KIND, HEADING, SIZE = "risk-coverage", "Risk and coverage", (5.5, 4.5)
    EXAMPLES = ("test.parquet --score old,new -o risk.svg",)


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions(CurveOptions):
    """Draw precision, recall and the share of alerts against the threshold of a score.

    Thresholds of `--threshold`, and those of boundaries that have one, are marked.
    """

    KIND, HEADING, SIZE = "threshold", "Precision, recall and alerts by threshold", (5.5, 4.5)
    EXAMPLES = (
        "test.parquet -o threshold.svg",
        "test.parquet --threshold 0.5,0.7 -o threshold.pdf",
        "test.parquet --boundary one.json -o threshold.png",
    )

    threshold: own.Threshold = None

    def check(self) -> None:
        """Refuse several scores, whose thresholds have no axis in common."""
        super().check()
        if len(self.names) > 1:
            raise UsageError("plot threshold draws one score; name one by --score.")
        if self.decision is not None:
            raise UsageError("--decision has no threshold to mark; leave it out.")


@dataclass(frozen=True, kw_only=True)
class BiasOptions(ScorePlot):
    """Draw calibration bias and error among the rows with the highest scores.

    Such as of scores before and after VAD. The rows of a share are the same for all scores: those
    with the highest first score, or `--top-by` (Fan et al., figure 2).
    """

    KIND, HEADING, SIZE = "bias", "Calibration among the highest scores", (5.5, 5.0)
    EXAMPLES = (
        "test.parquet --score score_1,calibrated -o bias.svg",
        "test.parquet --score score_1,calibrated --top 0.01,0.1,1 --bins 50 -o bias.svg",
    )

    top: own.Top = ("0.02", "0.04", "0.06", "0.08", "0.1")
    top_by: own.TopBy = None
    bins: own.Bins = 15
    bin_strategy: own.BinStrategy = "equal-mass"
    seed: shared.Seed = 0

    def check(self) -> None:
        """Refuse a picture of no rows."""
        super().check()
        if not self.top:
            raise UsageError(
                "a plot of the bias needs shares of the rows; name some by --top 0.02,0.1."
            )


@dataclass(frozen=True, kw_only=True)
class AucLiftOptions(ScorePlot):
    """Draw by how much the AUC of scores exceeds the baseline's, on all rows or run by run.

    With `--by` (a column, or `key=value` folders, one a run) a box stands over the runs of each
    score; without, the paired interval (Durfee et al., figure 3).
    """

    KIND, HEADING, SIZE = "auc-lift", "AUC lift", (5.0, 4.2)
    EXAMPLES = (
        "test.parquet --baseline score --score calibrated -o lift.svg",
        "runs/ --baseline score --score calibrated --by run -o lift.svg",
    )

    baseline: own.Baseline = None
    by: shared.By = None
    min_rows: own.MinRows = 100

    @property
    def names(self) -> tuple[str, ...]:
        """The scores, each once, the baseline first."""
        first = () if self.baseline is None else (self.baseline,)
        return tuple(dict.fromkeys((*first, *super().names)))


@dataclass(frozen=True, kw_only=True)
class VotePlot(JudgedPlot):
    """Class probabilities, judged by the votes of several raters."""

    probs: shared.Probs = ("prob_*",)
    counts: shared.Counts = "count_*"
    ensemble: own.Ensemble = False
    alpha0: own.Alpha0 = ()

    def check(self) -> None:
        """Refuse probabilities without votes."""
        super().check()
        if self.counts is None or not self.probs:
            raise UsageError("this picture needs the votes of several raters; name --counts.")


@dataclass(frozen=True, kw_only=True)
class DispersionOptions(VotePlot):
    """Draw the calibration-dispersion map of class probabilities that several raters judge.

    Each pattern of `--probs` is a point; calibration and dispersion loss add up to the epistemic
    loss (Mimori et al., figure 2a).
    """

    KIND, HEADING, SIZE = "dispersion", "Calibration-dispersion map", (5.5, 4.8)
    EXAMPLES = (
        "votes.parquet --probs 'prob_*' --counts 'count_*' -o map.svg",
        "votes.parquet --probs 'a_*,b_*' --counts 'count_*' -o map.png",
    )


@dataclass(frozen=True, kw_only=True)
class DisagreementOptions(VotePlot):
    """Draw how often raters disagree against the predicted probability that they do.

    The prediction follows from the class probabilities, or is a column, `--disagreement`. With
    `--alpha0`, strengths as alpha-cal adds them, it is drawn with them and without (Mimori et al.,
    figure 2b).
    """

    KIND, HEADING, SIZE = "disagreement", "Reliability of predicted disagreement", (5.0, 5.2)
    EXAMPLES = (
        "votes.parquet --probs 'prob_*' --counts 'count_*' -o disagree.svg",
        "votes.parquet --probs 'prob_*' --alpha0 alpha0 -o disagree.svg",
    )

    disagreement: own.Disagreement = None
    by: shared.By = None
    min_rows: own.MinRows = 100
