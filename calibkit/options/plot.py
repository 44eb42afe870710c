"""The options of ``plot``: a class a kind of picture, whose docstring is its help.

Here are those of scores that a label judges (`ScorePlot`) and of class probabilities that votes judge
(`VotePlot`); those of scores with an uncertainty stand in `calibkit.options.grid_plots`.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias, cast

from calibkit.errors import UsageError
from calibkit.options import judging as own
from calibkit.options import shared
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.look import Look, read_size
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


def read_models(value: Any, flag: str) -> tuple[Any, ...]:
    """Return models, or their files: one, several, or text with commas between them."""
    if isinstance(value, str):
        several: list[Any] = list(listed(value))
    elif isinstance(value, list | tuple):
        several = list(value)
    else:
        several = [value]
    texts = [os.fspath(one) if isinstance(one, os.PathLike) else one for one in several]
    return tuple(one for place, one in enumerate(texts) if one not in texts[:place])


def named_models(models: tuple[Any, ...]) -> list[tuple[str, Any]]:
    """Return models, each with what a picture calls it: its file, or its kind."""
    several = sum(not isinstance(one, str) for one in models) > 1
    found = []
    for place, one in enumerate(models, 1):
        name = one if isinstance(one, str) else f"{one.kind} {place}" if several else one.kind
        found.append((name, one))
    return found


def _size(value: Any, flag: str) -> str:
    """Return a size as it is typed."""
    pair = isinstance(value, list | tuple) and len(value) == 2
    return "x".join(map(str, value)) if pair else str(value)


@dataclass(frozen=True, kw_only=True)
class PlotOptions(Options):
    """What every picture takes: how it looks, and rows that lack a value."""

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
        wide, high = read_size(
            None if self.size is None else str(self.size), self.width, self.height
        )
        return Look(width=wide, height=high, title=self.title, dark=self.dark)


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
        """What to evaluate for the picture, whatever boundaries are drawn there.

        Raises
        ------
        UsageError
            For options that do not go together.
        """
        return self.part(EvaluateOptions, boundary=None, uncertainty=None)


@dataclass(frozen=True, kw_only=True)
class ScorePlot(JudgedPlot, shared.Threaded):
    """Scores, judged by labels."""

    scores: own.Scores = None
    label: shared.Label = "label"
    positive: shared.Positive = None
    unlabelled: shared.Unlabelled = "error"
    weight_kind: shared.WeightKind = "frequency"

    @property
    def names(self) -> tuple[str, ...]:
        """The scores, each once."""
        return tuple(dict.fromkeys(listed(self.scores or "score")))


@dataclass(frozen=True, kw_only=True)
class ReliabilityOptions(ScorePlot):
    """Draw reliability diagrams: bins with intervals, isotonic regression (CORP), a histogram.

    Several scores, or slices by `--by`, share one picture. With `--probs` and a label: the
    probability of the class that is predicted, against its being right.
    """

    probs: shared.Probs = None
    by: shared.By = None
    min_rows: own.MinRows = 100
    bins: own.Bins = 15
    bin_strategy: own.BinStrategy = "equal-width"

    def check(self) -> None:
        """Refuse scores beside class probabilities."""
        super().check()
        if self.probs and self.scores:
            raise UsageError("--probs and --score: draw one of them at a time.")


@dataclass(frozen=True, kw_only=True)
class CurveOptions(ScorePlot):
    """A score at every threshold."""

    uncertainty: shared.Uncertainty = None
    boundary: Boundaries = own.of_metrics(
        "Mark where a boundary stands; may be repeated.",
        "MODEL",
        default=(),
        many="commas",
        read=read_models,
    )
    decision: own.Decision = None

    @property
    def boundaries(self) -> list[tuple[str, Any]]:
        """The boundaries, each with what a picture calls it."""
        return named_models(cast("tuple[Any, ...]", self.boundary))


@dataclass(frozen=True, kw_only=True)
class PrecisionRecallOptions(CurveOptions):
    """Draw precision against recall at every threshold, and where boundaries stand.

    Steps, under which average precision is the area. Models of `--boundary` and decisions of
    `--decision` are points with intervals.
    """


@dataclass(frozen=True, kw_only=True)
class RocOptions(CurveOptions):
    """Draw the ROC curve: recall against the false positive rate, and where boundaries stand."""


@dataclass(frozen=True, kw_only=True)
class DecisionCurveOptions(CurveOptions):
    """Draw net benefit at every threshold probability: decision curves with simultaneous bands.

    Of scores that are probabilities (a row is flagged from the threshold up), of `--boundary` and
    `--decision`, of flagging every row and of flagging none (Vickers and Elkin, 2006).
    """


@dataclass(frozen=True, kw_only=True)
class CostCurveOptions(CurveOptions):
    """Draw the expected cost of decisions at every ratio of costs, with simultaneous bands.

    The two costs add up to 1; x is that of a false alarm. What is drawn is that of `decision-curve`.
    """


@dataclass(frozen=True, kw_only=True)
class RiskCoverageOptions(ScorePlot):
    """Draw the share of errors among the rows of which a score is surest, and its area (AURC).

    The score is a probability; a row is said to be positive from 1/2 up.
    """


@dataclass(frozen=True, kw_only=True)
class ThresholdOptions(CurveOptions):
    """Draw precision, recall and the share of alerts against the threshold of a score.

    Thresholds of `--threshold`, and those of boundaries that have one, are marked.
    """

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


@dataclass(frozen=True, kw_only=True)
class DisagreementOptions(VotePlot):
    """Draw how often raters disagree against the predicted probability that they do.

    The prediction follows from the class probabilities, or is a column, `--disagreement`. With
    `--alpha0`, strengths as alpha-cal adds them, it is drawn with them and without (Mimori et al.,
    figure 2b).
    """

    disagreement: own.Disagreement = None
    by: shared.By = None
    min_rows: own.MinRows = 100
