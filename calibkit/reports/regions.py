"""What a boundary over several uncertainties selects, cell by cell of two of them.

Uncertainties stand at their rank, so that a cell is as wide and as high as the share of the rows
between its edges.  Of its rows, whatever their other uncertainties and their scores are, the share that
is selected is shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.apply.apply import apply_model, plan_application
from calibkit.columns.columns import CellGrid
from calibkit.columns.numeric import as_fitted
from calibkit.columns.rows import RowFinder
from calibkit.errors import UsageError, nearest
from calibkit.files.sources import Source
from calibkit.methods.boundary.application import level_thresholds
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value
from calibkit.options.apply import ApplyOptions
from calibkit.options.grid_plots import RegionsOptions
from calibkit.reports.heatmap import OUTLINES, boundary_of, draw_cells
from calibkit.reports.points import Points, schema, undrawable
from calibkit.reports.style import Sheet, with_room

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = NDArray[np.float64]

_RANKS = ("x_rank_low", "x_rank_high", "y_rank_low", "y_rank_high")

#: Columns of the table, a row for each cell and decision: where it lies, its rows and how many of them
#: get the decision, and the lowest and the highest threshold there (over the other uncertainties).
_SCHEMA = schema(
    "decision",
    *("x_low", "x_high", "y_low", "y_high"),
    *_RANKS,
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


def columns(source: Source, options: RegionsOptions) -> dict[str, str]:
    """Return the column of each role that the boundary reads."""
    model, _ = _model(options)
    return plan_application(model, source, _applied(options, ())).reads.needed


def points(source: Source, options: RegionsOptions) -> Points:
    """Return the cells of two uncertainties, and what the boundary decides there."""
    model, drawn = _model(options)
    assert model.partition is not msgspec.UNSET
    spreads = [model.columns[model.spreads[place]] for place in drawn]
    names = tuple(one.name for one in spreads)
    found = apply_model(model, source, _applied(options, names))
    frame = found.frame.filter(pl.col("decision").is_not_null())
    if not frame.height:
        raise undrawable(source, "no row has a decision")
    edges = tuple(np.array(model.partition.edges[place], np.float64) for place in drawn)
    grid, where = CellGrid(names, edges), RowFinder(source)
    cell = grid.of([as_fitted(one, frame[one.name], where) for one in spreads]).astype(np.int64)
    count = np.bincount(cell, minlength=grid.cells)
    leaves = np.array(model.partition.leaves).reshape(model.partition.shape)
    others = tuple(axis for axis in range(leaves.ndim) if axis not in drawn)
    cuts = {"selected": level_thresholds(model)}
    if model.review_thresholds is not msgspec.UNSET:
        review = np.array([threshold_value(value) for value in model.review_thresholds])
        cuts = {"block": cuts["selected"], "review": review}
    ranks = [_ranks(count.reshape(grid.shape).sum(axis=1 - axis)) for axis in (0, 1)]
    x, y = (own.ravel() for own in np.indices(grid.shape))
    tables = []
    for decision, thresholds in cuts.items():
        taken = (frame["decision"] == (1 if decision == "selected" else decision)).to_numpy()
        decided = np.bincount(cell, taken, grid.cells)
        lowest = np.where(np.isnan(thresholds), np.inf, thresholds)[leaves]
        ends = [of(lowest, axis=others) for of in (np.min, np.max)]
        ends = [(own.T if drawn[0] > drawn[1] else own).ravel() for own in ends]
        own = {
            f"{axis}{rank}_{end}": limits[at + place]
            for axis, at, values in (("x", x, 0), ("y", y, 1))
            for rank, limits in (("", _limits(edges[values])), ("_rank", ranks[values]))
            for place, end in enumerate(("low", "high"))
        }
        own |= {"count": count, "decided": decided, "share": decided / np.maximum(count, 1)}
        own |= {"threshold_low": ends[0], "threshold_high": ends[1]}
        tables.append(pl.DataFrame(own).with_columns(decision=pl.lit(decision)))
    table = pl.concat(tables).select(_SCHEMA.names()).cast(_SCHEMA)
    words = {"x": names[0], "y": names[1], "score": model.columns["score"].name}
    return Points(kind=options.KIND, table=table, words=words, warnings=found.warnings)


def _ranks(count: NDArray[np.int64]) -> Floats:
    """Return the share of rows below each edge, from 0 to 1."""
    found: Floats = np.append(0.0, np.cumsum(count)) / count.sum()
    return found


def _limits(edges: Floats) -> Floats:
    return np.concatenate([[-np.inf], edges, [np.inf]])


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw the cells by the share decided, the borders of thresholds, and these where there is room."""
    decisions = shown.table.partition_by("decision", maintain_order=True)
    share = 1.0 / len(decisions)
    for panel, table in zip(sheet.panels(*[1.0] * len(decisions)), decisions, strict=True):
        panel.grid(visible=False)
        held = table.filter(pl.col("count") > 0)
        ends = tuple(held[name].to_numpy() for name in _RANKS)
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
            place(*with_room(inner, room / (72 * 0.6)))
        sheet.label(panel, y=f"{shown.words['y']} (by rank)", share=share)
    sheet.label(panel, x=f"{shown.words['x']} (by rank)")


def _draw_thresholds(panel: Axes, table: pl.DataFrame, sheet: Sheet, share: float) -> None:
    """Draw lines between cells of different thresholds; write these where regions begin, with room."""
    cuts = {  # those of each cell, by its lower left corner
        (row["x_rank_low"], row["y_rank_low"]): (row["threshold_low"], row["threshold_high"])
        for row in table.filter(pl.col("count") > 0).iter_rows(named=True)
    }
    for row in table.filter(pl.col("count") > 0).iter_rows(named=True):
        left, right, low, high = (row[name] for name in _RANKS)
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
