"""Frames and arrays in, and the kind of frame that came in out again."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import calibkit as ck
from calibkit.files.frames import frame_of_arrays, is_array

SCORE = [0.2, 0.4, 0.9]


def made(**roles: Any) -> tuple[pl.DataFrame, dict[str, Any]]:
    frame, names = frame_of_arrays(roles)
    assert isinstance(frame, pl.DataFrame)
    return frame, dict(names)


ARRAYS: dict[str, Callable[[list[float]], Any]] = {
    "numpy": np.array,
    "list": list,
    "tuple": tuple,
    "polars": pl.Series,
    "pandas": lambda values: pd.Series(values, index=[7, 8, 9]),
    "arrow": pa.array,
    "chunks": lambda values: pa.chunked_array([values[:1], values[1:]]),
    "float32": lambda values: np.array(values, np.float32),
}


@pytest.mark.parametrize("kind", ARRAYS)
def test_an_array_of_any_kind_is_a_column(kind: str) -> None:
    frame, names = made(score=ARRAYS[kind](SCORE), label=[0, 1, 1], weight=None, by="country")
    assert names == {"score": "score", "label": "label"}
    assert frame["score"].to_list() == pytest.approx(SCORE)
    assert frame["score"].dtype == (pl.Float32 if kind == "float32" else pl.Float64)
    assert frame["label"].to_list() == [0, 1, 1]


def test_an_array_is_no_frame() -> None:
    for array in (np.array(SCORE), np.ones((3, 2)), pl.Series(SCORE), pa.array(SCORE)):
        with pytest.raises(
            ck.UsageError, match=r"a frame, .* too: fit_calibrator\(score=…, label=…\)"
        ):
            ck.fit_calibrator(array)


def test_fits_take_arrays() -> None:
    rows = ck.simulate_posterior(1_000, seed=1)
    score, label, uncertainty = (
        rows[name].to_numpy() for name in ("score", "label", "uncertainty")
    )
    goal: dict[str, Any] = {"precision": 0.6, "method": "exact", "uncertainty_bins": 2, "folds": 0}
    model = ck.fit_boundary(score=score, label=label, uncertainty=uncertainty, **goal)
    assert model.to_json() == ck.fit_boundary(rows, **goal).to_json()
    text = ck.fit_calibrator(score=score, label=np.where(label, "yes", "no"), positive="yes")
    assert text.own_map == ck.fit_calibrator(rows).own_map
    parts = ck.simulate_partitions(1_000, seed=1)
    features = parts.select("^feature_.*$").to_pandas()
    alone = ck.fit_hetcal(parts, features=list(features), max_depth=1)
    found = ck.fit_hetcal(
        score=parts["score"], label=parts["label"], features=features, max_depth=1
    )
    assert found.to_json() == alone.to_json()
    votes = ck.simulate_raters(300, raters=3, seed=1)
    probs, counts = (votes.select(f"^{stem}_.*$").to_numpy() for stem in ("prob", "count"))
    assert ck.fit_alpha(probs=probs, counts=counts).to_json() == ck.fit_alpha(votes).to_json()


def test_matrices_become_columns_of_the_default_names() -> None:
    matrix = np.arange(6.0).reshape(3, 2)
    frame, names = made(members=matrix, probs=matrix[::-1], counts=matrix.tolist(), features=matrix)
    assert names == {
        "members": ["score_0", "score_1"],
        "probs": "prob_*",
        "counts": "count_*",
        "features": ["feature_0", "feature_1"],
    }
    assert frame["score_1"].to_list() == [1.0, 3.0, 5.0]
    assert frame["prob_0"].to_list() == [4.0, 2.0, 0.0]
    assert frame["count_1"].to_list() == [1.0, 3.0, 5.0]


def test_frames_of_several_columns_keep_their_names() -> None:
    features = pd.DataFrame({"age": [1, 2, 3], "town": ["a", "b", "a"]})
    probs = {"cat": [0.1, 0.2, 0.3], "prob_dog": [0.9, 0.8, 0.7]}
    frame, names = made(features=features, probs=probs, score=np.array(SCORE))
    assert names == {"features": ["age", "town"], "probs": "prob_*", "score": "score"}
    assert frame.columns == ["age", "town", "prob_cat", "prob_dog", "score"]


def test_arrays_of_objects_are_what_they_hold() -> None:
    wanted = ck.fit_calibrator(score=[0.1, 0.9, 0.4, 0.6], label=[0, 1, 0, 1], method="platt")
    for label in ([0, 1, 0, 1], [False, True, False, True], [0, 1, 0, 1, None, np.nan]):
        score = np.array([0.1, 0.9, 0.4, 0.6, 0.5, 0.5][: len(label)], dtype=object)
        with warnings.catch_warnings(action="ignore"):
            found = ck.fit_calibrator(
                score=score, label=np.array(label, dtype=object), method="platt", unlabelled="drop"
            )
        assert (found.a, found.b) == (wanted.a, wanted.b)
    mixed = np.array([[1, "a"], [2.5, None]], dtype=object)
    assert made(features=mixed)[0].dtypes == [pl.Float64, pl.String]
    with pytest.raises(ck.UsageError, match="label: ndarray cannot be read as an array"):
        made(label=np.array([1, "a"], dtype=object))


def test_a_class_is_named_by_a_number_of_numpy(rows: pl.DataFrame) -> None:
    found = ck.fit_calibrator(rows, method="platt", positive=np.int64(1))  # type: ignore[arg-type]
    assert found == ck.fit_calibrator(rows, method="platt", positive="1")
    flags = rows.with_columns(pl.col("label").cast(pl.Boolean))
    found = ck.fit_calibrator(flags, method="platt", positive=np.True_)  # type: ignore[arg-type]
    assert found.columns["label"].positive == "true"


def test_names_are_no_arrays() -> None:
    frame = {"score": SCORE}
    roles = {"score": "p", "features": ["a", "b*"], "members": ("s_*",), "label": None}
    assert frame_of_arrays(roles, frame) == (frame, {})
    assert not is_array("score", "p")
    assert is_array("label", ["no", "yes"])
    assert not is_array("scores", ["new", "old"])
    assert not is_array("test", pl.DataFrame(frame))


def test_one_name_of_several_is_no_array() -> None:
    votes = ck.simulate_raters(300, raters=3, seed=1)
    votes = ck.fit_alpha(votes).apply(votes)
    named = ck.evaluate(votes, probs="prob_*", counts="count_*", alpha0=["alpha0"])
    assert named == ck.evaluate(votes, probs="prob_*", counts="count_*", alpha0="alpha0")
    assert not any(is_array(role, ["a"]) for role in ("score", "uncertainty", "features"))
    assert is_array("label", ["a"])


def test_arrays_stand_beside_a_frame() -> None:
    frame = pd.DataFrame({"score": SCORE, "country": ["a", "b", "a"]})
    whole, names = frame_of_arrays({"label": np.array([0, 1, 1]), "by": "country"}, frame)
    assert isinstance(whole, pl.DataFrame)
    assert (whole.columns, names) == (["score", "country", "label"], {"label": "label"})
    whole, _ = frame_of_arrays({"score": [0.0, 0.0, 0.1]}, frame)
    assert isinstance(whole, pl.DataFrame)
    assert whole["score"].to_list() == [0.0, 0.0, 0.1]


@pytest.mark.parametrize(
    ("roles", "frame", "message"),
    [
        ({"score": SCORE, "label": [0, 1]}, None, "score has 3, label has 2"),
        ({"label": [0, 1]}, {"score": SCORE}, "the frame has 3, label has 2"),
        ({"score": np.ones((3, 2))}, None, r"score is an array of the shape \(3, 2\)"),
        ({"probs": np.ones(3)}, None, "expected rows x columns"),
        ({"score": np.float64(1.0)}, None, r"shape \(\)"),
        ({"score": [0.1, "a", object()]}, None, "score: list cannot be read as an array"),
        ({"features": [[1.0], [1.0, 2.0]]}, None, "features: list cannot be read as an array"),
        ({"probs": np.ones((1, 2))}, {"prob_a": [1.0]}, "such as 'prob_a'"),
        ({"score": "p"}, None, "give a frame, or arrays by name"),
    ],
)
def test_arrays_that_do_not_fit_are_refused(roles: Any, frame: Any, message: str) -> None:
    with pytest.raises(ck.UsageError, match=message):
        frame_of_arrays(roles, frame)


#: A map that tells scores apart.
MAP = ck.fit_calibrator(score=[0.1, 0.2, 0.9, 0.8] * 20, label=[0, 1, 1, 0] * 20, method="platt")


@pytest.mark.parametrize(
    "first", [0, np.int64(0), np.bool_(False), np.float32(0.1), pd.NA, float("nan")]
)
def test_the_first_value_makes_no_type(first: Any) -> None:
    found = made(score=[first, 0.9])[0]["score"].to_list()
    assert found[1] == 0.9
    assert made(score=[first, np.float64(0.9)])[0]["score"].to_list() == found
    assert made(label=["no", float("nan")])[0]["label"].to_list() == ["no", None]


def test_rows_are_looked_at_to_the_last() -> None:
    rows: Any = [{"score": 0}] * 101 + [{"score": 0.9, "note": "x"}]
    found = MAP.apply(rows)
    assert (found.columns, found["note"].null_count()) == (["score", "note", "calibrated"], 101)
    assert found["calibrated"].to_list()[-1] == MAP.apply([0.9])[0]


def test_scores_are_given_once() -> None:
    for again in (SCORE, "p"):
        with pytest.raises(ck.UsageError, match="got score twice"):
            MAP.apply(np.array(SCORE), score=again)


def test_what_comes_back_can_be_written_to() -> None:
    found: Any = MAP.apply(np.array(SCORE))
    found.sort()
    found = MAP.apply({"score": SCORE})
    found["score"][0] = found["calibrated"][0] = 1.0
    found = MAP.apply(pd.DataFrame({"score": SCORE}))
    found.loc[0, "calibrated"] = 1.0
    assert found["calibrated"].tolist()[0] == 1.0


def test_columns_that_nothing_can_read_are_refused() -> None:
    with pytest.raises(ck.UsageError, match="polars cannot read"):
        MAP.apply(duckdb.sql("select 0.3 score, interval 1 day wait"))
    objects: Any = {"score": SCORE, "label": np.array([0, 1, 1], np.longdouble)}
    with pytest.raises(ck.DataError, match="column 'label' for label holds Python objects"):
        ck.fit_calibrator(**objects)


@pytest.mark.parametrize("given", [None, 5, [MAP]])
def test_what_is_no_model_is_refused(given: Any) -> None:
    with pytest.raises(ck.UsageError, match="expected a model or its file"):
        ck.export(given, to="sql")
    if given is not None:
        with pytest.raises(ck.UsageError, match=r"boundary is .*expected a model or its file"):
            ck.evaluate(scores=SCORE, label=[0, 1, 1], boundary=given)
    with pytest.raises(ck.UsageError, match="score is a DataFrame; expected a string"):
        ck.fit_calibrator(score=pd.DataFrame({"a": SCORE}), label=[0, 1, 1])  # type: ignore[arg-type]


# What apply returns --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return ck.simulate_posterior(400, seed=3).select("score", "label", "uncertainty")


@pytest.fixture(scope="module")
def model(rows: pl.DataFrame) -> ck.BoundaryModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ck.CalibkitWarning)
        return ck.fit_boundary(rows, precision=0.6, method="exact", uncertainty_bins=2, folds=0)


def test_pandas_keeps_its_index_and_its_types(rows: pl.DataFrame, model: ck.BoundaryModel) -> None:
    frame = rows.to_pandas().set_index(pd.Index(np.arange(400) * 3, name="id"))
    frame["town"] = pd.Categorical(["a", "b"] * 200)
    frame["label"] = frame["label"].astype("Int64")
    whole = model.apply(frame)
    assert isinstance(whole, pd.DataFrame)
    pd.testing.assert_frame_equal(whole[list(frame)], frame)
    assert whole["decision"].to_list() == model.apply(rows)["decision"].to_list()
    some = model.apply(frame, selected=True, keep=["town", "score"])
    assert list(some) == ["score", "town", "decision", "margin"]
    pd.testing.assert_index_equal(some.index, whole.index[whole["decision"] == 1])
    pd.testing.assert_series_equal(some["score"], frame["score"][whole["decision"] == 1])


def test_pyarrow_keeps_its_types(rows: pl.DataFrame, model: ck.BoundaryModel) -> None:
    frame = pa.table({**rows.to_dict(as_series=False), "town": pa.array(["a", "b"] * 200)})
    whole = model.apply(frame)
    assert isinstance(whole, pa.Table)
    assert whole.select(frame.column_names).equals(frame)
    chosen = model.apply(frame, selected=True)
    assert chosen.equals(whole.filter(pa.compute.equal(whole["decision"], 1)))


def test_other_frames_come_back_as_their_like(rows: pl.DataFrame, model: ck.BoundaryModel) -> None:
    wanted = model.apply(rows)
    assert isinstance(wanted, pl.DataFrame)
    lazy = model.apply(rows.lazy())
    assert isinstance(lazy, pl.LazyFrame)
    assert lazy.collect().equals(wanted)
    relation = duckdb.sql("SELECT * FROM rows")
    found = model.apply(relation)
    assert isinstance(found, pa.Table)
    assert pl.DataFrame(found).equals(wanted)
    for batches in (rows.to_arrow().to_reader(), rows.to_arrow().to_batches()[0]):
        found = model.apply(batches)
        assert isinstance(found, pa.Table)
        assert pl.DataFrame(found).equals(wanted)
    arrays = model.apply({name: rows[name].to_list() for name in rows.columns})
    assert list(arrays) == wanted.columns
    assert all(isinstance(values, np.ndarray) for values in arrays.values())
    np.testing.assert_array_equal(arrays["decision"], wanted["decision"].to_numpy())


def test_several_files_and_a_list_of_rows_are_frames(
    rows: pl.DataFrame, model: ck.BoundaryModel, tmp_path: Path
) -> None:
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for file in files:
        rows.write_parquet(file)
    wanted = model.apply(rows)
    assert model.apply(files).equals(pl.concat([wanted, wanted]))
    assert model.apply([str(file) for file in files]).height == 2 * rows.height
    assert model.apply(rows.to_dicts()).equals(wanted)
    for frame in ([0.1, 0.9], [rows, rows]):
        with pytest.raises(ck.UsageError, match="takes a frame, and all else by keyword"):
            ck.fit_calibrator(frame)


def test_a_column_that_is_written_over_comes_last(rows: pl.DataFrame) -> None:
    calibrator = ck.fit_calibrator(rows, method="platt")
    frame = rows.to_pandas()
    found = calibrator.apply(frame, column="label", overwrite_columns=True)
    assert list(found) == ["score", "uncertainty", "label"]
    assert found["label"].to_list() == calibrator.apply(rows)["calibrated"].to_list()


def test_arrays_come_back_as_an_array(rows: pl.DataFrame, model: ck.BoundaryModel) -> None:
    score, uncertainty = rows["score"].to_numpy(), rows["uncertainty"].to_numpy()
    wanted = model.apply(rows)
    decisions = model.apply(score=score, uncertainty=uncertainty)
    assert isinstance(decisions, np.ndarray)
    np.testing.assert_array_equal(decisions, wanted["decision"].to_numpy())
    beside = model.apply(rows.drop("uncertainty"), uncertainty=uncertainty)
    assert beside.equals(wanted)
    pandas = model.apply(rows.drop("uncertainty").to_pandas(), uncertainty=uncertainty)
    assert list(pandas) == wanted.columns
    with pytest.raises(ck.UsageError, match="no column 'uncertainty'"):
        model.apply(score)
    alone = ck.fit_boundary(rows, precision=0.5, method="st")  # which reads no uncertainty
    np.testing.assert_array_equal(
        alone.apply(score=score, uncertainty=uncertainty), alone.apply(score)
    )
    calibrator = ck.fit_calibrator(rows, method="platt")
    np.testing.assert_array_equal(calibrator.apply(score), calibrator.apply(rows)["calibrated"])
    with pytest.raises(ck.UsageError, match="uses no uncertainty"):
        calibrator.apply(score=score, uncertainty=uncertainty)
    with pytest.warns(ck.CalibkitWarning, match="1 of 2 rows"):
        missing = calibrator.apply(np.array([0.5, np.nan]), on_missing="null")
    assert np.isnan(missing).tolist() == [False, True]
    bundle = ck.bundle({"act": model})
    for parts in (MAP, [MAP], {"a": MAP}.values()):
        assert ck.bundle(parts).to_json() == ck.bundle([MAP]).to_json()  # type: ignore[arg-type]
    assert (
        bundle.apply(rows.to_pandas())["action"].to_list() == bundle.apply(rows)["action"].to_list()
    )
    with pytest.raises(ck.UsageError, match="applied to a frame"):
        bundle.apply(score)


def test_class_probabilities_come_back_as_a_matrix() -> None:
    votes = ck.simulate_raters(300, raters=3, seed=2)
    probs = votes.select("^prob_.*$").to_numpy()
    for model in (
        ck.fit_calibrator(votes, probs="prob_*", counts="count_*"),
        ck.fit_alpha(votes, map="temperature"),
    ):
        wanted = model.apply(votes).select("^calibrated_.*$").to_numpy()
        np.testing.assert_array_equal(model.apply(probs), wanted)
        np.testing.assert_array_equal(model.apply(probs=probs), wanted)
