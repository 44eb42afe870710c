"""ROC curve: recall against the false positive rate, with the points that boundaries chose."""

from __future__ import annotations

from calibkit.files.sources import Source
from calibkit.options.plot import RocOptions
from calibkit.reports.points import Points
from calibkit.reports.ranking_curves import curve_points, draw_curves
from calibkit.reports.style import Sheet


def points(source: Source, options: RocOptions) -> Points:
    """Return recall and false positive rate of the thresholds of each score, and of each boundary.

    AUC (the `area` of a score) is the area under the line, which counts ties half.
    """
    return curve_points(source, options, "roc", "auc")


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw the curves, and the diagonal of chance."""
    (panel,) = sheet.panels()
    draw_curves(panel, shown, sheet, "fpr", "recall", "AUC")
    panel.plot([0, 1], [0, 1], zorder=1, **sheet.guide)
    sheet.entry("chance", **sheet.guide)
    panel.set(xlim=(-0.02, 1.02), ylim=(-0.02, 1.03))
    sheet.label(panel, x="false positive rate", y="recall (true positive rate)")
