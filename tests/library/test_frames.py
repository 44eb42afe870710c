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
GOAL: dict[str, Any] = {"precision": 0.6, "method": "exact", "uncertainty_bins": 2, "folds": 0}


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


def test_a_matrix_keeps_its_mask_and_lists_their_types() -> None:
    members = np.ma.array([[0.2, 0.3], [0.4, 0.9]], mask=[[0, 0], [0, 1]])
    assert made(members=members)[0]["score_1"].to_list() == [0.3, None]
    mixed = np.ma.array(np.array([0.5, "x"], object), mask=[0, 1])
    assert made(score=mixed)[0]["score"].to_list() == [0.5, None]
    assert made(features=[[0.5, "x"], [1.0, "y"]])[0].dtypes == [pl.Float64, pl.String]


def test_fits_take_arrays(rows: pl.DataFrame, model: ck.BoundaryModel) -> None:
    columns = {name: rows[name].to_numpy() for name in rows.columns}
    assert ck.fit_boundary(**columns, **GOAL).to_json() == model.to_json()
    words = np.where(columns["label"], "yes", "no")
    text = ck.fit_calibrator(score=columns["score"], label=words, positive="yes")
    assert text.own_map == ck.fit_calibrator(rows).own_map
    parts = ck.simulate_partitions(1_000, seed=1)
    features = parts.select("^feature_.*$").to_pandas()
    alone = ck.fit_hetcal(parts, features=list(features), max_depth=1)
    roles = {"score": parts["score"], "label": parts["label"], "features": features}
    assert ck.fit_hetcal(**roles, max_depth=1).to_json() == alone.to_json()
    votes = ck.simulate_raters(300, raters=3, seed=1)
    probs, counts = (votes.select(f"^{stem}_.*$").to_numpy() for stem in ("prob", "count"))
    assert ck.fit_alpha(probs=probs, counts=counts).to_json() == ck.fit_alpha(votes).to_json()


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
    assert is_array("label", ["a"]) and not is_array("score", ["a"])
    assert not is_array("test", pl.DataFrame(frame))
    votes = ck.simulate_raters(300, raters=3, seed=1)
    votes = ck.fit_alpha(votes).apply(votes)
    one, several = (
        ck.evaluate(votes, probs="prob_*", counts="count_*", alpha0=name)
        for name in ("alpha0", ["alpha0"])
    )
    assert one == several


def test_arrays_stand_beside_a_frame() -> None:
    frame = pd.DataFrame({"score": SCORE, "country": ["a", "b", "a"]})
    whole, names = frame_of_arrays({"label": np.array([0, 1, 1]), "by": "country"}, frame)
    assert isinstance(whole, pl.DataFrame)
    assert (whole.columns, names) == (["score", "country", "label"], {"label": "label"})
    whole, _ = frame_of_arrays({"score": [0.0, 0.0, 0.1]}, frame)
    assert pl.DataFrame(whole)["score"].to_list() == [0.0, 0.0, 0.1]


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
    with pytest.raises(ck.UsageError, match="score is a DataFrame; expected the name of a col"):
        ck.fit_calibrator(score=pd.DataFrame({"a": SCORE}), label=[0, 1, 1])  # type: ignore[arg-type]


# What apply returns --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    return ck.simulate_posterior(400, seed=3).select("score", "label", "uncertainty")


@pytest.fixture(scope="module")
def model(rows: pl.DataFrame) -> ck.BoundaryModel:
    return ck.fit_boundary(rows, **GOAL)


#: Frames of every kind, and what comes back.
KINDS: dict[str, tuple[Callable[[pl.DataFrame], Any], type]] = {
    "polars": (lambda rows: rows, pl.DataFrame),
    "lazy": (pl.DataFrame.lazy, pl.LazyFrame),
    "pandas": (pl.DataFrame.to_pandas, pd.DataFrame),
    "arrow": (pl.DataFrame.to_arrow, pa.Table),
    "reader": (lambda rows: rows.to_arrow().to_reader(), pa.Table),
    "batch": (lambda rows: rows.to_arrow().to_batches()[0], pa.Table),
    "duckdb": (lambda rows: duckdb.sql("SELECT * FROM rows"), pa.Table),
    "dictionaries": (pl.DataFrame.to_dicts, pl.DataFrame),
    "lists": (lambda rows: rows.to_dict(as_series=False), dict),
}


@pytest.mark.parametrize("kind", KINDS)
def test_frames_of_every_kind_are_fitted_and_come_back_as_their_like(
    kind: str, rows: pl.DataFrame, model: ck.BoundaryModel
) -> None:
    made, like = KINDS[kind]
    assert ck.fit_boundary(made(rows), **GOAL).to_json() == model.to_json()
    found: Any = model.apply(made(rows))
    assert isinstance(found, like)
    assert kind != "lists" or isinstance(found["decision"], np.ndarray)
    whole = found.collect() if kind == "lazy" else pl.DataFrame(found)
    assert whole.equals(model.apply(rows))


def test_a_column_that_is_written_over_comes_last(rows: pl.DataFrame) -> None:
    calibrator = ck.fit_calibrator(rows, method="platt")
    frame = rows.to_pandas()
    found = calibrator.apply(frame, column="label", overwrite_columns=True)
    assert list(found) == ["score", "uncertainty", "label"]
    assert found["label"].to_list() == calibrator.apply(rows)["calibrated"].to_list()


def test_arrays_come_back_as_an_array(rows: pl.DataFrame, model: ck.BoundaryModel) -> None:
    score, uncertainty = rows["score"].to_numpy(), rows["uncertainty"].to_numpy()
    wanted, without = model.apply(rows), rows.drop("uncertainty")
    decisions = model.apply(score=score, uncertainty=uncertainty)
    assert isinstance(decisions, np.ndarray)
    np.testing.assert_array_equal(decisions, wanted["decision"].to_numpy())
    assert model.apply(without, uncertainty=uncertainty).equals(wanted)
    assert list(model.apply(without.to_pandas(), uncertainty=uncertainty)) == wanted.columns
    with pytest.raises(ck.UsageError, match="no column 'uncertainty'"):
        model.apply(score)
    alone = ck.fit_boundary(rows, precision=0.5, method="st")  # which reads no uncertainty
    found = alone.apply(score=score, uncertainty=uncertainty)
    np.testing.assert_array_equal(found, alone.apply(score))
    calibrator = ck.fit_calibrator(rows, method="platt")
    np.testing.assert_array_equal(calibrator.apply(score), calibrator.apply(rows)["calibrated"])
    chance = ck.fit_boundary(rows, fpr=0.2, method="stochastic", folds=0)
    number = np.arange(len(score))
    known = chance.apply(rows.with_columns(id=number), key="id")["decision"]
    found = chance.apply(score=score, uncertainty=uncertainty, key=number)
    np.testing.assert_array_equal(found, known)
    with pytest.raises(ck.CalibkitError, match="No such file"):
        calibrator.apply(pl.scan_parquet("gone.parquet"))
    with pytest.raises(ck.UsageError, match="uses no uncertainty"):
        calibrator.apply(score=score, uncertainty=uncertainty)
    with pytest.warns(ck.CalibkitWarning, match="1 of 2 rows"):
        missing = calibrator.apply(np.array([0.5, np.nan]), on_missing="null")
    assert np.isnan(missing).tolist() == [False, True]


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


def test_matrices_and_frames_become_columns_and_keep_their_names() -> None:
    matrix = np.arange(6.0).reshape(3, 2)
    frame, names = made(members=matrix, probs=matrix[::-1], counts=matrix.tolist(), features=matrix)
    assert names == {
        "members": ["score_0", "score_1"],
        "probs": "prob_*",
        "counts": "count_*",
        "features": ["feature_0", "feature_1"],
    }
    for name, values in (("score_1", [1, 3, 5]), ("prob_0", [4, 2, 0]), ("count_1", [1, 3, 5])):
        assert frame[name].to_list() == values
    features = pd.DataFrame({"age": [1, 2, 3], "town": ["a", "b", "a"]})
    probs = {"cat": [0.1, 0.2, 0.3], "prob_dog": [0.9, 0.8, 0.7]}
    frame, names = made(features=features, probs=probs, score=np.array(SCORE))
    assert names == {"features": ["age", "town"], "probs": "prob_*", "score": "score"}
    assert frame.columns == ["age", "town", "prob_cat", "prob_dog", "score"]


def test_pandas_and_pyarrow_keep_their_index_and_types(
    rows: pl.DataFrame, model: ck.BoundaryModel
) -> None:
    frame = rows.to_pandas().set_index(pd.Index(np.arange(400) * 3, name="id"))
    frame["town"] = pd.Categorical(["a", "b"] * 200)
    frame["label"] = frame["label"].astype("Int64")
    whole: Any = model.apply(frame)
    pd.testing.assert_frame_equal(whole[list(frame)], frame)
    assert whole["decision"].to_list() == model.apply(rows)["decision"].to_list()
    chosen, some = whole["decision"] == 1, model.apply(frame, selected=True, keep=["town", "score"])
    assert list(some) == ["score", "town", "decision", "margin"]
    pd.testing.assert_index_equal(some.index, whole.index[chosen])
    pd.testing.assert_series_equal(some["score"], frame["score"][chosen])
    table = pa.table({**rows.to_dict(as_series=False), "town": pa.array(["a", "b"] * 200)})
    whole = model.apply(table)
    assert whole.select(table.column_names).equals(table)
    some = whole.filter(pa.compute.equal(whole["decision"], 1))
    assert model.apply(table, selected=True).equals(some)


def test_several_files_are_a_frame_and_several_frames_none(
    rows: pl.DataFrame, model: ck.BoundaryModel, tmp_path: Path
) -> None:
    files = [tmp_path / "a.parquet", tmp_path / "b.parquet"]
    for file in files:
        rows.write_parquet(file)
    wanted = model.apply(pl.concat([rows, rows]))
    assert model.apply(files).equals(wanted)
    assert model.apply([str(file) for file in files]).equals(wanted)
    for file in (texts := [tmp_path / "a.csv", tmp_path / "b.csv"]):
        rows.write_csv(file, separator=";", float_scientific=False)
    fitted = ck.fit_calibrator(texts, delimiter=";", provenance="hash")
    assert (
        fitted.to_json()
        == ck.fit_calibrator(str(tmp_path / "*.csv"), delimiter=";", provenance="hash").to_json()
    )
    assert model.apply(texts, delimiter=";").shape == wanted.shape
    for call in (model.apply, ck.fit_calibrator):
        with pytest.raises(ck.UsageError, match="delimiter is for the name of a file of text"):
            call(rows, delimiter=";")  # type: ignore[call-arg]
    for frame in ([0.1, 0.9], [rows, rows]):
        with pytest.raises(ck.UsageError, match="takes a frame, and all else by keyword"):
            ck.fit_calibrator(frame)
    for array in (np.array(SCORE), np.ones((3, 2)), pl.Series(SCORE), pa.array(SCORE)):
        with pytest.raises(ck.UsageError, match=r"a frame, .* too: fit_calibrator\(score=…, label"):
            ck.fit_calibrator(array)


def test_bundles_take_frames_alone(rows: pl.DataFrame, model: ck.BoundaryModel) -> None:
    bundle = ck.bundle({"act": model})
    for parts in (MAP, [MAP], {"a": MAP}.values()):
        assert ck.bundle(parts).to_json() == ck.bundle([MAP]).to_json()  # type: ignore[arg-type]
    actions = bundle.apply(rows)["action"].to_list()
    assert bundle.apply(rows.to_pandas())["action"].to_list() == actions
    with pytest.raises(ck.UsageError, match="applied to a frame"):
        bundle.apply(rows["score"].to_numpy())
