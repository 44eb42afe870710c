"""Reliability diagrams of the predicted disagreement of raters, as rows.

Mimori, Sasada, Matsui, Sato, "Diagnostic uncertainty calibration: towards reliable machine
predictions in medical domain", section 4 and figure 2 (b).
"""

from __future__ import annotations

from math import sqrt

import numpy as np
import polars as pl

from calibkit.measures.curves import SCHEMA
from calibkit.measures.votes import Judged
from calibkit.numerics.normal import critical_value
from calibkit.numerics.votes import BINS, ONE, bin_edges, bin_sums, disagreement_targets


def disagreement_rows(
    name: str, part: str, judged: Judged, confidence: float | None
) -> pl.DataFrame:
    """Return the reliability diagram of the predicted probability that two raters differ.

    One row a bin of `disagreement_calibration_loss`, in the columns of
    `calibkit.measures.curves.SCHEMA`: ``mean_score`` is the mean prediction, ``mean_label`` the mean
    share of pairs of raters who differ, ``positives`` the sum of these shares; rows need two votes.
    The normal interval is that of ``mean_label``; null without a confidence, with groups, and in
    bins of one row.
    """
    several = np.flatnonzero(judged.counts.sum(axis=1) >= 2)
    if not several.size:
        return pl.DataFrame(schema=SCHEMA)
    targets = disagreement_targets(judged.disagreement[several][:, :1], judged.counts[several])
    targets = type(targets)(targets.prediction, targets.label[:, :1].copy(), targets.excess)
    sums, edges = bin_sums(targets), [*bin_edges(BINS).tolist(), 1.0]
    reach = None if confidence is None or judged.groups is not None else critical_value(confidence)
    found = []
    for b in range(BINS):
        rows, label = int(sums.rows[0, b]), int(sums.label[0, b])
        mean = label / (rows * ONE) if rows else None
        low = high = None
        if reach is not None and mean is not None and rows > 1:
            squares = int(sums.squared_label[0, b])
            variance = (rows * squares * ONE - label * label) / (rows * rows * ONE * ONE)
            half = reach * sqrt(max(variance, 0.0) / (rows - 1))
            low, high = max(0.0, mean - half), min(1.0, mean + half)
        means = int(sums.prediction[0, b]) / (rows * ONE) if rows else None, mean
        bounds = edges[b], edges[b + 1]
        found.append(
            (name, part, "disagreement", b, *bounds, float(rows), label / ONE, *means, low, high)
        )
    return pl.DataFrame(found, schema=SCHEMA, orient="row")
