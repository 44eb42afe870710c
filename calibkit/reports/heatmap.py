"""Heat maps with decision boundaries: positivity over score and uncertainty, what a boundary selects.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", figure 1 (b).

The height of a level is its share of the rows: uncertainties stand at their rank, so that a few
extreme ones do not squeeze the others.  Scores stand at their value.  Of a boundary over several
uncertainties two are drawn: a cell is as wide and as high as the share of the rows between its edges,
and of its rows, whatever their other uncertainties and their scores are, the share that is selected is
shown.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from calibkit.apply.apply import apply_model, plan_application
from calibkit.arrays import Bools, Floats, distinct_values
from calibkit.columns.rows import RowFinder, as_fitted
from calibkit.columns.weights import in_units
from calibkit.errors import DataError, UsageError, nearest
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.application import level_thresholds
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value, threshold_values
from calibkit.models.model import Model
from calibkit.options.apply import ApplyOptions
from calibkit.options.plot import HeatmapOptions, RegionsOptions
from calibkit.options.shared import model_of
from calibkit.reports import style
from calibkit.reports.grids import FARTHEST, GridCells, grid_cells, level_ends, log_odds, name_odds
from calibkit.reports.style import Points, Sheet
from calibkit.summaries.score_rows import CellGrid

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Colours that stand out from the blue and yellow of the cells.
OUTLINES = ("#FF4B00", "#FFFFFF", "#00E5C8", "#FF9FDB", "#E69F00", "#A5D8FF", "#BFBFBF", "#FFF100")

#: From this many cells on they are drawn as an image.
MOST_CELLS = 800

#: Columns of the table.  ``kind`` is ``cell``, or ``boundary``: a rectangle that the boundary
#: ``name`` selects, from the threshold ``score_low`` up.
_HEATMAP = style.schema(
    "kind name",
    *("uncertainty_low", "uncertainty_high", "rank_low", "rank_high", "score_low", "score_high"),
    *("count", "positives", "positivity"),
)

Point = tuple[float, float]

#: The share of rows with an uncertainty below a value.
Ranks = Callable[[float, str], float]


def heatmap_points(source: Source, options: HeatmapOptions) -> Points:
    """Return the cells of a grid with their positivity, and what each boundary selects.

    ``rank_low`` and ``rank_high`` are the shares of rows with an uncertainty below the limits.
    """
    style.check_lines([name for name, _ in options.boundaries], "boundaries", "--boundary")
    cells = grid_cells(source, options, 10, 20)
    ends, level = level_ends(cells.frame), cells.frame["uncertainty_bin"].to_numpy()
    frames = [
        cells.frame.select(
            pl.lit("cell").alias("kind"),
            *("uncertainty_low", "uncertainty_high", "score_low", "score_high", "positivity"),
            pl.Series("rank_low", ends[level]),
            pl.Series("rank_high", ends[level + 1]),
            pl.col("count", "positives").cast(pl.Float64),
        )
    ]
    ranks, warnings = _ranks_of(cells), list(cells.warnings)
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
    table = pl.concat([pl.DataFrame(schema=_HEATMAP), *frames], how="diagonal_relaxed")
    # The highest score; of a table the highest mean of a cell.
    of = cells.frame["mean_score"] if cells.rows is None else cells.rows.score
    most: Any = of.max()
    highest = repr(1.0 if most is None else float(most))
    told = replace(cells, warnings=tuple(warnings))
    return Points.of("heatmap", table, told, **cells.words, highest=highest)


def draw_heatmap(shown: Points, sheet: Sheet) -> None:
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
    left, right = _score_ends(pl.concat([cells, regions]), shown.words)
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
    panel.set_yticks(*style.with_room(borders, 2.0 * sheet.letters / (sheet.size[1] * 72 * 0.6)))
    spread = shown.words["uncertainty"]
    sheet.label(panel, x=shown.words["score"], y=f"{spread} (by rank)" if spread else "rows")


def _score_ends(table: pl.DataFrame, words: Mapping[str, str]) -> tuple[float, float]:
    """Return where the axis of scores begins and ends: limits of bins have no outer ends."""
    limits = pl.concat([table["score_low"], table["score_high"]])
    inner = limits.filter(limits.is_finite())
    if words["scale"] == "probability" and words["axis"] == "value":
        return 0.0, style.nice_end(inner, pl.Series([float(words["highest"])]))
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
    low, high = (known[name].to_numpy() for name in ("rank_low", "rank_high"))
    starts, stops = (known[f"score_{end}"].to_numpy().clip(left, right) for end in ("low", "high"))
    lines = outline(starts, stops, low, high, frame=(left, right))
    for look in (under, over):
        for line in lines:
            panel.plot(*zip(*line, strict=True), solid_capstyle="projecting", **look)
    sheet.entry(own["name"][0], under, **over)


def _ranks_of(cells: GridCells) -> Ranks:
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
            raise UsageError.of(
                name, "its levels are not those of the table; draw it over the rows themselves."
            )
        return known[value]

    return rank


def boundary_of(name: str, given: Model | str) -> BoundaryModel:
    """Return a boundary whose thresholds are those of all rows."""
    model = model_of(given, "--boundary")
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
    sure, edges = level_thresholds(model).tolist(), model.uncertainty_edges

    def levels(own: Any) -> list[tuple[float, float]]:
        """Return the limits of levels; rows of a bin without any count as level 0."""
        return list(pairwise([-np.inf, *(own or [np.inf] * (len(sure) - 1)), np.inf]))

    #: Its name, uncertainties [low, high) and scores [start, end).
    found: list[tuple[str, float, float, float, float]] = []
    if model.order == "score-uncertainty":
        assert model.score_edges is not msgspec.UNSET
        columns: Any = zip(pairwise([-np.inf, *model.score_edges, np.inf]), edges, strict=True)
        for (start, end), own in columns:
            chosen = zip(levels(own), sure, strict=True)
            found += [(name, *level, start, end) for level, cut in chosen if cut <= start < end]
    else:
        found = [(name, *own, at, np.inf) for own, at in zip(levels(edges), sure, strict=True)]
        if model.random_thresholds is not msgspec.UNSET:
            chance = map(threshold_value, model.random_thresholds)
            for own, start, end in zip(levels(edges), chance, sure, strict=True):
                by_chance = (start, np.inf if np.isnan(end) else end)
                found.append((f"{name}, by chance", *own, *by_chance))
    rows = [
        ("boundary", said, low, high, ranks(low, name), ranks(high, name), start, end)
        for said, low, high, start, end in found
        if low < high and not np.isnan(start)
    ]
    return pl.DataFrame(
        rows or [("boundary", name, *[None] * 6)], _HEATMAP.names()[:8], orient="row"
    )


def outline(
    left: Floats, right: Floats, bottom: Floats, top: Floats, *, frame: tuple[float, float]
) -> list[list[Point]]:
    """Return the border of a union of rectangles as lines, without the frame's own sides.

    `frame` says where the picture ends on the left and on the right; below and above it ends at 0
    and 1.
    """
    xs = distinct_values(np.concatenate([left, right, frame]))
    ys = distinct_values(np.concatenate([bottom, top, [0.0, 1.0]]))
    inside = np.zeros((xs.size + 1, ys.size + 1), np.bool_)
    for start, end, low, high in zip(left, right, bottom, top, strict=True):
        columns = slice(np.searchsorted(xs, start) + 1, np.searchsorted(xs, end) + 1)
        rows = slice(np.searchsorted(ys, low) + 1, np.searchsorted(ys, high) + 1)
        inside[columns, rows] = True
    segments: list[list[Point]] = []
    for x, changes in zip(xs.tolist(), np.diff(inside, axis=0), strict=True):
        if frame[0] < x < frame[1]:
            segments += [[(x, low), (x, high)] for low, high in _runs(changes, ys)]
    for y, changes in zip(ys.tolist(), np.diff(inside, axis=1).T, strict=True):
        if 0.0 < y < 1.0:
            segments += [[(low, y), (high, y)] for low, high in _runs(changes, xs)]
    return _chained(segments)


def _chained(segments: list[list[Point]]) -> list[list[Point]]:
    """Return lines made of segments that meet end to end."""
    meeting: dict[Point, list[int]] = {}
    for place, segment in enumerate(segments):
        for end in segment:
            meeting.setdefault(end, []).append(place)
    left = dict(enumerate(segments))
    # Begin where a line begins, so that none is cut in two; what remains are closed lines.
    loose = [own[0] for own in meeting.values() if len(own) == 1]
    lines = []
    for start in (*loose, *range(len(segments))):
        if start not in left:
            continue
        line = list(left.pop(start))
        if len(meeting[line[1]]) == 1:
            line.reverse()
        while following := [place for place in meeting[line[-1]] if place in left]:
            one, two = left.pop(following[0])
            line.append(two if one == line[-1] else one)
        lines.append(line)
    return lines


def _runs(marked: Bools, ends: Floats) -> list[list[float]]:
    """Return the stretches of marked intervals, which end at `ends`; the outer ones are not marked."""
    found: list[list[float]] = ends[np.diff(marked)].reshape(-1, 2).tolist()
    return found


_CELL_RANKS = ("x_rank_low", "x_rank_high", "y_rank_low", "y_rank_high")

#: Columns of the table, a row for each cell and decision: where it lies, its rows and how many of them
#: get the decision, and the lowest and the highest threshold there (over the other uncertainties).
_REGIONS = style.schema(
    "decision",
    *("x_low", "x_high", "y_low", "y_high"),
    *_CELL_RANKS,
    *("count", "decided", "share", "threshold_low", "threshold_high"),
)


def _model(options: RegionsOptions) -> tuple[BoundaryModel, list[int]]:
    """Return the boundary, and which two of its uncertainties are drawn."""
    ((name, given),) = options.boundaries
    model = boundary_of(name, given)
    if model.partition is msgspec.UNSET:
        raise UsageError(f"{name}: has one uncertainty or none; plot heatmap draws it.", file=name)
    known = [model.columns[role].name for role in model.spreads]
    for one in options.names:
        if one not in known:
            raise UsageError(
                f"--uncertainty {one} is none of the boundary's{nearest(one, known)}; they are "
                f"{', '.join(known)}."
            )
    return model, [known.index(one) for one in options.names or known[:2]]


def _applied(options: RegionsOptions, keep: tuple[str, ...]) -> ApplyOptions:
    return ApplyOptions(
        keep=keep,
        overwrite_columns=True,
        on_missing="null" if options.on_missing == "drop" else "error",
    )


def region_columns(source: Source, options: RegionsOptions) -> dict[str, str]:
    """Return the column of each role that the boundary reads."""
    model, _ = _model(options)
    return plan_application(model, source, _applied(options, ())).reads.needed


def region_points(source: Source, options: RegionsOptions) -> Points:
    """Return the cells of two uncertainties, and what the boundary decides there."""
    model, drawn = _model(options)
    assert model.partition is not msgspec.UNSET
    spreads = [model.columns[model.spreads[place]] for place in drawn]
    names = tuple(one.name for one in spreads)
    found = apply_model(model, source, _applied(options, names))
    frame = found.frame.filter(pl.col("decision").is_not_null())
    if not frame.height:
        raise DataError.of(source.file, "no row has a decision")
    edges = tuple(np.array(model.partition.edges[place], np.float64) for place in drawn)
    grid, where = CellGrid(names, edges), RowFinder(source)
    cell = grid.of([as_fitted(one, frame[one.name], where) for one in spreads]).astype(np.int64)
    count = np.bincount(cell, minlength=grid.cells)
    leaves = np.array(model.partition.leaves).reshape(model.partition.shape)
    others = tuple(axis for axis in range(leaves.ndim) if axis not in drawn)
    cuts = {"selected": level_thresholds(model)}
    if model.review_thresholds is not msgspec.UNSET:
        cuts = {"block": cuts["selected"], "review": threshold_values(model.review_thresholds)}
    reached = [count.reshape(grid.shape).sum(axis=1 - axis).cumsum() for axis in (0, 1)]
    ranks = [np.append(0.0, own) / count.sum() for own in reached]
    limits = [np.concatenate([[-np.inf], own, [np.inf]]) for own in edges]
    x, y = (own.ravel() for own in np.indices(grid.shape))
    tables = []
    for decision, thresholds in cuts.items():
        taken = (frame["decision"] == (1 if decision == "selected" else decision)).to_numpy()
        decided = np.bincount(cell, taken, grid.cells)
        lowest = np.where(np.isnan(thresholds), np.inf, thresholds)[leaves]
        ends = [of(lowest, axis=others) for of in (np.min, np.max)]
        ends = [(own.T if drawn[0] > drawn[1] else own).ravel() for own in ends]
        own = {
            f"{axis}{rank}_{end}": borders[at + place]
            for axis, at, values in (("x", x, 0), ("y", y, 1))
            for rank, borders in (("", limits[values]), ("_rank", ranks[values]))
            for place, end in enumerate(("low", "high"))
        }
        own |= {"count": count, "decided": decided, "share": decided / np.maximum(count, 1)}
        own |= {"threshold_low": ends[0], "threshold_high": ends[1]}
        tables.append(pl.DataFrame(own).with_columns(decision=pl.lit(decision)))
    table = pl.concat(tables).select(_REGIONS.names()).cast(_REGIONS)
    words = {"x": names[0], "y": names[1], "score": model.columns["score"].name}
    return Points(kind=options.KIND, table=table, words=words, warnings=found.warnings)


def draw_regions(shown: Points, sheet: Sheet) -> None:
    """Draw the cells by the share decided, the borders of thresholds, and these where there is room."""
    decisions = shown.table.partition_by("decision", maintain_order=True)
    share = 1.0 / len(decisions)
    for panel, table in zip(sheet.panels(*[1.0] * len(decisions)), decisions, strict=True):
        panel.grid(visible=False)
        held = table.filter(pl.col("count") > 0)
        ends = tuple(held[name].to_numpy() for name in _CELL_RANKS)
        said = f"share to {table['decision'][0]}" if share < 1.0 else "share of rows selected"
        draw_cells(panel, ends, held["share"].to_numpy(), said, sheet)
        _draw_thresholds(panel, table, sheet, share)
        panel.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        rooms = 4.5 * sheet.letters / sheet.size[0], 2.0 * sheet.letters / sheet.size[1] / share
        for axis, room, place in zip(
            "xy", rooms, (panel.set_xticks, panel.set_yticks), strict=True
        ):
            edges = table.select(f"{axis}_rank_high", f"{axis}_high").unique().sort(f"{axis}_high")
            inner = [(rank, f"{edge:.3g}") for rank, edge in edges.iter_rows() if 0.0 < rank < 1.0]
            place(*style.with_room(inner, room / (72 * 0.6)))
        sheet.label(panel, y=f"{shown.words['y']} (by rank)", share=share)
    sheet.label(panel, x=f"{shown.words['x']} (by rank)")


def _draw_thresholds(panel: Axes, table: pl.DataFrame, sheet: Sheet, share: float) -> None:
    """Draw lines between cells of different thresholds; write these where regions begin, with room."""
    held = list(table.filter(pl.col("count") > 0).iter_rows(named=True))
    cuts = {  # those of each cell, by its lower left corner
        (row["x_rank_low"], row["y_rank_low"]): (row["threshold_low"], row["threshold_high"])
        for row in held
    }
    for row in held:
        left, right, low, high = (row[name] for name in _CELL_RANKS)
        own = cuts[left, low]
        if cuts.get((right, low), own) != own:
            panel.plot([right, right], [low, high], color=OUTLINES[0], lw=1.3)
        if cuts.get((left, high), own) != own:
            panel.plot([left, right], [high, high], color=OUTLINES[0], lw=1.3)
        before = table.filter(
            (pl.col("x_rank_high") == left) & (pl.col("y_rank_low") == low)
            | (pl.col("y_rank_high") == low) & (pl.col("x_rank_low") == left)
        ).select("threshold_low", "threshold_high")
        text = " to ".join(_named(cut) for cut in dict.fromkeys(own))
        wide, tall = 43.0 * (right - left) * sheet.size[0], 43.0 * (high - low) * sheet.size[1]
        small = 0.7 * sheet.letters  # in points, as are the sides of the cell
        room = wide > 0.56 * small * (len(text) + 1) and tall * share > 1.6 * small
        if room and own not in before.rows():
            bright = row["share"] > 0.6 * float(max(table["share"].to_list()))
            where = (left + right) / 2, (low + high) / 2
            colour = "#000000" if bright else "#FFFFFF"
            panel.text(*where, text, ha="center", va="center", fontsize=small, color=colour)


def _named(threshold: float) -> str:
    if threshold == -np.inf:
        return "all"
    return "none" if threshold == np.inf else f"≥ {threshold:.3g}"
