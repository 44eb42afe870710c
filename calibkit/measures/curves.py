"""Reliability diagrams as rows: bins, pools of isotonic regression (CORP), disagreement of raters."""

from __future__ import annotations

from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import polars as pl

from calibkit.measures.reliability import chosen_bins, pools, stretch_sums
from calibkit.measures.views import Floats, View
from calibkit.measures.votes import Judged
from calibkit.numerics.distributions import critical_value, interval
from calibkit.numerics.votes import EDGES, ONE, bin_sums, class_targets, disagreement_targets

#: Columns of the table: ``low`` and ``high`` are of the mean label.
SCHEMA = pl.Schema(
    {
        "score": pl.String,
        "slice": pl.String,
        "curve": pl.String,
        "bin": pl.Int64,
        "score_low": pl.Float64,
        "score_high": pl.Float64,
        "count": pl.Float64,
        "positives": pl.Float64,
        "mean_score": pl.Float64,
        "mean_label": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
    }
)

_NOTHING = pl.DataFrame(schema=SCHEMA)


def curve_rows(view: View, confidence: float | None) -> pl.DataFrame:
    """Return the reliability diagram of a score in a slice, one row a bin, from the lowest.

    ``curve`` is ``bins`` (the bins of `ece`, empty ones too, ends as cut) or ``corp`` (the pools of
    isotonic regression, ends the smallest and the largest probability in them; ``mean_label`` is the
    fitted probability).  With a confidence, bins of whole rows have the exact interval (Clopper and
    Pearson) of their mean label.  No rows where scores are no probabilities.
    """
    frames = [_bins(view, confidence), _corp(view)]
    return pl.concat([_NOTHING, *(frame.cast(SCHEMA) for frame in frames if frame is not None)])


def _bins(view: View, confidence: float | None) -> pl.DataFrame | None:
    found = chosen_bins(view)
    if found is None:
        return None
    ends, counts = (
        (found.edges[:-1], found.edges[1:]),
        (np.array(found.count), np.array(found.positive)),
    )
    frame = _frame(view, "bins", ends, *counts, found.mass)
    counted = view.unit.size == 1.0 and view.settings.weight_kind == "frequency"
    return with_intervals(frame, confidence if counted and view.sample.group is None else None)


def with_intervals(frame: pl.DataFrame, confidence: float | None) -> pl.DataFrame:
    """Add the exact interval (Clopper, Pearson) of the share of positives of each bin with rows."""
    count, positive = frame["count"].to_numpy(), frame["positives"].to_numpy()
    held = count > 0
    low, high = np.full(count.size, np.nan), np.full(count.size, np.nan)
    if confidence is not None:
        low[held], high[held] = interval(positive[held], count[held], confidence)
    return frame.with_columns(
        pl.Series("low", low, nan_to_null=True), pl.Series("high", high, nan_to_null=True)
    )


def _corp(view: View) -> pl.DataFrame | None:
    found, probability = pools(view), view.probability
    if probability is None or not found.size:
        return None
    ends = np.cumsum(found[:, 2])
    sums = stretch_sums(view, list(pairwise([0, *ends.tolist()])))
    mass = np.array([own for _, _, own in sums])
    low, high = probability[ends - 1], probability[ends - found[:, 2]]
    rising = (column[::-1] for column in (found[:, 0], found[:, 1], mass))
    return _frame(view, "corp", (low[::-1], high[::-1]), *rising).with_columns(low=None, high=None)


def _frame(
    view: View, curve: str, ends: tuple[Floats, Floats], count: Floats, positive: Floats, mass: Any
) -> pl.DataFrame:
    """Return a curve from the rows, positive rows and the sum of scores of each of its bins."""
    return pl.DataFrame(
        {
            "score": view.name,
            "slice": view.part,
            "curve": curve,
            "bin": np.arange(count.size),
            "score_low": ends[0].astype(np.float64),
            "score_high": ends[1].astype(np.float64),
            "count": count * view.unit.size,
            "positives": positive * view.unit.size,
            "mean_score": _shares(np.array(mass), count),
            "mean_label": _shares(positive, count),
        }
    )


def _shares(part: Floats, whole: Floats) -> pl.Series:
    """Return the ratios, null where there is no row."""
    with np.errstate(invalid="ignore"):
        return pl.Series(part / whole, nan_to_null=True)


def vote_rows(
    name: str, part: str, judged: Judged, confidence: float | None, *, classes: bool = False
) -> pl.DataFrame:
    """Return the reliability diagram of the predicted probability that two raters differ.

    One row a bin of `disagreement_calibration_loss`, in the columns of `SCHEMA`: ``mean_score`` is the
    mean prediction, ``mean_label`` the mean share of pairs of raters who differ, ``positives`` the sum
    of these shares; rows need two votes.  The normal interval is that of ``mean_label``; null without
    a confidence, with groups, and in bins of one row (Mimori, Sasada, Matsui, Sato, "Diagnostic
    uncertainty calibration: towards reliable machine predictions in medical domain", section 4 and
    figure 2 (b)).

    With `classes` it is that of the class probabilities, of all classes together: ``mean_label`` is
    the mean share of raters who chose the class, and a row counts once a class, as if its shares of
    the classes were independent of each other (those of one row cannot all be high).
    """
    if classes:
        sums = bin_sums(class_targets(judged.probabilities, judged.counts))
    else:
        several = np.flatnonzero(judged.counts.sum(axis=1) >= 2)
        targets = disagreement_targets(judged.disagreement[several][:, :1], judged.counts[several])
        sums = bin_sums(targets.columns(0, 1))
    rows, labels, squares, predictions = (
        [int(of_bin) for of_bin in own.sum(axis=0)]
        for own in (sums.rows, sums.label, sums.squared_label, sums.prediction)
    )
    if not sum(rows):
        return pl.DataFrame(schema=SCHEMA)
    curve, edges = "classes" if classes else "disagreement", [*EDGES.tolist(), 1.0]
    reach = None if confidence is None or judged.groups is not None else critical_value(confidence)
    found = []
    for b, (count, label) in enumerate(zip(rows, labels, strict=True)):
        mean = label / (count * ONE) if count else None
        low = high = None
        if reach is not None and mean is not None and count > 1:
            variance = (count * squares[b] * ONE - label * label) / (count * count * ONE * ONE)
            half = reach * sqrt(max(variance, 0.0) / (count - 1))
            low, high = max(0.0, mean - half), min(1.0, mean + half)
        means = predictions[b] / (count * ONE) if count else None, mean
        ends = edges[b], edges[b + 1]
        found.append((name, part, curve, b, *ends, float(count), label / ONE, *means, low, high))
    return pl.DataFrame(found, schema=SCHEMA, orient="row")
