"""Calibration bias and error among the rows with the highest scores, before and after VAD.

Fan, Si, Zhang, "Calibration matters: tackling maximization bias in large-scale advertising
recommendation systems", figure 2.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from calibkit.evaluation.evaluate import evaluate
from calibkit.files.sources import Source
from calibkit.options.plot import BiasOptions
from calibkit.reports.points import (
    Points,
    check_lines,
    columns_of_ends,
    in_per_cent,
    per_cent,
    undrawable,
    with_ends,
)
from calibkit.reports.style import Sheet

METRICS = ("count", "positives", "calibration_bias", "ece")

SCHEMA = pl.Schema(
    {
        "score": pl.String,
        "top": pl.Float64,
        **dict.fromkeys(METRICS, pl.Float64),
        **columns_of_ends(METRICS[2:]),
    }
)


def points(source: Source, options: BiasOptions) -> Points:
    """Return calibration bias and ECE of each score among the top shares of the rows.

    The rows of a share are chosen by one score (``--top-by``, else the baseline), the same for all.

    Raises
    ------
    UsageError
        A column that is not there.
    DataError
        Scores that are no probabilities; no share with a positive row.
    """
    check_lines(options.names, "scores", "--score")
    spec = replace(options.judged, metrics=METRICS)
    found = evaluate(spec, source)
    rows = []
    for score in spec.ranked:
        for share in sorted(spec.tops, key=lambda one: one.bound.numerator / one.bound.denominator):
            part = f"top:{share.text}"
            top = share.bound.numerator / share.bound.denominator
            own = with_ends(found.metrics, score, part, METRICS[2:])
            rows.append({"score": score, "top": top, **own})
    table = pl.DataFrame(rows, schema=SCHEMA)
    if table["calibration_bias"].count() == 0:
        raise undrawable(
            source,
            "no share of the rows has a positive one and probabilities to compare with; take larger "
            "shares by --top, or name the --scale of the scores",
        )
    interval = per_cent(spec.confidence, spec.intervals)
    return Points.of("bias", table, found, by=spec.top_by or spec.ranked[0], interval=interval)


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw the bias above and the calibration error below, over the share of the rows."""
    above, below = sheet.panels(2, heights=[3, 2], sharex=True)
    above.axhline(0.0, zorder=1, **sheet.guide)
    series = shown.table.partition_by("score", maintain_order=True)
    tops = shown.table["top"].unique().sort()
    wide = float(tops[-1]) / float(tops[0]) > 20
    for place, own in enumerate(series):
        # Side by side, so that intervals at one share do not hide each other.
        aside = (place - (len(series) - 1) / 2) * 0.012
        x = own["top"] * (1 + 4 * aside) if wide else own["top"] + aside * (tops[-1] - tops[0])
        for panel, name in ((above, "calibration_bias"), (below, "ece")):
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
