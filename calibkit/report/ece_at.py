"""Calibration error by score bin, over the cells of a grid: ECE@j, and cumulative from j up.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", section C.6 and figure 8.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from calibkit.bins.binning import Grid, fit_grid
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.metrics import cells
from calibkit.metrics.rows import grid_of
from calibkit.metrics.views import Sample, Settings
from calibkit.report.points import Points, check_lines
from calibkit.report.style import Sheet
from calibkit.rows.columns import ColumnOptions, read_score_rows, score_column


@dataclass(frozen=True, kw_only=True)
class EceSpec:
    """What to draw.

    Attributes
    ----------
    scores
        The probabilities to judge.
    columns
        Label, weight, uncertainty.
    grid, grid_score
        A table of ``calibkit bin``, None: a grid of these rows; the score that it bins, None: as the
        table says, else the first of the scores.
    uncertainty_bins, score_bins
        Of a grid of these rows; the former None: 3, or 1 without uncertainties.
    settings
        Scale, threads and weights.
    """

    scores: tuple[str, ...]
    columns: ColumnOptions
    grid: str | None = None
    grid_score: str | None = None
    uncertainty_bins: int | None = None
    score_bins: int = 20
    settings: Settings


def points(source: Source, spec: EceSpec) -> Points:
    """Return ECE@j and cumulative ECE@j of each score for every score bin j.

    Raises
    ------
    UsageError
        Columns or a grid that are not there, or do not fit.
    DataError
        Values that are missing, out of range or of the wrong type; scores that are no
        probabilities.
    """
    if spec.settings.scale != "probability":
        raise UsageError("calibration errors need probabilities; --scale must be probability.")
    check_lines(spec.scores, "scores", "--score")
    source.require(list(spec.scores), "--score")
    given = None
    columns = replace(spec.columns, score=spec.grid_score or spec.scores[0])
    found = grid_of(spec.grid)
    if found is not None:
        given, spread = found.grid, found.columns.get("uncertainty")
        binned = spec.grid_score or found.columns["score"].name
        columns = replace(columns, score=binned)
        if columns.uncertainty is None and given.shape[0] > 1:
            columns = replace(columns, uncertainty=spread.name if spread else "uncertainty")
    others = [name for name in spec.scores if name != columns.score]
    rows = read_score_rows(source, columns, positive_must_occur=False, others=others)
    assert rows.label is not None and rows.where is not None  # labels are read
    if given is None:
        levels = spec.uncertainty_bins or (3 if rows.uncertainty is not None else 1)
        given = fit_grid(rows, levels, spec.score_bins, threads=spec.settings.threads)
    place = cells.place(given, rows.score, rows.uncertainty)
    frames = []
    for name in spec.scores:
        own = rows.score
        if name != columns.score:
            assert rows.others is not None
            own = score_column(rows.others[name], rows.where, "probability")
        sample = Sample(score=own, label=rows.label, weight=rows.weight)
        frames.append(_one(name, given, cells.compute(sample, place, spec.settings)))
    table = pl.concat(frames)
    if not table["ece_at"].count():
        raise DataError(
            f"{source.parts[0].path}: no cell of the grid has rows", file=source.parts[0].path
        )
    shape = str(given.shape[0])
    return Points.of("ece-at", table, rows, grid=columns.score, levels=shape)


def _one(name: str, grid: Grid, values: dict[str, int | float | None]) -> pl.DataFrame:
    bins = range(grid.shape[1])
    return pl.DataFrame(
        {
            "score": name,
            "score_bin": list(bins),
            "ece_at": [values[f"ece_at:{j}"] for j in bins],
            "cumulative_ece_at": [values[f"cumulative_ece_at:{j}"] for j in bins],
        },
        schema_overrides={"ece_at": pl.Float64, "cumulative_ece_at": pl.Float64},
    )


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw ECE@j above and the cumulative one below, over the score bins."""
    above, below = sheet.panels(2, sharex=True)
    series = shown.table.partition_by("score", maintain_order=True)
    marked = series[0].height <= 30
    for place, own in enumerate(series):
        look = sheet.line(place) if marked else {**sheet.line(place), "marker": ""}
        for panel, name in ((above, "ece_at"), (below, "cumulative_ece_at")):
            known = own.filter(pl.col(name).is_not_null())
            x, y = known["score_bin"].to_numpy(), known[name].to_numpy()
            panel.plot(x, y, **look, **sheet.rim)
        sheet.entry(own["score"][0], **look)
    for panel in (above, below):
        panel.set_ylim(bottom=0)
    below.locator_params(axis="x", integer=True)
    sheet.label(above, y="ECE@j", share=0.5)
    sheet.label(below, x=f"score bin j of {shown.words['grid']}", y="cumulative ECE@j", share=0.5)
