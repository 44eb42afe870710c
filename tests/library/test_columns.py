"""Each line of the contract's list of bad input, for score, label, uncertainty and weight."""

from __future__ import annotations

import math

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.columns.rows import RowFinder, label_column, numeric_column
from calibkit.columns.segments import known_codes
from calibkit.errors import CalibkitError, DataError, UsageError
from calibkit.files.sources import Source
from calibkit.options.shared import ColumnOptions
from calibkit.summaries.score_rows import ScoreRows, read_score_rows

NAN, INF = math.nan, math.inf


def rows(columns: dict[str, object], *, keywords: dict | None = None, **options) -> ScoreRows:
    source = Source.from_frame(pl.DataFrame(columns), "scores.parquet")
    return read_score_rows(source, ColumnOptions(**options), **(keywords or {}))


def refused(kind: type[CalibkitError], columns: dict[str, object], **given) -> CalibkitError:
    with pytest.raises(kind) as caught:
        rows(columns, **given)
    return caught.value


def test_columns_that_are_not_asked_for_are_not_checked() -> None:
    columns = {"score": [0.5], "label": ["?"], "uncertainty": [None]}
    read = rows(columns, keywords={"label": False, "uncertainty": False})
    assert (read.label, read.uncertainty) == (None, None)
    columns = {"score": [0.5, 0.75], "label": [None, 1]}
    read = rows(columns, keywords={"label": False}, unlabelled="drop")
    assert read.score.tolist() == [0.5, 0.75]


# Types


NUMBERS = [pl.Float64, pl.Float32, pl.Float16, pl.Int8, pl.UInt64, pl.Int128, pl.Decimal(10, 2)]


def finder(column: pl.Series) -> RowFinder:
    return RowFinder(Source.from_frame(column.to_frame(), "scores.parquet"))


@pytest.mark.parametrize("kind", [*NUMBERS, pl.Boolean])
@pytest.mark.parametrize("chunks", [1, 3])
def test_number_types(kind: pl.DataType, chunks: int) -> None:
    column = pl.Series("v", [0, 1], dtype=pl.Int64).cast(kind)
    column = pl.concat([column] * chunks, rechunk=False)
    array = numeric_column(column, finder(column))
    assert array.dtype == (np.float32 if kind in (pl.Float32, pl.Float16) else np.float64)
    assert array.tolist() == [0.0, 1.0] * chunks
    assert not array.flags.writeable
    assert array.flags.c_contiguous


def test_the_frame_is_never_written_to() -> None:
    column = pl.Series("v", [-0.0, 1.0])
    assert math.copysign(1, numeric_column(column, finder(column))[0]) == 1.0
    assert math.copysign(1, column[0]) == -1.0
    labels = pl.Series("v", [0, 1], dtype=pl.UInt8)
    assert not label_column(labels, finder(labels))[0].flags.writeable


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
    assert (read.rows_read, len(read.score)) == (8, 3)
    assert read.label.tolist() == [0, 0, 0]
    assert f"column {column!r}: 5 rows" in read.warnings[0]


@pytest.mark.parametrize("kind", [pl.Float32, pl.Float64])
def test_a_value_is_shown_with_the_digits_of_its_type(kind: pl.DataType) -> None:
    error = refused(DataError, {"score": pl.Series([0.5, 1.1], dtype=kind), "label": [0, 1]})
    assert "1.1)" in error.message


# Labels


LABELS = [
    *([0, 1], [0.0, 1.0], [-0.0, 1.0], [False, True], ["0", "1"], ["f", "T"], ["FALSE", "true"]),
    pl.Series(["F", "t"], dtype=pl.Categorical),
    pl.Series(["f", "t"], dtype=pl.Enum(["t", "f"])),
    *(pl.Series([0, 1]).cast(kind) for kind in (pl.UInt64, pl.Float32, pl.Decimal(3, 1))),
]


@pytest.mark.parametrize("values", LABELS)
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
        (pl.Series([1, 10**30], dtype=pl.Int128), str(10**30)),
    ],
)
def test_positive_class(values, positive: str) -> None:
    read = rows({"score": [0.5, 0.5], "label": values}, positive=positive)
    assert read.label.tolist() == [0, 1]


ABSENT = [
    *((["ham", other], "spam") for other in ("eggs", "Spam")),
    *(([1, 2], positive) for positive in ("3", "x", "1.5", "1e999", "nan")),
    *(([0.5, 1.0], positive) for positive in ("inf", "snan")),
    ([True, False], "yes"),
    ([True, True], "f"),
]


@pytest.mark.parametrize(("values", "positive"), ABSENT)
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
    assert (read.rows_read, read.rows) == (3, 2)
    assert "1 row without a value dropped (--unlabelled drop)" in read.warnings[0]


# Names and further columns


def test_one_column_in_two_roles() -> None:
    for role, name in (
        ("score", "label"),
        ("weight", "label"),
        ("uncertainty", "score"),
        ("weight", "score"),
    ):
        assert (
            "is both" in refused(UsageError, {"score": [0.5], "label": [1]}, **{role: name}).message
        )
    # The default uncertainty gives way to named columns.
    assert rows({"uncertainty": [0.5], "label": [1]}, score="uncertainty").uncertainty is None


def test_other_columns_are_dropped_along() -> None:
    columns = {
        "score": [0.1, None, 0.3, 0.4],
        "label": [0, 1, 1, 0],
        "user": ["a", "b", None, "d"],
        "amount": [1.0, 2.0, 3.0, None],
    }
    read = rows(columns, on_missing="drop", keywords={"others": ["user", "amount"]})
    assert read.others.rows() == [("a", 1.0)]
    assert numeric_column(read.others["amount"], read.finder).tolist() == [1.0]
    with pytest.raises(UsageError):
        rows(columns, keywords={"others": ["amonut"]})


def test_a_name_that_python_alone_reads_as_a_number_is_none() -> None:
    values = pl.Series("s", [10.0, 7.0])
    assert known_codes(values, ("1_0", "7")).tolist() == [-1, 1]


def test_a_segment_that_was_named_by_the_digits_of_float64_is_found_by_those_of_float32() -> None:
    values = pl.Series([0.1, 0.2, 0.3], dtype=pl.Float32)
    names = ("0.10000000149011612", "0.2", "0.30000001192092896")
    found = [known_codes(own, names).tolist() for own in (values, values.cast(pl.String))]
    assert found == [[0, 1, 2], [0, 1, 2]]
