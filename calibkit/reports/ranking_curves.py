"""Scores at every threshold: rates against each other or against it, and what boundaries chose."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import UsageError
from calibkit.evaluation.evaluate import evaluate
from calibkit.evaluation.rows import BOUNDARY, read_evaluate_rows
from calibkit.evaluation.slices import ALL
from calibkit.files.sources import Source
from calibkit.measures import registry
from calibkit.measures.views import Sample, View, view_of
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value
from calibkit.models.model import Model
from calibkit.numerics.binomial import interval
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import CurveOptions
from calibkit.reports.points import (
    Points,
    check_lines,
    columns_of_ends,
    per_cent,
    undrawable,
    with_ends,
)
from calibkit.reports.style import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Points of one curve that are drawn: more would not be seen.
MOST_POINTS = 300

_RATES = ("selected_share", "precision", "recall", "fpr")

#: Columns of the table.  ``curve`` is ``thresholds`` (a score, from its highest threshold down),
#: ``decisions`` (a boundary or a column of decisions, with intervals) or ``base_rate``.
SCHEMA = pl.Schema(
    {
        "name": pl.String,
        "curve": pl.String,
        "threshold": pl.Float64,
        "selected_share": pl.Float64,
        "precision": pl.Float64,
        "recall": pl.Float64,
        "fpr": pl.Float64,
        **columns_of_ends(_RATES[1:]),
        "area": pl.Float64,
    }
)


@dataclass(frozen=True)
class Curve:
    """A kind of curve.

    Attributes
    ----------
    x, y
        What it shows, as columns of the table.
    area, area_name
        The metric that is the area under it, and its name.
    x_label, y_label
        What stands at the axes.
    steps
        Whether the line is drawn as steps, from the first value of y on, and not from (0, 0).
    """

    x: str
    y: str
    area: str
    area_name: str
    x_label: str
    y_label: str
    steps: bool = False


CURVES: Final[Mapping[str, Curve]] = {
    "precision-recall": Curve(
        *("recall", "precision", "average_precision", "average precision"),
        *("recall", "precision"),
        steps=True,
    ),
    "roc": Curve(
        *("fpr", "recall", "auc", "AUC"),
        *("false positive rate", "recall (true positive rate)"),
    ),
    "threshold": Curve(*("threshold", "precision", "auc", "AUC"), *("threshold", "share")),
}

#: What is drawn against the threshold, and what the legend says of it.
_AGAINST_THRESHOLD: Final = {
    "precision": "precision",
    "recall": "recall",
    "selected_share": "alerts (share of rows)",
}


def points(source: Source, options: CurveOptions) -> Points:
    """Return the curves of all scores, and the operating points.

    Intervals are those of each rate at one threshold, exact for the rows counted there (Clopper,
    Pearson); with weights or groups there are none along a curve.

    The `area` of a score is average precision, the area under the steps of precision over recall, or
    AUC, the area under the ROC curve, which counts ties half.

    Raises
    ------
    UsageError
        Columns or models that are not there, or too many of them.
    DataError
        Values that are missing or of the wrong type; rows of one class.
    """
    check_lines(options.names, "scores", "--score")
    check_lines([name for name, _ in options.boundaries], "boundaries", "--boundary")
    spec = options.judged
    plain = replace(spec, decision=None, threshold=None, metrics=("count",))
    rows = read_evaluate_rows(plain, source)
    if rows.base_rate in (0.0, 1.0):
        only = "positive" if rows.base_rate else "negative"
        raise undrawable(
            source,
            f"all rows are {only}, but a curve needs both classes; name the positive class by "
            "--positive if labels are not 0/1",
            column=plain.label,
        )
    samples = {
        name: Sample(score=score, label=rows.label, weight=rows.weight)
        for name, score in rows.scores.items()
    }
    kind = options.KIND
    views = [view_of(sample, name, ALL, plain.settings) for name, sample in samples.items()]
    simple = plain.intervals and plain.weight is None and plain.groups is None
    confidence = plain.confidence if simple else None
    frames = [_curve(view, CURVES[kind], confidence) for view in views]
    frames.append(_operating(source, spec, options))
    frames.append(pl.DataFrame({"curve": ["base_rate"], "precision": [rows.base_rate]}))
    table = pl.concat([pl.DataFrame(schema=SCHEMA), *frames], how="diagonal")
    said = per_cent(plain.confidence, plain.intervals)
    return Points.of(kind, table, rows, interval=said)


def _curve(view: View, curve: Curve, confidence: float | None) -> pl.DataFrame:
    """Return precision, recall and false positive rate of each threshold, as many as are seen."""
    rows = np.cumsum(view.count, dtype=np.int64)
    hits = np.cumsum(view.positive, dtype=np.int64)
    recall, fpr = hits / view.positives, (rows - hits) / view.negatives
    precision = np.divide(hits, rows, out=np.zeros(rows.size), where=rows > 0)
    rates = {"precision": precision, "recall": recall, "fpr": fpr}
    threshold = view.score.astype(np.float64)
    known = rates | {"threshold": threshold / (np.ptp(threshold[np.isfinite(threshold)]) or 1.0)}
    kept = visible(known[curve.x], known[curve.y])
    ends: dict[str, NDArray[Any]] = {}
    if confidence is not None:
        counts: dict[str, tuple[Any, Any]] = {
            "precision": (hits[kept], rows[kept]),
            "recall": (hits[kept], view.positives),
            "fpr": ((rows - hits)[kept], view.negatives),
        }
        for name, (some, of) in counts.items():
            ends[f"{name}_low"], ends[f"{name}_high"] = interval(some, of, confidence)
    return pl.DataFrame(
        {
            "name": view.name,
            "curve": "thresholds",
            "threshold": threshold[kept],
            "selected_share": rows[kept] / view.total,
            **{name: rate[kept] for name, rate in rates.items()},
            **ends,
            "area": registry.compute(view, [curve.area])[curve.area],
        },
        schema_overrides={"area": pl.Float64},
    )


def visible(x: NDArray[Any], y: NDArray[Any], most: int = MOST_POINTS) -> NDArray[np.int64]:
    """Return which points of a line to draw: all, or `most` that are evenly spread along it."""
    if x.size <= most:
        return np.arange(x.size)
    steps = np.abs(np.diff(x)) + np.abs(np.diff(y))
    along = np.concatenate([[0.0], np.cumsum(steps)])
    wanted = np.linspace(0.0, along[-1], most)
    return np.unique(np.append(np.minimum(np.searchsorted(along, wanted), x.size - 1), x.size - 1))


def _operating(source: Source, spec: EvaluateOptions, options: CurveOptions) -> pl.DataFrame:
    """Return the rates of boundaries and decisions, with intervals."""
    base, spread = replace(spec, metrics=_RATES), options.uncertainty
    alone = replace(base, threshold=None)
    wanted = [
        (name, BOUNDARY, replace(alone, boundary=model, decision=None, uncertainty=spread))
        for name, model in options.boundaries
    ]
    if base.decision is not None:
        wanted.append((base.decision, base.decision, alone))
    found: list[dict[str, Any]] = []
    if base.thresholds:
        judged = evaluate(replace(base, decision=None), source).metrics
        for name, value in base.thresholds.items():
            values = with_ends(judged, name, ALL, _RATES[1:])
            found.append({"name": name, "curve": "decisions", "threshold": value, **values})
    for shown, score, own in wanted:
        values = with_ends(evaluate(own, source).metrics, score, ALL, _RATES[1:])
        one = _only_threshold(own.model) if own.model is not None else None
        if one is None and options.KIND == "threshold":
            raise UsageError(f"{shown}: has not one threshold; plot heatmap draws boundaries.")
        found.append({"name": shown, "curve": "decisions", "threshold": one, **values})
    return pl.DataFrame(found, schema=SCHEMA)


def _only_threshold(model: Model) -> float | None:
    """Return the threshold of a boundary that has one and no more."""
    assert isinstance(model, BoundaryModel)
    several = model.groups or len(model.score_thresholds) != 1
    value = None if several else threshold_value(model.score_thresholds[0])
    return value if value is not None and np.isfinite(value) else None


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw the curves of scores and the operating points, and what chance would reach."""
    (panel,) = sheet.panels()
    curve = CURVES[shown.kind]
    curves = shown.table.filter(pl.col("curve") == "thresholds")
    for place, own in enumerate(curves.partition_by("name", maintain_order=True)):
        line = {**sheet.line(place), "marker": ""}
        xs, ys = (own[name].to_numpy() for name in (curve.x, curve.y))
        xs, ys = np.append(0.0, xs), np.append(ys[:1] if curve.steps else [0.0], ys)
        panel.plot(xs, ys, drawstyle="steps-pre" if curve.steps else "default", **line)
        _band(panel, own, curve.x, curve.y, line["color"], "pre" if curve.steps else None)
        name, value = own["name"][0], own["area"][0]
        sheet.entry(name if value is None else f"{name}, {curve.area_name} {value:.3f}", **line)
    known = pl.col(curve.x, curve.y).is_not_null()
    marked = shown.table.filter(pl.col("curve") == "decisions", known)
    for place, row in enumerate(marked.iter_rows(named=True)):
        sheet.cross(panel, row, curve.x, curve.y, color=sheet.ink, zorder=3)
        look: dict[str, Any] = {"marker": sheet.line(place)["marker"], "ls": "none", "ms": 7.0}
        look |= {"mfc": sheet.ground, "mec": sheet.ink, "mew": 1.3}
        panel.plot([row[curve.x]], [row[curve.y]], zorder=4, clip_on=False, **look)
        sheet.entry(row["name"], **look)
    if curve.steps:
        base = shown.table.filter(pl.col("curve") == "base_rate")["precision"][0]
        panel.axhline(float(base), **sheet.guide)
    else:
        panel.plot([0, 1], [0, 1], zorder=1, **sheet.guide)
    sheet.entry("chance", **sheet.guide)
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.03))
    sheet.label(panel, x=curve.x_label, y=curve.y_label)


def _band(
    panel: Axes, own: pl.DataFrame, x: str, y: str, colour: str, step: Literal["pre"] | None = None
) -> None:
    """Shade the intervals along a line, where there are any."""
    known = own.drop_nulls([f"{y}_low", f"{y}_high"])
    low, high = known[f"{y}_low"].to_numpy(), known[f"{y}_high"].to_numpy()
    panel.fill_between(known[x].to_numpy(), low, high, step=step, color=colour, alpha=0.15, lw=0)


def draw_thresholds(shown: Points, sheet: Sheet) -> None:
    """Draw precision, recall and the share of alerts against the threshold, and those chosen."""
    (panel,) = sheet.panels()
    own = shown.table.filter(pl.col("curve") == "thresholds", pl.col("threshold").is_finite())
    own = own.sort("threshold")
    for place, (rate, said) in enumerate(_AGAINST_THRESHOLD.items()):
        line = {**sheet.line(place), "marker": ""}
        panel.plot(own["threshold"].to_numpy(), own[rate].to_numpy(), drawstyle="steps-pre", **line)
        if rate in _RATES[1:]:
            _band(panel, own, "threshold", rate, line["color"], "pre")
        sheet.entry(said, **line)
    marked = shown.table.filter(pl.col("curve") == "decisions", pl.col("threshold").is_not_null())
    for place, row in enumerate(marked.iter_rows(named=True)):
        panel.axvline(row["threshold"], color=sheet.ink, lw=0.8, ls=":")
        look: dict[str, Any] = {"marker": sheet.line(place)["marker"], "ls": "none", "ms": 7.0}
        look |= {"mfc": sheet.ground, "mec": sheet.ink, "mew": 1.3}
        for rate in _AGAINST_THRESHOLD:
            if row[rate] is not None:
                panel.plot([row["threshold"]], [row[rate]], zorder=4, clip_on=False, **look)
        sheet.entry(row["name"], **look)
    panel.set(ylim=(-0.02, 1.03))
    sheet.label(panel, x=f"threshold of {own['name'][0]}", y=f"share{shown.interval}")
