"""Each line of the list of bad input, in Parquet and CSV, as text and as JSON: nothing is written."""

from __future__ import annotations

import json
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
    name: str, case: str, suffix: str, tmp_path: Path, refuse: Refuse
) -> None:
    column, values, words, options = BAD_VALUES[case]
    path = write(scores(**{column: values}), tmp_path / f"bad{suffix}")
    error = refuse(name, path, *options)
    assert (error["file"], error["column"]) == (str(path), column)
    assert (error["rows"], error["first_rows"]) == (len(values), list(values))
    for word in [str(path), repr(column), str(len(values)), *map(str, values), *words]:
        assert word in error["message"], error


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_only_the_first_rows_are_listed_but_all_are_counted(
    tmp_path: Path, suffix: str, refuse: Refuse
) -> None:
    path = write(scores(score=dict.fromkeys(range(11, 31), 2.0)), tmp_path / f"bad{suffix}")
    error = refuse("boundary", path)
    assert (error["rows"], error["first_rows"]) == (20, [11, 12, 13, 14, 15])


def test_rows_are_counted_within_the_file_that_has_them(tmp_path: Path, refuse: Refuse) -> None:
    write(scores(), tmp_path / "in" / "a.csv")
    bad = write(scores(score={2: 7.0}), tmp_path / "in" / "b.csv")
    error = refuse("bin", tmp_path / "in")
    assert (error["file"], error["rows"], error["first_rows"]) == (str(bad), 1, [2])


def test_rows_are_counted_as_in_the_file_also_after_others_were_dropped(
    tmp_path: Path, refuse: Refuse
) -> None:
    path = write(scores(score={1: None, 2: None, 9: 7.0}), tmp_path / "a.parquet")
    assert refuse("bin", path, "--on-missing", "drop")["first_rows"] == [9]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("column", ["score", "uncertainty"])
def test_text_instead_of_numbers(
    name: str, column: str, suffix: str, tmp_path: Path, refuse: Refuse
) -> None:
    frame = simulate(40).with_columns(pl.col(column).cast(pl.String))
    texts = frame[column].to_list()
    texts[5] = "n.a."
    path = write(frame.with_columns(pl.Series(column, texts)), tmp_path / f"bad{suffix}")
    error = refuse(name, path)
    assert (error["column"], error["rows"], error["first_rows"]) == (column, 1, [6])
    assert "'n.a.'" in error["message"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("goal", ["--precision", "--recall"])
def test_no_positive_row(tmp_path: Path, suffix: str, goal: str, invoke: Invoke) -> None:
    path = write(scores().with_columns(label=pl.lit(0)), tmp_path / f"bad{suffix}")
    done = invoke("boundary", path, goal, "0.5", "--json", "-q")
    error = json.loads(done.stdout)["error"]
    assert (done.code, error["code"]) == (3, 3)
    assert (error["file"], error["column"], error["rows"]) == (str(path), "label", 40)
    assert "no positive row" in error["message"]
    assert goal in error["message"]


def test_positive_rows_of_weight_zero_are_none(tmp_path: Path, refuse: Refuse) -> None:
    frame = scores().with_columns(weight=1.0 - pl.col("label").cast(pl.Float64))
    path = write(frame, tmp_path / "bad.csv")
    error = refuse("boundary", path, "--weight", "weight")
    assert "no positive row" in error["message"]
    assert error["rows"] == 40  # whatever they weigh


def test_all_weights_zero(tmp_path: Path, refuse: Refuse) -> None:
    path = write(scores().with_columns(weight=0.0), tmp_path / "bad.csv")
    for name in ("bin", "boundary"):
        assert refuse(name, path, "--weight", "weight")["column"] == "weight"


@pytest.mark.parametrize("weight", [1e307, 1e-310])
def test_weights_whose_sum_no_float_can_hold(tmp_path: Path, weight: float, refuse: Refuse) -> None:
    path = write(scores().with_columns(weight=pl.lit(weight)), tmp_path / "bad.parquet")
    for name in ("bin", "boundary"):
        error = refuse(name, path, "--weight", "weight")
        assert (error["column"], error["rows"]) == ("weight", 40)
        assert "scale the weights" in error["message"]


@pytest.mark.parametrize("goal", ["--precision", "--recall"])
def test_negative_rows_are_not_needed(tmp_path: Path, goal: str, invoke: Invoke) -> None:
    path = write(scores().with_columns(label=pl.lit(1)), tmp_path / "all.csv")
    seen = invoke("boundary", path, goal, "0.5", "--json", "-q").result()["fit"]["in_sample"]
    assert (seen["precision"], seen["false_positive_rate"]) == (1.0, None)


def test_one_class_is_enough_for_bin(tmp_path: Path, invoke: Invoke) -> None:
    path = write(scores().with_columns(label=pl.lit(0)), tmp_path / "none.csv")
    done = invoke("bin", path, "--score-bins", "2", "-o", tmp_path / "grid.csv")
    assert done.code == 0
    assert pl.read_csv(tmp_path / "grid.csv")["positives"].sum() == 0


# Infinite scores, where only their order counts ----------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("scale", ["logit", "raw"])
def test_infinite_scores_are_allowed_where_only_the_order_counts(
    tmp_path: Path, suffix: str, scale: str, invoke: Invoke
) -> None:
    frame = scores(score={1: INF, 2: -INF, 3: INF}, label={1: 1, 3: 1})
    path = write(frame, tmp_path / f"inf{suffix}")
    grid, fitted, decided = (tmp_path / name for name in ("grid.parquet", "b.json", "d.csv"))
    assert invoke("bin", path, "--scale", scale, "--score-bins", "4", "-o", grid).code == 0
    sums = pl.read_parquet(grid).filter(pl.col("count") > 0)
    assert sums["count"].sum() == 40
    assert sums["mean_score"].null_count() > 0
    assert not sums["mean_score"].is_nan().any()
    assert not sums["mean_score"].is_infinite().any()
    fit = ["boundary", path, "--scale", scale, "--precision", "0.6", "-q", "-o", fitted]
    assert invoke(*fit).code == 0
    rows = invoke("apply", fitted, path, "-o", decided).result()
    assert rows["decision"].to_list()[:3] == [1, 0, 1]
    assert not rows["margin"].is_nan().any()


def test_bins_of_equal_width_need_ends(tmp_path: Path, invoke: Invoke) -> None:
    path = write(scores(score={1: INF, 3: -INF}), tmp_path / "inf.parquet")
    line = ("bin", path, "--scale raw --strategy equal-width -o", tmp_path / "grid.parquet")
    invoke(*line).refused(3, "infinite in 2 rows", "rows 1, 3", "use --strategy equal-mass")


# Missing values that are dropped, or become null ---------------------------------------------


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("name", ["bin", "boundary"])
def test_dropped_rows_are_counted(
    tmp_path: Path, suffix: str, name: str, invoke: Invoke, model: Path
) -> None:
    bad = scores(score={3: None, 4: NAN, 5: None}, uncertainty={5: NAN, 9: None})
    path = write(bad, tmp_path / f"some{suffix}")
    keep = [row for row in range(40) if row + 1 not in (3, 4, 5, 9)]
    clean = write(bad[keep], tmp_path / f"clean{suffix}")
    command, *given = COMMANDS[name]
    outputs = [tmp_path / "a.json", tmp_path / "b.json"]
    if name == "bin":
        outputs = [path.with_suffix(".csv") for path in outputs]
    given += ["--provenance", "none"] if name == "boundary" else []
    done = invoke(command, path, *given, "--on-missing", "drop", "-o", outputs[0])
    done.succeeded("3 rows without a value dropped", "2 rows without a value dropped")
    assert invoke(command, clean, *given, "-o", outputs[1]).code == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


def test_the_report_of_dropped_rows_survives_quiet_and_fails_with_warnings_error(
    tmp_path: Path, invoke: Invoke
) -> None:
    path = write(scores(score={3: None}), tmp_path / "some.csv")
    fit = ["boundary", path, "--precision", "0.5", "--on-missing", "drop", "-q"]
    invoke(*fit, "-o", tmp_path / "b.json").succeeded("1 row without a value dropped")
    failed = invoke(*fit, "--warnings", "error", "-o", tmp_path / "c.json")
    assert failed.code == 3
    assert not (tmp_path / "c.json").exists()


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_unlabelled_rows_are_dropped_on_request(
    tmp_path: Path, suffix: str, invoke: Invoke
) -> None:
    path = write(scores(label={2: None, 7: None}), tmp_path / f"some{suffix}")
    done = invoke("boundary", path, "--precision", "0.5", "--unlabelled", "drop", "--json")
    done.succeeded("2 rows")
    assert json.loads(done.stdout)["fit"]["rows"] == 38


def test_nothing_left(tmp_path: Path, refuse: Refuse) -> None:
    path = write(scores().with_columns(score=pl.lit(None, pl.Float64)), tmp_path / "none.csv")
    for name in ("bin", "boundary"):
        assert "40 rows" in refuse(name, path, "--on-missing", "drop")["message"]


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
def test_apply_writes_null_where_a_value_is_missing(
    tmp_path: Path, suffix: str, invoke: Invoke, model: Path
) -> None:
    bad = scores(score={1: None, 4: NAN}, uncertainty={4: None, 6: NAN})
    path, out = write(bad, tmp_path / f"some{suffix}"), tmp_path / "out.parquet"
    invoke("apply", model, path, "--on-missing", "null", "-o", out).succeeded("3 of 40 rows")
    whole = tmp_path / "whole.parquet"
    assert invoke("apply", model, write(scores(), tmp_path / "good.csv"), "-o", whole).code == 0
    found, expected = pl.read_parquet(out), pl.read_parquet(whole)
    for column in ("decision", "margin"):
        values = expected[column].to_list()
        for row in (1, 4, 6):
            values[row - 1] = None
        assert found[column].to_list() == values
    assert found["id"].to_list() == list(range(40))


@pytest.mark.parametrize(("share", "code"), [("0.05", 0), ("0.049", 3), ("0", 3), ("1", 0)])
def test_max_missing_caps_the_share(
    tmp_path: Path, share: str, code: int, invoke: Invoke, model: Path
) -> None:
    path, out = write(scores(score={1: None, 4: None}), tmp_path / "some.csv"), tmp_path / "o.csv"
    start = ["apply", model, path, "--on-missing", "null", "--max-missing", share, "-o", out]
    done = invoke(*start, "--json")
    assert done.code == code
    assert out.exists() == (code == 0)
    if code:
        error = json.loads(done.stdout)["error"]
        assert (error["file"], error["rows"]) == (str(path), 2)
        assert error["first_rows"] == [1, 4]
        assert f"--max-missing {share}" in error["message"]


def test_max_missing_alone_is_an_impossible_pair(
    tmp_path: Path, invoke: Invoke, model: Path
) -> None:
    path = write(scores(), tmp_path / "a.csv")
    done = invoke("apply", model, path, "--max-missing", "0.1", "-o", tmp_path / "o.csv")
    done.refused(2, "--on-missing null")


def test_bad_values_are_refused_also_where_others_become_null(
    tmp_path: Path, refuse: Refuse
) -> None:
    path = write(scores(score={1: None, 4: 1.5}), tmp_path / "some.csv")
    error = refuse("apply", path, "--on-missing", "null")
    assert (error["rows"], error["first_rows"]) == (1, [4])


# Files ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("suffix", [".parquet", ".csv", ".csv.gz", ".tsv", ".arrow", ".arrows"])
def test_files_without_rows(name: str, suffix: str, tmp_path: Path, refuse: Refuse) -> None:
    path = write(scores().head(0), tmp_path / f"header{suffix}")
    error = refuse(name, path)
    assert error["file"] == str(path)
    assert "empty" in error["message"]


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".csv.gz", ".csv.zst", ".ndjson.gz"])
@pytest.mark.parametrize("damage", ["cut", "garbage"])
def test_damaged_files(name: str, suffix: str, damage: str, tmp_path: Path, refuse: Refuse) -> None:
    data = encode(scores(), suffix)
    path = tmp_path / f"damaged{suffix}"
    middle = len(data) // 2
    path.write_bytes(data[:middle] if damage == "cut" else data[: middle - 40] + b"?" * 300)
    error = refuse(name, path)
    assert error["file"] == str(path)
    assert str(path) in error["message"]


@pytest.mark.parametrize("suffix", [".csv.gz", ".csv.zst"])
def test_a_truncated_stream(suffix: str, command: Callable[..., Any], model: Path) -> None:
    data = encode(scores(), suffix)
    for length, said in ((len(data) // 2, b"truncated or corrupt"), (0, b"empty")):
        done = command("apply", model, "-", "-o", "-", input=data[:length])
        assert (done.returncode, done.stdout) == (3, b"")
        assert said in done.stderr


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("suffix", [".parquet", ".arrow", ".arrows"])
def test_a_column_named_twice_where_types_are_stored(
    name: str, suffix: str, tmp_path: Path, refuse: Refuse
) -> None:
    table = scores().to_arrow()
    table = table.rename_columns(["score", *table.column_names[1:]])
    path = tmp_path / f"twice{suffix}"
    if suffix == ".parquet":
        pq.write_table(table, path)
    else:
        new_file = pa.ipc.new_file if suffix == ".arrow" else pa.ipc.new_stream
        with new_file(path, table.schema) as file:
            file.write_table(table)
    error = refuse(name, path)
    assert (error["file"], error["column"]) == (str(path), "score")
    assert "2 times" in error["message"]
