"""``calibkit validate``: all that is wrong with rows, in one report."""

from __future__ import annotations

import json
import math
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.validation.findings import Report
from tests.cli.score_files import write
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


def found(report: Report) -> set[str]:
    """Return level, check and column of each finding, as the tables below write them."""
    return {" ".join(filter(None, (one.level, one.check, one.column))) for one in report.findings}


def expected(text: str) -> set[str]:
    return set(text.split(", ")) - {""}


def at(row: object, value: object, other: str | pl.Expr, key: str = "id") -> pl.Expr:
    """Return a column with another value in one row."""
    return pl.when(pl.col(key) == row).then(pl.lit(value)).otherwise(other)


def below(row: int, value: object, other: str) -> pl.Expr:
    """Return a column with another value in all rows before one."""
    return pl.when(pl.col("id") < row).then(pl.lit(value)).otherwise(other)


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
SPOILT: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "missing": (
        {"score": at(7, None, "score"), "uncertainty": at(8, float("nan"), "uncertainty")},
        {}, "error missing score, error missing uncertainty"),
    "left out": (
        {"score": at(7, None, "score")}, {"on_missing": "drop"}, "warning missing score"),
    "unlabelled": (
        {"label": below(3, None, "label")}, {"unlabelled": "drop"}, "warning missing label"),
    "range": ({"score": at(7, 1.5, "score")}, {}, "error range score"),
    "infinite": (
        {"score": at(7, float("inf"), "score")}, {"scale": "raw"}, "warning range score"),
    "text": ({"score": pl.lit("a")}, {}, "error type score"),
    "labels": ({"label": pl.col("label") + 1}, {}, "error labels label"),
    "one class": ({"label": 1}, {}, "error classes label"),
    "scale": ({}, {"scale": "logit"}, "warning scale score"),
    "constant": (
        {"score": 0.5, "uncertainty": 1}, {}, "warning constant score, warning constant uncertainty"),
    "decision": ({"score": pl.col("score").round()}, {}, "warning ties score"),
    "ties": ({"score": pl.max_horizontal("score", 0.7)}, {}, "warning ties score"),
    "three scores": (
        {"score": pl.when(pl.col("score") < 0.7).then(0.4)
         .otherwise(0.75 + 0.15 * (pl.col("score") >= 0.8))}, {}, "warning ties score"),
    "inverted": ({"score": 1 - pl.col("score")}, {}, "warning ranking score"),
    "segments": (
        {"label": at("at", 0, "label", "country")}, {"by": "country"}, "warning classes country"),
    "no segment": (
        {"country": at(7, None, "country")}, {"by": "country", "on_missing": "drop"},
        "warning missing country"),
    "few groups": ({}, {"groups": "country"}, "warning groups country"),
    "alone": ({}, {"groups": "id"}, "note groups id"),
    "large group": ({"user": below(300, 0, "id")}, {"groups": "user"}, "warning groups user"),
    "groups of a class": ({"user": pl.col("id") // 4}, {"groups": "user"}, "note classes user"),
    "time": ({"day": 3}, {"time": "day"}, "warning constant day"),
    "times": ({"day": pl.concat_list("id")}, {"time": "day"}, "error type day"),
    "lists of groups": ({"g": pl.concat_list("id")}, {"groups": "g"}, "error type g"),
    "lists of segments": ({"g": pl.concat_list("id")}, {"by": "g"}, "error type g"),
    "weights": ({"w": at(1, -1, pl.lit(1))}, {"weight": "w"}, "error range w"),
    "no weight": ({"w": 0}, {"weight": "w"}, "error range w"),
    "huge weights": ({"w": 1e308}, {"weight": "w"}, "error range w"),
    "heavy": (
        {"w": at(1, 9999, at(2, 0, pl.lit(1)))}, {"weight": "w"},
        "warning weights w, note weights w"),
    "weightless class": (
        {"w": 1 - pl.col("label")}, {"weight": "w"}, "error classes w, note weights w"),
    "replicates": (
        {"m_1": pl.col("score"), "m_2": pl.col("score")}, {"members": "m_*"},
        "warning duplicates m_2"),
    "features": (
        {"f_1": pl.lit("x"), "f_2": pl.col("id").cast(pl.String), "f_3": pl.concat_list("id"),
         "f_4": at(1, None, "id"), "f_5": pl.col("country"),
         "f_6": pl.lit(date(2024, 1, 1)) + pl.duration(days="label"), "f_7": at(1, math.inf, "score"),
         "f_8": pl.col("label") > 0}, {"features": "f_*"},
        "warning constant f_1, warning constant f_2, error type f_3, note missing f_4, "
        "error type f_6, error range f_7"),
}  # fmt: skip


@pytest.mark.parametrize("name", SPOILT)
def test_what_is_wrong_is_found(name: str) -> None:
    columns, options, said = SPOILT[name]
    report = ck.validate(good().with_columns(**columns), **options)
    assert found(report) == expected(said)
    assert report.ok == ("error" not in said)
    levels = [one.split()[0] for one in said.split(", ")]
    counted = tuple(levels.count(level) for level in ("error", "warning", "note"))
    assert (report.errors, report.warnings, report.notes) == counted


@pytest.mark.parametrize(
    ("score", "options", "check", "advice"),
    [
        (pl.col("score") * 100, {}, "range", "percentages"),
        (pl.col("score") * 8 - 4, {}, "range", "logits"),
        (pl.col("score") * 900, {}, "range", "scale="),
        (pl.col("score"), {"positive": "x"}, "labels", "no row has the positive class 'x'"),
    ],
)
def test_another_scale_is_guessed_and_a_finding_names_its_place_once(
    score: pl.Expr, options: dict[str, Any], check: str, advice: str
) -> None:
    (finding,) = ck.validate(good().with_columns(score), **options).findings
    place = (finding.check, finding.file, finding.column)
    assert place == (check, "frame", "label" if options else "score")
    assert advice in finding.message and not finding.message.startswith(("frame", "column"))


def test_decimals_have_ends_too() -> None:
    frame = good().with_columns(pl.col("score").cast(pl.Decimal(10, 6)))
    (score, *_) = ck.validate(frame).columns
    assert score.low == frame["score"].cast(pl.Float64).min()


def test_rows_that_are_there_twice() -> None:
    rows = good(50)
    twice = pl.concat([rows, rows[[3, 3, 7]]])
    (finding,) = ck.validate(twice).findings
    assert (finding.level, finding.check, finding.rows) == ("warning", "duplicates", 3)
    assert finding.first_rows == [51, 52, 53]
    (finding,) = ck.validate(twice.select("score", "label")).findings
    assert finding.level == "note"  # scores may well be equal


def votes() -> pl.DataFrame:
    rng = np.random.default_rng(1)
    probs = rng.dirichlet([1, 1, 1], 60)
    counts = rng.multinomial(3, [0.3, 0.3, 0.4], 60)
    return pl.DataFrame(
        {f"prob_{k}": probs[:, k] for k in range(3)}
        | {f"count_{k}": counts[:, k] for k in range(3)}
    ).with_columns(row=pl.int_range(60))


OF_CLASSES: dict[str, tuple[dict[str, Any], str]] = {
    "sum": ({"prob_0": pl.col("prob_0") / 2}, "error probabilities prob_*"),
    "missing": ({"prob_0": at(1, None, "prob_0", "row")}, "error missing prob_0"),
    "pairs": ({"count_9": 1}, "error pairs"),
    "votes": (
        {"count_1": at(1, -1, at(2, 0.5, "count_1", "row"), "row")}, "error votes count_1"),
    "no votes": (
        {f"count_{k}": at(1, 0, at(2, int(k == 1), f"count_{k}", "row"), "row") for k in range(3)},
        "warning votes count_*, note votes count_*"),
    "text": ({"count_1": pl.lit("a")}, "error type count_1"),
}  # fmt: skip


def test_columns_are_found_as_a_fit_finds_them() -> None:
    odd = good().with_columns(at(7, 1.5, "score").alias("score"))
    report = ck.validate(odd.rename({"score": "Score", "label": " label", "uncertainty": "U"}))
    assert [one.column for one in report.columns] == ["score", "label"]
    assert found(report) == {"error range score"}
    with pytest.raises(ck.UsageError, match="could be meant"):
        ck.validate(odd.rename({"score": "Score", "uncertainty": "SCORE"}))


@pytest.mark.parametrize("name", OF_CLASSES)
def test_class_probabilities_and_votes(name: str) -> None:
    columns, said = OF_CLASSES[name]
    assert found(ck.validate(votes())) == set()
    assert found(ck.validate(votes().with_columns(**columns))) == expected(said)


def test_class_probabilities_have_the_scales_that_fits_take() -> None:
    with pytest.raises(ck.UsageError, match="scale='raw' is not for class"):
        ck.validate(votes(), probs="prob_*", scale="raw")


@pytest.mark.parametrize(
    ("classes", "said"),
    [(3, ""), (2, "warning classes label"), (4, "error labels label")],
)
def test_labels_that_name_a_class(classes: int, said: str) -> None:
    rows = votes().drop("count_0", "count_1", "count_2")
    report = ck.validate(rows.with_columns(label=pl.col("row") % classes))
    assert found(report) == expected(said)
    # Beside votes a label is looked at if it is named.
    both = votes().with_columns(label=pl.col("row") % classes)
    assert found(ck.validate(both)) == set()
    assert found(ck.validate(both, label="label")) == expected(said)


def test_the_command_reports_and_fails(invoke: Invoke) -> None:
    odd = good().with_columns(score=1 - pl.col("score"))
    fine, warned, bad = (
        write(frame, Path(name))
        for frame, name in (
            (good(), "rows.csv"),
            (odd, "odd.csv"),
            (odd.with_columns(label=1), "bad.csv"),
        )
    )
    done = invoke("validate", fine)
    assert done.result()["findings"] == []
    assert done.stderr == "400 rows in 1 file: usable; no problems found.\n"
    assert invoke("validate", warned, "-q").code == 0
    assert invoke("validate", warned, "--warnings error -q").code == 3
    output = Path("report.json")
    done = invoke("validate", bad, "-o", output)
    assert (
        done.code == 3 and "error (classes): column 'label': all rows are positive" in done.stderr
    )
    report = json.loads(output.read_bytes())
    assert (report["errors"], report["rows"], report["files"]) == (1, 400, [str(bad)])
    done = invoke("validate", bad, "--json")
    assert (done.code, json.loads(done.stdout), done.stderr) == (3, report, "")


def test_files_that_cannot_be_read_are_reported(invoke: Invoke) -> None:
    twice, empty, text = (Path(f"{name}.csv") for name in ("twice", "empty", "text"))
    twice.write_text("score,score,label\n0.1,0.2,1\n")
    said = invoke("validate", twice)
    assert (said.code, said.stderr.partition(".")[0]) == (3, "1 file: not usable as it is; 1 error")
    (finding,) = json.loads(said.stdout)["findings"]
    assert (finding["check"], finding["column"]) == ("file", "score")
    empty.write_text("score,label\n")
    assert invoke("validate", empty).code == 3
    # Each of several that are broken or unlike the others is named, and the others are looked at.
    odd, less = Path("odd.csv"), Path("less.csv")
    odd.write_text("score,label\n0.1,0\n0.9,1\n2,5\n")
    less.write_text("score\n0.5\n")
    said = json.loads(invoke("validate", odd, twice, less, empty, "--json").stdout)
    assert (said["rows"], said["files"]) == (3, ["odd.csv", "twice.csv", "empty.csv", "less.csv"])
    assert [(one["check"], one["file"]) for one in said["findings"]] == [
        ("file", "twice.csv"),
        ("file", "empty.csv"),
        ("file", "less.csv"),
        ("range", "odd.csv"),
        ("labels", "odd.csv"),
    ]
    less.write_text("other\n0.5\n")
    said = json.loads(invoke("validate", less, twice, "--json").stdout)
    told = [(one["check"], one["file"]) for one in said["findings"]]
    assert told == [("file", "twice.csv"), ("file", "less.csv")]
    assert "no column to check" in invoke("validate", less).stderr
    # Text for no value is a class where the positive one is named.
    text.write_text("score,label\n" + "0.9,1\n0.2,0\n0.1,NA\n" * 9)
    assert invoke("validate", text).code == 3
    assert invoke("validate", text, "--positive 1").code == 0
    # A file that is named twice.
    path = write(good(), "rows.csv")
    first, again = json.loads(invoke("validate", path, path, "--json").stdout)["findings"]
    assert (first["level"], first["check"]) == ("warning", "file")
    assert first["message"] == (
        f"{path} is among the inputs more than once: its rows count each time"
    )
    assert (again["check"], again["rows"]) == ("duplicates", 400)


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
