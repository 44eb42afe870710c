"""Small tables of scored rows, for the tests of this floor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import polars as pl
from hypothesis import settings
from hypothesis import strategies as st

from calibkit.columns.rows import RowFinder
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.fit import FittedBoundary, fit_boundary
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.shared import ColumnOptions
from calibkit.summaries.binning import Grid
from calibkit.summaries.edges import assign
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import Tally, count_rows
from tests.conftest import ROOT

Values = Sequence[float] | np.ndarray

#: For tests whose every example is a fit or many.
FEWER = settings(max_examples=20)

BOUNDS = ("0", "0.2", "0.25", "0.333333333", "0.5", "0.6", "0.666666667", "0.75", "0.9", "1")


def score_rows(
    score: Values,
    label: Sequence[int] | np.ndarray | None,
    uncertainty: Values | None = None,
    weight: Values | None = None,
    *,
    floats: type = np.float64,
    scale: str = "raw",
) -> ScoreRows:
    """Return rows as `read_score_rows` would."""
    return ScoreRows(
        score=np.array(score, floats) + floats(0),
        label=None if label is None else np.array(label, np.uint8),
        uncertainty=None if uncertainty is None else np.array(uncertainty, np.float64) + 0.0,
        weight=None if weight is None else np.array(weight, np.float64),
        options=ColumnOptions(
            scale=scale,
            uncertainty=None if uncertainty is None else "uncertainty",
            weight=None if weight is None else "weight",
        ),
        rows_read=len(score),
        warnings=(),
        finder=RowFinder(Source.from_frame(pl.DataFrame({"score": score}))),
    )


def fit(rows: ScoreRows, *, test: ScoreRows | None = None, **options: Any) -> FittedBoundary:
    """Fit a boundary by options, of which the method is ``exact`` where none is given."""
    return fit_boundary(rows, BoundaryOptions(**{"method": "exact", **options}), test=test)


#: Score, level or segment, label, weight.
Row = tuple[int, int, int, int]


def counted(
    score: Values,
    level: Values,
    label: Values,
    levels: int,
    weight: Values | None = None,
    **more: Any,
) -> Tally:
    """Return the counts of rows whose columns are lists or arrays of any type."""
    return count_rows(
        np.array(score, np.float64),
        np.array(level, np.uint16),
        np.array(label, np.uint8),
        levels,
        weight=None if weight is None else np.array(weight, np.float64),
        **more,
    )


def tally_of(rows: list[Row], levels: int = 3) -> Tally:
    """Return the counts of rows."""
    score, level, label, weight = zip(*rows, strict=True)
    return counted(score, level, label, levels, weight)


def all_totals(tally: Tally) -> list[tuple[int, int]]:
    """Return (rows, positive rows) of every boundary, whether a sensible one or not."""
    found = {(0, 0)}
    for level in range(tally.levels):
        own = tally.level == level
        rows = np.append(0, np.cumsum(tally.count[own].astype(int))).tolist()
        hits = np.append(0, np.cumsum(tally.positive[own].astype(int))).tolist()
        found = {(m + a, t + b) for m, t in found for a, b in zip(rows, hits, strict=True)}
    return sorted(found)


def example(
    size: int = 400, *, seed: int = 0, distinct: int | None = None, rate: float = 1.0
) -> dict[str, np.ndarray]:
    """Return score, label and uncertainty of rows whose scores mean something; ties if `distinct`."""
    rng = np.random.default_rng(seed)
    score, uncertainty = rng.random(size), rng.gamma(2, 1, size)
    label = rng.random(size) < rate * score ** (1 + 0.3 * uncertainty)
    if distinct is not None:
        score, uncertainty = np.round(score * distinct) / distinct, np.round(uncertainty * 2) / 2
    return {"score": score, "label": label.astype(np.uint8), "uncertainty": uncertainty}


def golden(case: str) -> dict[str, Any]:
    """Return what is expected of a golden case, with its parameters."""
    found: dict[str, Any] = json.loads(
        (ROOT / "tests" / "golden" / case / "expected.json").read_text()
    )
    return found


def bins_of(grid: Grid, rows: ScoreRows) -> tuple[np.ndarray, np.ndarray]:
    """Return the uncertainty bin and the score bin of rows, by the edges of a grid."""
    score = (rows.score, grid.score_min, grid.score_edges)
    uncertainty = (rows.uncertainty, grid.uncertainty_min, grid.uncertainty_edges)
    order = (score, uncertainty) if grid.order == "score-uncertainty" else (uncertainty, score)
    (values, low, edges), (other, lows, other_edges) = order
    outer = assign(values, float(low[0]), edges[0])
    inner = np.empty(values.size, np.uint16)
    for i in range(edges.shape[1] + 1):
        own = outer == i
        j = i if other_edges.shape[0] > 1 else 0
        if own.any():
            inner[own] = assign(other[own], float(lows[j]), other_edges[j])
    return (inner, outer) if grid.order == "score-uncertainty" else (outer, inner)


#: Weights: whole numbers, binary fractions, and any floats.
WEIGHTS = {
    "whole": st.integers(0, 4).map(float),
    "binary": st.integers(0, 12).map(lambda k: k / 8),
    "any": st.floats(0.001, 10) | st.just(0.0),
}


@st.composite
def tables(
    draw: st.DrawFn, kinds: Sequence[str | None] = (None, "whole", "binary", "any"), most: int = 10
) -> dict[str, list[Any]]:
    """Small tables with ties, perhaps one row only, perhaps weighted, with a positive row."""
    size = draw(st.integers(1, most))
    value = st.integers(-2, 2).map(float) | st.sampled_from([0.1, -np.inf, np.inf])

    def column(values: st.SearchStrategy[Any]) -> list[Any]:
        return draw(st.lists(values, min_size=size, max_size=size))

    table = {
        "score": column(value),
        "label": column(st.integers(0, 1)),
        "uncertainty": column(st.integers(0, 3).map(float)),
    }
    kind = draw(st.sampled_from(list(kinds)))
    if kind is not None:
        table["weight"] = column(WEIGHTS[kind])
    sure = draw(st.integers(0, size - 1))
    table["label"][sure] = 1
    if kind is not None:
        table["weight"][sure] = table["weight"][sure] or 1.0
    return table
