"""Scores at every threshold: rates, worth and errors, and what boundaries chose."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import polars as pl
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s, Numbers, distinct_values
from calibkit.errors import DataError, UsageError
from calibkit.evaluation.evaluate import evaluate, models_of, views_of
from calibkit.evaluation.findings import ALL
from calibkit.evaluation.rows import BOUNDARY, EvaluateRows, read_evaluate_rows
from calibkit.files.sources import Source
from calibkit.measures import metrics as registry
from calibkit.measures.decisions import COST, NET_BENEFIT, Flagged, curves, probabilities, refuse
from calibkit.measures.views import View
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value
from calibkit.models.model import Column
from calibkit.numerics.distributions import interval
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import CurveOptions, RiskCoverageOptions
from calibkit.reports import style
from calibkit.reports.style import Points, Sheet

#: Points of one curve that are drawn: more would not be seen.
MOST_POINTS = 300

#: Rates that have intervals.
_BOUNDED = ("precision", "recall", "fpr")
_RATES = ("selected_share", *_BOUNDED)

#: Columns of the table of rates.  ``curve`` is ``thresholds`` (a score, from its highest threshold
#: down), ``decisions`` (a boundary or a column of decisions, with intervals) or ``base_rate``.
_SCHEMA = style.schema("name curve", "threshold", *_RATES, *style.ends_of(_BOUNDED), "area")


class Curve(NamedTuple):
    """A kind of curve."""

    x: str  # what it shows, as columns of the table
    y: str
    area: str  # the metric that is the area under it, and its name
    area_name: str
    labels: tuple[str, str] = ("", "")  # what stands at the axes
    steps: bool = False  # drawn as steps, from the first value of y on, not from (0, 0)


_PR = ("recall", "precision")
_ROC = ("false positive rate", "recall (true positive rate)")
CURVES: Final[Mapping[str, Curve]] = {
    "precision-recall": Curve(*_PR, "average_precision", "average precision", _PR, steps=True),
    "roc": Curve("fpr", "recall", "auc", "AUC", _ROC),
    "threshold": Curve("threshold", "precision", "auc", "AUC"),
}

#: What is drawn against the threshold, and what the legend says of it.
_AGAINST_THRESHOLD: Final = {
    "precision": "precision",
    "recall": "recall",
    "selected_share": "alerts (share of rows)",
}

#: What decisions are worth: the worth, its column in the table, and what stands at the axis.
_WORTHS: Final = {
    "decision-curve": (NET_BENEFIT, "net_benefit", "net benefit a row, in true positives"),
    "cost-curve": (COST, "cost", "expected cost a row"),
}


def rate_points(source: Source, options: CurveOptions) -> Points:
    """Return the curves of all scores, and the operating points.

    Intervals are those of each rate at one threshold, exact for the rows counted there (Clopper,
    Pearson); with weights or groups there are none along a curve.

    The `area` of a score is average precision, the area under the steps of precision over recall, or
    AUC, the area under the ROC curve, which counts ties half.
    """
    _check_lines(options)
    spec, kind = options.judged, options.KIND
    plain = dataclasses.replace(spec, decision=None, threshold=None, metrics=("count",))
    rows = read_evaluate_rows(plain, source)
    _need_classes(rows, plain, source)
    confidence = plain.sure if plain.weight is None and plain.groups is None else None
    frames = [
        pl.DataFrame(schema=_SCHEMA),
        *(_rates(view, CURVES[kind], confidence) for view in views_of(plain, rows)),
        _operating(source, spec, options),
        pl.DataFrame({"curve": ["base_rate"], "precision": [rows.base_rate]}),
    ]
    table = pl.concat(frames, how="diagonal")
    score = Column(plain.ranked[0], scale=plain.scale).said
    return Points.of(kind, table, rows, score=score, interval=style.per_cent(plain.sure))


def _check_lines(options: CurveOptions) -> None:
    style.check_lines(options.names, "scores", "--score")
    style.check_lines([name for name, _ in options.boundaries], "boundaries", "--boundary")


def _of_boundaries(
    spec: EvaluateOptions, options: CurveOptions
) -> Iterator[tuple[str, EvaluateOptions]]:
    """Yield what judges each boundary alone, with its name."""
    for name, model in options.boundaries:
        spread = options.uncertainty
        yield name, dataclasses.replace(spec, boundary=model, decision=None, uncertainty=spread)


def _rates(view: View, curve: Curve, confidence: float | None) -> pl.DataFrame:
    """Return precision, recall and false positive rate of each threshold, as many as are seen."""
    rows = np.cumsum(view.count, dtype=np.int64)
    hits = np.cumsum(view.positive, dtype=np.int64)
    threshold = view.score.astype(np.float64)
    finite = threshold[np.isfinite(threshold)]
    low, high = (finite[-1], finite[0]) if finite.size else (0.0, 0.0)
    known = {
        "threshold": threshold.clip(low, high) / (high - low or 1.0),
        "precision": np.divide(hits, rows, out=np.zeros(rows.size), where=rows > 0),
        "recall": hits / view.positives,
        "fpr": (rows - hits) / view.negatives,
    }
    kept = visible(known[curve.x], known[curve.y])
    hits, rows = hits[kept], rows[kept]
    table: dict[str, Any] = {
        "name": view.name,
        "curve": "thresholds",
        "threshold": threshold[kept],
        "selected_share": rows / view.total,
        **{name: known[name][kept] for name in _BOUNDED},
        "area": registry.compute(view, [curve.area])[curve.area],
    }
    if confidence is not None:
        among: tuple[Any, ...] = (rows, view.positives, view.negatives)
        for name, some, of in zip(_BOUNDED, (hits, hits, rows - hits), among, strict=True):
            table[f"{name}_low"], table[f"{name}_high"] = interval(some, of, confidence)
    return pl.DataFrame(table, schema_overrides={"area": pl.Float64})


def visible(x: Numbers, y: Numbers) -> Int64s:
    """Return which points of a line to draw: `MOST_POINTS` at most, evenly spread along it."""
    if x.size <= MOST_POINTS:
        return np.arange(x.size)
    steps = np.abs(np.diff(x)) + np.abs(np.diff(y))
    along = np.concatenate([[0.0], np.cumsum(steps)])
    wanted = np.linspace(0.0, along[-1], MOST_POINTS)
    return distinct_values(
        np.append(np.minimum(np.searchsorted(along, wanted), x.size - 1), x.size - 1)
    )


def _operating(source: Source, spec: EvaluateOptions, options: CurveOptions) -> pl.DataFrame:
    """Return the rates of boundaries and decisions, with intervals."""
    base = dataclasses.replace(spec, metrics=_RATES)
    alone = dataclasses.replace(base, threshold=None)
    wanted = [(name, BOUNDARY, own) for name, own in _of_boundaries(alone, options)]
    if base.decision is not None:
        wanted.append((base.decision, base.decision, alone))
    found: list[dict[str, Any]] = []
    if base.thresholds:
        judged = evaluate(dataclasses.replace(base, decision=None), source).metrics
        for name, value in base.thresholds.items():
            values = style.with_ends(judged, name, ALL, _BOUNDED)
            at = value / 100.0 if spec.scale == "percent" else value
            found.append({"name": name, "curve": "decisions", "threshold": at, **values})
    for shown, score, own in wanted:
        values = style.with_ends(evaluate(own, source).metrics, score, ALL, _BOUNDED)
        one = None
        if isinstance(own.model, BoundaryModel) and not own.model.groups:
            cuts = [threshold_value(cut) for cut in own.model.score_thresholds]
            one = cuts[0] if len(cuts) == 1 and np.isfinite(cuts[0]) else None
        if one is None and options.KIND == "threshold":
            raise UsageError(
                f"{shown}: does not have one threshold; plot heatmap draws boundaries."
            )
        found.append({"name": shown, "curve": "decisions", "threshold": one, **values})
    return pl.DataFrame(found, schema=_SCHEMA)


def draw_rates(shown: Points, sheet: Sheet) -> None:
    """Draw the curves of scores and the operating points, and what chance would reach."""
    (panel,) = sheet.panels()
    curve = CURVES[shown.kind]
    scores = shown.table.filter(pl.col("curve") == "thresholds")
    for place, own in enumerate(scores.partition_by("name", maintain_order=True)):
        xs, ys = (own[name].to_numpy() for name in (curve.x, curve.y))
        xs, ys = np.append(0.0, xs), np.append(ys[:1] if curve.steps else [0.0], ys)
        name, value = own["name"][0], own["area"][0]
        said = name if value is None else f"{name}, {curve.area_name} {value:.3f}"
        sheet.curve(panel, place, said, xs, ys, "steps-pre" if curve.steps else "default")
        step = "pre" if curve.steps else None
        sheet.band(panel, place, own[curve.x], own, curve.y, step=step)
    for row, look in _marked(shown, sheet, curve.x, curve.y):
        sheet.cross(panel, row, curve.x, curve.y, color=sheet.ink, zorder=3)
        panel.plot([row[curve.x]], [row[curve.y]], zorder=4, clip_on=False, **look)
    if curve.steps:
        base = shown.table.filter(pl.col("curve") == "base_rate")["precision"][0]
        panel.axhline(float(base), **sheet.guide)
    else:
        panel.plot([0, 1], [0, 1], zorder=1, **sheet.guide)
    sheet.entry("chance", **sheet.guide)
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.03))
    sheet.label(panel, *curve.labels)


def _marked(
    shown: Points, sheet: Sheet, *needed: str
) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
    """Yield the decisions that have some values, each with its look and an entry in the legend."""
    found = shown.table.filter(pl.col("curve") == "decisions", pl.col(needed).is_not_null())
    for place, row in enumerate(found.iter_rows(named=True)):
        look = sheet.mark(place)
        yield row, look
        sheet.entry(row["name"], **look)


def draw_thresholds(shown: Points, sheet: Sheet) -> None:
    """Draw precision, recall and the share of alerts against the threshold, and those chosen."""
    (panel,) = sheet.panels()
    own = shown.table.filter(pl.col("curve") == "thresholds", pl.col("threshold").is_finite())
    own = own.sort("threshold")
    for place, (rate, said) in enumerate(_AGAINST_THRESHOLD.items()):
        sheet.curve(panel, place, said, own["threshold"], own[rate], "steps-pre")
        if rate in _BOUNDED:
            sheet.band(panel, place, own["threshold"], own, rate, step="pre")
    for row, look in _marked(shown, sheet, "threshold"):
        panel.axvline(row["threshold"], color=sheet.ink, lw=0.8, ls=":")
        for rate in _AGAINST_THRESHOLD:
            if row[rate] is not None:
                panel.plot([row["threshold"]], [row[rate]], zorder=4, clip_on=False, **look)
    panel.set(ylim=(-0.02, 1.03))
    sheet.label(panel, x=f"threshold of {shown.words['score']}", y=f"share{shown.interval}")


def _need_classes(rows: EvaluateRows, spec: EvaluateOptions, source: Source) -> None:
    """Refuse rows of one class, of which there is no curve."""
    if rows.base_rate in (0.0, 1.0):
        only = "positive" if rows.base_rate else "negative"
        raise DataError.of(
            source.file,
            f"all rows are {only}, but a curve needs both classes; name the positive class by "
            "--positive VALUE if labels are not 0/1",
            column=spec.label,
        )


def worth_points(source: Source, options: CurveOptions) -> Points:
    """Return what boundaries, decisions and scores are worth at all costs, and ``all`` and ``none``."""
    _check_lines(options)
    kind, spec = options.KIND, options.judged
    refuse(spec, f"a {kind.replace('-', ' ')}")
    base = dataclasses.replace(spec, metrics=("count",))
    rows = read_evaluate_rows(base, source)
    _need_classes(rows, base, source)
    found = []
    for name, own in _of_boundaries(base, options):
        judged: Flagged = models_of(own, read_evaluate_rows(own, source))[0]
        found.append(replace(judged, name=name))
    found += models_of(base, rows)
    worth, column, _ = _WORTHS[kind]
    table = curves(found, worth, base.sure, base.seed).rename({"net_benefit": column})
    return Points.of(kind, table, rows, interval=style.per_cent(base.sure))


def draw_worth(shown: Points, sheet: Sheet) -> None:
    """Draw a line a model with its band, and what flagging every row and none would give."""
    (panel,) = sheet.panels()
    _, column, label = _WORTHS[shown.kind]
    table, at = shown.table, "threshold"
    flat = table.filter(pl.col("model").is_in(["all", "none"]))
    if column == "net_benefit":
        best = float(table[column].max())  # type: ignore[arg-type]
        bottom, top = -0.25 * best, 1.1 * best
    else:  # costs end a little above the best without any model
        best = float(flat.group_by(at).agg(pl.col(column).min())[column].max())  # type: ignore[arg-type]
        bottom, top = 0.0, 1.6 * best
    for place, own in enumerate(table.partition_by("model", maintain_order=True)[:-2]):
        if own["low"].null_count() == 0:
            ends = own.with_columns(pl.col("low", "high").clip(bottom, top))
            sheet.band(panel, place, own[at], ends, alpha=0.18)
        seen = own.filter(pl.col(column) >= bottom)
        sheet.curve(panel, place, own["model"][0], seen[at], seen[column])
    for name, dots in (("all", (0, (4, 3))), ("none", (0, (1, 2)))):
        own = flat.filter(pl.col("model") == name).filter(pl.col(column).is_between(bottom, top))
        look = {**sheet.guide, "ls": dots}
        panel.plot(own[at], own[column], **look)
        sheet.entry(f"{name} flagged", **look)
    panel.set(xlim=(0.0, 1.0), ylim=(bottom, top))
    words = shown.interval.replace("interval", "band")
    sheet.label(panel, x="threshold (cost of a false alarm)", y=f"{label}{words}")


def risk_points(source: Source, options: RiskCoverageOptions) -> Points:
    """Return how often each score is wrong among the rows of which it is surest, of all shares kept.

    A score is sure of a row by max(p, 1 - p), and says positive where p >= 1/2.
    """
    style.check_lines(options.names, "scores", "--score")
    spec = dataclasses.replace(options.judged, metrics=("count",))
    refuse(spec, "a risk-coverage curve")
    rows = read_evaluate_rows(spec, source)
    return Points.of("risk-coverage", pl.concat(map(_risks, views_of(spec, rows))), rows)


def _risks(view: View) -> pl.DataFrame:
    read = probabilities(view)
    p = read.astype(np.float64)
    says, count = p >= 0.5, view.count.astype(np.int64)
    wrong = np.where(says, count - view.positive, view.positive).astype(np.int64)
    # 0.18 is as sure as 0.82, but for the last bit of 1 - p.
    near = np.maximum(p, 1.0 - p).round(15 if read.dtype == np.float64 else 7)
    sure, place = np.unique(-near, return_inverse=True)
    rows, errors = np.zeros((2, sure.size), np.int64)
    np.add.at(rows, place, count)
    np.add.at(errors, place, wrong)
    kept, missed = np.cumsum(rows), np.cumsum(errors)
    coverage, risk = kept / view.total, missed / kept
    shown = visible(coverage, risk)
    shares = {"coverage": coverage[shown], "risk": risk[shown], "aurc": aurc(rows, errors)}
    return pl.DataFrame({"name": view.name, "confidence": -sure[shown], **shares})


def aurc(rows: Numbers, errors: Numbers) -> float:
    """Return the area under risk over coverage: the mean risk over all numbers of rows kept.

    `rows` and the `errors` among them are those of each degree of sureness, the surest first; of rows
    that are equally sure any order is as likely as any other.  Geifman, Uziel and El-Yaniv,
    Bias-reduced uncertainty estimation for deep neural classifiers, 2019.
    """
    total = int(rows.sum())
    ends = np.cumsum(rows)
    before, missed = ends - rows, np.cumsum(errors) - errors
    # Of a group of m rows with e errors after K rows with E: the sum of (E + e j / m) / (K + j).
    inverse = _harmonic(ends) - _harmonic(before)
    share = errors / np.maximum(rows, 1)
    return float(np.sum(missed * inverse + share * (rows - before * inverse)) / total)


def _harmonic(numbers: Numbers) -> Floats:
    """Return the sums 1 + 1/2 + … + 1/n: written out for small n, else by their expansion."""
    small = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, 1001))])
    n = np.maximum(numbers, 1).astype(np.float64)
    large = np.log(n) + np.euler_gamma + 1.0 / (2.0 * n) - 1.0 / (12.0 * n**2)
    return np.where(numbers <= 1000, small[np.minimum(numbers, 1000)], large)


def draw_risk(shown: Points, sheet: Sheet) -> None:
    """Draw a line a score, with its AURC in the legend."""
    (panel,) = sheet.panels()
    for place, own in enumerate(shown.table.partition_by("name", maintain_order=True)):
        said = f"{own['name'][0]}, AURC {own['aurc'][0]:.4f}"
        sheet.curve(panel, place, said, own["coverage"], own["risk"])
    panel.set(xlim=(-0.02, 1.02), ylim=(0.0, style.nice_end(shown.table["risk"])))
    sheet.label(panel, x="coverage (share of rows kept, the surest first)", y="share of errors")
