"""Metrics of several scores or predictors beside each other."""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl

from calibkit.errors import UsageError
from calibkit.evaluation.evaluate import evaluate
from calibkit.evaluation.slices import ALL
from calibkit.files.sources import Source
from calibkit.options.plot import AucLiftOptions, BiasOptions, DispersionOptions
from calibkit.reports.points import (
    Points,
    check_lines,
    ends_of,
    in_per_cent,
    per_cent,
    schema,
    undrawable,
    with_ends,
)
from calibkit.reports.style import Sheet, aside, shown_name

#: From this many runs on, a box says more than the points alone.
LEAST_OF_A_BOX = 5

_BIASES = ("calibration_bias", "ece")
_LOSSES = ("calibration_loss", "dispersion_loss", "epistemic_loss")

_LIFT_SCHEMA = schema("score slice", "rows", "auc_baseline", "auc", "lift", "low", "high")
_BIAS_SCHEMA = schema("score", "top", "count", "positives", *_BIASES, *ends_of(_BIASES))
_LOSS_SCHEMA = schema("name", *_LOSSES, *ends_of(_LOSSES))


def lift_points(source: Source, options: AucLiftOptions) -> Points:
    """Return AUC / AUC of the baseline - 1 for each score, on all rows and on each slice.

    ``low`` and ``high`` are those of the paired difference over the AUC of the baseline, which is
    taken as given.  Durfee, Gupta, Basu, "Heterogeneous calibration: a post-hoc model-agnostic
    framework for improved generalization", figure 3: box plots of the test AUC lifts of several runs.
    """
    if len(options.names) < 2:
        raise UsageError("an AUC lift compares scores: name a --baseline and another --score.")
    spec = replace(options.judged, metrics=("count", "auc"))
    found = evaluate(spec, source)
    metrics, baseline = found.metrics, spec.ranked[0]
    rows = []
    for score in spec.ranked[1:]:
        for part, own in metrics.metrics[score].items():
            base = metrics.metrics[baseline][part]["auc"]
            paired = metrics.differences[f"{score}-{baseline}"][part]["auc"]
            known = base is not None and base > 0 and paired.value is not None
            ends = (paired.value, paired.low, paired.high)
            lift, low, high = (
                end / base if known and base and end is not None else None for end in ends
            )
            rows.append((score, part, own["count"], base, own["auc"], lift, low, high))
    table = pl.DataFrame(rows, schema=_LIFT_SCHEMA, orient="row")
    if table["lift"].count() == 0:
        raise undrawable(source, "no slice has rows of both classes, which an AUC needs")
    interval = per_cent(spec.confidence, spec.intervals)
    words = {"baseline": baseline, "by": spec.by or "", "interval": interval}
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
            panel.boxplot(
                [lifts],
                positions=[place],
                widths=0.45,
                showfliers=False,
                boxprops=edge,
                whiskerprops=edge,
                capprops=edge,
                medianprops={"color": sheet.ink, "lw": 1.6},
            )
        # Points of one run stand side by side in their order, so that none hides another.
        span = 0.0 if lifts.size == 1 else 0.15
        x = place + np.linspace(-span, span, lifts.size)
        if not boxed:
            sheet.whiskers(panel, place, x, own["low"], own["high"])
        sheet.series(panel, place, x, lifts, zorder=3, ls="none", ms=4.0)
    panel.axhline(0.0, zorder=1, **sheet.guide)
    panel.set_xlim(-0.6, len(series) - 0.4)
    each = max(6, sheet.fitting(0.8 * sheet.size[0] / len(series)))
    names = [own["score"][0] for own in series]
    said = ["\n".join(textwrap.wrap(shown_name(name), each)) or name for name in names]
    panel.set_xticks(range(len(names)), said)
    panel.grid(visible=False, axis="x")
    panel.yaxis.set_major_formatter(in_per_cent)
    words = shown.words
    over = f"one point a value of {words['by']}" if runs.height else "all rows"
    if not runs.height and "interval" in words:
        over += f", {words['interval']} interval"
    sheet.label(panel, x=over, y=f"AUC lift over {words['baseline']}")


def bias_points(source: Source, options: BiasOptions) -> Points:
    """Return calibration bias and ECE of each score among the top shares of the rows.

    The rows of a share are chosen by one score (``--top-by``, else the baseline), the same for all.
    Fan, Si, Zhang, "Calibration matters: tackling maximization bias in large-scale advertising
    recommendation systems", figure 2: before and after VAD.
    """
    check_lines(options.names, "scores", "--score")
    spec = replace(options.judged, metrics=("count", "positives", *_BIASES))
    found = evaluate(spec, source)
    tops = [(one.bound.numerator / one.bound.denominator, one.text) for one in spec.tops]
    rows = [
        {"score": score, "top": top, **with_ends(found.metrics, score, f"top:{text}", _BIASES)}
        for score in spec.ranked
        for top, text in sorted(tops)
    ]
    table = pl.DataFrame(rows, schema=_BIAS_SCHEMA)
    if table["calibration_bias"].count() == 0:
        raise undrawable(
            source,
            "no share of the rows has a positive one and probabilities to compare with; take larger "
            "shares by --top, or name the --scale of the scores",
        )
    interval = per_cent(spec.confidence, spec.intervals)
    return Points.of("bias", table, found, by=spec.top_by or spec.ranked[0], interval=interval)


def draw_bias(shown: Points, sheet: Sheet) -> None:
    """Draw the bias above and the calibration error below, over the share of the rows."""
    above, below = sheet.panels(3, 2)
    above.axhline(0.0, zorder=1, **sheet.guide)
    series = shown.table.partition_by("score", maintain_order=True)
    tops = shown.table["top"].unique().sort()
    wide = float(tops[-1]) / float(tops[0]) > 20
    for place, own in enumerate(series):
        # Side by side, so that intervals at one share do not hide each other.
        off = aside(place, len(series))
        x = own["top"] * (1 + 4 * off) if wide else own["top"] + off * (tops[-1] - tops[0])
        for panel, name in zip((above, below), _BIASES, strict=True):
            sheet.series(panel, place, x, own[name])
            sheet.whiskers(panel, place, x, own[f"{name}_low"], own[f"{name}_high"])
        sheet.entry(own["score"][0], **sheet.line(place))
    if wide:
        below.set_xscale("log")
    for axis in (above.yaxis, below.yaxis, below.xaxis):
        axis.set_major_formatter(in_per_cent)
    below.set_ylim(bottom=0)
    sheet.label(above, y=f"calibration bias{shown.interval}", share=0.6)
    sheet.label(below, x=f"share of rows with the highest {shown.words['by']}", y="ECE", share=0.4)


def dispersion_points(source: Source, options: DispersionOptions) -> Points:
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
        raise undrawable(source, "no row has two votes, without which there is no dispersion loss")
    interval = per_cent(spec.confidence, spec.intervals)
    return Points.of("dispersion", table, found, interval=interval)


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
