"""Positivity over score and uncertainty as a heat map, with decision boundaries drawn.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", figure 1 (b).

The height of a level is its share of the rows: uncertainties stand at their rank, so that a few
extreme ones do not squeeze the others.  Scores stand at their value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.weights import in_units
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.application import level_thresholds
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value
from calibkit.models.model import Model, load
from calibkit.options.grid_plots import HeatmapOptions
from calibkit.reports.grids import (
    FARTHEST,
    GridCells,
    grid_cells,
    level_ends,
    log_odds,
    name_odds,
)
from calibkit.reports.points import Points, check_lines, nice_end, schema
from calibkit.reports.style import Sheet, with_room

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

#: Colours that stand out from the blue and yellow of the cells.
OUTLINES = ("#FF4B00", "#FFFFFF", "#00E5C8", "#FF9FDB", "#E69F00", "#A5D8FF", "#BFBFBF", "#FFF100")

#: From this many cells on they are drawn as an image.
MOST_CELLS = 800

#: Columns of the table.  ``kind`` is ``cell``, or ``boundary``: a rectangle that the boundary
#: ``name`` selects, from the threshold ``score_low`` up.
_SCHEMA = schema(
    "kind name",
    *("uncertainty_low", "uncertainty_high", "rank_low", "rank_high", "score_low", "score_high"),
    *("count", "positives", "positivity"),
)

Point = tuple[float, float]

#: The share of rows with an uncertainty below a value.
Ranks = Callable[[float, str], float]


def points(source: Source, options: HeatmapOptions) -> Points:
    """Return the cells of a grid with their positivity, and what each boundary selects.

    ``rank_low`` and ``rank_high`` are the shares of rows with an uncertainty below the limits.
    """
    check_lines([name for name, _ in options.boundaries], "boundaries", "--boundary")
    cells = grid_cells(source, options, 10, 20)
    ends, level = level_ends(cells.frame), cells.frame["uncertainty_bin"].to_numpy()
    frames = [
        cells.frame.select(
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
    ]
    ranks, warnings = _ranks(cells), list(cells.warnings)
    for name, given in options.boundaries:
        model = boundary_of(name, given)
        frames.append(_regions(name, model, ranks))
        for role in ("score", "uncertainty"):
            drawn = cells.words[role]
            if role in model.columns and drawn not in ("", model.columns[role].name):
                warnings.append(
                    f"{name} decides by the {role} {model.columns[role].name!r}, but the picture "
                    f"shows {drawn!r}"
                )
    table = pl.concat([pl.DataFrame(schema=_SCHEMA), *frames], how="diagonal_relaxed")
    words = {**cells.words, "axis": cells.axis, "highest": repr(cells.highest)}
    return Points.of("heatmap", table, replace(cells, warnings=tuple(warnings)), **words)


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
    held = cells.filter(pl.col("count") > 0)
    across = (np.clip(held[f"score_{end}"].to_numpy(), left, right) for end in ("low", "high"))
    along = (held[f"rank_{end}"].to_numpy() for end in ("low", "high"))
    draw_cells(panel, (*across, *along), held["positivity"].to_numpy(), "share of positives", sheet)
    for place, own in enumerate(regions.partition_by("name", maintain_order=True)):
        _draw_outline(panel, own, left, right, place, sheet)
    panel.set(xlim=(left, right), ylim=(0.0, 1.0))
    if shown.words["axis"] == "logit":
        name_odds(panel, sheet, left, right)
    ticks = cells.select("rank_high", "uncertainty_high").unique("rank_high").sort("rank_high")
    borders = [
        (rank, f"{value:.4g}")
        for rank, value in ticks.iter_rows()
        if value is not None and np.isfinite(value) and 0.0 < rank < 1.0
    ]
    panel.set_yticks(*with_room(borders, 2.0 * sheet.letters / (sheet.size[1] * 72 * 0.6)))
    spread = shown.words["uncertainty"]
    sheet.label(panel, x=shown.words["score"], y=f"{spread} (by rank)" if spread else "rows")


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


def draw_cells(
    panel: Axes, ends: tuple[Floats, ...], share: Floats, name: str, sheet: Sheet
) -> None:
    """Draw rectangles in the colours of a share, and a bar of these.

    `ends`: where each begins and ends on the axis of x, and on that of y; `name`: of the share.
    """
    from matplotlib.collections import PolyCollection

    low, high, below, above = ends
    corners = np.stack([low, below, low, above, high, above, high, below], axis=1)
    drawn = PolyCollection(
        list(corners.reshape(-1, 4, 2)),
        array=share,
        cmap="cividis",
        edgecolors="face",
        linewidths=0.6,
        rasterized=share.size > MOST_CELLS,
    )
    drawn.set_clim(0.0, max(1e-9, float(share.max(initial=0.0))))
    panel.add_collection(drawn)
    bar = sheet.figure.colorbar(drawn, ax=panel, pad=0.02)
    bar.set_label(name)
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
        starts, stops = np.clip(left_, left, right), np.clip(right_, left, right)
        lines = outline(starts, stops, low, high, frame=(left, right))
        for look in (under, over):
            for line in lines:
                panel.plot(*zip(*line, strict=True), solid_capstyle="projecting", **look)
    sheet.entry(own["name"][0], under, **over)


def _ranks(cells: GridCells) -> Ranks:
    """Return what tells the share of rows whose uncertainty lies below a value.

    Of a table that was read it knows the borders of its levels alone; the second argument says what
    asks, for the message.
    """
    if cells.rows is not None and cells.rows.uncertainty is not None:
        values, weight = cells.rows.uncertainty, cells.rows.weight
        order = np.argsort(values, kind="stable")
        sorted_values = values[order]
        units = np.ones(values.size, np.int64) if weight is None else in_units(weight)[0]
        reached = np.concatenate([[0], np.cumsum(units[order])])
        return lambda value, _: float(reached[np.searchsorted(sorted_values, value)] / reached[-1])
    ends = level_ends(cells.frame)
    lows = cells.frame["uncertainty_low"].gather_every(cells.frame.height // (ends.size - 1))
    known: dict[float, float] = {-np.inf: 0.0, np.inf: 1.0}
    for low, share in zip(lows, ends[:-1].tolist(), strict=True):
        if low is not None:
            known.setdefault(low, share)

    def rank(value: float, name: str) -> float:
        if value not in known:
            raise UsageError(
                f"{name}: its levels are not those of the table; draw it over the rows themselves.",
                file=name,
            )
        return known[value]

    return rank


def boundary_of(name: str, given: Model | str) -> BoundaryModel:
    """Return a boundary whose thresholds are those of all rows."""
    model = load(given) if isinstance(given, str) else given
    if not isinstance(model, BoundaryModel):
        raise UsageError(f"{name}: is a {model.kind}, not a boundary.", file=name)
    if model.groups is not msgspec.UNSET:
        raise UsageError(
            f"{name}: has thresholds for each {model.columns['by'].name!r}; draw a boundary of all "
            "rows, fitted without --by.",
            file=name,
        )
    return model


def _regions(name: str, model: BoundaryModel, ranks: Ranks) -> pl.DataFrame:
    """Return the rectangles that a boundary selects, one row without limits where it selects nothing.

    What a stochastic boundary selects by chance has a name of its own.
    """
    rows = [
        {
            "kind": "boundary",
            "name": name if not chance else f"{name}, by chance",
            "uncertainty_low": low,
            "uncertainty_high": high,
            "rank_low": ranks(low, name),
            "rank_high": ranks(high, name),
            "score_low": start,
            "score_high": end,
        }
        for low, high, start, end, chance in _rectangles(model)
    ]
    return pl.DataFrame(rows or [{"kind": "boundary", "name": name}])


def _rectangles(model: BoundaryModel) -> list[tuple[float, float, float, float, bool]]:
    """Return uncertainties [low, high), scores [start, end) and whether by chance, of each one."""
    sure, edges = level_thresholds(model).tolist(), model.uncertainty_edges
    if model.order == "score-uncertainty":
        assert model.score_edges is not msgspec.UNSET
        columns: Any = zip(pairwise([-np.inf, *model.score_edges, np.inf]), edges, strict=True)
        found = [
            (*levels, start, end, False)
            for (start, end), own in columns
            for levels, cut in zip(_levels(own, len(sure)), sure, strict=True)
            if cut <= start < end
        ]
    else:
        levels = _levels(edges, len(sure))
        found = [(*own, start, np.inf, False) for own, start in zip(levels, sure, strict=True)]
        if model.random_thresholds is not msgspec.UNSET:
            chance = map(threshold_value, model.random_thresholds)
            for own, start, end in zip(levels, chance, sure, strict=True):
                found.append((*own, start, np.inf if np.isnan(end) else end, True))
    return [one for one in found if one[0] < one[1] and not np.isnan(one[2])]


def _levels(edges: Any, count: int) -> list[tuple[float, float]]:
    """Return the limits of uncertainty levels; rows of a bin without any count as level 0."""
    return list(pairwise([-np.inf, *(edges or [np.inf] * (count - 1)), np.inf]))


def outline(
    left: Floats, right: Floats, bottom: Floats, top: Floats, *, frame: tuple[float, float]
) -> list[list[Point]]:
    """Return the border of a union of rectangles as lines, without the frame's own sides.

    `frame` says where the picture ends on the left and on the right; below and above it ends at 0
    and 1.
    """
    xs = np.unique(np.concatenate([left, right, frame]))
    ys = np.unique(np.concatenate([bottom, top, [0.0, 1.0]]))
    inside = np.zeros((xs.size + 1, ys.size + 1), np.bool_)
    for start, end, low, high in zip(left, right, bottom, top, strict=True):
        columns = slice(np.searchsorted(xs, start) + 1, np.searchsorted(xs, end) + 1)
        rows = slice(np.searchsorted(ys, low) + 1, np.searchsorted(ys, high) + 1)
        inside[columns, rows] = True
    segments = []
    for place, x in enumerate(xs.tolist()):
        if frame[0] < x < frame[1]:
            for low, high in _runs(inside[place] != inside[place + 1], ys):
                segments.append([(x, low), (x, high)])
    for place, y in enumerate(ys.tolist()):
        if 0.0 < y < 1.0:
            for low, high in _runs(inside[:, place] != inside[:, place + 1], xs):
                segments.append([(low, y), (high, y)])
    return _chained(segments)


def _chained(segments: list[list[Point]]) -> list[list[Point]]:
    """Return lines made of segments that meet end to end."""
    meeting: dict[Point, list[int]] = {}
    for place, segment in enumerate(segments):
        for end in segment:
            meeting.setdefault(end, []).append(place)
    left = dict.fromkeys(range(len(segments)))
    # Begin where a line begins, so that none is cut in two; what remains are closed lines.
    loose = [own[0] for own in meeting.values() if len(own) == 1]
    lines = []
    for start in (*loose, *range(len(segments))):
        if start not in left:
            continue
        del left[start]
        line = list(segments[start])
        if len(meeting[line[1]]) == 1:
            line.reverse()
        while True:
            following = next((one for one in meeting[line[-1]] if one in left), None)
            if following is None:
                break
            del left[following]
            one, two = segments[following]
            line.append(two if one == line[-1] else one)
        lines.append(line)
    return lines


def _runs(marked: NDArray[np.bool_], ends: Floats) -> list[tuple[float, float]]:
    """Return the stretches of marked intervals; interval i lies between ends i - 1 and i."""
    steps = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]])))
    return [(float(ends[start - 1]), float(ends[stop - 1])) for start, stop in steps.reshape(-1, 2)]
