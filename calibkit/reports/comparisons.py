"""Metrics of several scores, predictors, methods or nights beside each other.

ECE@j: Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", section C.6 and figure 8; the gain in recall: figure 6 (a) there, which shows recall
alone.  Here the precision on the same rows stands below it, because a boundary tuned on one file falls
short of its bound on others.
"""

from __future__ import annotations

import math
import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from msgspec import Struct

from calibkit.arrays import Bools
from calibkit.columns.rows import score_column
from calibkit.errors import DataError, InfeasibleError, UsageError, nearest
from calibkit.evaluation.evaluate import evaluate
from calibkit.evaluation.findings import ALL
from calibkit.evaluation.rows import grid_of
from calibkit.files.frames import open_frame
from calibkit.files.sources import Source
from calibkit.measures import cells
from calibkit.measures.views import Sample
from calibkit.methods.boundary.result.answer import alert_counts
from calibkit.methods.boundary.result.application import probabilities
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.methods.watch.watch import HISTORY
from calibkit.numerics.bounds import Bound, decimal_bound
from calibkit.numerics.distributions import critical_value, interval
from calibkit.options import plot as kinds
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.evaluate import decimals
from calibkit.options.metrics import Settings
from calibkit.reports import style
from calibkit.reports.style import (
    Points,
    Sheet,
    check_lines,
    ends_of,
    per_cent,
    with_ends,
)
from calibkit.summaries.binning import fit_grid
from calibkit.summaries.score_rows import ScoreRows, read_score_rows

#: From this many runs on, a box says more than the points alone.
LEAST_OF_A_BOX = 5

#: What the methods of a gain are compared with.
BASELINE = "st"

_BIASES = ("calibration_bias", "ece")
_LOSSES = ("calibration_loss", "dispersion_loss", "epistemic_loss")
_ECES = ("ece_at", "cumulative_ece_at")

_LIFT_SCHEMA = style.schema("score slice", "rows", "auc_baseline", "auc", "lift", "low", "high")
_BIAS_SCHEMA = style.schema("score", "top", "count", "positives", *_BIASES, *ends_of(_BIASES))
_LOSS_SCHEMA = style.schema("name", *_LOSSES, *ends_of(_LOSSES))
_ECE_SCHEMA = style.schema("score", "score_bin", *_ECES, *ends_of(_ECES)) | {"score_bin": pl.Int64}
_GAIN_SCHEMA = style.schema(
    *("method", "bound", "precision", "recall", "baseline_precision", "baseline_recall", "gain"),
    *ends_of(("precision", "baseline_precision", "gain")),
)


def lift_points(source: Source, options: kinds.AucLiftOptions) -> Points:
    """Return AUC / AUC of the baseline - 1 for each score, on all rows and on each slice.

    ``low`` and ``high`` are those of the paired difference over the AUC of the baseline, which is
    taken as given.  Durfee, Gupta, Basu, "Heterogeneous calibration: a post-hoc model-agnostic
    framework for improved generalization", figure 3: box plots of the test AUC lifts of several runs.
    """
    spec = replace(options.judged, metrics=("count", "auc"))
    if len(spec.ranked) < 2:
        raise UsageError("an AUC lift compares scores: name a --baseline and another --score.")
    found = evaluate(spec, source)
    metrics, baseline = found.metrics, spec.ranked[0]
    rows = []
    for score in spec.ranked[1:]:
        for part, own in metrics.metrics[score].items():
            base = metrics.metrics[baseline][part]["auc"]
            paired = metrics.differences[f"{score}-{baseline}"][part]["auc"]
            ends = (paired.value, paired.low, paired.high)
            lifts = (end / base if base and end is not None else None for end in ends)
            rows.append((score, part, own["count"], base, own["auc"], *lifts))
    table = pl.DataFrame(rows, schema=_LIFT_SCHEMA, orient="row")
    if table["lift"].count() == 0:
        raise DataError.of(source.file, "no slice has rows of both classes, which an AUC needs")
    words = {"baseline": baseline, "by": spec.by or "", "interval": per_cent(spec.sure)}
    return Points.of("auc-lift", table, found, **words)


def draw_lift(shown: Points, sheet: Sheet) -> None:
    """Draw, for each score, a box over its runs with a point a run, or its lift with an interval."""
    (panel,) = sheet.panels()
    known = shown.table.filter(pl.col("lift").is_not_null())
    runs = known.filter(pl.col("slice") != ALL)
    series = (runs if runs.height else known).partition_by("score", maintain_order=True)
    for place, own in enumerate(series):
        line, lifts = sheet.line(place), own["lift"].to_numpy()
        boxed = lifts.size >= LEAST_OF_A_BOX
        if boxed:
            edge = {"color": line["color"], "lw": 1.2}
            looks: Any = dict.fromkeys(("boxprops", "whiskerprops", "capprops"), edge)
            looks["medianprops"] = {"color": sheet.ink, "lw": 1.6}
            panel.boxplot([lifts], positions=[place], widths=0.45, showfliers=False, **looks)
        # Points of one run stand side by side in their order, so that none hides another.
        span = 0.0 if lifts.size == 1 else 0.15
        x = place + np.linspace(-span, span, lifts.size)
        if not boxed:
            sheet.whiskers(panel, place, x, own)
        sheet.series(panel, place, x, lifts, zorder=3, ls="none", ms=4.0)
    panel.axhline(0.0, zorder=1, **sheet.guide)
    panel.set_xlim(-0.6, len(series) - 0.4)
    each = max(6, sheet.fitting(0.8 * sheet.size[0] / len(series)))
    names = [own["score"][0] for own in series]
    said = [textwrap.fill(style.shown_name(name), each) or name for name in names]
    panel.set_xticks(range(len(names)), said)
    panel.grid(visible=False, axis="x")
    panel.yaxis.set_major_formatter(style.in_per_cent)
    words = shown.words
    over = f"one point a value of {words['by']}" if runs.height else "all rows"
    if not runs.height and "interval" in words:
        over += f", {words['interval']} interval"
    sheet.label(panel, x=over, y=f"AUC lift over {words['baseline']}")


def bias_points(source: Source, options: kinds.BiasOptions) -> Points:
    """Return calibration bias and ECE of each score among the top shares of the rows.

    The rows of a share are chosen by one score (``--top-by``, else the baseline), the same for all.
    Fan, Si, Zhang, "Calibration matters: tackling maximization bias in large-scale advertising
    recommendation systems", figure 2: before and after VAD.
    """
    check_lines(options.names, "scores", "--score")
    spec = replace(options.judged, metrics=("count", "positives", *_BIASES))
    found = evaluate(spec, source)
    tops = sorted((float(one.bound), one.text) for one in spec.tops)
    rows = [
        {"score": score, "top": top, **with_ends(found.metrics, score, f"top:{text}", _BIASES)}
        for score in spec.ranked
        for top, text in tops
    ]
    table = pl.DataFrame(rows, schema=_BIAS_SCHEMA)
    if table["calibration_bias"].count() == 0:
        raise DataError.of(
            source.file,
            "no share of the rows has a positive one and probabilities to compare with; take larger "
            "shares by --top, or name the --scale of the scores",
        )
    words = {"by": spec.top_by or spec.ranked[0], "interval": per_cent(spec.sure)}
    return Points.of("bias", table, found, **words)


def draw_bias(shown: Points, sheet: Sheet) -> None:
    """Draw the bias above and the calibration error below, over the share of the rows."""
    above, below = sheet.panels(3, 2)
    above.axhline(0.0, zorder=1, **sheet.guide)
    series = shown.table.partition_by("score", maintain_order=True)
    least, most = (float(top) for top in np.sort(shown.table["top"].to_numpy())[[0, -1]])
    wide = most / least > 20
    for place, own in enumerate(series):
        # Side by side, so that intervals at one share do not hide each other.
        off = style.aside(place, len(series))
        x = own["top"] * (1 + 4 * off) if wide else own["top"] + off * (most - least)
        for panel, name in zip((above, below), _BIASES, strict=True):
            sheet.series(panel, place, x, own[name])
            sheet.whiskers(panel, place, x, own, name)
        sheet.entry(own["score"][0], **sheet.line(place))
    if wide:
        below.set_xscale("log")
    for axis in (above.yaxis, below.yaxis, below.xaxis):
        axis.set_major_formatter(style.in_per_cent)
    below.set_ylim(bottom=0)
    sheet.label(above, y=f"calibration bias{shown.interval}", share=0.6)
    sheet.label(below, x=f"share of rows with the highest {shown.words['by']}", y="ECE", share=0.4)


def dispersion_points(source: Source, options: kinds.DispersionOptions) -> Points:
    """Return calibration, dispersion and epistemic loss of each predictor, with intervals.

    Mimori, Sasada, Matsui, Sato, "Diagnostic uncertainty calibration: towards reliable machine
    predictions in medical domain", figure 2 (a).
    """
    spec = replace(options.judged, metrics=_LOSSES)
    found = evaluate(spec, source)
    metrics = found.metrics
    rows = [{"name": name, **with_ends(metrics, name, ALL, _LOSSES)} for name in metrics.metrics]
    table = pl.DataFrame(rows, schema=_LOSS_SCHEMA)
    check_lines(table["name"].to_list(), "predictors", "--probs")
    if not table["dispersion_loss"].count():
        why = "no row has two votes, without which there is no dispersion loss"
        raise DataError.of(source.file, why)
    return Points.of("dispersion", table, found, interval=per_cent(spec.sure))


def draw_dispersion(shown: Points, sheet: Sheet) -> None:
    """Draw a point a predictor, with intervals, over lines of equal epistemic loss."""
    from matplotlib.ticker import MaxNLocator

    (panel,) = sheet.panels()
    for place, row in enumerate(shown.table.iter_rows(named=True)):
        line, (x, y) = sheet.line(place), (row["calibration_loss"], row["dispersion_loss"])
        sheet.cross(panel, row, "calibration_loss", "dispersion_loss", color=line["color"])
        look = {**line, **sheet.rim, "ls": "none", "ms": 7.0}
        panel.plot([x], [y], zorder=3, **look)
        sheet.entry(row["name"], **look)
    panel.margins(0.12)
    panel.autoscale_view()
    (left, right), (low, high) = panel.get_xlim(), panel.get_ylim()
    equal: dict[str, Any] = {"color": "#9A9A9A", "lw": 0.7, "ls": (0, (6, 2))}
    panel.grid(visible=False)
    for total in MaxNLocator(6).tick_values(left + low, right + high):
        panel.plot([left, right], [total - left, total - right], zorder=1, **equal)
    sheet.entry("equal epistemic loss (their sum)", **equal)
    panel.set(xlim=(left, right), ylim=(low, high))
    x, y = (f"{name} loss{shown.interval}" for name in ("calibration", "dispersion"))
    sheet.label(panel, x=x, y=y)


def _sure(options: kinds.EceAtOptions | kinds.RecallGainOptions) -> float | None:
    """Return the confidence of intervals; weighted rows have none."""
    return options.sure if options.weight is None else None


def ece_points(source: Source, options: kinds.EceAtOptions) -> Points:
    """Return ECE@j and cumulative ECE@j of each score for every score bin j, with intervals.

    There are none of weighted rows.
    """
    check_lines(options.names, "scores", "--score")
    source.require(list(options.names), "--score")
    given = None
    columns = options.columns
    found = None if options.grid is None else grid_of(open_frame(options.grid, "grid"))
    if found is not None:
        own: Any = found.columns["score"]
        given, spread = found.grid, found.columns.get("uncertainty")
        columns = replace(columns, score=options.grid_score or own.name, scale=own.scale)
        if columns.uncertainty is None and given.shape[0] > 1:
            columns = replace(columns, uncertainty=spread.name if spread else "uncertainty")
    rows = read_score_rows(source, columns, positive_must_occur=False, others=options.names)
    if given is None:
        levels = options.uncertainty_bins or (3 if rows.uncertainty is not None else 1)
        given = fit_grid(rows, levels, options.score_bins, threads=options.workers)
    place = cells.place(given, rows.score, rows.uncertainty)
    settings = Settings(weighted=options.weight is not None, threads=options.workers)
    confidence = _sure(options)
    table: dict[tuple[str, int], dict[str, Any]] = {}
    for name in options.names:
        score = rows.score
        if name != columns.score or columns.measure != "probability":
            score = score_column(rows.other(name), rows.finder, "probability")
        sample = Sample(score=score, label=rows.labels, weight=rows.weight)
        for kind, j, value, ends in cells.stretches(sample, place, settings, confidence):
            row = table.setdefault((name, j), {"score": name, "score_bin": j})
            row |= zip((kind, *ends_of([kind])), (value, *ends), strict=True)
    frame = pl.DataFrame(list(table.values()), schema=_ECE_SCHEMA)
    words = {"grid": columns.score, "levels": str(given.shape[0])}
    return Points.of("ece-at", frame, rows, **words, interval=per_cent(confidence))


def draw_ece(shown: Points, sheet: Sheet) -> None:
    """Draw ECE@j above and the cumulative one below, over the score bins."""
    above, below = sheet.panels(1, 1)
    series = shown.table.partition_by("score", maintain_order=True)
    look = {} if series[0].height <= 30 else {"marker": ""}
    for place, own in enumerate(series):
        for panel, name in zip((above, below), _ECES, strict=True):
            known = own.filter(pl.col(name).is_not_null())
            sheet.series(panel, place, known["score_bin"], known[name], **look)
            sheet.band(panel, place, known["score_bin"], known, name)
        sheet.entry(own["score"][0], **sheet.line(place) | look)
    for panel in (above, below):
        panel.set_ylim(bottom=0)
    below.locator_params(axis="x", integer=True)
    sheet.label(above, y=f"ECE@j{shown.interval}", share=0.5)
    sheet.label(below, x=f"score bin j of {shown.words['grid']}", y="cumulative ECE@j", share=0.5)


def gain_points(source: Source, options: kinds.RecallGainOptions) -> Points:
    """Return recall and precision of each method at each bound, beside the best single threshold's.

    They are those on the rows of ``test``, else the cross-validated ones, and null where a method
    finds no boundary.  `gain` is recall / recall of the single threshold - 1.

    The intervals of precision are exact for the alerts counted (Clopper, Pearson).  That of the gain
    is normal on the logarithmic scale, from the positives of ``test`` that one boundary finds and the
    other does not; without such rows there is none.
    """
    check_lines(options.methods, "methods", "--method")
    known = [name for name, one in METHODS.items() if "precision" in one.objectives]
    known.remove(BASELINE)
    for name in options.methods:
        if name not in known:
            raise UsageError(
                f"--method {name!r} cannot be compared with st at bounds on precision"
                f"{nearest(name, known)}; the methods are {', '.join(known)}."
            )
    texts = decimals(options.precision, "--precision")
    bounds = sorted({decimal_bound(text, "--precision") for text in texts}, key=float)
    rows = read_score_rows(source, options.columns)
    held = None
    if options.test is not None:
        held = read_score_rows(source.beside(options.test, "test"), rows.options)
    confidence = _sure(options)
    bases = [_judged(rows, held, options, BASELINE, bound) for bound in bounds]
    table = []
    for name in options.methods:
        for bound, base in zip(bounds, bases, strict=True):
            one = _judged(rows, held, options, name, bound)
            row = {"method": name, "bound": float(bound), **one.figures}
            row |= {f"baseline_{key}": value for key, value in base.figures.items()}
            recall, base_recall = (of.figures.get("recall") for of in (one, base))
            if recall is not None and base_recall:
                row["gain"] = recall / base_recall - 1.0
                row["gain_low"], row["gain_high"] = _gain_ends(one, base, confidence)
            table.append(row)
    judged_on = "test rows" if held is not None else f"cross-validated, {options.folds} folds"
    frame = pl.DataFrame(table, schema=_GAIN_SCHEMA)
    return Points.of("recall-gain", frame, rows, rows=judged_on, interval=per_cent(confidence))


class _Judged(Struct, frozen=True):
    """A boundary on rows that it was not fitted on; without figures where there is none."""

    figures: dict[str, float | None] = {}  # precision with its interval, recall
    hit: Bools | None = None  # of test rows those that are positive and selected


def _judged(
    rows: ScoreRows,
    held: ScoreRows | None,
    options: kinds.RecallGainOptions,
    name: str,
    bound: Bound,
) -> _Judged:
    """Return a method at a bound on test rows, else in the cross-validation."""
    from calibkit.methods.boundary.result.fit import fit_boundary  # which no other picture needs

    several = name != BASELINE and not METHODS[name].surface
    own = BoundaryOptions(
        precision=bound.text,
        method=name,
        uncertainty_bins=options.uncertainty_bins if several else None,
        score_bins=options.score_bins if METHODS[name].take else None,
        folds=0 if held is not None else options.folds,
        seed=options.seed,
        threads=options.workers,
        provenance="none",
    )
    try:
        model = fit_boundary(rows, own, test=held).model
    except InfeasibleError:
        return _Judged()
    judged, hit = model.fit.test or model.fit.cross_validated, None
    assert judged  # `folds` is 2 or more without test rows
    if held is not None:
        chance = probabilities(model, held.score, held.uncertainty)
        if ((chance == 0.0) | (chance == 1.0)).all():
            hit = (chance == 1.0) & (held.labels == 1)
    figures = {"precision": judged.precision, "recall": judged.recall}
    counts, confidence = alert_counts(model), _sure(options)
    if counts is not None and confidence is not None:
        (low,), (high,) = interval([counts[0]], [counts[1]], confidence)
        figures |= {"precision_low": low, "precision_high": high}
    return _Judged(figures, hit)


def _gain_ends(
    one: _Judged, base: _Judged, confidence: float | None
) -> tuple[float, float] | tuple[None, None]:
    """Return the interval of a ratio of two recalls of the same positives, less 1."""
    if confidence is None or one.hit is None or base.hit is None:
        return None, None
    both = np.count_nonzero(one.hit & base.hit)
    hits, base_hits = np.count_nonzero(one.hit), np.count_nonzero(base.hit)
    if not hits or not base_hits:
        return None, None
    variance = (hits + base_hits - 2 * both) / (hits * base_hits)
    reach = math.exp(critical_value(confidence) * math.sqrt(variance))
    return hits / base_hits / reach - 1.0, hits / base_hits * reach - 1.0


def draw_gain(shown: Points, sheet: Sheet) -> None:
    """Draw the gain of each method above, and by how much precision misses the bound below."""
    table = shown.table.with_columns(
        pl.col(f"{name}precision{end}").sub(pl.col("bound")).alias(f"{name}miss{end}")
        for name in ("", "baseline_")
        for end in ("", "_low", "_high")
    )
    wide = float(np.ptp(table["bound"].to_numpy()))
    above, below = sheet.panels(3, 2)
    for panel in (above, below):
        panel.axhline(0.0, zorder=1, **sheet.guide)
    series = table.partition_by("method", maintain_order=True)
    for place, own in enumerate(series):
        for panel, name in ((above, "gain"), (below, "miss")):
            known = own.filter(pl.col(name).is_not_null())
            x = known["bound"] + style.aside(place, len(series)) * wide
            sheet.series(panel, place, x, known[name])
            sheet.whiskers(panel, place, x, known, name)
        sheet.entry(own["method"][0], **sheet.line(place))
    base = series[0].filter(pl.col("baseline_miss").is_not_null())
    look: dict[str, Any] = {"color": sheet.ink, "ls": "-", "marker": "+", "lw": 1.0, "ms": 6.0}
    below.plot(base["bound"].to_numpy(), base["baseline_miss"].to_numpy(), **look)
    sheet.whiskers(below, 0, base["bound"], base, "baseline_miss", color=sheet.ink)
    sheet.entry("single threshold (st)", **look)
    above.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.6g}%" if value else "0%")
    below.yaxis.set_major_formatter(lambda value, _: f"{value:+.4g}" if value else "0")
    sheet.label(above, y=f"gain in recall over one threshold{shown.interval}", share=0.6)
    sheet.label(
        below, x=f"bound on precision ({shown.words['rows']})", y="precision − bound", share=0.4
    )


def night_columns(source: Source) -> dict[str, str]:
    """Return the columns of the nights; `UsageError` where one is missing."""
    source.require(list(HISTORY), "plot watch, which draws states of a watch")
    return {name: name for name in HISTORY}


def watch_points(source: Source, options: kinds.WatchPlotOptions) -> Points:
    """Return the nights of a watch as `calibkit.methods.watch.watch.Watched.history` has them."""
    table = source.read(list(night_columns(source))).cast(HISTORY)
    first = table.row(0, named=True)["period"]
    words = {"first": first} if "-" in first[1:] else {}  # a date; other nights are numbers anyway
    return Points(kind=options.KIND, table=table, words=words)


def draw_watch(shown: Points, sheet: Sheet) -> None:
    """Draw a panel a promise, and below them the evidence against all, on a logarithmic axis."""
    promises = shown.table.partition_by("promise", maintain_order=True)
    *panels, below = sheet.panels(*[1.0] * len(promises), 0.8)
    share = 1.0 / (len(panels) + 0.8)
    alarm = math.log10(float(shown.table["threshold"][0]))
    for place, (panel, own) in enumerate(zip(panels, promises, strict=True)):
        known = own.filter(pl.col("estimate").is_not_null())
        night, name = known["night"], str(own["promise"][0])
        panel.axhline(float(own["bound"][0]), **sheet.guide)
        sheet.band(panel, place, night, known)
        sheet.curve(panel, place, name, night, known["estimate"])
        sheet.series(panel, place, night, known["rate"], ls="none", ms=3.0)
        sheet.label(panel, y=name.partition(" ")[0], share=share)
        # Beyond its cube the height of an alarm says nothing more.
        height = own["e_value"].log10().clip(upper_bound=3.0 * alarm)
        sheet.series(below, place, own["night"], height, marker="")
        alarms = own.filter("refuted")["night"]
        if alarms.len():
            for one in (panel, below):
                one.axvline(int(alarms[0]), color=sheet.line(place)["color"], lw=1.2, ls=":")
    below.axhline(alarm, **sheet.guide)
    below.locator_params(axis="x", integer=True)
    since = f" (1 is {shown.words['first']})" if "first" in shown.words else ""
    sheet.label(below, x=f"night{since}", y="e-value, log10", share=0.8 * share)
    sheet.entry("a night alone", **sheet.line(0) | sheet.rim | {"ls": "none", "ms": 3.0})
    sheet.entry("bound; e-value of an alarm", **sheet.guide)
