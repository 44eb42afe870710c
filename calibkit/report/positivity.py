"""Positivity by score for each uncertainty level.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", figure 1 (a).
"""

from __future__ import annotations

import polars as pl

from calibkit.report.grid_points import GridSpec, grid_cells, level_names
from calibkit.report.points import Points, check_lines, nice_end, per_cent
from calibkit.report.style import Sheet
from calibkit.sources import Source


def points(source: Source, spec: GridSpec) -> Points:
    """Return the cells of a grid with the share of positives in each, and its interval.

    Raises
    ------
    UsageError, DataError
        As `calibkit.report.grid_points.grid_cells`; more levels than can be told apart.
    """
    cells = grid_cells(source, spec, 3, 12)
    names = level_names(cells.frame)
    check_lines(names, "uncertainty levels", "--uncertainty-bins")
    table = cells.with_intervals(spec.confidence)
    words = {"score": cells.score, "scale": cells.scale, "uncertainty": cells.uncertainty or ""}
    if spec.confidence is not None and table["low"].count():
        words["interval"] = per_cent(spec.confidence)
    return Points(
        kind="positivity", table=table, words=words, warnings=cells.warnings, notes=cells.notes
    )


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw a line for each uncertainty level, with intervals."""
    (panel,) = sheet.panels()
    words = shown.words
    names = level_names(shown.table)
    spread = words["uncertainty"]
    for place, name in enumerate(names):
        own = shown.table.filter(
            pl.col("uncertainty_bin") == place, pl.col("mean_score").is_not_null()
        )
        x, y = own["mean_score"].to_numpy(), own["positivity"].to_numpy()
        panel.plot(x, y, zorder=3, **sheet.line(place), **sheet.rim)
        sheet.whiskers(panel, place, x, own["low"], own["high"])
        sheet.entry(f"{spread}: {name}" if spread else name, **sheet.line(place))
    most = nice_end(shown.table["mean_score"], shown.table["mean_score"])
    if words["scale"] == "probability":
        tall = min(most, nice_end(shown.table["positivity"], shown.table["high"]))
        panel.plot([0, tall], [0, tall], zorder=1, **sheet.guide)
        sheet.entry("calibrated", **sheet.guide)
        panel.set_xlim(-0.02 * most, 1.02 * most)
    panel.set_ylim(bottom=min(-0.02 * most, panel.get_ylim()[0]))
    interval = f" ({words['interval']} interval)" if "interval" in words else ""
    sheet.label(panel, x=f"mean {words['score']} of the bin", y=f"share of positives{interval}")
