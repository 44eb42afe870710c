"""Positivity by score for each uncertainty level, and what pictures over both share: their grid."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from msgspec import Struct
from numpy.typing import ArrayLike

from calibkit.arrays import Floats
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.measures.reliability import with_intervals
from calibkit.options.plot import GridPlot, PositivityOptions
from calibkit.reports.style import Points, Sheet, check_lines, nice_end, per_cent, with_room
from calibkit.summaries.binning import fit_grid, grid_frame, is_grid_table, read_grid_table
from calibkit.summaries.score_rows import ScoreRows, read_score_rows

if TYPE_CHECKING:
    from matplotlib.axes import Axes


#: Log-odds beyond which nothing is told apart: those of probabilities of a millionth.
FARTHEST = 13.8

#: Bins whose limits all lie so near 0, or 1, would stand in a corner of the picture.
_NEAR = 0.1
#: Probabilities that are named, those first that have to be.
_NAMED = (0.5, 0.1, 0.9, 0.01, 0.99, 0.001, 0.999, 0.0001, 0.9999, 1e-05, 0.99999, 1e-06)

#: Rows that a cell should have on average, where the user names no number of bins.
LEAST_ROWS = 25


class GridCells(Struct, frozen=True):
    """A grid as the table of its cells."""

    frame: pl.DataFrame  # as `calibkit.summaries.binning.grid_frame`
    rows: ScoreRows | None  # those it counts, None where a table was read
    whole: bool  # whether counts are numbers of rows, so that they have exact intervals
    #: What axes and legends say: the columns `score` and `uncertainty`, empty without one, the `scale`
    #: of the scores, and the `axis` where these stand: at their ``value`` or their ``logit``.
    words: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def grid_cells(source: Source, options: GridPlot, levels: int, most: int) -> GridCells:
    """Return the grid of rows, or the one that a table of ``calibkit bin`` holds.

    Where the user names no numbers, it has so many `levels`, and score bins at `most`.
    """
    if is_grid_table(source):
        table = read_grid_table(source, options.columns)
        if table.grid.order != "uncertainty-score":
            raise UsageError(
                f"{source.file}: bins the uncertainties within each score bin; a picture needs "
                "`calibkit bin --order uncertainty-score`.",
                file=source.file,
            )
        places = ["uncertainty_bin", "score_bin"]
        means = source.read([*places, "mean_score"]).sort(places)["mean_score"].cast(pl.Float64)
        frame, score = grid_frame(table.grid), table.columns["score"]
        spread = table.columns.get("uncertainty")
        named = spread.name if spread is not None and table.grid.shape[0] > 1 else ""
        axis = _axis_of(options, frame, score.measure)
        words = {"score": score.name, "scale": score.measure, "uncertainty": named, "axis": axis}
        return GridCells(frame.with_columns(means), None, table.grid.unit.size == 1.0, words)
    rows = read_score_rows(source, options.columns, positive_must_occur=False)
    bins = options.uncertainty_bins or (levels if rows.uncertainty is not None else 1)
    width = options.score_bins or max(4, min(most, rows.score.size // (LEAST_ROWS * bins)))
    strategy, scale = options.strategy or "equal-mass", rows.options.measure
    grid = fit_grid(rows, bins, width, strategy=strategy, threads=options.workers)
    axis = _axis_of(options, grid_frame(grid), scale)
    if axis == "logit" and options.strategy is None:  # else the few positives would share a bin
        grid = fit_grid(rows, bins, width, strategy="equal-odds", threads=options.workers)
    words = {"score": rows.options.score, "scale": scale, "axis": axis}
    words["uncertainty"] = rows.options.uncertainty or ""
    whole = grid.unit.size == 1.0 and not options.columns.sampled
    return GridCells(grid_frame(grid), rows, whole, words, rows.warnings, rows.notes)


def level_ends(frame: pl.DataFrame) -> Floats:
    """Return the shares of rows below each level of a grid, and 1 at the end."""
    levels = int(frame["uncertainty_bin"].to_numpy()[-1]) + 1
    counts = [math.fsum(row) for row in frame["count"].to_numpy().reshape(levels, -1)]
    reached: Floats = np.cumsum([0.0, *counts])
    reached /= reached[-1]
    return reached


def level_names(frame: pl.DataFrame) -> list[str]:
    """Return the uncertainty levels of a grid as text, from the least uncertain."""
    levels = frame.unique("uncertainty_bin").sort("uncertainty_bin")
    names = []
    for low, high in levels.select("uncertainty_low", "uncertainty_high").iter_rows():
        if low is None or high is None:
            names.append("empty")
        elif np.isinf(low):
            names.append("all rows" if np.isinf(high) else f"below {high:.4g}")
        else:
            names.append(f"{low:.4g} and more" if np.isinf(high) else f"{low:.4g} to {high:.4g}")
    return names


def log_odds(probability: ArrayLike) -> Floats:
    """Return log-odds: -inf for 0 and less, inf for 1 and more."""
    inside: Floats = np.clip(np.asarray(probability, np.float64), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        return np.log(inside) - np.log1p(-inside)


def _axis_of(options: GridPlot, frame: pl.DataFrame, scale: str) -> str:
    """Return where scores stand: at their ``value``, or at their ``logit`` where most are at an end."""
    if options.axis != "auto" or scale != "probability":
        return "value" if options.axis == "auto" else options.axis
    limits = pl.concat([frame["score_low"], frame["score_high"]])
    inner = limits.filter(limits.is_finite())
    near_end = inner.len() > 0 and ((inner < _NEAR).all() or (inner > 1.0 - _NEAR).all())
    return "logit" if near_end else "value"


def name_odds(panel: Axes, sheet: Sheet, left: float, right: float) -> None:
    """Write probabilities at their log-odds, as many as there is room for."""
    room = 5.0 * sheet.letters / (sheet.size[0] * 72 * 0.75) * (right - left)
    known = [(float(log_odds(named)), f"{named:g}") for named in _NAMED]
    panel.set_xticks(*with_room([tick for tick in known if left <= tick[0] <= right], room))


def points(source: Source, options: PositivityOptions) -> Points:
    """Return the cells of a grid with the share of positives in each, and its exact interval.

    Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
    performance", figure 1 (a).
    """
    cells = grid_cells(source, options, 3, 12)
    check_lines(level_names(cells.frame), "uncertainty levels", "--uncertainty-bins")
    table = with_intervals(cells.frame, options.sure if cells.whole else None)
    interval = per_cent(options.confidence, table["low"].count())
    return Points.of("positivity", table, cells, **cells.words, interval=interval)


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
        sheet.whiskers(panel, place, x, own)
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
    sheet.label(panel, f"mean {words['score']} of the bin", f"share of positives{shown.interval}")


def _axis(
    panel: Axes, scores: Floats, words: Mapping[str, str], sheet: Sheet
) -> Callable[[Floats], Floats]:
    """Lay out the axis of scores; return where a score stands."""
    if words["axis"] == "logit":
        inside = log_odds(scores[(scores > 0.0) & (scores < 1.0)])
        inside = np.clip(inside, -FARTHEST, FARTHEST)
        ends = (inside.min() - 0.5, inside.max() + 0.5) if inside.size else (-1.0, 1.0)
        panel.set_xlim(*ends)
        name_odds(panel, sheet, *ends)
        return lambda values: np.clip(log_odds(values), *ends)
    if words["scale"] == "probability":
        most = nice_end(pl.Series(scores))
        panel.set_xlim(-0.02 * most, 1.02 * most)
    return lambda values: values
