"""Applying a boundary: every row kept in its place, decided as the model says."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.apply.apply import Applied, apply_model
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.options.apply import ApplyOptions
from tests.library.samples import example, fit, score_rows
from tests.naive import boundaries as naive

TABLE = example(150, seed=11)
MODEL = fit(
    score_rows(**TABLE, scale="probability"), precision="0.7", uncertainty_bins=3, folds=0
).model


def apply(
    frame: pl.DataFrame,
    model: BoundaryModel = MODEL,
    columns: dict[str, str] | None = None,
    **spec: Any,
) -> Applied:
    source = Source.from_frame(frame, "rows.parquet")
    return apply_model(model, source, ApplyOptions(**(columns or {}), **spec))


def expected(score: list[float], uncertainty: list[float]) -> tuple[list[int], list[float | None]]:
    """Return decisions and margins, read off the model."""
    levels = naive.assign_levels(uncertainty, MODEL.uncertainty_min, MODEL.uncertainty_edges)
    named = {None: math.nan, "-inf": -math.inf, "inf": math.inf}
    cuts = [named.get(t, t) for t in (MODEL.score_thresholds[level] for level in levels)]
    margins = naive.margins(score, cuts, probability=True)
    return (
        [int(s >= t) for s, t in zip(score, cuts, strict=True)],
        [None if math.isnan(margin) else margin for margin in margins],
    )


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1) | st.sampled_from(TABLE["score"].tolist()),
            st.floats(-10, 10) | st.sampled_from(MODEL.uncertainty_edges),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_new_rows_are_decided_by_level_and_threshold(rows: list[tuple[float, float]]) -> None:
    score, uncertainty = (list(column) for column in zip(*rows, strict=True))
    found = apply(pl.DataFrame({"score": score, "uncertainty": uncertainty})).frame
    decisions, margins = expected(score, uncertainty)
    assert found["decision"].to_list() == decisions
    for margin, wanted in zip(found["margin"].to_list(), margins, strict=True):
        assert margin == wanted or margin == pytest.approx(wanted, rel=1e-14)


def test_a_frame_without_any_value() -> None:
    frame = pl.DataFrame({"score": [None, None], "uncertainty": [1.0, 2.0]}).with_columns(
        pl.col("score").cast(pl.Float64)
    )
    found = apply(frame, on_missing="null").frame
    assert found["decision"].to_list() == [None, None] == found["margin"].to_list()


def test_models_are_applied_with_the_options_of_the_class() -> None:
    typed = dict(inspect.signature(BoundaryModel.apply).parameters)
    assert list(typed)[:2] == ["self", "frame"]
    fields = {field.name: field.default for field in dataclasses.fields(ApplyOptions)}
    assert {name: one.default for name, one in list(typed.items())[2:]} == fields
