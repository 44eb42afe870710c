"""Precision against recall at every threshold, with the points that boundaries chose."""

from __future__ import annotations

import polars as pl

from calibkit.files.sources import Source
from calibkit.options.plot import PrecisionRecallOptions
from calibkit.reports.points import Points
from calibkit.reports.ranking_curves import curve_points, draw_curves
from calibkit.reports.style import Sheet


def points(source: Source, options: PrecisionRecallOptions) -> Points:
    """Return precision and recall of the thresholds of each score, and of each boundary.

    Average precision (the `area` of a score) is the area under the steps.
    """
    return curve_points(source, options, "precision-recall", "average_precision")


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw the curves as steps, and the share of positives that chance would reach."""
    (panel,) = sheet.panels()
    draw_curves(panel, shown, sheet, "recall", "precision", "average precision")
    base = float(shown.table.filter(pl.col("curve") == "base_rate")["precision"][0])
    panel.axhline(base, **sheet.guide)
    sheet.entry("chance", **sheet.guide)
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.03))
    sheet.label(panel, x="recall", y="precision")
