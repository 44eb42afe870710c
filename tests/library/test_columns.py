"""Each line of the contract's list of bad input, for score, label, uncertainty and weight."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.columns.columns import ScoreRows, read_score_rows
from calibkit.columns.numeric import label_column, numeric_column
from calibkit.columns.rows import RowFinder, read_rows
from calibkit.errors import CalibkitError, DataError, UsageError
from calibkit.files.sources import Source, open_source
from calibkit.options.shared import ColumnOptions

NAN, INF = math.nan, math.inf


def rows(columns: dict[str, object], *, keywords: dict | None = None, **options) -> ScoreRows:
    source = Source.from_frame(pl.DataFrame(columns), "scores.parquet")
    return read_score_rows(source, ColumnOptions(**options), **(keywords or {}))


def refused(
    kind: type[CalibkitError],
    columns: dict[str, object],
    *,
    keywords: dict | None = None,
    **options,
) -> CalibkitError:
    with pytest.raises(kind) as caught:
        rows(columns, keywords=keywords, **options)
    return caught.value


def test_the_plain_case() -> None:
    read = rows({"score": [0.25, 1.0], "label": [0, 1], "uncertainty": [3, -1], "x": [1, 2]})
    assert read.score.tolist() == [0.25, 1.0]
    assert (read.score.dtype, read.uncertainty.dtype) == (np.float64, np.float64)
    assert (read.label.tolist(), read.label.dtype) == ([0, 1], np.uint8)
    assert read.uncertainty.tolist() == [3.0, -1.0]
    assert read.weight is None
    assert (read.rows_read, read.dropped, read.warnings, read.notes) == (2, 0, (), ())
    assert read.options.uncertainty == "uncertainty"


def test_without_an_uncertainty_column_it_is_said() -> None:
    read = rows({"score": [0.5], "label": [1]})
    assert read.uncertainty is None
    assert read.options.uncertainty is None
    assert "K = 1" in read.notes[0]
    assert rows({"score": [0.5], "label": [1]}, keywords={"uncertainty": False}).notes == ()


def test_columns_that_are_not_asked_for_are_not_checked() -> None:
    columns = {"score": [0.5], "label": ["?"], "uncertainty": [None]}
    read = rows(columns, keywords={"label": False, "uncertainty": False})
    assert (read.label, read.uncertainty) == (None, None)


# Types


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        (pl.Float64, np.float64),
        (pl.Float32, np.float32),
        (pl.Float16, np.float32),
        (pl.Int8, np.float64),
        (pl.UInt64, np.float64),
        (pl.Int128, np.float64),
        (pl.Decimal(10, 2), np.float64),
        (pl.Boolean, np.float64),
    ],
)
@pytest.mark.parametrize("chunks", [1, 3])
def test_number_types(kind: pl.DataType, expected: type, chunks: int) -> None:
    column = pl.Series("v", [0, 1], dtype=pl.Int64).cast(kind)
    column = pl.concat([column] * chunks, rechunk=False)
    array = numeric_column(column, finder(column))
    assert array.dtype == expected
    assert array.tolist() == [0.0, 1.0] * chunks
    assert not array.flags.writeable
    assert array.flags.c_contiguous


def finder(column: pl.Series) -> RowFinder:
    return RowFinder(Source.from_frame(column.to_frame(), "scores.parquet"))


def test_the_frame_is_never_written_to() -> None:
    column = pl.Series("v", [-0.0, 1.0])
    assert math.copysign(1, numeric_column(column, finder(column))[0]) == 1.0
    assert math.copysign(1, column[0]) == -1.0
    labels = pl.Series("v", [0, 1], dtype=pl.UInt8)
    for array in (numeric_column(column, finder(column)), label_column(labels, finder(labels))[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 7


@given(st.lists(st.floats(allow_nan=False), min_size=1), st.sampled_from([pl.Float32, pl.Float64]))
def test_values_are_kept_but_for_the_sign_of_zero(values: list[float], kind: type) -> None:
    column = pl.Series("v", values).cast(kind)
    array = numeric_column(column, finder(column), finite=False)
    assert (array == column.to_numpy()).all()
    assert not np.signbit(array[array == 0]).any()


@pytest.mark.parametrize(
    ("values", "count", "first", "says"),
    [
        (["0.5", "x", None, "y"], 2, [2, 4], "'x'"),
        (["0.5", "1"], 2, [1, 2], "numbers written as text"),
        (pl.Series(["0.5", "x"], dtype=pl.Categorical), 1, [2], "'x'"),
        ([[0.5], [1.0]], 2, [1, 2], "List"),
        ([{"a": 1}, {"a": 2}], 2, [1, 2], "Struct"),
        (pl.Series([1, 2]).cast(pl.Date), 2, [1, 2], "Date"),
    ],
)
def test_wrong_types(values, count: int, first: list[int], says: str) -> None:
    error = refused(DataError, {"score": values, "label": [0] * len(values)})
    assert (error.column, error.rows, error.first_rows) == ("score", count, first)
    assert error.file == "scores.parquet"
    assert says in error.message


def test_integers_that_float64_cannot_hold() -> None:
    error = refused(DataError, {"score": [1, 2**53 + 1], "label": [0, 1]}, scale="raw")
    assert error.first_rows == [2]
    assert rows({"score": [1, 2**53], "label": [0, 1]}, scale="raw").score[1] == 2**53


# Values


@pytest.mark.parametrize("absent", [None, NAN])
@pytest.mark.parametrize("column", ["score", "uncertainty", "w"])
@pytest.mark.parametrize("kind", [pl.Float32, pl.Float64])
def test_missing_numbers(column: str, absent: float | None, kind: type) -> None:
    columns = {name: [0.5] * 8 for name in ("score", "uncertainty", "w")} | {"label": [0, 1] * 4}
    columns[column] = pl.Series([0.5, absent] * 3 + [absent, absent], dtype=kind)
    error = refused(DataError, columns, weight="w")
    assert (error.column, error.rows, error.first_rows) == (column, 5, [2, 4, 6, 7, 8])
    assert "--on-missing drop" in error.message
    read = rows(columns, weight="w", on_missing="drop")
    assert (read.rows_read, read.dropped, len(read.score)) == (8, 5, 3)
    assert read.label.tolist() == [0, 0, 0]
    assert f"column {column!r}: 5 rows" in read.warnings[0]


def test_both_kinds_of_missing_at_once() -> None:
    read = rows({"score": [NAN, None, 0.5], "label": [0, 1, 1]}, on_missing="drop")
    assert (read.dropped, read.score.tolist()) == (2, [0.5])


def test_a_column_without_any_value() -> None:
    error = refused(DataError, {"score": [None, None], "label": [0, 1]})
    assert error.rows == 2
    error = refused(DataError, {"score": [None, None], "label": [0, 1]}, on_missing="drop")
    assert "all 2 rows" in error.message


@pytest.mark.parametrize("value", [1.0001, -1e-9, INF, -INF, 50.0])
def test_probabilities_outside_the_unit_interval(value: float) -> None:
    error = refused(DataError, {"score": [0.0, 1.0, value], "label": [0, 1, 1]})
    assert (error.column, error.rows, error.first_rows) == ("score", 1, [3])
    assert "[0, 1]" in error.message
    assert "--scale" in error.message


@pytest.mark.parametrize("scale", ["logit", "raw"])
def test_infinite_scores_where_only_the_order_counts(scale: str) -> None:
    columns = {"score": [-INF, 2.0, INF], "label": [0, 1, 1]}
    assert rows(columns, scale=scale).score.tolist() == [-INF, 2.0, INF]
    error = refused(DataError, columns, scale=scale, keywords={"finite_scores": True})
    assert (error.rows, error.first_rows) == (2, [1, 3])
    assert refused(DataError, columns | {"score": [NAN, 1.0, 2.0]}, scale=scale).rows == 1


@pytest.mark.parametrize("value", [INF, -INF])
@pytest.mark.parametrize("column", ["uncertainty", "w"])
def test_other_columns_are_finite(column: str, value: float) -> None:
    columns = {"score": [0.5, 0.5], "label": [0, 1], "uncertainty": [1.0, 2.0], "w": [1.0, 2.0]}
    error = refused(DataError, columns | {column: [1.0, value]}, weight="w")
    assert (error.column, error.first_rows) == (column, [2])


def test_weights() -> None:
    columns = {"score": [0.5, 0.5], "label": [0, 1]}
    narrow = pl.Series([0, 2], dtype=pl.Float32)
    assert rows(columns | {"w": narrow}, weight="w").weight.dtype == np.float64
    assert refused(DataError, columns | {"w": [1, -1]}, weight="w").first_rows == [2]
    assert "weight 0" in refused(DataError, columns | {"w": [0, 0]}, weight="w").message


# Labels


@pytest.mark.parametrize(
    "values",
    [
        [0, 1],
        [0.0, 1.0],
        [-0.0, 1.0],
        [False, True],
        ["0", "1"],
        ["f", "T"],
        ["FALSE", "true"],
        pl.Series(["F", "t"], dtype=pl.Categorical),
        pl.Series(["f", "t"], dtype=pl.Enum(["t", "f"])),
        pl.Series([0, 1], dtype=pl.UInt64),
        pl.Series([0, 1], dtype=pl.Float32),
        pl.Series([0, 1], dtype=pl.Int64).cast(pl.Decimal(3, 1)),
    ],
)
def test_labels(values) -> None:
    label = rows({"score": [0.5, 0.5], "label": values}).label
    assert (label.tolist(), label.dtype) == ([0, 1], np.uint8)


@pytest.mark.parametrize(
    ("values", "first", "says"),
    [
        ([0, 1, 2], [3], "2"),
        ([0, -1, 1], [2], "-1"),
        ([0.0, 0.5, 1.0], [2], "0.5"),
        (["yes", "no", "t"], [1, 2], "'yes', 'no'"),
        ([[0], [1], [1]], [1, 2, 3], "[0]"),
    ],
)
def test_labels_that_are_none(values, first: list[int], says: str) -> None:
    error = refused(DataError, {"score": [0.5] * 3, "label": values})
    assert (error.column, error.rows, error.first_rows) == ("label", len(first), first)
    assert says in error.message
    assert "--positive" in error.message


@pytest.mark.parametrize(
    ("values", "positive"),
    [
        (["ham", "spam"], "spam"),
        (pl.Series(["ham", "spam"], dtype=pl.Categorical), "spam"),
        ([1, 2], "2"),
        ([1, 2], "2.0"),
        ([0.5, 0.1], "0.1"),
        (pl.Series([0.5, 0.1], dtype=pl.Float32), ".1"),
        (pl.Series(["0.5", "0.1"]).cast(pl.Decimal(4, 2)), "0.1"),
        ([True, False], "false"),
        ([False, True], "T"),
        ([0, -3], "-3"),
        (pl.Series([1, 2**64 - 1], dtype=pl.UInt64), str(2**64 - 1)),
    ],
)
def test_positive_class(values, positive: str) -> None:
    read = rows({"score": [0.5, 0.5], "label": values}, positive=positive)
    assert read.label.tolist() == [0, 1]


@pytest.mark.parametrize(
    ("values", "positive"),
    [
        (["ham", "eggs"], "spam"),
        (["ham", "Spam"], "spam"),
        ([1, 2], "3"),
        ([1, 2], "x"),
        ([1, 2], "1.5"),
        ([1, 2], "1e999"),
        ([1, 2], "nan"),
        ([0.5, 1.0], "inf"),
        ([True, False], "yes"),
        ([True, True], "f"),
    ],
)
def test_positive_class_that_no_row_has(values, positive: str) -> None:
    columns = {"score": [0.5, 0.5], "label": values}
    error = refused(DataError, columns, positive=positive)
    assert error.column == "label"
    assert f"{positive!r} (values: " in error.message
    read = rows(columns, positive=positive, keywords={"positive_must_occur": False})
    assert read.label.tolist() == [0, 0]
    assert positive in read.warnings[0]


@pytest.mark.parametrize(
    "values", [[1, None, 0], [1.0, NAN, 0.0], ["t", "", "f"], ["t", None, "f"], [True, None, False]]
)
def test_rows_without_a_label(values: list[object]) -> None:
    columns = {"score": [0.1, 0.2, 0.3], "label": values}
    error = refused(DataError, columns, on_missing="drop")
    assert (error.rows, error.first_rows) == (1, [2])
    assert "--unlabelled drop" in error.message
    read = rows(columns, unlabelled="drop")
    assert (read.label.tolist(), read.score.tolist()) == ([1, 0], [0.1, 0.3])
    assert (read.rows_read, read.dropped) == (3, 1)
    assert "1 row without a value dropped (--unlabelled drop)" in read.warnings[0]


def test_rows_are_numbered_in_the_file_after_a_drop() -> None:
    columns = {"score": [0.1, None, 0.3, 7.0], "label": [0, 1, None, 1]}
    error = refused(DataError, columns, on_missing="drop", unlabelled="drop")
    assert (error.rows, error.first_rows) == (1, [4])


# Names


def test_missing_columns() -> None:
    error = refused(UsageError, {"scores": [0.5], "label": [1]})
    assert "did you mean 'scores'" in error.message
    assert "--score" in error.message
    for role in ("uncertainty", "weight", "label", "score"):
        error = refused(UsageError, {"score": [0.5], "label": [1]}, **{role: "other"})
        assert (error.column, error.file) == ("other", "scores.parquet")
        assert f"--{role}" in error.message


@pytest.mark.parametrize(
    "options",
    [{"score": "label"}, {"weight": "label"}, {"uncertainty": "score"}, {"weight": "score"}],
)
def test_one_column_in_two_roles(options: dict[str, str]) -> None:
    error = refused(UsageError, {"score": [0.5], "label": [1]}, **options)
    assert "is both" in error.message


def test_the_default_uncertainty_gives_way_to_named_columns() -> None:
    read = rows({"uncertainty": [0.5], "label": [1]}, score="uncertainty")
    assert read.uncertainty is None


@pytest.mark.parametrize(
    "options", [{"scale": "odds"}, {"on_missing": "fill"}, {"unlabelled": "keep"}]
)
def test_unknown_choices(options: dict[str, str]) -> None:
    assert "use one of" in refused(UsageError, {"score": [0.5], "label": [1]}, **options).message


# Files and further columns


def test_the_file_of_the_first_bad_row_is_named(tmp_path: Path) -> None:
    for name, scores in [("a", [0.1, 0.2]), ("b", [0.3, 1.5, -1.0]), ("c", [3.0])]:
        frame = pl.DataFrame({"score": scores, "label": 1})
        frame.write_parquet(tmp_path / f"{name}.parquet")
    source = open_source([str(tmp_path)])
    with pytest.raises(DataError) as caught:
        read_score_rows(source, ColumnOptions())
    error = caught.value
    assert (error.file, error.rows) == (str(tmp_path / "b.parquet"), 3)
    assert error.first_rows == [2, 3]


def test_parquet_and_csv_give_the_same_bytes(tmp_path: Path) -> None:
    dice = np.random.default_rng(3)
    frame = pl.DataFrame(
        {
            "score": dice.random(500, dtype=np.float32),
            "uncertainty": dice.normal(size=500).astype(np.float32),
            "label": dice.integers(0, 2, 500),
        }
    )
    frame.write_parquet(tmp_path / "x.parquet", row_group_size=100)
    frame.write_csv(tmp_path / "x.csv")
    one = read_score_rows(open_source([str(tmp_path / "x.parquet")]), ColumnOptions())
    two = read_score_rows(open_source([str(tmp_path / "x.csv")], dtype="float32"), ColumnOptions())
    for name in ("score", "uncertainty", "label"):
        first, second = getattr(one, name), getattr(two, name)
        assert (first.dtype, first.tobytes()) == (second.dtype, second.tobytes())


def test_warnings_of_the_source_are_passed_on(tmp_path: Path) -> None:
    path = str(tmp_path / "x.csv")
    Path(path).write_text("score,label\n0.5,1\n")
    assert "more than once" in read_score_rows(open_source([path] * 2), ColumnOptions()).warnings[0]


def test_other_columns_are_dropped_along() -> None:
    columns = {
        "score": [0.1, None, 0.3, 0.4],
        "label": [0, 1, 1, 0],
        "user": ["a", "b", None, "d"],
        "amount": [1.0, 2.0, 3.0, None],
    }
    read = rows(columns, on_missing="drop", keywords={"others": ["user", "amount"]})
    assert read.others.rows() == [("a", 1.0), (None, 3.0)]
    assert numeric_column(read.others["amount"], read.where).tolist() == [1.0, 3.0]
    with pytest.raises(UsageError):
        rows(columns, keywords={"others": ["amonut"]})


def test_read_rows_alone() -> None:
    source = Source.from_frame(pl.DataFrame({"v": [1.0, None], "w": [1, 2]}), "x.parquet")
    assert read_rows(source, ["v", "w", "v"]).frame.columns == ["v", "w"]
    read = read_rows(source, ["v", "w"], missing=["v"])
    assert (read.frame.rows(), read.dropped, read.rows_read) == ([(1.0, 1)], 1, 2)
    with pytest.raises(DataError) as caught:
        read_rows(source, ["v"], missing=["v"]).where.refuse(read.frame["v"], None, "odd", "mend")
    assert caught.value.first_rows == [1]
