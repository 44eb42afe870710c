"""Calibration error by score bin, over the cells of a grid: ECE@j, and cumulative from j up.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", section C.6 and figure 8.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import polars as pl

from calibkit.bins.binning import fit_grid
from calibkit.columns.columns import read_score_rows
from calibkit.columns.rows import score_column
from calibkit.evaluation.rows import grid_of
from calibkit.files.sources import Source
from calibkit.measures import cells
from calibkit.measures.views import Sample
from calibkit.options.grid_plots import EceAtOptions
from calibkit.options.metrics import Settings
from calibkit.reports.points import Points, check_lines, ends_of, per_cent, schema, undrawable
from calibkit.reports.style import Sheet

_METRICS = ("ece_at", "cumulative_ece_at")

_SCHEMA = schema("score", "score_bin", *_METRICS, *ends_of(_METRICS))


def points(source: Source, options: EceAtOptions) -> Points:
    """Return ECE@j and cumulative ECE@j of each score for every score bin j, with intervals.

    There are none of weighted rows.
    """
    check_lines(options.names, "scores", "--score")
    source.require(list(options.names), "--score")
    given = None
    columns = options.columns
    found = grid_of(options.grid)
    if found is not None:
        given, spread = found.grid, found.columns.get("uncertainty")
        columns = replace(columns, score=options.grid_score or found.columns["score"].name)
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
    confidence = options.confidence if options.intervals and options.weight is None else None
    table: list[dict[str, Any]] = []
    for name in options.names:
        own = rows.score
        if name != columns.score:
            assert rows.others is not None
            own = score_column(rows.others[name], rows.where, "probability")
        sample = Sample(score=own, label=rows.label, weight=rows.weight)
        made: dict[int, dict[str, Any]] = {}
        for metric, gaps, variances in cells.stretches(sample, place, settings):
            kind, _, j = metric.partition(":")
            row = made.setdefault(int(j), {"score": name, "score_bin": int(j)})
            row[kind] = cells.mean_gap(gaps)
            if confidence is not None:
                ends = cells.interval(gaps, variances, confidence)
                row[f"{kind}_low"], row[f"{kind}_high"] = ends
        table += made.values()
    frame = pl.DataFrame(table, schema=_SCHEMA | {"score_bin": pl.Int64})
    if not frame["ece_at"].count():
        raise undrawable(source, "no cell of the grid has rows")
    shape = str(given.shape[0])
    interval = per_cent(confidence)
    return Points.of("ece-at", frame, rows, grid=columns.score, levels=shape, interval=interval)


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw ECE@j above and the cumulative one below, over the score bins."""
    above, below = sheet.panels(1, 1)
    series = shown.table.partition_by("score", maintain_order=True)
    marked = series[0].height <= 30
    for place, own in enumerate(series):
        look = {} if marked else {"marker": ""}
        for panel, name in zip((above, below), _METRICS, strict=True):
            known = own.filter(pl.col(name).is_not_null())
            sheet.series(panel, place, known["score_bin"], known[name], **look)
            sheet.band(panel, place, own["score_bin"], own[f"{name}_low"], own[f"{name}_high"])
        sheet.entry(own["score"][0], **sheet.line(place) | look)
    for panel in (above, below):
        panel.set_ylim(bottom=0)
    below.locator_params(axis="x", integer=True)
    sheet.label(above, y=f"ECE@j{shown.interval}", share=0.5)
    sheet.label(below, x=f"score bin j of {shown.words['grid']}", y="cumulative ECE@j", share=0.5)
