"""Calibration error by score bin, over the cells of a grid: ECE@j, and cumulative from j up.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", section C.6 and figure 8.
"""

from __future__ import annotations

from dataclasses import replace

import polars as pl

from calibkit.bins.binning import fit_grid
from calibkit.columns.columns import read_score_rows, score_column
from calibkit.evaluation.rows import grid_of
from calibkit.files.sources import Source
from calibkit.measures import cells
from calibkit.measures.views import Sample
from calibkit.options.grid_plots import EceAtOptions
from calibkit.options.metrics import Settings
from calibkit.reports.points import Points, check_lines, undrawable
from calibkit.reports.style import Sheet

_SCHEMA = {
    "score": pl.String,
    "score_bin": pl.Int64,
    "ece_at": pl.Float64,
    "cumulative_ece_at": pl.Float64,
}


def points(source: Source, options: EceAtOptions) -> Points:
    """Return ECE@j and cumulative ECE@j of each score for every score bin j."""
    check_lines(options.names, "scores", "--score")
    source.require(list(options.names), "--score")
    given = None
    columns = options.columns
    found = grid_of(options.grid)
    if found is not None:
        given, spread = found.grid, found.columns.get("uncertainty")
        binned = options.grid_score or found.columns["score"].name
        columns = replace(columns, score=binned)
        if columns.uncertainty is None and given.shape[0] > 1:
            columns = replace(columns, uncertainty=spread.name if spread else "uncertainty")
    others = [name for name in options.names if name != columns.score]
    rows = read_score_rows(source, columns, positive_must_occur=False, others=others)
    assert rows.label is not None and rows.where is not None  # labels are read
    if given is None:
        levels = options.uncertainty_bins or (3 if rows.uncertainty is not None else 1)
        given = fit_grid(rows, levels, options.score_bins, threads=options.workers)
    place = cells.place(given, rows.score, rows.uncertainty)
    settings = Settings(weighted=options.weight is not None, threads=options.workers)
    table = []
    for name in options.names:
        own = rows.score
        if name != columns.score:
            assert rows.others is not None
            own = score_column(rows.others[name], rows.where, "probability")
        sample = Sample(score=own, label=rows.label, weight=rows.weight)
        values = cells.compute(sample, place, settings)
        for j in range(given.shape[1]):
            table.append((name, j, values[f"ece_at:{j}"], values[f"cumulative_ece_at:{j}"]))
    frame = pl.DataFrame(table, schema=_SCHEMA, orient="row")
    if not frame["ece_at"].count():
        raise undrawable(source, "no cell of the grid has rows")
    shape = str(given.shape[0])
    return Points.of("ece-at", frame, rows, grid=columns.score, levels=shape)


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw ECE@j above and the cumulative one below, over the score bins."""
    above, below = sheet.panels(1, 1)
    series = shown.table.partition_by("score", maintain_order=True)
    marked = series[0].height <= 30
    for place, own in enumerate(series):
        look = {} if marked else {"marker": ""}
        for panel, name in ((above, "ece_at"), (below, "cumulative_ece_at")):
            known = own.filter(pl.col(name).is_not_null())
            sheet.series(panel, place, known["score_bin"], known[name], **look)
        sheet.entry(own["score"][0], **sheet.line(place) | look)
    for panel in (above, below):
        panel.set_ylim(bottom=0)
    below.locator_params(axis="x", integer=True)
    sheet.label(above, y="ECE@j", share=0.5)
    sheet.label(below, x=f"score bin j of {shown.words['grid']}", y="cumulative ECE@j", share=0.5)
