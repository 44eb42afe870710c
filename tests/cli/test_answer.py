"""The first line of a fit: what to do, what to expect, and warnings where a fit should not be used."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import binomtest

from calibkit.views import answer
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke


def test_one_threshold_is_the_first_line(tmp_path: Path, invoke: Invoke) -> None:
    path, test = (
        write(simulate(), tmp_path / "rows.csv"),
        write(simulate(900, seed=8), tmp_path / "t.csv"),
    )
    model = tmp_path / "model.json"
    line = ["boundary", path, "--recall", "0.5", "--method", "st", "--test", test, "-o", model]
    done = invoke(*line)
    first = done.stderr.splitlines()[0]
    content = json.loads(model.read_text())
    (threshold,) = content["score_thresholds"]
    assert first.startswith(f"Flag rows with score >= {threshold}. On new data expect ")
    seen = content["fit"]["test"]
    hits, alerts = seen["true_positives"], seen["selected"]
    low, high = binomtest(int(hits), int(alerts)).proportion_ci(method="wilson")
    right = f"{100 * seen['precision']:.0f} of 100 alerts to be right"
    assert f"{right} (95 % interval {100 * low:.0f} to {100 * high:.0f})" in first
    assert f"and {100 * seen['recall']:.0f} % of the positives found" in first


def test_one_threshold_of_several_levels_is_the_first_line(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate(), tmp_path / "rows.csv")
    options = "--recall 0.5 --method st --uncertainty-bins 4 --folds 0"
    done = invoke("boundary", path, options, "-o", tmp_path / "m.json")
    (threshold,) = {*json.loads((tmp_path / "m.json").read_text())["score_thresholds"]}
    assert done.stderr.startswith(f"Flag rows with score >= {threshold}. On new data expect ")


def test_notices_come_after_the_answer(tmp_path: Path, invoke: Invoke) -> None:
    text = simulate().write_csv(separator=";").replace(".", ",")
    path = tmp_path / "rows.csv"
    path.write_text(text)
    done = invoke("boundary", path, "--precision 0.5 --method st -o", tmp_path / "m.json")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Flag rows with score >= 0.")
    assert any("decimal" in line for line in lines[1:]), done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--precision", "0.999", "--method", "st"], "misses the bound precision >= 0.999"),
        (["--fpr", "0.0001", "--method", "st"], "misses the bound fpr <= 0.0001"),
        (["--recall", "1", "--method", "st"], "every row is selected"),
    ],
)
def test_what_speaks_against_a_fit_is_a_warning(
    options: list[str], said: str, tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(1200)
    if "every" in said:
        lowest = pl.col("score") == pl.col("score").min()
        frame = frame.with_columns(label=pl.when(lowest).then(1).otherwise("label"))
    path, model = write(frame, tmp_path / "rows.parquet"), tmp_path / "m.json"
    test = write(frame.with_columns(label=1 - pl.col("label")), tmp_path / "test.parquet")
    line = [
        "boundary",
        path,
        *options,
        *(["--test", test] if "misses" in said else []),
        "-o",
        model,
    ]
    done = invoke(*line)
    assert done.code == 0
    assert done.stderr.startswith("Flag rows")
    assert any(one.startswith("Warning: ") and said in one for one in done.stderr.splitlines())
    model.unlink()
    strict = invoke(*line, "--warnings", "error")
    assert strict.code == 3
    assert not model.exists()


def test_a_kept_bound_gives_no_warning(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(1200)
    path, model = write(frame, tmp_path / "rows.parquet"), tmp_path / "m.json"
    line = ["boundary", path, "--precision", "0.6", "--method", "st", "--test", path, "-o", model]
    done = invoke(*line, "--warnings", "error")
    assert done.code == 0, done.stderr
    assert "Warning" not in done.stderr


def test_a_choice_against_more_recall_is_explained(tmp_path: Path, invoke: Invoke) -> None:
    path, model = write(simulate(600), tmp_path / "rows.parquet"), tmp_path / "m.json"
    fit = ["boundary", path, "--precision", "0.6", "--method", "exact", "-q", "-o", model]
    assert invoke(*fit).code == 0
    content = json.loads(model.read_text())
    bins = len(content["score_thresholds"])
    own = {"precision": 0.72, "recall": 0.3, "objective_value": 0.3, "within_bound": True}
    rival = {**own, "precision": 0.61, "recall": 0.32, "objective_value": 0.32}
    content["fit"]["candidates"] = [
        {**rival, "method": "st", "uncertainty_bins": 1, "gap": 0.02, "gap_standard_error": 0.004},
        {**own, "method": "exact", "uncertainty_bins": bins, "gap": 0.005}
        | {"gap_standard_error": 0.006},
    ]
    model.write_text(json.dumps(content))
    said = invoke("show", model).stdout.decode()
    assert "st found more, recall 0.3200 at precision 0.6100, exact 0.3000 at 0.7200" in said
    assert "exact is worth 0.0150 more" in said
    content["fit"]["candidates"][0]["recall"] = 0.2
    model.write_text(json.dumps(content))
    assert "found more" not in invoke("show", model).stdout.decode()


def test_formulas_stand_in_show_alone(tmp_path: Path, invoke: Invoke) -> None:
    path, model = write(simulate(600), tmp_path / "rows.parquet"), tmp_path / "m.json"
    done = invoke("boundary", path, "--precision 0.6 --method logistic -o", model)
    assert "logistic (one cut on a logistic surface over score and uncertainty)" in done.stderr
    assert "Fitted log-odds" not in done.stderr
    assert " x rank of uncertainty; selected: " in invoke("show", model).stdout.decode()
    alone = write(simulate(600).drop("uncertainty"), tmp_path / "alone.parquet")
    assert invoke("boundary", alone, "--precision 0.6 --method logistic -o", model).code == 0
    shown = invoke("show", model).stdout.decode()
    assert "Fitted log-odds: " in shown and " logit score; selected: " in shown


@pytest.mark.parametrize(
    ("threshold", "text"),
    [
        (1e-9, "1e-09"),
        (1e-6, "0.000001"),
        (-0.00025, "-0.00025"),
        (2.5e15, "2500000000000000.0"),
        (1e16, "1e+16"),
    ],
)
def test_only_thresholds_far_from_one_have_an_exponent(threshold: float, text: str) -> None:
    assert answer._shortest(threshold, "float64") == text


def test_labels_the_wrong_way_round_warn_twice(tmp_path: Path, invoke: Invoke) -> None:
    rare = simulate(1200).with_columns(label=(pl.col("score") < 0.97).cast(pl.Int8))
    path, model = write(rare, tmp_path / "rows.parquet"), tmp_path / "m.json"
    done = invoke("boundary", path, "--precision 0.6 --method logistic -o", model)
    for said in ("higher scores go with fewer positives", "every row is selected"):
        assert any(
            line.startswith("Warning: ") and said in line for line in done.stderr.split("\n")
        )


def test_segments_that_miss_their_bound_are_named(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(900).with_columns(shop=pl.Series(["a", "b", "c"] * 300))
    path, model = write(frame, tmp_path / "rows.parquet"), tmp_path / "m.json"
    turned = frame.with_columns(
        label=pl.when(pl.col("shop") == "b").then(1 - pl.col("label")).otherwise("label")
    )
    test = write(turned, tmp_path / "test.parquet")
    line = ["boundary", path, "--precision", "0.6", "--by", "shop", "--bound", "each"]
    done = invoke(*line, "--method", "st", "--test", test, "-o", model)
    assert "1 of 3 segments are expected to miss the bound precision >= 0.6 on new data (b)" in (
        done.stderr
    )
