"""Reliability diagrams: what came true by what was predicted, of scores and of raters who differ.

Dimitriadis, Gneiting, Jordan, "Stable reliability diagrams for probabilistic classifiers", 2021;
Mimori, Sasada, Matsui, Sato, "Diagnostic uncertainty calibration: towards reliable machine
predictions in medical domain", figure 2 (b).
"""

from __future__ import annotations

import dataclasses

import numpy as np
import polars as pl
from msgspec.structs import replace

from calibkit.errors import DataError
from calibkit.evaluation.evaluate import evaluate
from calibkit.evaluation.findings import ALL, Evaluated
from calibkit.files.sources import Source
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.plot import DisagreementOptions, ReliabilityOptions
from calibkit.reports.style import Points, Sheet, check_lines, nice_end, per_cent


def points(source: Source, options: ReliabilityOptions) -> Points:
    """Return the bins and the pools of isotonic regression (CORP) of each score and slice.

    The table is that of `calibkit.measures.reliability.curve_rows`, of class probabilities judged by
    votes that of `calibkit.measures.classes.vote_rows` with ``classes``.
    """
    votes = options.counts is not None
    spec = dataclasses.replace(options.judged, metrics=("rows_used" if votes else "count",))
    return of_evaluated(evaluate(spec, source, curves="classes" if votes else True), spec)


def disagreement_points(source: Source, options: DisagreementOptions) -> Points:
    """Return predicted and observed disagreement in the bins of each predictor.

    The table is that of `calibkit.measures.reliability.vote_rows`.  With strengths
    (``--alpha0``) each predictor stands there twice, with its strength and without.
    """
    spec = dataclasses.replace(options.judged, metrics=("rows_two_raters",))
    found = evaluate(spec, source, curves=True)
    if options.alpha0 and found.curves is not None:
        plain = evaluate(dataclasses.replace(spec, alpha0=None), source, curves=True)
        assert plain.curves is not None  # the same rows have some
        strong = found.curves.with_columns(pl.col("score") + " with alpha0")
        found = replace(found, curves=pl.concat([strong, plain.curves]))
    return of_evaluated(found, spec)


def of_evaluated(found: Evaluated, spec: EvaluateOptions) -> Points:
    """Return the same from an evaluation with ``curves``."""
    table, votes = found.curves, spec.counts is not None
    of_classes = table is not None and "classes" in table["curve"]
    if votes and not of_classes and (table is None or not table["count"].sum()):
        raise DataError("no row has two votes, so disagreement between raters cannot be seen")
    if table is None or not table.height:
        raise DataError(
            "a reliability diagram needs scores that are probabilities, but these are raw or "
            "infinite; name their --scale, or calibrate them first."
        )
    check_lines(list(_series(table)), "diagrams", f"{'--probs' if votes else '--score'} or --by")
    words = {"interval": per_cent(spec.confidence, table["low"].count())}
    if spec.patterns and not votes:
        words["x"] = "probability of the predicted class"
        words["y"] = "share of rows where it is right"
    kind = "disagreement" if votes and not of_classes else "reliability"
    return Points.of(kind, table, found, **words)


def _series(table: pl.DataFrame) -> dict[str, pl.DataFrame]:
    """Return the rows of each score and slice, by the name that a legend calls them."""
    found = table.partition_by("score", "slice", maintain_order=True, as_dict=True)
    return {
        str(score if part == ALL else f"{score}, {part}"): own
        for (score, part), own in found.items()
    }


#: What stands at the axes of curves of votes.
_OF_VOTES = {
    "classes": ("predicted probability of a class", "share of raters who chose the class"),
    "disagreement": (
        "predicted probability that two raters differ",
        "share of pairs of raters who differ",
    ),
}


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw bins with intervals and the CORP curve above, and how many rows the bins have below.

    Of votes there is no such curve, and a line joins the bins of a predictor.
    """
    votes, words = _OF_VOTES.get(shown.table["curve"][0]), shown.words
    held = shown.table.filter(pl.col("count") > 0)
    wide = nice_end(held["mean_score"], held.filter(pl.col("curve") == "corp")["score_high"])
    tall = nice_end(held["mean_label"], held["high"])
    if votes:  # chances of the same, on axes alike
        wide = tall = max(wide, tall)
    main, below = sheet.panels(4, 1)
    main.plot([0, min(wide, tall)], [0, min(wide, tall)], zorder=1, **sheet.guide)
    series = _series(shown.table)
    for place, (name, own) in enumerate(series.items()):
        line = sheet.line(place)
        pools = own.filter(pl.col("curve") == "corp")
        ends = pools.select("score_low", "score_high").to_numpy().ravel()
        levels = np.repeat(pools["mean_label"].to_numpy(), 2)
        main.plot(ends, levels, color=line["color"], ls=line["ls"])
        bins = own.filter(pl.col("curve") != "corp")
        dots = bins.filter(pl.col("count") > 0)
        sheet.whiskers(main, place, dots["mean_score"], dots)
        joined = line["ls"] if votes else "none"
        sheet.series(main, place, dots["mean_score"], dots["mean_label"], zorder=3, ls=joined)
        edges = np.append(bins["score_low"].to_numpy(), bins["score_high"].to_numpy()[-1:])
        count = bins["count"].to_numpy()
        if len(series) == 1:
            below.stairs(count, edges, fill=True, color=line["color"], alpha=0.55)
        below.stairs(count, edges, color=line["color"], ls=line["ls"], lw=1.2)
        if votes or len(series) > 1:
            sheet.entry(name, **line)
    main.set(xlim=(-0.02 * wide, 1.02 * wide), ylim=(-0.03 * tall, 1.03 * tall))
    below.set_ylim(bottom=0)
    below.locator_params(axis="y", nbins=3)
    x, y = votes or (words.get("x", "score"), words.get("y", "share of positives"))
    sheet.label(main, y=y + shown.interval if votes else y, share=0.8)
    sheet.label(below, x=x, y="rows", share=0.2)
    if not votes:
        own_look = sheet.line(0)
        colour = "#7F7F7F" if len(series) > 1 else own_look["color"]
        said = f"bins, {words['interval']} interval" if "interval" in words else "bins"
        sheet.entry(said, color=colour, ls="none", marker=own_look["marker"])
        sheet.entry("isotonic regression (CORP)", color=colour)
    sheet.entry("calibrated", **sheet.guide)
