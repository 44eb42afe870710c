"""Reliability diagram of the probability that two raters differ.

Mimori, Sasada, Matsui, Sato, "Diagnostic uncertainty calibration: towards reliable machine
predictions in medical domain", figure 2 (b).
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl

from calibkit.errors import DataError
from calibkit.evaluation.evaluate import Evaluated, evaluate
from calibkit.files.sources import Source
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import DisagreementOptions
from calibkit.reports.judged import judged
from calibkit.reports.points import Points, check_lines, per_cent
from calibkit.reports.reliability import series_name, series_of
from calibkit.reports.style import Sheet


def points(source: Source, options: DisagreementOptions) -> Points:
    """Return predicted and observed disagreement in the bins of each predictor.

    The table is that of `calibkit.measures.vote_curves.disagreement_rows`.  With strengths
    (``--alpha0``) each predictor stands there twice, with its strength and without.

    Raises
    ------
    UsageError
        Class probabilities without votes; columns that are not there.
    DataError
        Values that are missing or of the wrong type; no row with two votes.
    """
    spec = replace(judged(options), metrics=("rows_two_raters",))
    found = evaluate(spec, source, curves=True)
    if options.alpha0 and found.curves is not None:
        plain = evaluate(replace(spec, alpha0=None), source, curves=True)
        assert plain.curves is not None  # the same rows have some
        strong = found.curves.with_columns(pl.col("score") + " with alpha0")
        found = replace(found, curves=pl.concat([strong, plain.curves]))
    return of_evaluated(found, spec)


def of_evaluated(found: Evaluated, spec: EvaluateOptions) -> Points:
    """Return the same from an evaluation with ``curves``."""
    table = found.curves
    if table is None or not table["count"].sum():
        raise DataError("no row has two votes, without which raters cannot be seen to differ")
    check_lines([series_name(*key) for key in series_of(table)], "diagrams", "--probs or --by")
    interval = per_cent(spec.confidence, table["low"].count())
    return Points.of("disagreement", table, found, interval=interval)


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw a line a predictor, with intervals, and how many rows its bins have below."""
    main, below = sheet.panels(2, heights=[4, 1], sharex=True)
    main.plot([0, 1], [0, 1], zorder=1, **sheet.guide)
    for place, key in enumerate(series_of(shown.table)):
        bins = shown.table.filter(pl.col("score") == key[0], pl.col("slice") == key[1])
        own = bins.filter(pl.col("count") > 0)
        line = sheet.line(place)
        x, y = own["mean_score"].to_numpy(), own["mean_label"].to_numpy()
        main.plot(x, y, zorder=3, **line, **sheet.rim)
        sheet.whiskers(main, place, x, own["low"], own["high"])
        edges = np.append(0.0, bins["score_high"].to_numpy())
        below.stairs(bins["count"].to_numpy(), edges, color=line["color"], ls=line["ls"], lw=1.2)
        sheet.entry(series_name(*key), **line)
    sheet.entry("calibrated", **sheet.guide)
    ends = [shown.table[name].max() for name in ("mean_score", "mean_label", "high")]
    most = max(float(end) for end in ends if isinstance(end, float))
    right = 1.02 if most > 0.6 else 1.08 * most
    main.set(xlim=(-0.02 * right, right), ylim=(-0.02 * right, right))
    below.set_ylim(bottom=0)
    below.locator_params(axis="y", nbins=3)
    sheet.label(main, y=f"share of pairs of raters who differ{shown.interval}", share=0.8)
    sheet.label(below, x="predicted probability that two raters differ", y="rows", share=0.2)
