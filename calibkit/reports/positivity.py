"""Positivity by score for each uncertainty level.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", figure 1 (a).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.files.sources import Source
from calibkit.options.grid_plots import PositivityOptions
from calibkit.reports.grid_points import FARTHEST, grid_cells, level_names, log_odds, name_odds
from calibkit.reports.points import Points, check_lines, nice_end, per_cent
from calibkit.reports.style import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]


def points(source: Source, options: PositivityOptions) -> Points:
    """Return the cells of a grid with the share of positives in each, and its interval.

    Raises
    ------
    UsageError, DataError
        As `calibkit.reports.grid_points.grid_cells`; more levels than can be told apart.
    """
    cells = grid_cells(source, options, 3, 12)
    names = level_names(cells.frame)
    check_lines(names, "uncertainty levels", "--uncertainty-bins")
    table = cells.with_intervals(options.confidence if options.intervals else None)
    interval = per_cent(options.confidence, table["low"].count())
    return Points.of(
        "positivity", table, cells, **cells.words, axis=options.axis, interval=interval
    )


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw a line for each uncertainty level, with intervals."""
    (panel,) = sheet.panels()
    words = shown.words
    names = level_names(shown.table)
    spread, held = words["uncertainty"], shown.table.filter(pl.col("mean_score").is_not_null())
    x_of = _axis(panel, held["mean_score"].to_numpy(), words, sheet)
    for place, name in enumerate(names):
        own = held.filter(pl.col("uncertainty_bin") == place)
        x, y = x_of(own["mean_score"].to_numpy()), own["positivity"].to_numpy()
        sheet.series(panel, place, x, y, zorder=3)
        sheet.whiskers(panel, place, x, own["low"], own["high"])
        sheet.entry(f"{spread}: {name}" if spread else name, **sheet.line(place))
    if words["scale"] == "probability":
        most = nice_end(held["mean_score"])
        even = np.linspace(0.0, min(most, nice_end(held["positivity"], held["high"])), 200)
        left, right = panel.get_xlim()
        x = x_of(even)
        inner = (x > left) & (x < right)
        panel.plot(x[inner], even[inner], zorder=1, **sheet.guide)
        sheet.entry("calibrated", **sheet.guide)
    low, high = panel.get_ylim()
    panel.set_ylim(bottom=min(low, -0.02 * high))
    of_axes = f"mean {words['score']} of the bin", f"share of positives{shown.interval}"
    sheet.label(panel, *of_axes)


def _axis(
    panel: Axes, scores: Floats, words: Mapping[str, str], sheet: Sheet
) -> Callable[[Floats], Floats]:
    """Lay out the axis of scores; return where a score stands."""
    if words["axis"] == "logit":
        inside = log_odds(scores[(scores > 0.0) & (scores < 1.0)])
        inside = np.clip(inside, -FARTHEST, FARTHEST)
        ends = (
            (float(inside.min()) - 0.5, float(inside.max()) + 0.5) if inside.size else (-1.0, 1.0)
        )
        panel.set_xlim(*ends)
        name_odds(panel, sheet, *ends)
        return lambda values: np.clip(log_odds(values), *ends)
    if words["scale"] == "probability":
        most = nice_end(pl.Series(scores))
        panel.set_xlim(-0.02 * most, 1.02 * most)
    return lambda values: values
