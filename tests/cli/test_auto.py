"""``calibkit boundary`` as it comes: the method chosen, a logistic surface, and their application."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.score_files import decisions, simulate, write
from tests.conftest import Invoke


def fitted(invoke: Invoke, path: Path, *options: object) -> dict[str, Any]:
    return invoke("boundary", path, *options, "-q", "--json").result()


@pytest.mark.few(4)
@pytest.mark.parametrize(
    "goal",
    [
        ("--precision", "0.75"),
        ("--recall", "0.6"),
        ("--fpr", "0.1"),
        ("--capacity", "0.2"),
        ("--maximize", "mcc"),
        ("--minimize", "cost:1,3"),
    ],
    ids=" ".join,
)
def test_the_default_chooses_and_says_among_what(
    tmp_path: Path, goal: tuple[str, ...], invoke: Invoke
) -> None:
    path, out = write(simulate(800), tmp_path / "a.parquet"), tmp_path / "b.json"
    done = invoke("boundary", path, *goal, "-o", out)
    done.succeeded("Chosen by cross-validation among st, logistic and exact")
    model = json.loads(out.read_bytes())
    assert model["provenance"]["options"]["method"] == "auto"
    assert model["method"] in ("st", "logistic", "exact")
    assert len(model["fit"]["candidates"]) == 7
    shown = invoke("show", out).stdout.decode()
    assert "Candidates, cross-validated" in shown and "gap" in shown


@pytest.mark.more
def test_the_choice_does_not_find_less_at_the_bound_than_another(
    tmp_path: Path, invoke: Invoke
) -> None:
    # Here a surface once was chosen that found .32 of the positives where one threshold finds .34.
    path, out = tmp_path / "rows.parquet", tmp_path / "model.json"
    assert invoke("simulate", "posterior", "--rows", 1_000_000, "-q", "-o", path).code == 0
    model = invoke("boundary", path, "--precision", "0.7", "-q", "-o", out).result()
    seen = model["fit"]["candidates"]
    own = next(
        one
        for one in seen
        if one["method"] == model["method"]
        and (one["method"] != "exact" or one["uncertainty_bins"] == len(model["score_thresholds"]))
    )
    most = max(one["recall_at_bound"] for one in seen if one["within_bound"])
    assert most - own["recall_at_bound"] <= own["at_bound_standard_error"]
    assert own["recall_at_bound"] > seen[0]["recall_at_bound"] + 0.02
    assert model["fit"]["cross_validated"]["recall"] > 0.36
    shown = invoke("show", out, "--all").stdout.decode()
    assert "of those within an error of the best recall at the bound" in shown


@pytest.mark.parametrize(("goal", "key"), [("--precision", "recall"), ("--recall", "precision")])
def test_candidates_are_judged_at_the_bound(
    tmp_path: Path, goal: str, key: str, invoke: Invoke
) -> None:
    path = write(simulate(800), tmp_path / "a.parquet")
    seen = fitted(invoke, path, goal, "0.6")["fit"]["candidates"]
    assert all(0 < one[f"{key}_at_bound"] <= 1 for one in seen)
    assert min(one["at_bound_standard_error"] for one in seen) == 0.0
    seen = fitted(invoke, path, "--maximize", "f1")["fit"]["candidates"]
    assert not any("at_bound" in name for one in seen for name in one)


def test_the_plan_names_every_candidate(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate(), tmp_path / "a.parquet")
    plan = invoke("boundary", path, "--precision", "0.75", "--dry-run").stdout.decode()
    for words in ("by st over 1", "by logistic over 100", "by exact over 11", "the simplest"):
        assert words in plan


def test_a_comparison_has_the_choice_in_a_row(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate(), tmp_path / "a.parquet")
    done = invoke("boundary", path, "--precision", "0.75", "--compare", "--json")
    rows = {row["method"]: row for row in json.loads(done.stdout)["compare"]}
    assert {"auto", "st", "logistic", "exact", "mist"} <= set(rows)
    assert rows["auto"]["note"].startswith("chooses ")
    chosen = rows[rows["auto"]["note"].removeprefix("chooses ")]
    if chosen["method"] != "exact":
        assert chosen["recall"] == rows["auto"]["recall"]


@pytest.mark.parametrize("options", [[], ["--uncertainty-bins", "4"], ["--weight", "weight"]])
def test_a_surface_is_applied_as_it_was_fitted(
    tmp_path: Path, options: list[str], invoke: Invoke
) -> None:
    frame = simulate(700)
    path, out, rows = (tmp_path / name for name in ("a.csv", "b.json", "rows.parquet"))
    write(frame, path)
    model = fitted(invoke, path, "--precision", "0.75", "--method", "logistic", *options)
    out.write_text(json.dumps(model))
    found = invoke("apply", out, path, "-o", rows, "-q").result()
    assert found["decision"].to_list() == decisions(model, frame)
    assert (found["decision"] == 1).to_list() == (found["margin"] >= 0).to_list()
    weight = frame["weight"] if "--weight" in options else pl.repeat(1, frame.height, eager=True)
    selected = model["fit"]["in_sample"]["selected"]
    assert selected == weight.filter(found["decision"] == 1).sum()
    assert set(model["coefficients"]) == {"intercept", "score", "uncertainty", "product"}
    assert 0 < model["cut"] < 1
    assert len(model["uncertainty_ranks"]) == len(model["score_thresholds"])
    if "--uncertainty-bins" in options:
        assert len(model["score_thresholds"]) == 4


def test_a_frontier_is_that_of_thresholds(tmp_path: Path, invoke: Invoke) -> None:
    path, table = write(simulate(), tmp_path / "a.parquet"), tmp_path / "frontier.csv"
    done = invoke("boundary", path, "--precision", "0.75", "--frontier", table, "--json", "-q")
    assert done.code == 0, done.stderr
    assert pl.read_csv(table).height > 1


def test_what_does_not_go_together(tmp_path: Path, invoke: Invoke) -> None:
    path, grid = write(simulate(), tmp_path / "a.parquet"), tmp_path / "grid.parquet"
    assert invoke("bin", path, "--score-bins", "20", "-o", grid).code == 0
    for given, word in (
        ([path, "--method", "logistic", "--score-bins", "9"], "--score-bins"),
        ([grid, "--method", "logistic"], "needs the rows"),
        ([path, "--folds", "0", "--uncertainty-bins", "auto"], "--folds"),
    ):
        done = invoke("boundary", *given, "--precision", "0.75")
        assert done.code == 2 and word in done.stderr
    assert invoke("boundary", grid, "--precision", "0.75", "-o", tmp_path / "b.json").code == 0


def test_scores_that_are_clipped_or_infinite(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(300).with_row_index()
    sure = frame.with_columns(score=pl.when(pl.col("index") < 5).then(1.0).otherwise("score"))
    path = write(sure.drop("index"), tmp_path / "a.csv")
    out = tmp_path / "b.json"
    done = invoke("boundary", path, "--precision", "0.7", "--method", "logistic", "-o", out)
    assert "5 scores within 1e-6 of 0 or 1" in done.stderr
    endless = frame.with_columns(
        score=pl.when(pl.col("index") < 5).then(float("inf")).otherwise("score")
    )
    path = write(endless.drop("index"), tmp_path / "inf.csv")
    line = ("boundary", path, "--precision", "0.5", "--scale", "raw", "-q", "--json")
    refused = invoke(*line, "--method", "logistic")
    error = json.loads(refused.stdout)["error"]
    assert (refused.code, error["column"], error["rows"]) == (3, "score", 5)
    assert invoke(*line).code == 0
