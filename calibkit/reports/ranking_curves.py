"""What precision-recall and ROC curves share: the points of thresholds and those of boundaries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.evaluation.evaluate import evaluate
from calibkit.evaluation.rows import BOUNDARY, read_evaluate_rows
from calibkit.evaluation.slices import ALL
from calibkit.files.sources import Source
from calibkit.measures import registry
from calibkit.measures.views import Sample, View, view_of
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import CurveOptions
from calibkit.reports.judged import judged
from calibkit.reports.points import (
    Points,
    check_lines,
    columns_of_ends,
    ends_of,
    per_cent,
    undrawable,
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


def curve_points(source: Source, options: CurveOptions, kind: str, area: str) -> Points:
    """Return the curves of all scores, and the operating points.

    Parameters
    ----------
    source, options
        The rows, and what to show of them.
    kind
        The kind of picture.
    area
        The metric that is the area under the curve.

    Raises
    ------
    UsageError
        Columns or models that are not there, or too many of them.
    DataError
        Values that are missing or of the wrong type; rows of one class.
    """
    check_lines(options.names, "scores", "--score")
    check_lines([name for name, _ in options.boundaries], "boundaries", "--boundary")
    spec = judged(options)
    plain = replace(spec, decision=None, metrics=("count",))
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
    views = [view_of(sample, name, ALL, plain.settings) for name, sample in samples.items()]
    frames = [_curve(view, area) for view in views]
    frames.append(_operating(source, spec, options))
    frames.append(pl.DataFrame({"curve": ["base_rate"], "precision": [rows.base_rate]}))
    table = pl.concat([pl.DataFrame(schema=SCHEMA), *frames], how="diagonal")
    interval = per_cent(plain.confidence, plain.intervals)
    return Points.of(kind, table, rows, interval=interval)


def _curve(view: View, area: str) -> pl.DataFrame:
    """Return precision, recall and false positive rate of each threshold, as many as are seen."""
    rows = np.cumsum(view.count, dtype=np.int64)
    hits = np.cumsum(view.positive, dtype=np.int64)
    recall, fpr = hits / view.positives, (rows - hits) / view.negatives
    precision = np.divide(hits, rows, out=np.zeros(rows.size), where=rows > 0)
    across, up = (recall, precision) if area == "average_precision" else (fpr, recall)
    kept = visible(across, up)
    return pl.DataFrame(
        {
            "name": view.name,
            "curve": "thresholds",
            "threshold": view.score[kept].astype(np.float64),
            "selected_share": rows[kept] / view.total,
            "precision": precision[kept],
            "recall": recall[kept],
            "fpr": fpr[kept],
            "area": registry.compute(view, [area])[area],
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
    wanted = [
        (name, BOUNDARY, replace(base, boundary=model, decision=None, uncertainty=spread))
        for name, model in options.boundaries
    ]
    if base.decision is not None:
        wanted.append((base.decision, base.decision, base))
    found = []
    for shown, score, own in wanted:
        metrics = evaluate(own, source).metrics
        values = metrics.metrics[score][ALL]
        limits = metrics.intervals.get(score, {}).get(ALL, {})
        row: dict[str, Any] = {"name": shown, "curve": "decisions", **values}
        found.append(row | ends_of(limits, _RATES[1:]))
    return pl.DataFrame(found, schema=SCHEMA)


def draw_curves(panel: Axes, shown: Points, sheet: Sheet, x: str, y: str, area: str) -> None:
    """Draw the curves of scores and the operating points, with their entries in the legend."""
    curves = shown.table.filter(pl.col("curve") == "thresholds")
    for place, own in enumerate(curves.partition_by("name", maintain_order=True)):
        line = sheet.line(place)
        steps = "steps-pre" if y == "precision" else "default"
        xs, ys = (own[name].to_numpy() for name in (x, y))
        first = ys[:1] if y == "precision" else [0.0]
        xs, ys = np.append(0.0, xs), np.append(first, ys)
        line["marker"] = ""
        panel.plot(xs, ys, drawstyle=steps, **line)
        value = own["area"][0]
        name = own["name"][0]
        sheet.entry(name if value is None else f"{name}, {area} {value:.3f}", **line)
    points = shown.table.filter(pl.col("curve") == "decisions", pl.col(x, y).is_not_null())
    for place, row in enumerate(points.iter_rows(named=True)):
        _mark(panel, row, sheet, place, x, y)


def _mark(panel: Axes, row: dict[str, Any], sheet: Sheet, place: int, x: str, y: str) -> None:
    for name, draw in ((x, panel.hlines), (y, panel.vlines)):
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        if low is not None and high is not None:
            draw(row[y if name == x else x], low, high, color=sheet.ink, lw=1.0, zorder=3)
    look: dict[str, Any] = {"marker": sheet.line(place)["marker"], "ls": "none", "ms": 7.0}
    look |= {"mfc": sheet.ground, "mec": sheet.ink, "mew": 1.3}
    panel.plot([row[x]], [row[y]], zorder=4, clip_on=False, **look)
    sheet.entry(row["name"], **look)
