"""Reliability diagram: share of positives by score, in bins and by isotonic regression (CORP).

Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic classifiers", 2021.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from calibkit.errors import DataError
from calibkit.evaluation.evaluate import Evaluated, evaluate
from calibkit.files.sources import Source
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import ReliabilityOptions
from calibkit.reports.judged import judged
from calibkit.reports.points import Points, check_lines, nice_end, per_cent
from calibkit.reports.style import Sheet

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def points(source: Source, options: ReliabilityOptions) -> Points:
    """Return the bins and the pools of isotonic regression of each score and slice.

    The table is that of `calibkit.measures.curves.curve_rows`.

    Raises
    ------
    UsageError, DataError
        As `calibkit.evaluation.evaluate.evaluate`; scores that are no probabilities.
    """
    spec = replace(judged(options), metrics=("count",))
    return of_evaluated(evaluate(spec, source, curves=True), spec)


def of_evaluated(found: Evaluated, spec: EvaluateOptions) -> Points:
    """Return the same from an evaluation with ``curves``."""
    table = found.curves
    if table is None or not table.height:
        raise DataError(
            "a reliability diagram needs scores that are probabilities, but these are raw or "
            "infinite; name their --scale, or calibrate them first."
        )
    names = [series_name(*key) for key in series_of(table)]
    check_lines(names, "diagrams", "--score or --by")
    words = {"interval": per_cent(spec.confidence, table["low"].count())}
    if spec.patterns:
        words["x"] = "probability of the predicted class"
        words["y"] = "share of rows where it is right"
    return Points.of("reliability", table, found, **words)


def series_of(table: pl.DataFrame) -> list[tuple[str, str]]:
    """Return the score and slice of each diagram of a table."""
    return list(table.select("score", "slice").unique(maintain_order=True).iter_rows())


def series_name(score: str, part: str) -> str:
    """Return what a legend calls a diagram."""
    return score if part == "all" else f"{score}, {part}"


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw bins with intervals and the CORP curve above, and how many rows the bins have below."""
    main, below = sheet.panels(2, heights=[4, 1], sharex=True)
    held = shown.table.filter(pl.col("count") > 0)
    wide = nice_end(held["mean_score"], held.filter(pl.col("curve") == "corp")["score_high"])
    tall = nice_end(held["mean_label"], held["high"])
    main.plot([0, min(wide, tall)], [0, min(wide, tall)], zorder=1, **sheet.guide)
    series = series_of(shown.table)
    for place, key in enumerate(series):
        own = shown.table.filter(pl.col("score") == key[0], pl.col("slice") == key[1])
        _draw_one(main, own, place, sheet)
        _histogram(below, own, sheet.line(place), filled=len(series) == 1)
    main.set(xlim=(-0.02 * wide, 1.02 * wide), ylim=(-0.03 * tall, 1.03 * tall))
    below.set_ylim(bottom=0)
    below.locator_params(axis="y", nbins=3)
    sheet.label(main, y=shown.words.get("y", "share of positives"), share=0.8)
    sheet.label(below, x=shown.words.get("x", "score"), y="rows", share=0.2)
    _legend(sheet, [series_name(*key) for key in series], shown.words.get("interval"))


def _draw_one(panel: Axes, table: pl.DataFrame, place: int, sheet: Sheet) -> None:
    pools = table.filter(pl.col("curve") == "corp")
    ends = pools.select("score_low", "score_high").to_numpy().ravel()
    line = sheet.line(place)
    panel.plot(
        ends, np.repeat(pools["mean_label"].to_numpy(), 2), color=line["color"], ls=line["ls"]
    )
    bins = table.filter(pl.col("curve") == "bins", pl.col("count") > 0)
    x, y = bins["mean_score"].to_numpy(), bins["mean_label"].to_numpy()
    sheet.whiskers(panel, place, x, bins["low"], bins["high"])
    panel.plot(x, y, zorder=3, **{**line, "ls": "none"}, **sheet.rim)


def _histogram(panel: Axes, table: pl.DataFrame, line: dict[str, Any], *, filled: bool) -> None:
    bins = table.filter(pl.col("curve") == "bins")
    edges = np.append(bins["score_low"].to_numpy(), bins["score_high"].to_numpy()[-1:])
    count = bins["count"].to_numpy()
    if filled:
        panel.stairs(count, edges, fill=True, color=line["color"], alpha=0.55)
    panel.stairs(count, edges, color=line["color"], ls=line["ls"], lw=1.2)


def _legend(sheet: Sheet, names: list[str], interval: str | None) -> None:
    several = len(names) > 1
    for place, name in enumerate(names):
        if several:
            sheet.entry(name, **sheet.line(place))
    own = sheet.line(0)
    colour = "#7F7F7F" if several else own["color"]
    bins = f"bins, {interval} interval" if interval else "bins"
    sheet.entry(bins, color=colour, ls="none", marker=own["marker"])
    sheet.entry("isotonic regression (CORP)", color=colour)
    sheet.entry("calibrated", **sheet.guide)
