"""Block, review or pass from the command line: bounds, files, exports, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.files.frames import open_frame
from calibkit.methods.boundary.result.fit import fit_boundary
from calibkit.methods.boundary.run import read_boundary_rows
from calibkit.options.boundary import BoundaryOptions
from tests.conftest import Invoke


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    random = np.random.default_rng(5)
    doubt = random.random(3000)
    truth = random.normal(0.0, 1.5, 3000)
    score = 1.0 / (1.0 + np.exp(-truth - random.normal(0.0, 2.0, 3000) * doubt))
    path = tmp_path_factory.mktemp("rows") / "rows.parquet"
    pl.DataFrame(
        {
            "score": score.round(3),
            "uncertainty": doubt.round(2),
            "label": (random.random(3000) < 1.0 / (1.0 + np.exp(-truth))).astype(np.int64),
            "weight": random.integers(1, 4, 3000) / 4,
        }
    ).write_parquet(path)
    return path


def fit(invoke: Invoke, rows: Path, *options: object) -> tuple[Path, dict[str, Any]]:
    model = rows.parent / "model.json"
    return model, invoke("boundary", rows, *options, "-o", model).result()


def counts(frame: pl.DataFrame, weight: str = "one") -> dict[str, float]:
    frame = frame.with_columns(one=1.0)
    block, reach = pl.col("decision") == "block", pl.col("decision") != "pass"
    w, hit = pl.col(weight), pl.col(weight) * pl.col("label")
    return frame.select(
        precision=hit.filter(block).sum() / w.filter(block).sum(),
        recall=hit.filter(reach).sum() / hit.sum(),
        reviewed=w.filter(reach & ~block).sum(),
    ).row(0, named=True)


@pytest.mark.parametrize("method", [[], ["--method", "exact"], ["--method", "st"]])
def test_least_review_is_within_both_bounds(
    method: list[str], rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    model, said = fit(invoke, rows, "--precision", 0.8, "--recall", 0.7, *method)
    out = tmp_path / "out.parquet"
    seen = counts(invoke("apply", model, rows, "-o", out).result())
    fitted = said["fit"]["in_sample"]
    assert seen["precision"] == pytest.approx(fitted["precision"]) and seen["precision"] >= 0.8
    assert seen["recall"] == pytest.approx(fitted["recall"]) and seen["recall"] >= 0.7
    assert seen["reviewed"] == fitted["reviewed"]
    assert fitted["objective_value"] == pytest.approx(seen["reviewed"] / 3000)
    assert said["fit"]["optimal_in_sample"]
    assert said["fit"]["upper_bound"] == fitted["objective_value"]
    assert said["objective"]["minimize"] == "review"
    assert said["objective"]["subject_to"] == {"precision": 0.8, "recall": 0.7}
    checked = said["fit"]["cross_validated"]
    assert checked["objective_value"] == pytest.approx(fitted["objective_value"], abs=0.05)
    levels = len(said["uncertainty_edges"]) + 1
    assert len(said["block_thresholds"]) == len(said["review_thresholds"]) == levels
    assert "block if" in invoke("show", model).stdout.decode()


def test_more_levels_need_no_more_review(rows: Path, invoke: Invoke) -> None:
    bounds = ("--precision", 0.8, "--recall", 0.7, "--folds", 0, "--method", "exact")
    values = [
        fit(invoke, rows, *bounds, "--uncertainty-bins", levels)[1]["fit"]["in_sample"]["reviewed"]
        for levels in (1, 2, 4)
    ]
    assert values[0] >= values[1] >= values[2]


def test_capacity_is_a_check_with_both_bounds(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    bounds = ("--precision", 0.8, "--recall", 0.7, "--method", "exact")
    least = fit(invoke, rows, *bounds)[1]["fit"]["in_sample"]["reviewed"]
    same = fit(invoke, rows, *bounds, "--review-capacity", least)[1]
    assert same["fit"]["in_sample"]["reviewed"] == least
    out = tmp_path / "none.json"
    done = invoke("boundary", rows, *bounds, "--review-capacity", least - 1, "-o", out)
    assert done.code == 4 and f"least review possible is {least:,} rows" in done.stderr
    assert not out.exists()


@pytest.mark.parametrize("capacity", ["200", "0.05"])
def test_one_bound_makes_most_of_the_other(
    capacity: str, rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    most = 200 if capacity == "200" else 150
    for bounded, other in (("precision", "recall"), ("recall", "precision")):
        options = (f"--{bounded}", 0.75, "--review-capacity", capacity, "--method", "exact")
        model, said = fit(invoke, rows, *options)
        seen = counts(invoke("apply", model, rows, "-o", tmp_path / "o.csv").result())
        assert seen["reviewed"] <= most and seen[bounded] >= 0.75
        assert said["objective"]["maximize"] == other
        assert said["fit"]["in_sample"]["objective_value"] == pytest.approx(seen[other])
        none = fit(invoke, rows, f"--{bounded}", 0.75, "--method", "exact")[1]
        assert seen[other] > none["fit"]["in_sample"][other]


@pytest.mark.parametrize(
    "bounds",
    [
        ("--precision", 0.75, "--recall", 0.6, "--review-capacity", 0.6),
        ("--precision", 0.75, "--review-capacity", 0.2),
        ("--recall", 0.7, "--review-capacity", 0.2),
    ],
)
@pytest.mark.parametrize("method", ["auto", "exact", "st"])
def test_three_way_decisions_are_certified(
    bounds: tuple[Any, ...], method: str, rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    model, said = fit(invoke, rows, *bounds, "--confidence", 0.8, "--method", method)
    seen = counts(invoke("apply", model, rows, "-o", tmp_path / "o.parquet").result())
    seen["review_capacity"] = seen["reviewed"] / 3000
    sure = said["fit"]["certificate"]
    assert sure["confidence"] == 0.8 and 1500 < sure["rows"] < 3000
    wanted = {
        flag[2:].replace("-", "_"): bound
        for flag, bound in zip(bounds[::2], bounds[1::2], strict=True)
    }
    assert said["objective"]["subject_to"] == wanted
    for one in sure["promises"]:
        sign = 1.0 if one["side"] == "lower" else -1.0
        assert sign * seen[one["quantity"]] >= sign * wanted[one["quantity"]]
    assert len(sure["promises"]) == len(wanted)
    assert said["fit"]["bound_met"] and said["fit"]["in_sample"]["reviewed"] == seen["reviewed"]
    value, limit = (
        said["fit"]["in_sample"]["objective_value"],
        said["fit"]["upper_bound"],
    )
    assert value >= limit if "minimize" in said["objective"] else value <= limit
    assert "review capacity <= " in invoke("show", model).stdout.decode()


def test_errors_of_sampled_rows_are_of_their_own_objective(rows: Path) -> None:
    """They are over the folds: the influence of a row is that on one threshold."""
    given = BoundaryOptions(
        precision=0.8, recall=0.7, method="st", weight="weight", weight_kind="sampling"
    )
    fitted = fit_boundary(read_boundary_rows(given, open_frame(rows)), given)
    shares = [fold.reviewed / fold.rows for fold in fitted.folds]
    spread = np.std(shares, ddof=1) / len(shares) ** 0.5
    assert fitted.model.fit.cross_validated.standard_error == pytest.approx(spread)


def test_weights_shards_and_one_run(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    options = ("--precision 0.8 --review-capacity 100 --weight weight --method exact --folds 2",)
    model, _ = fit(invoke, rows, *options)
    seen = counts(invoke("apply", model, rows, "-o", tmp_path / "o.parquet").result(), "weight")
    assert seen["reviewed"] <= 100 and seen["precision"] >= 0.8
    frame = pl.read_parquet(rows)
    states = []
    for k in range(2):
        part = tmp_path / f"part{k}.parquet"
        frame[k::2].write_parquet(part)
        states.append(tmp_path / f"{k}.state")
        assert invoke("boundary", part, *options, "--partial", "-o", states[-1]).code == 0
    merged = tmp_path / "merged.json"
    assert invoke("merge", *reversed(states), "-o", merged).code == 0
    assert merged.read_bytes() == model.read_bytes()


def test_evaluate_judges_block_and_both(rows: Path, invoke: Invoke) -> None:
    model, said = fit(invoke, rows, "--precision", 0.8, "--recall", 0.7)
    done = invoke("evaluate", rows, "--boundary", model, "--no-intervals", "--json")
    metrics = json.loads(done.stdout)["metrics"]
    fitted = said["fit"]["in_sample"]
    assert metrics["boundary"]["all"]["precision"] == fitted["precision"]
    assert metrics["boundary"]["all"]["selected"] == fitted["selected"]
    assert metrics["boundary:review"]["all"]["recall"] == fitted["recall"]
    reach = fitted["selected"] + fitted["reviewed"]
    assert metrics["boundary:review"]["all"]["selected"] == reach


def test_shards_are_judged_by_block_and_both(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    model, _ = fit(invoke, rows, "--precision", 0.8, "--recall", 0.7)
    whole, merged = tmp_path / "whole.json", tmp_path / "merged.json"
    assert invoke("evaluate", rows, "--boundary", model, "-o", whole).code == 0
    states = []
    for k in range(2):
        part, state = tmp_path / f"part{k}.parquet", tmp_path / f"{k}.state"
        pl.read_parquet(rows)[k::2].write_parquet(part)
        assert invoke("evaluate", part, "--boundary", model, "--partial", "-o", state).code == 0
        states.append(state)
    assert invoke("merge", *states, "-o", merged).code == 0
    assert merged.read_bytes() == whole.read_bytes()


def test_selected_rows_are_those_that_do_not_pass(
    rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    model, said = fit(invoke, rows, "--minimize", "cost:2,3", "--review-cost", 0.4)
    out = tmp_path / "some.parquet"
    assert invoke("apply", model, rows, "--selected", "-o", out).code == 0
    fitted = said["fit"]["in_sample"]
    assert pl.read_parquet(out).height == fitted["selected"] + fitted["reviewed"]
    assert said["objective"] == {"minimize": "cost:2,3", "review_cost": 0.4, "subject_to": {}}


def test_test_rows_are_judged(rows: Path, invoke: Invoke) -> None:
    options = ("--precision", 0.8, "--recall", 0.7, "--test", rows)
    said = fit(invoke, rows, *options)[1]["fit"]
    for name in ("precision", "recall", "reviewed", "objective_value"):
        assert said["test"][name] == said["in_sample"][name]


def test_a_precision_out_of_reach_blocks_nothing(tmp_path: Path, invoke: Invoke) -> None:
    few = tmp_path / "few.csv"
    few.write_text("score,label\n" + "0.9,0\n0.8,1\n0.7,0\n0.6,1\n" * 5)
    done = invoke("boundary", few, "--precision", 1, "--recall", 1, "-o", tmp_path / "m.json")
    assert done.code == 0 and "none is blocked" in done.stderr
    assert json.loads((tmp_path / "m.json").read_text())["block_thresholds"] == [None]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--review-capacity", "5"], "--review-capacity goes with --precision"),
        (["--fpr", "0.1", "--review-capacity", "5"], "no other objective"),
        (["--precision", "0.8", "--review-cost", "1"], "--minimize cost:FP,FN"),
        (["--minimize", "cost:1,label", "--review-cost", "1"], "both of them numbers"),
        (["--precision", "0.8", "--review-capacity", "1.5"], "whole number of rows"),
        (["--precision", "0.8", "--recall", "0.7", "--method", "mist"], "not mist"),
        (["--precision", "0.8", "--recall", "0.7", "--by", "label"], "--by"),
        (["--precision", "0.8", "--recall", "0.7", "--value", "score"], "--value"),
        (["--precision", "0.8", "--recall", "0.7", "--score-bins", "9"], "--score-bins"),
        (["--precision", "0.8", "--recall", "0.7", "--compare"], "--compare"),
    ],
)
def test_impossible_pairs(options: list[str], words: str, rows: Path, invoke: Invoke) -> None:
    done = invoke("boundary", rows, *options)
    assert done.code == 2 and words in done.stderr


def test_commands_for_one_threshold_refuse(rows: Path, tmp_path: Path, invoke: Invoke) -> None:
    model, _ = fit(invoke, rows, "--precision", 0.8, "--recall", 0.7)
    assert invoke("drift", model, rows).code == 2
    assert invoke("watch", model, rows, "--state", tmp_path / "s.json").code == 2
    assert invoke("bundle", f"b={model}", "-o", tmp_path / "b.json").code != 0


def test_where_nothing_can_be_blocked_or_reviewed(tmp_path: Path, invoke: Invoke) -> None:
    path = tmp_path / "few.parquet"
    pl.DataFrame({"score": [0.9] * 4 + [0.1] * 6, "label": [1, 1] + [0] * 8}).write_parquet(path)
    given = ("boundary", path, "--precision 0.9 --review-capacity 0.3 --method exact")
    invoke(*given, "-o", tmp_path / "m.json").refused(
        4, "hold a positive one", "raise the capacity"
    )
