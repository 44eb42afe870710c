"""What pictures over score and uncertainty share: the grid of the rows, or of a table of ``bin``."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import polars as pl
from numpy.typing import ArrayLike, NDArray

from calibkit.bins.binning import check_bins, fit_grid, grid_frame
from calibkit.bins.grid_table import is_grid_table, read_grid_table
from calibkit.columns.columns import ScoreRows, read_score_rows
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.measures.curves import with_intervals
from calibkit.options.grid_plots import GridPlot
from calibkit.options.shared import ColumnOptions
from calibkit.reports.style import Sheet, with_room

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Log-odds beyond which nothing is told apart: those of probabilities of a millionth.
FARTHEST = 13.8

#: Probabilities that are named, those first that have to be.
_NAMED = (0.5, 0.1, 0.9, 0.01, 0.99, 0.001, 0.999, 0.0001, 0.9999, 1e-05, 0.99999, 1e-06)

#: Rows that a cell should have on average, where the user names no number of bins.
LEAST_ROWS = 25


@dataclass(frozen=True, kw_only=True)
class GridCells:
    """A grid as the table of its cells.

    Attributes
    ----------
    frame
        As `calibkit.bins.binning.grid_frame`.
    rows
        The rows it counts, None where a table was read.
    whole
        Whether counts are numbers of rows, so that they have exact intervals.
    words
        What axes and legends say: the columns `score` and `uncertainty`, empty without one, and the
        `scale` of the scores.
    warnings, notes
        What the user has to be told, and what a summary should say.
    """

    frame: pl.DataFrame
    rows: ScoreRows | None
    whole: bool
    words: Mapping[str, str]
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def highest(self) -> float:
        """The highest score; of a table the highest mean of a cell."""
        if self.rows is not None:
            return float(self.rows.score.max())
        found = self.frame["mean_score"].max()
        return float(found) if isinstance(found, float) else 1.0

    def with_intervals(self, confidence: float | None) -> pl.DataFrame:
        """Return the cells with the exact interval (Clopper, Pearson) of their positivity."""
        return with_intervals(self.frame, confidence if self.whole else None)


def grid_cells(source: Source, options: GridPlot, levels: int, most: int) -> GridCells:
    """Return the grid of rows, or the one that a table of ``calibkit bin`` holds.

    Parameters
    ----------
    source
        The rows, or the table.
    options
        Which grid.
    levels, most
        Uncertainty levels, and score bins at most, where the user names no number.

    Raises
    ------
    UsageError
        Columns that are not there; a table that bins uncertainties within scores.
    DataError
        Values that are missing, out of range or of the wrong type.
    """
    if is_grid_table(source):
        return _from_table(source, options.columns)
    rows = read_score_rows(source, options.columns, positive_must_occur=False)
    uncertain = rows.uncertainty is not None
    bins = options.uncertainty_bins or (levels if uncertain else 1)
    width = options.score_bins or max(4, min(most, rows.score.size // (LEAST_ROWS * bins)))
    check_bins(bins, width, has_uncertainty=uncertain)
    grid = fit_grid(rows, bins, width, strategy=options.strategy, threads=options.workers)
    return GridCells(
        frame=grid_frame(grid),
        rows=rows,
        whole=grid.unit.size == 1.0 and not options.columns.sampled,
        words={
            "score": rows.options.score,
            "scale": rows.options.measure,
            "uncertainty": rows.options.uncertainty or "",
        },
        warnings=rows.warnings,
        notes=rows.notes,
    )


def _from_table(source: Source, columns: ColumnOptions) -> GridCells:
    found = read_grid_table(source, columns)
    if found.grid.order != "uncertainty-score":
        raise UsageError(
            f"{source.parts[0].path}: bins the uncertainties within each score bin; a picture needs "
            "`calibkit bin --order uncertainty-score`.",
            file=source.parts[0].path,
        )
    frame = grid_frame(found.grid)
    given = source.read(["uncertainty_bin", "score_bin", "mean_score"]).sort(
        "uncertainty_bin", "score_bin"
    )
    score, spread = found.columns["score"], found.columns.get("uncertainty")
    return GridCells(
        frame=frame.with_columns(given["mean_score"].cast(pl.Float64)),
        rows=None,
        whole=found.grid.unit.size == 1.0,
        words={
            "score": score.name,
            "scale": score.measure,
            "uncertainty": spread.name if spread is not None and found.grid.shape[0] > 1 else "",
        },
    )


def level_ends(frame: pl.DataFrame) -> NDArray[np.float64]:
    """Return the shares of rows below each level of a grid, and 1 at the end."""
    levels = int(frame["uncertainty_bin"].to_numpy()[-1]) + 1
    counts = [math.fsum(row) for row in frame["count"].to_numpy().reshape(levels, -1)]
    reached = np.cumsum([0.0, *counts])
    ends: NDArray[np.float64] = reached / reached[-1]
    return ends


def level_names(frame: pl.DataFrame) -> list[str]:
    """Return the uncertainty levels of a grid as text, from the least uncertain."""
    limits = (
        frame.select("uncertainty_bin", "uncertainty_low", "uncertainty_high")
        .unique("uncertainty_bin")
        .sort("uncertainty_bin")
    )
    return [_between(low, high) for _, low, high in limits.iter_rows()]


def _between(low: float | None, high: float | None) -> str:
    if low is None or high is None:
        return "empty"
    if np.isinf(low):
        return "all rows" if np.isinf(high) else f"below {high:.4g}"
    return f"{low:.4g} and more" if np.isinf(high) else f"{low:.4g} to {high:.4g}"


def log_odds(probability: ArrayLike) -> NDArray[np.float64]:
    """Return log-odds: -inf for 0 and less, inf for 1 and more."""
    inside = np.clip(np.asarray(probability, np.float64), 0.0, 1.0)
    with np.errstate(divide="ignore"):
        found: NDArray[np.float64] = np.log(inside) - np.log1p(-inside)
    return found


def name_odds(panel: Axes, sheet: Sheet, left: float, right: float) -> None:
    """Write probabilities at their log-odds, as many as there is room for."""
    room = 5.0 * sheet.letters / (sheet.size[0] * 72 * 0.75) * (right - left)
    known = [(float(log_odds(named)), f"{named:g}") for named in _NAMED]
    panel.set_xticks(*with_room([tick for tick in known if left <= tick[0] <= right], room))
