"""``calibkit validate``: all that is wrong with rows, in one report."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.validation.findings import Report
from tests.conftest import ROOT, Invoke


def good(rows: int = 400, seed: int = 0) -> pl.DataFrame:
    rng = np.random.default_rng(seed)
    score = rng.random(rows)
    return pl.DataFrame(
        {
            "id": range(rows),
            "score": score,
            "label": (rng.random(rows) < score).astype(np.int8),
            "uncertainty": rng.normal(size=rows),
            "country": np.array(["at", "ch", "de"])[rng.integers(0, 3, rows)],
        }
    )


def found(report: Report) -> set[tuple[str, str, str | None]]:
    return {(one.level, one.check, one.column) for one in report.findings}


def test_good_rows_give_no_finding() -> None:
    report = ck.validate(good(), by="country")
    assert report.ok
    assert report.findings == []
    assert [(one.role, one.column, one.missing) for one in report.columns] == [
        ("score", "score", 0),
        ("label", "label", 0),
        ("uncertainty", "uncertainty", 0),
        ("by", "country", 0),
    ]
    simulated = [
        ck.validate(ck.simulate_posterior(2_000, seed=1)),
        ck.validate(ck.simulate_partitions(2_000, seed=1)),
        ck.validate(ck.simulate_selection(500, train_rows=400), members="score_*"),
        ck.validate(ck.simulate_raters(500, raters=3)),
        ck.validate(str(ROOT / "sample_data" / "calib.parquet")),
        ck.validate(str(ROOT / "sample_data" / "scores.csv")),
    ]
    assert [one.findings for one in simulated] == [[]] * 6


#: What is done to good rows, the options, and what is found then.
SPOILT: dict[str, tuple[dict[str, pl.Expr], dict[str, Any], set[tuple[str, str, str | None]]]] = {
    "missing": (
        {"score": pl.when(pl.col("id") == 7).then(None).otherwise("score"),
         "uncertainty": pl.when(pl.col("id") == 8).then(float("nan")).otherwise("uncertainty")},
        {}, {("error", "missing", "score"), ("error", "missing", "uncertainty")}),
    "left out": (
        {"score": pl.when(pl.col("id") == 7).then(None).otherwise("score")},
        {"on_missing": "drop"}, {("warning", "missing", "score")}),
    "unlabelled": (
        {"label": pl.when(pl.col("id") < 3).then(None).otherwise("label")},
        {"unlabelled": "drop"}, {("warning", "missing", "label")}),
    "range": (
        {"score": pl.when(pl.col("id") == 7).then(1.5).otherwise("score")},
        {}, {("error", "range", "score")}),
    "infinite": (
        {"score": pl.when(pl.col("id") == 7).then(float("inf")).otherwise("score")},
        {"scale": "raw"}, {("warning", "range", "score")}),
    "text": ({"score": pl.lit("a")}, {}, {("error", "type", "score")}),
    "labels": ({"label": pl.col("label") + 1}, {}, {("error", "labels", "label")}),
    "one class": ({"label": pl.lit(1)}, {}, {("error", "classes", "label")}),
    "scale": ({}, {"scale": "logit"}, {("warning", "scale", "score")}),
    "constant": (
        {"score": pl.lit(0.5), "uncertainty": pl.lit(1)},
        {}, {("warning", "constant", "score"), ("warning", "constant", "uncertainty")}),
    "decision": ({"score": pl.col("score").round()}, {}, {("warning", "ties", "score")}),
    "ties": (
        {"score": pl.max_horizontal("score", pl.lit(0.7))}, {}, {("warning", "ties", "score")}),
    "three scores": (
        {"score": pl.when(pl.col("score") < 0.7).then(0.4)
         .otherwise(pl.when(pl.col("score") < 0.8).then(0.75).otherwise(0.9))},
        {}, {("warning", "ties", "score")}),
    "inverted": ({"score": 1 - pl.col("score")}, {}, {("warning", "ranking", "score")}),
    "segments": (
        {"label": pl.when(pl.col("country") == "at").then(0).otherwise("label")},
        {"by": "country"}, {("warning", "classes", "country")}),
    "no segment": (
        {"country": pl.when(pl.col("id") == 7).then(None).otherwise("country")},
        {"by": "country", "on_missing": "drop"}, {("warning", "missing", "country")}),
    "few groups": ({}, {"groups": "country"}, {("warning", "groups", "country")}),
    "alone": ({}, {"groups": "id"}, {("note", "groups", "id")}),
    "large group": (
        {"user": pl.when(pl.col("id") < 300).then(0).otherwise("id")},
        {"groups": "user"}, {("warning", "groups", "user")}),
    "groups of a class": (
        {"user": pl.col("id") // 4}, {"groups": "user"}, {("note", "classes", "user")}),
    "time": ({"day": pl.lit(3)}, {"time": "day"}, {("warning", "constant", "day")}),
    "times": ({"day": pl.concat_list("id")}, {"time": "day"}, {("error", "type", "day")}),
    "lists of groups": (
        {"g": pl.concat_list("id")}, {"groups": "g"}, {("error", "type", "g")}),
    "lists of segments": ({"g": pl.concat_list("id")}, {"by": "g"}, {("error", "type", "g")}),
    "weights": (
        {"w": pl.when(pl.col("id") == 1).then(-1).otherwise(1)},
        {"weight": "w"}, {("error", "range", "w")}),
    "no weight": ({"w": pl.lit(0)}, {"weight": "w"}, {("error", "range", "w")}),
    "huge weights": ({"w": pl.lit(1e308)}, {"weight": "w"}, {("error", "range", "w")}),
    "heavy": (
        {"w": pl.when(pl.col("id") == 1).then(9999).when(pl.col("id") == 2).then(0).otherwise(1)},
        {"weight": "w"}, {("warning", "weights", "w"), ("note", "weights", "w")}),
    "replicates": (
        {"m_1": pl.col("score"), "m_2": pl.col("score")},
        {"members": "m_*"}, {("warning", "duplicates", "m_2")}),
    "features": (
        {"f_1": pl.lit("x"), "f_2": pl.col("id").cast(pl.String), "f_3": pl.concat_list("id"),
         "f_4": pl.when(pl.col("id") == 1).then(None).otherwise("id"), "f_5": pl.col("country")},
        {"features": "f_*"},
        {("warning", "constant", "f_1"), ("warning", "constant", "f_2"), ("error", "type", "f_3"),
         ("note", "missing", "f_4")}),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_is_found(name: str) -> None:
    columns, options, expected = SPOILT[name]
    report = ck.validate(good().with_columns(**columns), **options)
    assert found(report) == expected
    assert report.ok == (not any(level == "error" for level, *_ in expected))
    assert (report.errors, report.warnings, report.notes) == tuple(
        sum(one.level == level for one in report.findings) for level in ("error", "warning", "note")
    )


def test_decimals_have_ends_too() -> None:
    frame = good().with_columns(pl.col("score").cast(pl.Decimal(10, 6)))
    (score, *_) = ck.validate(frame).columns
    assert score.low == frame["score"].cast(pl.Float64).min()


def test_a_finding_names_its_place_once() -> None:
    (finding,) = ck.validate(good(), positive="x").findings
    assert finding.message.startswith("no row has the positive class 'x'")
    assert (finding.file, finding.column) == ("frame", "label")


def test_rows_that_are_there_twice() -> None:
    rows = good(50)
    twice = pl.concat([rows, rows[[3, 3, 7]]])
    (finding,) = ck.validate(twice).findings
    assert (finding.level, finding.check, finding.rows) == ("warning", "duplicates", 3)
    assert finding.first_rows == [51, 52, 53]
    (finding,) = ck.validate(twice.select("score", "label")).findings
    assert finding.level == "note"  # scores may well be equal


@pytest.mark.parametrize(
    ("shift", "advice"),
    [
        (lambda p: p * 100, "percentages"),
        (lambda p: p * 8 - 4, "logits"),
        (lambda p: p * 900, "scale="),
    ],
)
def test_another_scale_is_guessed(shift: Callable[[pl.Expr], pl.Expr], advice: str) -> None:
    (finding,) = ck.validate(good().with_columns(shift(pl.col("score")))).findings
    assert finding.check == "range"
    assert advice in finding.message


def votes() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    probs = rng.dirichlet([1, 1, 1], 60)
    counts = rng.multinomial(3, [0.3, 0.3, 0.4], 60)
    return pl.DataFrame(
        {f"prob_{k}": probs[:, k] for k in range(3)}
        | {f"count_{k}": counts[:, k] for k in range(3)}
    ).with_columns(row=pl.int_range(60))


OF_CLASSES: dict[str, tuple[dict[str, pl.Expr], dict[str, Any], set[tuple[str, str, str | None]]]] = {
    "sum": ({"prob_0": pl.col("prob_0") / 2}, {}, {("error", "probabilities", "prob_*")}),
    "missing": (
        {"prob_0": pl.when(pl.col("row") == 1).then(None).otherwise("prob_0")},
        {}, {("error", "missing", "prob_0")}),
    "pairs": ({"count_9": pl.lit(1)}, {}, {("error", "pairs", None)}),
    "votes": (
        {"count_1": pl.when(pl.col("row") == 1).then(-1).when(pl.col("row") == 2).then(0.5)
         .otherwise("count_1")}, {}, {("error", "votes", "count_1")}),
    "no votes": (
        {f"count_{k}": pl.when(pl.col("row") == 1).then(0).when(pl.col("row") == 2).then(k == 1)
         .otherwise(f"count_{k}") for k in range(3)},
        {}, {("warning", "votes", "count_*"), ("note", "votes", "count_*")}),
    "text": ({"count_1": pl.lit("a")}, {}, {("error", "type", "count_1")}),
}  # fmt: skip


@pytest.mark.parametrize("name", OF_CLASSES)
def test_class_probabilities_and_votes(name: str) -> None:
    columns, options, expected = OF_CLASSES[name]
    assert found(ck.validate(votes(), **options)) == set()
    assert found(ck.validate(votes().with_columns(**columns), **options)) == expected


def test_labels_that_name_a_class() -> None:
    rows = votes().drop("count_0", "count_1", "count_2")
    labelled = rows.with_columns(label=pl.col("row") % 3)
    assert ck.validate(labelled).findings == []
    two = ck.validate(labelled.with_columns(label=pl.col("row") % 2))
    assert found(two) == {("warning", "classes", "label")}
    four = ck.validate(labelled.with_columns(label=pl.col("row") % 4))
    assert found(four) == {("error", "labels", "label")}


def write(frame: pl.DataFrame, folder: Path, name: str = "rows.csv") -> Path:
    path = folder / name
    frame.write_csv(path)
    return path


def test_the_command_reports_and_fails(tmp_path: Path, invoke: Invoke) -> None:
    fine, odd = write(good(), tmp_path), good().with_columns(score=1 - pl.col("score"))
    done = invoke("validate", fine)
    assert done.code == 0
    assert json.loads(done.stdout)["findings"] == []
    assert done.stderr == "400 rows in 1 file: usable; no problems found.\n"
    warned = write(odd, tmp_path, "odd.csv")
    assert invoke("validate", warned, "-q").code == 0
    assert invoke("validate", warned, "--warnings", "error", "-q").code == 3
    bad = write(odd.with_columns(label=pl.lit(1)), tmp_path, "bad.csv")
    output = tmp_path / "report.json"
    done = invoke("validate", bad, "-o", output)
    done.refused(3, "error (classes): column 'label': all rows are positive")
    report = json.loads(output.read_bytes())
    assert (report["errors"], report["rows"], report["files"]) == (1, 400, [str(bad)])
    done = invoke("validate", bad, "--json")
    assert (done.code, json.loads(done.stdout), done.stderr) == (3, report, "")


def test_text_for_no_value_is_a_class_where_the_positive_one_is_named(
    tmp_path: Path, invoke: Invoke
) -> None:
    path = tmp_path / "rows.csv"
    path.write_text("score,label\n" + "0.9,1\n0.2,0\n0.1,NA\n" * 9)
    assert invoke("validate", path).code == 3
    assert invoke("validate", path, "--positive", "1").code == 0


def test_a_file_that_is_named_twice_is_told(tmp_path: Path, invoke: Invoke) -> None:
    path = write(good(), tmp_path)
    first, again = json.loads(invoke("validate", path, path, "--json").stdout)["findings"]
    assert (first["level"], first["check"]) == ("warning", "file")
    said = f"{path} is among the inputs more than once: its rows count each time"
    assert first["message"] == said
    assert (again["check"], again["rows"]) == ("duplicates", 400)


def test_files_that_cannot_be_read_are_reported(tmp_path: Path, invoke: Invoke) -> None:
    twice = tmp_path / "twice.csv"
    twice.write_text("score,score,label\n0.1,0.2,1\n")
    done = invoke("validate", twice, "--json")
    assert done.code == 3
    said = invoke("validate", twice).stderr
    assert said.startswith("1 file: not usable as it is; 1 error.")
    (finding,) = json.loads(done.stdout)["findings"]
    assert (finding["check"], finding["column"]) == ("file", "score")
    (tmp_path / "empty.csv").write_text("score,label\n")
    assert invoke("validate", tmp_path / "empty.csv").code == 3
    assert invoke("validate", tmp_path / "nowhere.csv").code == 2


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--score", "scor"], "did you mean 'score'"),
        (["--features", "f_*"], "--features 'f_*' matches no column"),
        (["-o", "reports/"], "one report"),
        (["-o", "rows.csv"], "the result is JSON"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    options: list[str], message: str, tmp_path: Path, invoke: Invoke
) -> None:
    invoke("validate", write(good(20), tmp_path), *options).refused(2, message)


def test_something_has_to_be_looked_at(tmp_path: Path, invoke: Invoke) -> None:
    done = invoke("validate", write(pl.DataFrame({"a": [1], "b": [2]}), tmp_path))
    done.refused(2, "no column to check")


#: Columns that no role can make anything of, and some that one can.
ODD = {
    "null": [None] * 6,
    "nan": [float("nan")] * 6,
    "mixed": [None, float("nan"), float("inf")] * 2,
    "text": list("abcdef"),
    "blank": [""] * 6,
    "words": ["t", "f"] * 3,
    "lists": [[1, 2]] * 6,
    "empty": pl.Series([[]] * 6, dtype=pl.List(pl.Float64)),
    "struct": [{"a": 1}] * 6,
    "binary": [b"x"] * 6,
    "date": [date(2026, 1, 1)] * 6,
    "big": [2**60] * 6,
    "tiny": [5e-324] * 6,
    "huge": [1e308] * 6,
    "category": pl.Series(["a", "b"] * 3, dtype=pl.Categorical),
}
ROLES = ["score", "label", "uncertainty", "weight", "groups", "time", "by", "members", "probs",
         "counts", "features"]  # fmt: skip


@pytest.mark.parametrize("role", ROLES)
def test_whatever_a_column_holds_there_is_a_report(role: str) -> None:
    frame = pl.DataFrame({"f": [0.1, 0.9, 0.2, 0.8, 0.3, 0.7], "i": [0, 1] * 3, **ODD})
    for name in ODD:
        options: dict[str, Any] = {"score": "f", "label": "i", role: name}
        for how in ("error", "drop"):
            try:
                report = ck.validate(frame, **options, on_missing=how, unlabelled=how)
            except ck.UsageError:
                continue
            assert json.loads(report.to_json())["rows"] == 6
