"""Each line of the list of bad input, in Parquet and CSV, as text and as JSON: nothing is written."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.conftest import COMMANDS
from tests.cli.score_files import encode, scores, simulate, write
from tests.conftest import Invoke

NAN, INF = math.nan, math.inf

Refuse = Callable[..., dict[str, Any]]

#: Column, values by row (from 1), words of the message, further options.
BAD_VALUES: dict[str, tuple[str, dict[int, Any], list[str], list[str]]] = {
    "null score": ("score", {3: None, 7: None}, ["no value", "--on-missing"], []),
    "NaN score": ("score", {2: NAN}, ["no value", "--on-missing"], []),
    "null and NaN score": ("score", {3: None, 7: NAN}, ["null or NaN"], []),
    "null uncertainty": ("uncertainty", {5: None}, ["no value", "--on-missing"], []),
    "NaN uncertainty": ("uncertainty", {5: NAN}, ["no value", "--on-missing"], []),
    "infinite uncertainty": ("uncertainty", {4: INF, 6: -INF}, ["infinite", "inf"], []),
    "infinite probability": ("score", {9: INF}, ["[0, 1]", "--scale"], []),
    "score above 1": ("score", {40: 1.5}, ["1.5", "[0, 1]", "--scale"], []),
    "score below 0": ("score", {1: -0.25, 2: -3.0}, ["-0.25", "[0, 1]", "--scale"], []),
    "NaN under raw": ("score", {2: NAN}, ["no value", "--on-missing"], ["--scale", "raw"]),
    "null label": ("label", {8: None}, ["no label", "--unlabelled drop"], []),
    "label 2": ("label", {1: 2, 4: 2}, ["2", "--positive"], []),
    "negative weight": ("weight", {6: -1.0}, ["-1", "negative"], ["--weight", "weight"]),
    "null weight": ("weight", {6: None}, ["no value"], ["--weight", "weight"]),
    "infinite weight": ("weight", {6: INF}, ["inf"], ["--weight", "weight"]),
}

#: Apply reads scores and uncertainties only, and has no --scale.
READ = [
    (name, case)
    for name in COMMANDS
    for case, (column, _, _, options) in BAD_VALUES.items()
    if name != "apply" or (column in ("score", "uncertainty") and not options)
]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize(("name", "case"), READ)
def test_a_bad_value_is_named_with_file_column_rows_and_advice(
    name: str, case: str, suffix: str, refuse: Refuse
) -> None:
    column, values, words, options = BAD_VALUES[case]
    path = write(scores(**{column: values}), f"bad{suffix}")
    error = refuse(name, path, *options)
    assert (error["file"], error["column"]) == (str(path), column)
    assert (error["rows"], error["first_rows"]) == (len(values), list(values))
    for word in [str(path), repr(column), str(len(values)), *map(str, values), *words]:
        assert word in error["message"], error


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_rows_are_counted_as_in_the_file_that_has_them(suffix: str, refuse: Refuse) -> None:
    folder = Path("in")
    write(scores(), folder / f"a{suffix}")
    values = dict.fromkeys(range(11, 31), 2.0)
    bad = write(scores(score={1: None, 2: None, **values}), folder / f"b{suffix}")
    error = refuse("bin", folder, "--on-missing", "drop")
    found = error["file"], error["rows"], error["first_rows"]
    assert found == (str(bad), 20, [11, 12, 13, 14, 15])


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("column", ["score", "uncertainty"])
def test_text_instead_of_numbers(name: str, column: str, suffix: str, refuse: Refuse) -> None:
    frame = simulate(40).with_columns(pl.col(column).cast(pl.String))
    texts = frame[column].to_list()
    texts[5] = "n.a."
    path = write(frame.with_columns(pl.Series(column, texts)), f"bad{suffix}")
    error = refuse(name, path)
    assert (error["column"], error["rows"], error["first_rows"]) == (column, 1, [6])
    assert "'n.a.'" in error["message"]


WEIGHED = ["--weight", "weight"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize(
    ("changes", "column", "options", "words"),
    [
        ({"label": 0}, "label", [], ["no positive row", "--precision"]),
        ({"label": 0}, "label", ["--recall", "0.5"], ["no positive row", "--recall"]),
        ({"weight": 1.0 - pl.col("label")}, "label", WEIGHED, ["no positive row"]),
        ({"weight": 0.0}, "weight", WEIGHED, ["weight 0"]),
        ({"weight": 1e307}, "weight", WEIGHED, ["scale the weights"]),
        ({"weight": 1e-310}, "weight", WEIGHED, ["scale the weights"]),
        ({"score": pl.lit(None, pl.Float64)}, None, ["--on-missing", "drop"], ["40 rows"]),
    ],
    ids=["bound", "goal", "of weight 0", "weights 0", "too large", "too small", "no value"],
)
def test_what_is_wrong_with_all_rows(
    changes: dict[str, Any],
    column: str | None,
    options: list[str],
    words: list[str],
    suffix: str,
    refuse: Refuse,
    invoke: Invoke,
) -> None:
    path = write(scores().with_columns(**changes), f"bad{suffix}")
    given = [] if "--recall" in options else ["--precision", "0.5"]
    done = invoke("boundary", path, *given, *options, "--json", "-q")
    errors = [done.refused(3, *words)]
    if column != "label":  # which bins may lack
        errors.append(refuse("bin", path, *options))
    for error in errors:
        assert (error["file"], error["column"], error["rows"]) == (str(path), column, 40)
        assert all(word in error["message"] for word in words)


def test_one_class_may_be_enough(invoke: Invoke) -> None:
    path = write(scores().with_columns(label=pl.lit(1)), "all.csv")
    for goal in ("--precision", "--recall"):
        seen = invoke("boundary", path, goal, "0.5", "--json", "-q").result()["fit"]["in_sample"]
        assert (seen["precision"], seen["false_positive_rate"]) == (1.0, None)
    path = write(scores().with_columns(label=pl.lit(0)), "none.csv")
    grid = invoke("bin", path, "--score-bins", "2", "-o grid.csv").result()
    assert grid["positives"].sum() == 0


# Infinite scores, where only their order counts ----------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("scale", ["logit", "raw"])
def test_infinite_scores_are_allowed_where_only_the_order_counts(
    suffix: str, scale: str, invoke: Invoke
) -> None:
    frame = scores(score={1: INF, 2: -INF, 3: INF}, label={1: 1, 3: 1})
    path = write(frame, f"inf{suffix}")
    grid, fitted, decided = (Path(name) for name in ("grid.parquet", "b.json", "d.csv"))
    made = invoke("bin", path, "--scale", scale, "--score-bins", "4", "-o", grid).result()
    assert made["count"].sum() == 40
    means = made.filter(pl.col("count") > 0)["mean_score"]
    assert means.null_count() > 0
    assert means.drop_nulls().is_finite().all()
    fit = ["boundary", path, "--scale", scale, "--precision", "0.6", "-q", "-o", fitted]
    assert invoke(*fit).code == 0
    rows = invoke("apply", fitted, path, "-o", decided).result()
    assert rows["decision"].to_list()[:3] == [1, 0, 1]
    assert not rows["margin"].is_nan().any()


def test_bins_of_equal_width_need_ends(invoke: Invoke) -> None:
    path = write(scores(score={1: INF, 3: -INF}), "inf.parquet")
    line = ("bin", path, "--scale raw --strategy equal-width -o grid.parquet")
    invoke(*line).refused(3, "infinite in 2 rows", "rows 1, 3", "use --strategy equal-mass")


# Missing values that are dropped, or become null ---------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("name", ["bin", "boundary"])
def test_dropped_rows_are_counted(suffix: str, name: str, invoke: Invoke, model: Path) -> None:
    bad = scores(score={3: None, 4: NAN, 5: None}, uncertainty={5: NAN, 9: None})
    path = write(bad, f"some{suffix}")
    keep = [row for row in range(40) if row + 1 not in (3, 4, 5, 9)]
    clean = write(bad[keep], f"clean{suffix}")
    command, *given = COMMANDS[name]
    given += ["--provenance", "none"] if name == "boundary" else []
    outputs = [Path(f"{k}.{'csv' if name == 'bin' else 'json'}") for k in "ab"]
    done = invoke(command, path, *given, "--on-missing", "drop", "-o", outputs[0])
    done.succeeded("3 rows without a value dropped", "2 rows without a value dropped")
    assert invoke(command, clean, *given, "-o", outputs[1]).code == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_the_report_of_dropped_rows_survives_quiet_and_fails_with_warnings_error(
    invoke: Invoke,
) -> None:
    path = write(scores(score={3: None}), "some.csv")
    fit = ["boundary", path, "--precision 0.5 --on-missing drop -q -o b.json"]
    invoke(*fit, "--warnings", "error").refused(3)
    invoke(*fit).succeeded("1 row without a value dropped")
    path = write(scores(label={2: None, 7: None}), "some.csv")
    done = invoke("boundary", path, "--precision 0.5 --unlabelled drop -q --json")
    done.succeeded("2 rows")
    assert done.result()["fit"]["rows"] == 38


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_apply_writes_null_where_a_value_is_missing(
    suffix: str, invoke: Invoke, model: Path
) -> None:
    bad = scores(score={1: None, 4: NAN}, uncertainty={4: None, 6: NAN})
    path = write(bad, f"some{suffix}")
    done = invoke("apply", model, path, "--on-missing", "null", "-o out.parquet")
    done.succeeded("3 of 40 rows")
    found = done.result()
    expected = invoke("apply", model, write(scores(), "good.csv"), "-o out.parquet").result()
    for column in ("decision", "margin"):
        values = expected[column].to_list()
        for row in (1, 4, 6):
            values[row - 1] = None
        assert found[column].to_list() == values
    assert found["id"].to_list() == list(range(40))


@pytest.mark.parametrize(("share", "code"), [("0.05", 0), ("0.049", 3), ("0", 3), ("1", 0)])
def test_max_missing_caps_the_share(share: str, code: int, invoke: Invoke, model: Path) -> None:
    path, out = write(scores(score={1: None, 4: None}), "some.csv"), Path("o.csv")
    start = ["apply", model, path, "--on-missing", "null", "--max-missing", share, "-o", out]
    done = invoke(*start, "--json")
    assert (done.code, out.exists()) == (code, code == 0)
    if code:
        error = done.refused(3, f"--max-missing {share}")
        assert (error["file"], error["rows"]) == (str(path), 2)
        assert error["first_rows"] == [1, 4]
    invoke("apply", model, path, "--max-missing", share).refused(2, "--on-missing null")


def test_bad_values_are_refused_also_where_others_become_null(refuse: Refuse) -> None:
    path = write(scores(score={1: None, 4: 1.5}), "some.csv")
    error = refuse("apply", path, "--on-missing", "null")
    assert (error["rows"], error["first_rows"]) == (1, [4])


# Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".tsv", ".arrow", ".arrows"])
def test_files_without_rows(name: str, suffix: str, refuse: Refuse) -> None:
    path = write(scores().head(0), f"header{suffix}")
    error = refuse(name, path)
    assert error["file"] == str(path)
    assert "empty" in error["message"]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv.gz", ".csv.zst", ".ndjson.gz"])
@pytest.mark.parametrize("damage", ["cut", "garbage"])
def test_damaged_files(name: str, suffix: str, damage: str, refuse: Refuse) -> None:
    data = encode(scores(), suffix)
    path = Path(f"damaged{suffix}")
    middle = len(data) // 2
    path.write_bytes(data[:middle] if damage == "cut" else data[: middle - 40] + b"?" * 300)
    error = refuse(name, path)
    assert error["file"] == str(path)
    assert str(path) in error["message"]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
def test_a_column_named_twice_where_types_are_stored(
    name: str, suffix: str, refuse: Refuse
) -> None:
    table = scores().to_arrow()
    table = table.rename_columns(["score", *table.column_names[1:]])
    path = Path(f"twice{suffix}")
    if suffix == ".parquet":
        pq.write_table(table, path)
    else:
        new_file = pa.ipc.new_file if suffix == ".arrow" else pa.ipc.new_stream
        with new_file(path, table.schema) as file:
            file.write_table(table)
    error = refuse(name, path)
    assert (error["file"], error["column"]) == (str(path), "score")
    assert "2 times" in error["message"]
