"""Block, review or pass from the command line: bounds, files, exports, what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.files.frames import open_frame
from calibkit.methods.boundary.result.fit import fit_boundary
from calibkit.methods.boundary.run import read_boundary_rows
from calibkit.options.boundary import BoundaryOptions
from tests.cli.score_files import merge_parts
from tests.conftest import Invoke

BOTH = "--precision 0.8 --recall 0.7"


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


def fit(
    invoke: Invoke, rows: Path, *options: object, weight: str = "one"
) -> tuple[Path, dict[str, Any], dict[str, float]]:
    """Return a model of the rows, what it says, and what ``apply`` does with the rows, counted."""
    model, applied = (rows.with_name(name) for name in ("model.json", "applied.parquet"))
    said = invoke("boundary", rows, *options, "-o", model).result()
    frame = invoke("apply", model, rows, "-o", applied).result().with_columns(one=1.0)
    block, reach = pl.col("decision") == "block", pl.col("decision") != "pass"
    w, hit = pl.col(weight), pl.col(weight) * pl.col("label")
    counts = frame.select(
        precision=hit.filter(block).sum() / w.filter(block).sum(),
        recall=hit.filter(reach).sum() / hit.sum(),
        reviewed=w.filter(reach & ~block).sum(),
    )
    return model, said, counts.row(0, named=True)


def shards(rows: Path, *line: object) -> bytes:
    """Return what a command says of the rows that it is given in two parts."""
    frame = pl.read_parquet(rows)
    return merge_parts("merged.json", (frame[1::2], frame[::2]), *line).read_bytes()


@pytest.mark.parametrize("method", ["auto", "exact", "st"])
def test_least_review_is_within_both_bounds(method: str, rows: Path, invoke: Invoke) -> None:
    model, said, counted = fit(invoke, rows, BOTH, "--method", method)
    fitted = said["fit"]["in_sample"]
    assert (
        counted["precision"] == pytest.approx(fitted["precision"]) and counted["precision"] >= 0.8
    )
    assert counted["recall"] == pytest.approx(fitted["recall"]) and counted["recall"] >= 0.7
    assert counted["reviewed"] == fitted["reviewed"]
    assert fitted["objective_value"] == pytest.approx(counted["reviewed"] / 3000)
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
    words = f"{BOTH} --folds 0 --method exact --uncertainty-bins"
    values = [fit(invoke, rows, words, levels)[2]["reviewed"] for levels in (1, 2, 4)]
    assert values[0] >= values[1] >= values[2]


def test_capacity_is_a_check_with_both_bounds(rows: Path, invoke: Invoke) -> None:
    words = f"{BOTH} --method exact"
    least = fit(invoke, rows, words)[1]["fit"]["in_sample"]["reviewed"]
    same = fit(invoke, rows, words, "--review-capacity", least)[1]
    assert same["fit"]["in_sample"]["reviewed"] == least
    done = invoke("boundary", rows, words, "--review-capacity", least - 1, "-o none.json")
    done.refused(4, f"least review possible is {least:,} rows")


@pytest.mark.parametrize(("capacity", "most"), [("200", 200), ("0.05", 150)])
@pytest.mark.parametrize(("bounded", "other"), [("precision", "recall"), ("recall", "precision")])
def test_one_bound_makes_most_of_the_other(
    capacity: str, most: int, bounded: str, other: str, rows: Path, invoke: Invoke
) -> None:
    words = f"--{bounded} 0.75 --method exact"
    none = invoke("boundary", rows, words).result()
    _, said, counted = fit(invoke, rows, words, "--review-capacity", capacity)
    assert counted["reviewed"] <= most and counted[bounded] >= 0.75
    assert said["objective"]["maximize"] == other
    assert said["fit"]["in_sample"]["objective_value"] == pytest.approx(counted[other])
    assert counted[other] > none["fit"]["in_sample"][other]


@pytest.mark.parametrize(
    "bounds",
    [
        {"precision": 0.75, "recall": 0.6, "review_capacity": 0.6},
        {"precision": 0.75, "review_capacity": 0.2},
        {"recall": 0.7, "review_capacity": 0.2},
    ],
)
@pytest.mark.parametrize("method", ["auto", "exact", "st"])
def test_three_way_decisions_are_certified(
    bounds: dict[str, float], method: str, rows: Path, invoke: Invoke
) -> None:
    words = [f"--{name.replace('_', '-')} {bound}" for name, bound in bounds.items()]
    words += [f"--confidence 0.8 --method {method}"]
    model, said, counted = fit(invoke, rows, *words)
    counted["review_capacity"] = counted["reviewed"] / 3000
    sure, found = said["fit"]["certificate"], said["fit"]["in_sample"]
    assert sure["confidence"] == 0.8 and 1500 < sure["rows"] < 3000
    assert said["objective"]["subject_to"] == bounds
    assert {one["quantity"] for one in sure["promises"]} == bounds.keys()
    for one in sure["promises"]:
        sign = 1.0 if one["side"] == "lower" else -1.0
        assert sign * counted[one["quantity"]] >= sign * bounds[one["quantity"]]
    assert said["fit"]["bound_met"] and found["reviewed"] == counted["reviewed"]
    sign = -1.0 if "minimize" in said["objective"] else 1.0
    assert sign * found["objective_value"] <= sign * said["fit"]["upper_bound"]
    assert "review capacity <= " in invoke("show", model).stdout.decode()


def test_errors_of_sampled_rows_are_of_their_own_objective(rows: Path) -> None:
    """They are over the folds: the influence of a row is that on one threshold."""
    weight: dict[str, Any] = {"weight": "weight", "weight_kind": "sampling"}
    given = BoundaryOptions(precision=0.8, recall=0.7, method="st", **weight)
    fitted = fit_boundary(read_boundary_rows(given, open_frame(rows)), given)
    shares = [fold.reviewed / fold.rows for fold in fitted.folds]
    spread = np.std(shares, ddof=1) / len(shares) ** 0.5
    assert fitted.model.fit.cross_validated.standard_error == pytest.approx(spread)


def test_weights_shards_and_one_run(rows: Path, invoke: Invoke) -> None:
    words = "--precision 0.8 --review-capacity 100 --weight weight --method exact --folds 2"
    model, _, counted = fit(invoke, rows, words, weight="weight")
    assert counted["reviewed"] <= 100 and counted["precision"] >= 0.8
    assert shards(rows, "boundary", words) == model.read_bytes()


def test_block_and_both_are_judged(rows: Path, invoke: Invoke) -> None:
    model, said, _ = fit(invoke, rows, BOTH, "--test", rows)
    fitted = said["fit"]["in_sample"]
    for name in ("precision", "recall", "reviewed", "objective_value"):
        assert said["fit"]["test"][name] == fitted[name]
    whole = Path("whole.json")
    words = ("evaluate", rows, "--boundary", model, "--no-intervals -o", whole)
    metrics = invoke(*words).result()["metrics"]
    block, both = metrics["boundary"]["all"], metrics["boundary:review"]["all"]
    reach = fitted["selected"] + fitted["reviewed"]
    assert (block["precision"], block["selected"]) == (fitted["precision"], fitted["selected"])
    assert (both["recall"], both["selected"]) == (fitted["recall"], reach)
    assert shards(rows, "evaluate", "--no-intervals --boundary", model) == whole.read_bytes()


def test_selected_rows_are_those_that_do_not_pass(rows: Path, invoke: Invoke) -> None:
    model, said, _ = fit(invoke, rows, "--minimize cost:2,3 --review-cost 0.4")
    some = invoke("apply", model, rows, "--selected -o some.parquet").result()
    fitted = said["fit"]["in_sample"]
    assert some.height == fitted["selected"] + fitted["reviewed"]
    assert said["objective"] == {"minimize": "cost:2,3", "review_cost": 0.4, "subject_to": {}}


def test_where_nothing_can_be_blocked_or_reviewed(invoke: Invoke) -> None:
    few = Path("few.csv")
    few.write_text("score,label\n" + "0.9,0\n0.8,1\n0.7,0\n0.6,1\n" * 5)
    done = invoke("boundary", few, "--precision 1 --recall 1 -o m.json")
    done.succeeded("none is blocked")
    assert done.result()["block_thresholds"] == [None]
    few.write_text("score,label\n" + "0.9,1\n" * 2 + "0.9,0\n" * 2 + "0.1,0\n" * 6)
    done = invoke("boundary", few, "--precision 0.9 --review-capacity 0.3 --method exact")
    done.refused(4, "hold a positive one", "raise --review-capacity")


def test_commands_for_one_threshold_refuse(rows: Path, invoke: Invoke) -> None:
    model, *_ = fit(invoke, rows, BOTH)
    invoke("drift", model, rows).refused(2)
    invoke("watch", model, rows, "--state s.json").refused(2)
    assert invoke("bundle", f"b={model}", "-o b.json").code != 0
