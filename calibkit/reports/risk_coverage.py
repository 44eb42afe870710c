"""Risk by coverage: how often a score is wrong among the rows of which it is surest.

A score is sure of a row by max(p, 1 - p), and says positive where p >= 1/2.  The area under risk over
coverage, AURC, is the mean risk over all numbers of rows kept (Geifman, Uziel and El-Yaniv,
Bias-reduced uncertainty estimation for deep neural classifiers, 2019); of rows that are equally sure
any order is as likely as any other.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.evaluation.rows import read_evaluate_rows
from calibkit.evaluation.slices import ALL
from calibkit.files.sources import Source
from calibkit.measures.net_benefit import refuse
from calibkit.measures.views import Sample, View, view_of
from calibkit.options.plot import RiskCoverageOptions
from calibkit.reports.points import Points, check_lines, nice_end
from calibkit.reports.ranking_curves import visible
from calibkit.reports.style import Sheet

SCHEMA = pl.Schema(
    {
        "name": pl.String,
        "confidence": pl.Float64,
        "coverage": pl.Float64,
        "risk": pl.Float64,
        "aurc": pl.Float64,
    }
)


def points(source: Source, options: RiskCoverageOptions) -> Points:
    """Return risk and coverage at each degree of sureness, of every score.

    Raises
    ------
    UsageError
        Columns that are not there, or too many of them; scores that are no probabilities.
    DataError
        Values that are missing or of the wrong type.
    """
    check_lines(options.names, "scores", "--score")
    spec = replace(options.judged, metrics=("count",))
    refuse(spec, "a risk-coverage curve")
    rows = read_evaluate_rows(spec, source)
    frames = []
    for name, score in rows.scores.items():
        sample = Sample(score=score, label=rows.label, weight=rows.weight)
        frames.append(_curve(view_of(sample, name, ALL, spec.settings)))
    return Points.of("risk-coverage", pl.concat([pl.DataFrame(schema=SCHEMA), *frames]), rows)


def _curve(view: View) -> pl.DataFrame:
    probability = view.probability
    assert probability is not None  # `refuse` saw to it
    p = probability.astype(np.float64)
    says, count = p >= 0.5, view.count.astype(np.int64)
    wrong = np.where(says, count - view.positive, view.positive).astype(np.int64)
    sure, place = np.unique(-np.maximum(p, 1.0 - p), return_inverse=True)
    rows, errors = np.zeros((2, sure.size), np.int64)
    np.add.at(rows, place, count)
    np.add.at(errors, place, wrong)
    kept, missed = np.cumsum(rows), np.cumsum(errors)
    coverage, risk = kept / view.total, missed / kept
    shown = visible(coverage, risk)
    return pl.DataFrame(
        {
            "name": view.name,
            "confidence": -sure[shown],
            "coverage": coverage[shown],
            "risk": risk[shown],
            "aurc": aurc(rows, errors),
        },
        schema=SCHEMA,
    )


def aurc(rows: NDArray[Any], errors: NDArray[Any]) -> float:
    """Return the mean risk over all numbers of rows kept, the surest first.

    Parameters
    ----------
    rows, errors
        Rows, and wrong ones among them, of each degree of sureness, falling.
    """
    total = int(rows.sum())
    if total == 0:
        return float("nan")
    ends = np.cumsum(rows)
    before, missed = ends - rows, np.cumsum(errors) - errors
    # Of a group of m rows with e errors after K rows with E: the sum of (E + e j / m) / (K + j).
    inverse = _harmonic(ends) - _harmonic(before)
    share = errors / np.maximum(rows, 1)
    return float(np.sum(missed * inverse + share * (rows - before * inverse)) / total)


def _harmonic(numbers: NDArray[Any]) -> NDArray[np.float64]:
    """Return the sums 1 + 1/2 + … + 1/n: written out for small n, else by their expansion."""
    small = np.concatenate([[0.0], np.cumsum(1.0 / np.arange(1, 1001))])
    n = np.maximum(numbers, 1).astype(np.float64)
    large = np.log(n) + np.euler_gamma + 1.0 / (2.0 * n) - 1.0 / (12.0 * n**2)
    found: NDArray[np.float64] = np.where(numbers <= 1000, small[np.minimum(numbers, 1000)], large)
    return found


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw a line a score, with its AURC in the legend."""
    (panel,) = sheet.panels()
    for place, own in enumerate(shown.table.partition_by("name", maintain_order=True)):
        line = {**sheet.line(place), "marker": ""}
        panel.plot(own["coverage"].to_numpy(), own["risk"].to_numpy(), **line)
        sheet.entry(f"{own['name'][0]}, AURC {own['aurc'][0]:.4f}", **line)
    panel.set(xlim=(-0.02, 1.02), ylim=(0.0, nice_end(shown.table["risk"])))
    sheet.label(panel, x="coverage (share of rows kept, the surest first)", y="share of errors")
