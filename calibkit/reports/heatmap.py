"""Positivity over score and uncertainty as a heat map, with decision boundaries drawn.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", figure 1 (b).

The height of a level is its share of the rows: uncertainties stand at their rank, so that a few
extreme ones do not squeeze the others.  Scores stand at their value.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.files.sources import Source
from calibkit.options.grid_plots import HeatmapOptions
from calibkit.reports.grid_points import (
    FARTHEST,
    GridCells,
    grid_cells,
    level_ends,
    log_odds,
    name_odds,
)
from calibkit.reports.points import Points, check_lines, nice_end
from calibkit.reports.regions import boundary_regions, outline, ranks_of
from calibkit.reports.style import Sheet, with_room

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

#: From this many cells on they are drawn as an image.
MOST_CELLS = 800

#: Columns of the table.  ``kind`` is ``cell``, or ``boundary``: a rectangle that the boundary
#: ``name`` selects, from the threshold ``score_low`` up.
SCHEMA = pl.Schema(
    {
        "kind": pl.String,
        "name": pl.String,
        "uncertainty_low": pl.Float64,
        "uncertainty_high": pl.Float64,
        "rank_low": pl.Float64,
        "rank_high": pl.Float64,
        "score_low": pl.Float64,
        "score_high": pl.Float64,
        "count": pl.Float64,
        "positives": pl.Float64,
        "positivity": pl.Float64,
    }
)


def points(source: Source, options: HeatmapOptions) -> Points:
    """Return the cells of a grid with their positivity, and what each boundary selects.

    ``rank_low`` and ``rank_high`` are the shares of rows with an uncertainty below the limits.

    Raises
    ------
    UsageError, DataError
        As `calibkit.reports.grid_points.grid_cells`; models that are no boundaries, or whose
        thresholds differ between the values of a column.
    """
    check_lines([name for name, _ in options.boundaries], "boundaries", "--boundary")
    cells = grid_cells(source, options, 10, 20)
    ranks = ranks_of(cells)
    frames = [_cells(cells)]
    warnings = list(cells.warnings)
    for name, model in options.boundaries:
        regions, remarks = boundary_regions(name, model, cells, ranks)
        frames.append(regions)
        warnings += remarks
    table = pl.concat([pl.DataFrame(schema=SCHEMA), *frames], how="diagonal_relaxed")
    own, told = {**cells.words, "axis": options.axis}, replace(cells, warnings=tuple(warnings))
    return Points.of("heatmap", table, told, **own, highest=repr(cells.highest))


def _cells(cells: GridCells) -> pl.DataFrame:
    """Return the cells with the share of rows below their level's limits."""
    frame = cells.frame
    ends = level_ends(frame)
    level = frame["uncertainty_bin"].to_numpy()
    return frame.select(
        pl.lit("cell").alias("kind"),
        "uncertainty_low",
        "uncertainty_high",
        pl.Series("rank_low", ends[level]),
        pl.Series("rank_high", ends[level + 1]),
        "score_low",
        "score_high",
        pl.col("count", "positives").cast(pl.Float64),
        "positivity",
    )


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw the cells, a bar of their colours, and the outline of what each boundary selects."""
    (panel,) = sheet.panels()
    panel.grid(visible=False)
    table = shown.table
    if shown.words["axis"] == "logit":
        table = table.with_columns(
            pl.Series(name, log_odds(table[name]), nan_to_null=True)
            for name in ("score_low", "score_high")
        )
    cells = table.filter(pl.col("kind") == "cell", pl.col("score_low").is_not_null())
    regions = table.filter(pl.col("kind") == "boundary")
    left, right = _ends(pl.concat([cells, regions]), shown.words)
    _draw_cells(panel, cells, left, right, sheet)
    for place, own in enumerate(regions.partition_by("name", maintain_order=True)):
        _draw_outline(panel, own, left, right, place, sheet)
    panel.set(xlim=(left, right), ylim=(0.0, 1.0))
    if shown.words["axis"] == "logit":
        name_odds(panel, sheet, left, right)
    spread = shown.words["uncertainty"]
    ticks = cells.select("rank_high", "uncertainty_high").unique("rank_high").sort("rank_high")
    _name_levels(panel, ticks, sheet)
    sheet.label(
        panel,
        x=shown.words["score"],
        y=f"{spread} (by rank)" if spread else "rows",
    )


def _ends(table: pl.DataFrame, words: Mapping[str, str]) -> tuple[float, float]:
    """Return where the axis of scores begins and ends: limits of bins have no outer ends."""
    limits = pl.concat([table["score_low"], table["score_high"]])
    inner = limits.filter(limits.is_finite())
    if words["scale"] == "probability" and words["axis"] == "value":
        return 0.0, nice_end(inner, pl.Series([float(words["highest"])]))
    if not inner.len():
        return -1.0, 1.0
    ends: Any = inner.min(), inner.max()
    low, high = map(float, ends)
    if words["axis"] == "logit":
        low, high = max(low, -FARTHEST), min(high, FARTHEST)
    margin = 0.08 * (high - low) or 1.0
    return low - margin, high + margin


def _draw_cells(panel: Axes, cells: pl.DataFrame, left: float, right: float, sheet: Sheet) -> None:
    from matplotlib.collections import PolyCollection

    held = cells.filter(pl.col("count") > 0)
    low, high = (np.clip(held[f"score_{end}"].to_numpy(), left, right) for end in ("low", "high"))
    below, above = (held[f"rank_{end}"].to_numpy() for end in ("low", "high"))
    corners = np.stack([low, below, low, above, high, above, high, below], axis=1)
    drawn = PolyCollection(
        list(corners.reshape(-1, 4, 2)),
        array=held["positivity"].to_numpy(),
        cmap="cividis",
        edgecolors="face",
        linewidths=0.6,
        rasterized=held.height > MOST_CELLS,
    )
    highest: Any = held["positivity"].max()
    drawn.set_clim(0.0, max(1e-9, float(highest or 0.0)))
    panel.add_collection(drawn)
    bar = sheet.figure.colorbar(drawn, ax=panel, pad=0.02)
    bar.set_label("share of positives")
    if bar.solids is not None:
        bar.solids.set_rasterized(True)
    bar.outline.set_visible(False)


def _draw_outline(
    panel: Axes, own: pl.DataFrame, left: float, right: float, place: int, sheet: Sheet
) -> None:
    known = own.filter(pl.col("score_low").is_not_null())
    under = {"color": "#000000", "lw": 3.8}
    over = {"color": OUTLINES[place % len(OUTLINES)], "lw": 2.0, "ls": sheet.line(place)["ls"]}
    if known.height:
        ends = ("score_low", "score_high", "rank_low", "rank_high")
        left_, right_, low, high = (known[name].to_numpy() for name in ends)
        lines = outline(
            np.clip(left_, left, right),
            np.clip(right_, left, right),
            low,
            high,
            frame=(left, right),
        )
        for look in (under, over):
            for line in lines:
                panel.plot(*zip(*line, strict=True), solid_capstyle="projecting", **look)
    sheet.entry(own["name"][0], under, **over)


#: Colours that stand out from the blue and yellow of the cells.
OUTLINES = ("#FF4B00", "#FFFFFF", "#00E5C8", "#FF9FDB", "#E69F00", "#A5D8FF", "#BFBFBF", "#FFF100")


def _name_levels(panel: Axes, ticks: pl.DataFrame, sheet: Sheet) -> None:
    """Write the uncertainty at the borders of levels, of those that have room for it."""
    gap = 2.0 * sheet.letters / (sheet.size[1] * 72 * 0.6)
    told = [
        (rank, f"{value:.4g}")
        for rank, value in ticks.iter_rows()
        if value is not None and np.isfinite(value) and 0.0 < rank < 1.0
    ]
    panel.set_yticks(*with_room(told, gap))
