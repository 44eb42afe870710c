"""The options of ``plot`` for scores with an uncertainty, a class a kind of picture; all kinds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Literal

from calibkit.errors import UsageError
from calibkit.models.scales import measure
from calibkit.options import judging as own
from calibkit.options import plot, shared
from calibkit.options.option import listed
from calibkit.options.plot import Boundaries, PlotOptions, of_bins, of_boundaries, of_picture

_levels = partial(of_bins, "Uncertainty bins.", "K", least=1)
_score_bins = partial(of_bins, metavar="L", least=1)


@dataclass(frozen=True, kw_only=True)
class BinnedPlot(PlotOptions, shared.Labelled, shared.Threaded):
    """Rows with a label, in bins of uncertainty and score."""

    uncertainty: shared.Uncertainty = None
    weight: shared.Weight = None

    @property
    def columns(self) -> shared.ColumnOptions:
        """What the columns are called, and how they are read."""
        return self.part(shared.ColumnOptions)


@dataclass(frozen=True, kw_only=True)
class GridPlot(BinnedPlot):
    """The grid of the rows, or of a table of ``calibkit bin``."""

    score: shared.Score = "score"
    scale: shared.Scale = "probability"
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


@dataclass(frozen=True, kw_only=True)
class PositivityOptions(GridPlot):
    """Draw the share of positives by score, a line for each uncertainty level.

    Where the lines differ, one threshold on the score is not enough (Arora et al., figure 1a).
    INPUT: rows, or a table of `calibkit bin`.
    """

    KIND, HEADING, SIZE = "positivity", "Positivity by score and uncertainty", (5.5, 4.8)
    EXAMPLES = (
        "test.parquet -o positivity.svg",
        "test.parquet --uncertainty-bins 5 --score-bins 20 -o positivity.svg",
        "grid.parquet -o positivity.png",
    )

    uncertainty_bins: int | None = _levels(shown="3; 1 for rows without uncertainty")
    score_bins: int | None = _score_bins("Score bins.", shown="12, fewer for few rows")
    confidence: own.Confidence = 0.95
    intervals: own.Intervals = True


@dataclass(frozen=True, kw_only=True)
class HeatmapOptions(GridPlot):
    """Draw the share of positives over score and uncertainty, with boundaries drawn in.

    Uncertainties stand at their rank: the height of a level is its share of the rows (Arora et al.,
    figure 1b). INPUT: rows, or a table of `calibkit bin`.
    """

    KIND, HEADING, SIZE = "heatmap", "Positivity over score and uncertainty", (6.0, 4.5)
    EXAMPLES = (
        "test.parquet --boundary boundary.json -o heatmap.svg",
        "test.parquet --boundary st.json,exact.json --score-bins 30 -o heatmap.png",
    )

    uncertainty_bins: int | None = _levels(shown="10; 1 for rows without uncertainty")
    score_bins: int | None = _score_bins("Score bins.", shown="20, fewer for few rows")
    boundary: Boundaries = of_boundaries("A boundary to draw; may be repeated.")


@dataclass(frozen=True, kw_only=True)
class RegionsOptions(PlotOptions):
    """Draw what a boundary over several uncertainties selects, over two of them.

    A cell shows the share of its rows that is selected, whatever the score and the other uncertainties,
    and the score from which on they are; three-way decisions have a panel for block and one for review.
    Uncertainties stand at their rank. INPUT: rows.
    """

    KIND, HEADING, SIZE = "regions", "Decisions over two uncertainties", (6.0, 5.0)
    EXAMPLES = (
        "test.parquet --boundary boundary.json -o regions.svg",
        "test.parquet --boundary boundary.json --uncertainty age,epistemic -o regions.png",
    )

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


@dataclass(frozen=True, kw_only=True)
class RecallGainOptions(BinnedPlot):
    """Draw how much recall uncertainty gains over one threshold, by the bound on precision.

    Below stands by how much each misses its bound on the rows it is judged on: a gain bought with
    precision is none (Arora et al., figure 6a, shows recall alone). Each point is a fit.
    """

    KIND, HEADING, SIZE = "recall-gain", "Recall gained by uncertainty", (5.5, 5.0)
    EXAMPLES = (
        "calib.parquet --test test.parquet -o gain.svg",
        "calib.parquet --precision 0.6,0.7,0.8 --method exact,logistic -o gain.svg",
    )

    score: shared.Score = "score"
    scale: shared.Scale = "probability"
    weight_kind: shared.WeightKind = "frequency"
    precision: own.Numbers = own.of_numbers(
        "Bounds on precision.",
        "LIST",
        default=("0.5", "0.6", "0.7", "0.8", "0.9"),
        shown="0.5,0.6,0.7,0.8,0.9",
        group="Bins and boundaries",
    )
    method: shared.Names = of_bins(
        "Methods of `calibkit boundary` to compare with st, one threshold.",
        "LIST",
        default=("exact", "mist", "logistic"),
        shown="exact,mist,logistic",
        many="commas",
    )
    test: shared.FrameLike | None = of_bins(
        "Rows on which boundaries are judged.", "FILE", path=True, shown="cross-validation"
    )
    uncertainty_bins: int | None = _levels(shown="3 (logistic: 100); 1 without uncertainty")
    score_bins: int | None = _score_bins("Score bins, for methods that need them.", shown="500")
    folds: int = of_bins("Folds of the cross-validation.", "F", default=5, least=2)
    seed: shared.Seed = 0
    confidence: own.Confidence = 0.95
    intervals: own.Intervals = True

    @property
    def methods(self) -> tuple[str, ...]:
        """The methods, each once."""
        return tuple(dict.fromkeys(listed(self.method)))


@dataclass(frozen=True, kw_only=True)
class EceAtOptions(BinnedPlot):
    """Draw calibration error by score bin over the cells of a grid: ECE@j, and cumulative.

    The grid bins the first score, or is a table of `calibkit bin` (Arora et al., section C.6,
    figure 8).
    """

    KIND, HEADING, SIZE = "ece-at", "Calibration error by score bin", (5.5, 5.0)
    EXAMPLES = (
        "test.parquet --score score,calibrated -o ece.svg",
        "test.parquet --score a,b --grid grid.parquet --grid-score score -o ece.svg",
    )

    scores: own.Scores = None
    grid: own.Grid = None
    grid_score: own.GridScore = None
    uncertainty_bins: int | None = _levels(shown="3; 1 for rows without uncertainty")
    score_bins: int = _score_bins("Score bins.", default=20)
    confidence: own.Confidence = 0.95
    intervals: own.Intervals = True

    @property
    def columns(self) -> shared.ColumnOptions:
        """What the columns are called; the score is the one that the grid bins."""
        return replace(super().columns, score=self.grid_score or self.names[0])

    @property
    def names(self) -> tuple[str, ...]:
        """The scores, each once."""
        return tuple(dict.fromkeys(listed(self.scores or "score")))


#: All kinds of pictures, in the order of the help.
KINDS: Final[Mapping[str, type[PlotOptions]]] = {
    kind.KIND: kind
    for kind in (
        plot.ReliabilityOptions,
        plot.PrecisionRecallOptions,
        plot.RocOptions,
        plot.DecisionCurveOptions,
        plot.CostCurveOptions,
        plot.RiskCoverageOptions,
        plot.ThresholdOptions,
        PositivityOptions,
        HeatmapOptions,
        RegionsOptions,
        RecallGainOptions,
        EceAtOptions,
        plot.BiasOptions,
        plot.DispersionOptions,
        plot.DisagreementOptions,
        plot.AucLiftOptions,
        plot.WatchPlotOptions,
    )
}
