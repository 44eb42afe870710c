"""``apply``: decisions and margins against a second reading of the model; rows and columns kept."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.apply import apply as applying
from calibkit.files import sinks
from tests.cli.score_files import decisions, margins, simulate, write
from tests.compat.fits import FITS, ROWS, rows, words
from tests.conftest import Invoke, make

Applied = Callable[..., pl.DataFrame]
FitModel = Callable[..., Path]


@pytest.fixture
def fit() -> FitModel:
    def call(frame: pl.DataFrame, *options: object) -> Path:
        path, given = write(frame, "fit.parquet"), "--precision 0.75 --method exact"
        return make("model.json", "boundary", path, given, "--folds 0", *options)

    return call


def check(model: Path, rows: pl.DataFrame) -> None:
    """Compare the added columns with a reading of the model row by row."""
    content = json.loads(model.read_text())
    assert rows["decision"].to_list() == decisions(content, rows)
    assert rows["decision"].dtype.is_integer()
    if content["order"] == "score-uncertainty":
        return
    for found, expected in zip(rows["margin"].to_list(), margins(content, rows), strict=True):
        if expected is None or expected == 0.0 or math.isinf(expected):
            assert found == expected
        else:
            assert found == pytest.approx(expected, rel=1e-9, abs=1e-12)


# Decisions and margins -----------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        [],
        ["--method", "st"],
        ["--method", "mist", "--uncertainty-bins", "5"],
        ["--score-bins", "10"],
        ["--score-bins", "10", "--order", "score-uncertainty"],
        ["--strategy", "equal-width", "--uncertainty-bins", "6"],
        ["--scale", "raw"],
        ["--scale", "logit"],
    ],
    ids=" ".join,
)
def test_rows_decided_again(
    options: list[str], ties: bool, fit: FitModel, applied: Applied
) -> None:
    frame = simulate(ties=ties)
    model = fit(frame, *options)
    rows = applied(model, frame)
    check(model, rows)
    seen = json.loads(model.read_text())["fit"]["in_sample"]
    assert rows["decision"].sum() == seen["selected"]
    assert (rows["decision"] * rows["label"]).sum() == seen["true_positives"]
    fresh = simulate(500, seed=9).with_columns(uncertainty=3 * pl.col("uncertainty") - 4)
    check(model, applied(model, fresh))


def change(model: Path, **fields: Any) -> Path:
    model.write_text(json.dumps({**json.loads(model.read_text()), **fields}))
    return model


def test_thresholds_and_edges_are_inclusive_and_low_values_are_raised(
    fit: FitModel, applied: Applied
) -> None:
    levels = {"uncertainty_min": 1.0, "score_thresholds": [0.25, None, "-inf"]}
    model = change(fit(simulate()), uncertainty_edges=[2.0, 3.0], **levels)
    rows = pl.DataFrame(
        {
            "score": [0.25, 0.25 - 1e-9, 0.25, 0.24, 0.25, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0],
            "uncertainty": [
                *(1.0, 1.0, -7.0, -7.0, np.nextafter(2.0, 0)),
                *(2.0, np.nextafter(3.0, 0), 3.0, 1e9, 1.0, 1.0),
            ],
        }
    )
    found = applied(model, rows)
    assert found["decision"].to_list() == [1, 0, 1, 0, 1, 0, 0, 1, 1, 1, 0]
    assert found["margin"].to_list()[5:] == [None] * 4 + [math.inf, -math.inf]
    check(model, found)
    repeated = change(model, uncertainty_edges=[1.0, 1.0], score_thresholds=["-inf", "-inf", None])
    assert applied(repeated, rows)["decision"].sum() == 0  # all are in the last level


def test_the_margin_at_the_ends_of_the_scale(fit: FitModel, applied: Applied) -> None:
    model = fit(simulate(), "--method", "st")
    both = pl.DataFrame({"score": [1.0, 0.0]})
    for threshold, expected in ((1.0, [0.0, -math.inf]), (0.0, [math.inf, 0.0])):
        rows = applied(change(model, score_thresholds=[threshold]), both)
        assert rows["margin"].to_list() == expected
    raw = fit(simulate(), "--method", "st", "--scale", "raw")
    rows = applied(change(raw, score_thresholds=[2.0]), pl.DataFrame({"score": [2.0, 3.5, -1.0]}))
    assert rows["margin"].to_list() == [0.0, 1.5, -3.0]


def test_values_are_rounded_to_the_dtype_of_the_fit(fit: FitModel, applied: Applied) -> None:
    """A row at its threshold stays there, whatever precision its file has."""
    frame = simulate()
    cast = frame.with_columns(pl.col("score", "uncertainty").cast(pl.Float32))
    model = fit(cast)
    assert json.loads(model.read_text())["columns"]["score"]["dtype"] == "float32"
    narrow = applied(model, cast)
    wide = applied(model, frame)
    check(model, narrow)
    for column in ("decision", "margin"):
        assert narrow[column].to_list() == wide[column].to_list()
    assert (narrow["margin"] == 0.0).any()
    assert wide["score"].to_list() == frame["score"].to_list()


def test_integer_and_boolean_columns_are_numbers(fit: FitModel, applied: Applied) -> None:
    model = fit(simulate(ties=True))
    rows = pl.DataFrame({"score": [True, False], "uncertainty": [3, 0]})
    found = [applied(model, rows.cast({"score": kind})) for kind in (pl.Int8, pl.Boolean)]
    check(model, found[0])
    assert found[0]["decision"].equals(found[1]["decision"])


# Rows and columns ----------------------------------------------------------------------------


def test_every_row_and_column_stays_in_order(fit: FitModel, applied: Applied) -> None:
    frame = simulate(50, seed=3).with_columns(
        pl.Series("name", ["ä", None] * 25),
        pl.Series("votes", [[1, 2]] * 50),
        pl.Series("label", [None] * 50, dtype=pl.Int8),
    )
    rows = applied(fit(simulate()), frame)
    assert rows.columns == [*frame.columns, "decision", "margin"]
    assert rows.select(frame.columns).equals(frame)
    assert rows.select(frame.columns).schema == frame.schema


@pytest.mark.parametrize(
    ("patterns", "kept"),
    [
        (["--keep", "id,score"], ["id", "score"]),
        (["--keep", "id", "--keep", "score"], ["id", "score"]),
        (["--keep", "score, id"], ["id", "score"]),
        (["--keep", "*"], ["id", "score", "uncertainty", "label", "weight"]),
        (["--keep", "[iw]*"], ["id", "weight"]),
    ],
)
def test_keep(patterns: list[str], kept: list[str], fit: FitModel, applied: Applied) -> None:
    rows = applied(fit(simulate()), simulate(30), *patterns)
    assert rows.columns == [*kept, "decision", "margin"]


def test_a_pattern_that_is_a_name_keeps_that_column(fit: FitModel, applied: Applied) -> None:
    odd = simulate(30).rename({"id": "id[1]"}).with_columns(id1=0)
    rows = applied(fit(simulate()), odd, "--keep", "id[1]")
    assert rows.columns == ["id[1]", "decision", "margin"]


def test_selected(fit: FitModel, applied: Applied) -> None:
    model, frame = fit(simulate()), simulate(300, seed=4)
    everything = applied(model, frame)
    alarms = applied(model, frame, "--selected", "--keep", "id")
    assert alarms.columns == ["id", "decision", "margin"]
    assert 0 < alarms.height < 300
    assert alarms["id"].to_list() == everything.filter(pl.col("decision") == 1)["id"].to_list()
    gaps = frame.with_columns(score=pl.when(pl.col("id") % 2 == 0).then("score"))
    rows = applied(model, gaps, "--selected", "--on-missing", "null")
    assert rows["decision"].unique().to_list() == [1]
    assert (rows["id"] % 2 == 0).all()
    none = applied(model, frame.with_columns(score=0.0), "--selected")
    assert (none.height, none.columns[-2:]) == (0, ["decision", "margin"])


def test_column_renames_the_decision(fit: FitModel, applied: Applied) -> None:
    model = fit(simulate())
    rows = applied(model, simulate(30), "--column", "block")
    assert rows.columns[-2:] == ["block", "margin"]
    plain = applied(model, simulate(30))
    assert rows["block"].to_list() == plain["decision"].to_list()
    chosen = applied(model, simulate(30), "--column", "block", "--selected")
    assert chosen.height == plain["decision"].sum()


def test_reruns_replace_their_columns_on_request(
    fit: FitModel, applied: Applied, invoke: Invoke
) -> None:
    model = fit(simulate())
    once = applied(model, simulate(30))
    old = once.with_columns(decision=pl.lit("old"), margin=pl.lit(7.0))
    invoke("apply", model, write(old, "old.parquet")).refused(2, "--overwrite-columns")
    again = applied(model, old, "--overwrite-columns")
    assert again.sort("id").select(once.columns).equals(once)
    assert applied(model, old, "--keep", "id").equals(once.select("id", "decision", "margin"))


def test_columns_elsewhere(fit: FitModel, applied: Applied, invoke: Invoke) -> None:
    model, frame = fit(simulate()), simulate(30)
    moved = frame.rename({"score": "p", "uncertainty": "spread"})
    names = ["--score", "p", "--uncertainty", "spread"]
    assert applied(model, moved, *names)["decision"].equals(applied(model, frame)["decision"])
    path = write(moved, "m.csv")
    lacking = invoke("apply", model, path, "--json", "-o", "x.csv")
    assert lacking.refused(2)["column"] == "score"
    kept = invoke("apply", model, write(frame, "a.csv"), "--keep", "scre")
    kept.refused(2, "did you mean 'score'")


def test_a_model_of_one_level_needs_no_uncertainty(
    fit: FitModel, applied: Applied, invoke: Invoke
) -> None:
    model = fit(simulate(), "--method", "st")
    rows = applied(model, simulate(30).drop("uncertainty"))
    check(model, rows)
    invoke("apply", model, "rows.parquet", "--uncertainty", "id").refused(2, "--uncertainty")
    for given in ("--key score", "--seed 3"):
        invoke("apply", model, "rows.parquet", given).refused(2, "not stochastic")


def test_inputs_in_turn(fit: FitModel, invoke: Invoke) -> None:
    model, frame = fit(simulate()), simulate(90, seed=6)
    parts = [write(frame[k::3], f"{k}.csv") for k in range(3)]
    rows = invoke("apply", model, *reversed(parts), "-o out.parquet").result()
    assert rows["id"].to_list() == [*range(2, 90, 3), *range(1, 90, 3), *range(0, 90, 3)]
    check(model, rows)


# Outputs and summaries -----------------------------------------------------------------------


def test_one_output_for_each_input(fit: FitModel, invoke: Invoke) -> None:
    model, out = fit(simulate()), Path("out")
    frame = simulate(90, seed=6).with_columns(score=pl.when(pl.col("id") != 4).then("score"))
    for day in (1, 2):
        write(frame[day::3], Path("in") / f"day={day}" / "scores.csv")
    line = ["apply", model, "in", "--on-missing", "null", "-o"]
    done = invoke(*line, f"{out}/", "--json")
    assert done.code == 0, done.stderr
    said = json.loads(done.stdout)
    (warning,) = said.pop("warnings")
    columns = ["decision", "margin"]
    assert said == {"rows": 60, "columns_added": columns, "output": f"{out}/"}
    assert "day=1/scores.csv: 1 of 30 rows" in warning
    for day in (1, 2):
        rows = pl.read_csv(out / f"day={day}" / "scores.csv")
        assert rows["id"].to_list() == list(range(day, 90, 3))
        check(model, rows.drop_nulls("score"))
    assert len(list(out.rglob("*.*"))) == 2
    assert invoke(*line, "other/", "--output-format", "parquet").code == 0
    assert Path("other/day=1/scores.parquet").exists()


def test_a_folder_of_outputs_never_replaces_an_input(fit: FitModel, invoke: Invoke) -> None:
    model, path = fit(simulate()), write(simulate(30), "in/a.csv")
    before = path.read_bytes()
    invoke("apply", model, path, "-o in").refused(2, str(path))
    assert path.read_bytes() == before
    write(simulate(30), "other/a.csv")
    invoke("apply", model, path, "other/a.csv", "-o", "out/").refused(2, "would both be written")


# Batches -------------------------------------------------------------------------------------


@pytest.fixture
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sinks, "_GROUP_ROWS", 2000)
    monkeypatch.setattr(applying, "_FEWEST_ROWS", 300)


@pytest.mark.parametrize("suffix", ["parquet", "csv", "csv.gz", "ndjson", "arrow"])
def test_the_same_file_for_any_budget(
    suffix: str, fit: FitModel, invoke: Invoke, small_groups: None
) -> None:
    frame = simulate(5000)
    rows, output = write(frame, f"rows.{suffix}"), Path(f"out.{suffix}")
    line, written = ["apply", fit(frame), rows, "-q"], []
    for options in ([], ["--memory", "1MB"], ["--memory", "1MB", "--threads", 1]):
        done = invoke(*line, *options, "-o", output)
        assert (done.code, done.stdout, done.stderr) == (0, b"", "")
        written.append(output.read_bytes())
    assert written[0] == written[1] == written[2]
    assert not list(Path().glob(".*"))
    if suffix == "csv":
        assert written[0].count(b"\n") == 5001
        assert invoke(*line, "--memory", "1MB").stdout == written[0]


def test_nothing_is_left_where_a_late_row_is_bad(
    fit: FitModel, invoke: Invoke, small_groups: None
) -> None:
    frame = simulate(5000)
    bad = frame.with_columns(score=pl.when(pl.col("id") < 4990).then("score"))
    rows = write(bad, "rows.parquet")
    line = ["apply", fit(frame), rows, "--memory", "1MB", "-o out.parquet"]
    invoke(*line).refused(3, "in 10 rows (first: rows 4991, 4992")
    line += ["--on-missing", "null"]
    invoke(*line, "--max-missing", "0.001").refused(3, "10 of 5000 rows lack a value")
    invoke(*line, "--warnings", "error").refused(3)


#: A fit of each command, and those that read columns in a way of their own.
NAMES = [
    *("exact", "by", "time", "weights", "three-way", "beta", "map chosen in time", "map by"),
    *("votes, vector", "classes, matrix", "tree", "tree in time", "boosted", "vad", "tandem"),
    *("alpha", "alpha of features"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("rows")
    for name in (ROWS, "rows.csv", "rows.parquet"):
        write(rows(300), found / name)
    return found


@pytest.mark.few(9)
@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("name", NAMES)
def test_the_bytes_are_those_of_two_commands(
    name: str, suffix: str, folder: Path, invoke: Invoke
) -> None:
    if name == "tandem" and not (folder / "beta.json").exists():
        make(folder / "beta.json", *words(FITS["beta"], folder, folder / "rows.csv"))
    line = words(FITS[name], folder, folder / f"rows.{suffix}")
    one = Path(f"one.{suffix}")
    invoke(*line, "--apply", one, "-o one.json").succeeded(f"300 rows written to {one}.")
    model = make("two.json", *line)
    null = ["--on-missing", "null"] if "drop" in line else []
    two = make(f"two.{suffix}", "apply", model, line[1], *null)
    assert Path("one.json").read_bytes() == model.read_bytes()
    assert one.read_bytes() == two.read_bytes()


@pytest.mark.parametrize("given", ["rows.csv", "-"])
@pytest.mark.parametrize(
    "line", ["calibrate --method platt -o m.json --apply", "bin --add-level -o"]
)
def test_text_that_is_not_read_stays_as_it_is_written(
    line: str, given: str, tmp_path: Path, command: Callable[..., CompletedProcess[bytes]]
) -> None:
    text = "id,Score,label,amount\n" + "007,0.8,1,1.50\n008,0.25,0,NA\n" * 20
    (tmp_path / "rows.csv").write_text(text)
    name, *more = line.split()
    done = command(name, given, *more, "out.csv", input=text.encode(), cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    first, second = (tmp_path / "out.csv").read_text().splitlines()[1:3]
    assert first.startswith("007,0.8,1,1.50,") and second.startswith("008,0.25,0,NA,")


def test_rows_that_the_fit_left_out_have_null(invoke: Invoke) -> None:
    frame = rows(60).with_columns(score=pl.Series([None, *[0.1, 0.4, 0.8] * 20][:60]))
    source, out = write(frame, "rows.parquet"), Path("out.parquet")
    fit = ["calibrate", source, "--method platt -q --apply", out, "-o m.json"]
    invoke(*fit).refused(3)
    done = invoke(*fit, "--on-missing", "drop")
    done.succeeded("1 of 60 rows lack a value: null in the added columns")
    assert pl.read_parquet(out)["calibrated"].is_null().arg_true().to_list() == [0]


def test_rows_go_to_pipes_and_folders(
    folder: Path, invoke: Invoke, command: Callable[..., CompletedProcess[bytes]]
) -> None:
    fit, source = ("calibrate", "--method", "platt", "-q"), folder / "rows.csv"
    model = Path("m.json")
    piped = command(*fit, "-", "--apply", "-", "-o", model, input=source.read_bytes())
    assert piped.returncode == 0, piped.stderr
    applied = invoke("apply", model, source, "-o", "-")
    assert piped.stdout == applied.stdout
    two = (source, folder / "rows.parquet")
    shown = invoke(*fit, *two, "--apply", "out/", "--json")
    assert json.loads(shown.stdout)["kind"] == "calibrator"
    Path("again.json").write_bytes(shown.stdout)
    invoke("apply", "again.json", *two, "-q", "-o", "again/")
    for name in ("rows.csv", "rows.parquet"):
        assert (Path("out") / name).read_bytes() == (Path("again") / name).read_bytes()
    plan = invoke(*fit, source, "--apply x.csv", "--dry-run")
    assert "Would apply the model, and write the rows to" in plan.stdout.decode()
    assert not Path("x.csv").exists()


def test_a_boundary_that_draws_needs_a_key(folder: Path, invoke: Invoke) -> None:
    fit = ["boundary", folder / "rows.csv", "--precision", "0.6", "--apply", "x.csv"]
    invoke(*fit, "--method=stochastic").refused(2, "--key")
    invoke(*fit, "--compare").refused(2, "leave --apply out")


def test_a_column_that_is_there_is_not_replaced(invoke: Invoke) -> None:
    write(rows(60).with_columns(calibrated=0.5), "rows.csv")
    line = ("calibrate", "rows.csv", "--method platt --apply x.csv --score score_1 -o m.json")
    invoke(*line).refused(2, "options of `calibkit apply`")
