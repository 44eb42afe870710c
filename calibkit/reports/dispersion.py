"""Calibration-dispersion map: where the epistemic loss of predictors comes from.

Mimori, Sasada, Matsui, Sato, "Diagnostic uncertainty calibration: towards reliable machine
predictions in medical domain", figure 2 (a).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from calibkit.evaluation.evaluate import evaluate
from calibkit.evaluation.slices import ALL
from calibkit.files.sources import Source
from calibkit.options.plot import DispersionOptions
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

METRICS = ("calibration_loss", "dispersion_loss", "epistemic_loss")

SCHEMA = pl.Schema(
    {
        "name": pl.String,
        **dict.fromkeys(METRICS, pl.Float64),
        **columns_of_ends(METRICS),
    }
)


def points(source: Source, options: DispersionOptions) -> Points:
    """Return calibration, dispersion and epistemic loss of each predictor, with intervals.

    Raises
    ------
    UsageError
        Class probabilities without votes; columns that are not there.
    DataError
        No row with two votes.
    """
    spec = replace(options.judged, metrics=METRICS)
    found = evaluate(spec, source)
    metrics = found.metrics
    rows = [{"name": name, **with_ends(metrics, name, ALL, METRICS)} for name in metrics.metrics]
    table = pl.DataFrame(rows, schema=SCHEMA)
    check_lines(table["name"].to_list(), "predictors", "--probs")
    if not table["dispersion_loss"].count():
        raise undrawable(source, "no row has two votes, without which there is no dispersion loss")
    interval = per_cent(spec.confidence, spec.intervals)
    return Points.of("dispersion", table, found, interval=interval)


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw a point a predictor, with intervals, over lines of equal epistemic loss."""
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
    _equal_sums(panel, left, right, low, high, sheet)
    panel.set(xlim=(left, right), ylim=(low, high))
    x, y = (f"{name} loss{shown.interval}" for name in ("calibration", "dispersion"))
    sheet.label(panel, x=x, y=y)


def _equal_sums(
    panel: Axes, left: float, right: float, low: float, high: float, sheet: Sheet
) -> None:
    """Draw the lines on which calibration and dispersion loss have the same sum."""
    from matplotlib.ticker import MaxNLocator

    look: dict[str, Any] = {"color": "#9A9A9A", "lw": 0.7, "ls": (0, (6, 2))}
    panel.grid(visible=False)
    for total in MaxNLocator(6).tick_values(left + low, right + high):
        x = np.array([left, right])
        panel.plot(x, total - x, zorder=1, **look)
    sheet.entry("equal epistemic loss (their sum)", **look)
