"""Recall that uncertainty gains over a single threshold, by the bound on precision.

Arora, Merugu, Saladi, Rastogi, "Leveraging uncertainty estimates to improve classifier
performance", figure 6 (a).  The figure shows recall alone; here the precision on the same rows
stands below it, because a boundary tuned on one file falls short of its bound on others.
"""

from __future__ import annotations

from typing import Any

import polars as pl

from calibkit.columns.columns import read_score_rows
from calibkit.errors import InfeasibleError, UsageError, nearest
from calibkit.files.sources import Source
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.numerics.bounds import decimal_bound
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.grid_plots import RecallGainOptions
from calibkit.options.judging import decimals
from calibkit.reports.points import Points, check_lines, schema
from calibkit.reports.style import Sheet

#: What the others are compared with.
BASELINE = "st"

_SCHEMA = schema(
    "method", *("bound", "precision", "recall", "baseline_precision", "baseline_recall", "gain")
)


def points(source: Source, options: RecallGainOptions) -> Points:
    """Return recall and precision of each method at each bound, beside the best single threshold's.

    They are those on the rows of ``test``, else the cross-validated ones, and null where a method
    finds no boundary.  `gain` is recall / recall of the single threshold - 1.
    """
    from calibkit.methods.boundary.result.fit import fit_boundary  # which no other picture needs

    check_lines(options.methods, "methods", "--method")
    known = [
        name
        for name, method in METHODS.items()
        if "precision" in method.objectives and name != BASELINE
    ]
    for name in options.methods:
        if name not in known:
            raise UsageError(
                f"--method {name!r} cannot be compared with st at bounds on precision"
                f"{nearest(name, known)}; the methods are {', '.join(known)}."
            )
    bounds = sorted(
        {decimal_bound(text, "--precision") for text in decimals(options.precision, "--precision")},
        key=lambda one: one.numerator / one.denominator,
    )
    rows = read_score_rows(source, options.columns)
    held = None
    if options.test is not None:
        held = read_score_rows(source.beside(options.test, "test"), rows.options)
    nothing: tuple[float | None, float | None] = (None, None)
    found = {}
    for bound in bounds:
        for name in (BASELINE, *options.methods):
            own = BoundaryOptions(
                precision=bound.text,
                method=name,
                uncertainty_bins=None if METHODS[name].surface else options.uncertainty_bins,
                score_bins=options.score_bins if METHODS[name].needs_grid else None,
                folds=0 if held is not None else options.folds,
                seed=options.seed,
                threads=options.workers,
                provenance="none",
            )
            if name == BASELINE:
                own = own.at_levels(None)
            try:
                fit = fit_boundary(rows, own, test=held).model.fit
            except InfeasibleError:
                continue
            judged = fit.cross_validated if held is None else fit.test
            if judged is not None:
                found[name, bound] = (judged.precision, judged.recall)
    table = []
    for name in options.methods:
        for bound in bounds:
            precision, recall = found.get((name, bound), nothing)
            base_precision, base = found.get((BASELINE, bound), nothing)
            gain = recall / base - 1.0 if recall is not None and base else None
            share = bound.numerator / bound.denominator
            table.append((name, share, precision, recall, base_precision, base, gain))
    judged_on = "test rows" if held is not None else f"cross-validated, {options.folds} folds"
    frame = pl.DataFrame(table, schema=_SCHEMA, orient="row")
    return Points.of("recall-gain", frame, rows, rows=judged_on)


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw the gain of each method above, and by how much precision misses the bound below."""
    above, below = sheet.panels(3, 2)
    for panel in (above, below):
        panel.axhline(0.0, zorder=1, **sheet.guide)
    table = shown.table.with_columns(
        miss=pl.col("precision") - pl.col("bound"),
        baseline_miss=pl.col("baseline_precision") - pl.col("bound"),
    )
    series = table.partition_by("method", maintain_order=True)
    for place, own in enumerate(series):
        for panel, name in ((above, "gain"), (below, "miss")):
            known = own.filter(pl.col(name).is_not_null())
            sheet.series(panel, place, known["bound"], known[name])
        sheet.entry(own["method"][0], **sheet.line(place))
    base = series[0].filter(pl.col("baseline_miss").is_not_null())
    look: dict[str, Any] = {"color": sheet.ink, "ls": "-", "marker": "+", "lw": 1.0, "ms": 6.0}
    below.plot(base["bound"].to_numpy(), base["baseline_miss"].to_numpy(), **look)
    sheet.entry("single threshold (st)", **look)
    above.yaxis.set_major_formatter(lambda value, _: f"{100 * value:+.6g}%" if value else "0%")
    below.yaxis.set_major_formatter(lambda value, _: f"{value:+.4g}" if value else "0")
    sheet.label(above, y="gain in recall over one threshold", share=0.6)
    sheet.label(
        below, x=f"bound on precision ({shown.words['rows']})", y="precision − bound", share=0.4
    )
