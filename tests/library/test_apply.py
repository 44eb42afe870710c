"""Applying a boundary: every row kept in its place, decided as the model says."""

from __future__ import annotations

import dataclasses
import inspect
import math
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.apply.apply import Applied, apply_model
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.options.apply import ApplyOptions
from tests.library.samples import example, fit, score_rows
from tests.naive import boundaries as naive

TABLE = example(150, seed=11)
MODEL = fit(
    score_rows(**TABLE, scale="probability"), precision="0.7", uncertainty_bins=3, folds=0
).model
FRAME = pl.DataFrame({"id": [f"row {i}" for i in range(150)], **TABLE})


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


def test_the_fitted_rows_are_selected_as_counted() -> None:
    found = apply(FRAME).frame
    assert found.columns == [*FRAME.columns, "decision", "margin"]
    assert found.drop("decision", "margin").equals(FRAME)
    seen = MODEL.fit.in_sample
    assert found["decision"].sum() == seen.selected
    assert found.filter(pl.col("decision") == 1)["label"].sum() == seen.true_positives


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


def test_float64_values_are_rounded_to_the_type_of_the_fit() -> None:
    rows = score_rows([0.1, 0.3, 0.7, 0.9], [0, 0, 1, 1], floats=np.float32, scale="probability")
    model = fit(rows, precision="1", folds=0).model
    found = apply(pl.DataFrame({"score": [0.7, 0.6999999999, 0.69]}), model).frame
    assert found["decision"].to_list() == [1, 1, 0]
    assert found["score"].dtype == pl.Float64  # kept as they came


def test_missing_values_become_null_where_that_is_asked() -> None:
    frame = FRAME.head(6).with_columns(
        score=pl.Series([0.99, None, 0.99, math.nan, 0.99, 0.99]),
        uncertainty=pl.Series([0.1, 0.1, None, 0.1, math.nan, 0.1]),
    )
    with pytest.raises(DataError) as caught:
        apply(frame)
    assert caught.value.rows and caught.value.first_rows
    found = apply(frame, on_missing="null")
    decisions, margins = expected([0.99], [0.1])
    assert found.frame["decision"].to_list() == [decisions[0], *[None] * 4, decisions[0]]
    assert found.frame["margin"].to_list()[0] == pytest.approx(margins[0])
    assert found.frame["margin"].to_list()[1:5] == [None] * 4
    assert any("4 of 6" in warning for warning in found.warnings)
    assert apply(frame, on_missing="null", selected=True).frame.height == 2 * decisions[0]
    with pytest.raises(DataError, match="max-missing"):
        apply(frame, on_missing="null", max_missing="0.6")
    apply(frame, on_missing="null", max_missing="0.666666667")


def test_a_frame_without_any_value() -> None:
    frame = pl.DataFrame({"score": [None, None], "uncertainty": [1.0, 2.0]}).with_columns(
        pl.col("score").cast(pl.Float64)
    )
    found = apply(frame, on_missing="null").frame
    assert found["decision"].to_list() == [None, None] == found["margin"].to_list()


def test_columns_elsewhere_kept_and_renamed() -> None:
    frame = FRAME.rename({"score": "p", "uncertainty": "spread"})
    found = apply(
        frame, columns={"score": "p", "uncertainty": "spread"}, keep=["i*", "p"], column="block"
    )
    assert found.frame.columns == ["id", "p", "block", "margin"]
    assert found.added == ("block", "margin")
    assert found.frame["block"].to_list() == apply(FRAME).frame["decision"].to_list()
    only = apply(FRAME, selected=True).frame
    assert only.equals(apply(FRAME).frame.filter(pl.col("decision") == 1))


def test_clashes_and_columns_that_are_not_there() -> None:
    again = FRAME.with_columns(decision=pl.lit(9))
    with pytest.raises(UsageError, match="decision"):
        apply(again)
    found = apply(again, overwrite_columns=True).frame
    assert found.equals(apply(FRAME).frame)
    apply(again, keep=["id"])
    for wrong, match in (
        ({"keep": ["nothing*"]}, "nothing"),
        ({"columns": {"score": "scroe"}}, "score"),
        ({"column": "margin"}, "margin"),
    ):
        with pytest.raises(UsageError, match=match):
            apply(FRAME, **wrong)
    single = fit(score_rows(TABLE["score"], TABLE["label"]), precision="0.7", folds=0).model
    with pytest.raises(UsageError, match="uncertainty"):
        apply(FRAME, single, columns={"uncertainty": "uncertainty"})


def test_values_out_of_range_are_refused() -> None:
    with pytest.raises(DataError, match="score"):
        apply(FRAME.with_columns(score=pl.lit(1.5)))
    with pytest.raises(DataError, match="uncertainty"):
        apply(FRAME.with_columns(uncertainty=pl.lit(math.inf)))


def test_models_are_applied_with_the_options_of_the_class() -> None:
    typed = dict(inspect.signature(BoundaryModel.apply).parameters)
    assert list(typed)[:2] == ["self", "frame"]
    fields = {field.name: field.default for field in dataclasses.fields(ApplyOptions)}
    assert {name: one.default for name, one in list(typed.items())[2:]} == fields
