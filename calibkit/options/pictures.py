"""All kinds of pictures: the options of each, its title and size, and the examples of its help."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from calibkit.options.grid_plots import (
    EceAtOptions,
    HeatmapOptions,
    PositivityOptions,
    RecallGainOptions,
)
from calibkit.options.plot import (
    AucLiftOptions,
    BiasOptions,
    CostCurveOptions,
    DecisionCurveOptions,
    DisagreementOptions,
    DispersionOptions,
    PlotOptions,
    PrecisionRecallOptions,
    ReliabilityOptions,
    RiskCoverageOptions,
    RocOptions,
    ThresholdOptions,
)


@dataclass(frozen=True)
class Kind:
    """A kind of picture.

    Attributes
    ----------
    options
        The class of its options; its docstring says what is drawn.
    title, size
        Its title, and its size in inches.
    examples
        What its help shows after ``calibkit plot KIND``.
    """

    options: type[PlotOptions]
    title: str
    size: tuple[float, float]
    examples: tuple[str, ...]


#: All kinds, in the order of the help.
KINDS: Final[Mapping[str, Kind]] = {
    "reliability": Kind(
        ReliabilityOptions,
        "Reliability diagram",
        (5.0, 5.2),
        (
            "test.parquet -o reliability.svg",
            "test.parquet --score old,new --size 6x6 -o reliability.png",
            "test.csv --bins 10 --bin-strategy equal-mass --data bins.csv -o r.svg",
            "test.parquet --probs 'prob_*' --label class -o reliability.svg",
        ),
    ),
    "precision-recall": Kind(
        PrecisionRecallOptions,
        "Precision and recall",
        (5.5, 4.5),
        (
            "test.parquet -o pr.svg",
            "test.parquet --score old,new --boundary boundary.json -o pr.svg",
        ),
    ),
    "roc": Kind(
        RocOptions,
        "ROC curve",
        (5.0, 4.8),
        (
            "test.parquet -o roc.svg",
            "test.parquet --score old,new --boundary boundary.json,other.json -o roc.png",
        ),
    ),
    "decision-curve": Kind(
        DecisionCurveOptions,
        "Decision curves",
        (5.5, 4.5),
        (
            "test.parquet --score old,new -o benefit.svg",
            "test.parquet --score calibrated --boundary boundary.json -o benefit.svg",
        ),
    ),
    "cost-curve": Kind(
        CostCurveOptions,
        "Expected cost",
        (5.5, 4.5),
        (
            "test.parquet --score old,new -o cost.svg",
            "test.parquet --score calibrated --boundary boundary.json -o cost.svg",
        ),
    ),
    "risk-coverage": Kind(
        RiskCoverageOptions,
        "Risk and coverage",
        (5.5, 4.5),
        ("test.parquet --score old,new -o risk.svg",),
    ),
    "threshold": Kind(
        ThresholdOptions,
        "Precision, recall and alerts by threshold",
        (5.5, 4.5),
        (
            "test.parquet -o threshold.svg",
            "test.parquet --threshold 0.5,0.7 -o threshold.pdf",
            "test.parquet --boundary one.json -o threshold.png",
        ),
    ),
    "positivity": Kind(
        PositivityOptions,
        "Positivity by score and uncertainty",
        (5.5, 4.8),
        (
            "test.parquet -o positivity.svg",
            "test.parquet --uncertainty-bins 5 --score-bins 20 -o positivity.svg",
            "grid.parquet -o positivity.png",
        ),
    ),
    "heatmap": Kind(
        HeatmapOptions,
        "Positivity over score and uncertainty",
        (6.0, 4.5),
        (
            "test.parquet --boundary boundary.json -o heatmap.svg",
            "test.parquet --boundary st.json,exact.json --score-bins 30 -o heatmap.png",
        ),
    ),
    "recall-gain": Kind(
        RecallGainOptions,
        "Recall gained by uncertainty",
        (5.5, 5.0),
        (
            "calib.parquet --test test.parquet -o gain.svg",
            "calib.parquet --precision 0.6,0.7,0.8 --method exact,logistic -o gain.svg",
        ),
    ),
    "ece-at": Kind(
        EceAtOptions,
        "Calibration error by score bin",
        (5.5, 5.0),
        (
            "test.parquet --score score,calibrated -o ece.svg",
            "test.parquet --score a,b --grid grid.parquet --grid-score score -o ece.svg",
        ),
    ),
    "bias": Kind(
        BiasOptions,
        "Calibration among the highest scores",
        (5.5, 5.0),
        (
            "test.parquet --score score_1,calibrated -o bias.svg",
            "test.parquet --score score_1,calibrated --top 0.01,0.1,1 --bins 50 -o bias.svg",
        ),
    ),
    "dispersion": Kind(
        DispersionOptions,
        "Calibration-dispersion map",
        (5.5, 4.8),
        (
            "votes.parquet --probs 'prob_*' --counts 'count_*' -o map.svg",
            "votes.parquet --probs 'a_*,b_*' --counts 'count_*' -o map.png",
        ),
    ),
    "disagreement": Kind(
        DisagreementOptions,
        "Reliability of predicted disagreement",
        (5.0, 5.2),
        (
            "votes.parquet --probs 'prob_*' --counts 'count_*' -o disagree.svg",
            "votes.parquet --probs 'prob_*' --alpha0 alpha0 -o disagree.svg",
        ),
    ),
    "auc-lift": Kind(
        AucLiftOptions,
        "AUC lift",
        (5.0, 4.2),
        (
            "test.parquet --baseline score --score calibrated -o lift.svg",
            "runs/ --baseline score --score calibrated --by run -o lift.svg",
        ),
    ),
}


def kind_of(options: PlotOptions) -> str:
    """Return the kind of picture that options are of."""
    return next(name for name, kind in KINDS.items() if kind.options is type(options))
