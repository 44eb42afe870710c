"""The first line of a fit: what to do, what to expect, and warnings where a fit should not be used."""

from __future__ import annotations

import json
from pathlib import Path

import polars as pl
import pytest
from scipy.stats import binomtest

from calibkit.views import answer
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, Outcome


def test_one_threshold_is_the_first_line(invoke: Invoke) -> None:
    path, test = (write(simulate(rows, seed), f"{seed}.csv") for rows, seed in ((600, 1), (900, 8)))
    line = ("boundary", path, "--recall 0.5 --method st -o model.json")
    done = invoke(*line, "--test", test)
    first, content = done.stderr.splitlines()[0], done.result()
    (threshold,) = content["score_thresholds"]
    assert first.startswith(f"Flag rows with score >= {threshold}. On new data expect ")
    seen = content["fit"]["test"]
    hits, alerts = seen["true_positives"], seen["selected"]
    low, high = binomtest(int(hits), int(alerts)).proportion_ci(method="wilson")
    right = f"{100 * seen['precision']:.0f} of 100 alerts to be right"
    assert f"{right} (95 % interval {100 * low:.0f} to {100 * high:.0f})" in first
    assert f"and {100 * seen['recall']:.0f} % of the positives found" in first
    several = invoke(*line, "--uncertainty-bins 4 --folds 0")
    (threshold,) = {*several.result()["score_thresholds"]}
    said = f"Flag rows with score >= {threshold}. On new data expect "
    assert several.stderr.startswith(said)


def test_notices_come_after_the_answer(invoke: Invoke) -> None:
    text = simulate().write_csv(separator=";").replace(".", ",")
    path = Path("rows.csv")
    path.write_text(text)
    done = invoke("boundary", path, "--precision 0.5 --method st -o m.json")
    lines = done.stderr.splitlines()
    assert lines[0].startswith("Flag rows with score >= 0.")
    assert any("decimal" in line for line in lines[1:]), done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--precision 0.999", "misses the bound precision >= 0.999"),
        ("--fpr 0.0001", "misses the bound fpr <= 0.0001"),
        ("--recall 1", "every row is selected"),
    ],
)
def test_what_speaks_against_a_fit_is_a_warning(options: str, said: str, invoke: Invoke) -> None:
    frame = simulate(1200)
    if "every" in said:
        lowest = pl.col("score") == pl.col("score").min()
        frame = frame.with_columns(label=pl.when(lowest).then(1).otherwise("label"))
    path = write(frame, "rows.parquet")
    turned = write(frame.with_columns(label=1 - pl.col("label")), "test.parquet")
    line = ["boundary", path, options, "--method st -o m.json"]
    line += ["--test", turned] if "misses" in said else []
    done = invoke(*line)
    assert done.code == 0
    assert done.stderr.startswith("Flag rows")
    assert warned(done, said)
    invoke(*line, "--warnings error").refused(3)


def test_a_kept_bound_gives_no_warning(invoke: Invoke) -> None:
    path = write(simulate(1200), "rows.parquet")
    options = "--precision 0.6 --method st --warnings error --test"
    done = invoke("boundary", path, options, path, "-o m.json")
    done.succeeded()
    assert "Warning" not in done.stderr


def test_a_choice_against_more_recall_is_explained(invoke: Invoke) -> None:
    path, model = write(simulate(600), "rows.parquet"), Path("m.json")
    content = invoke("boundary", path, "--precision 0.6 --method exact -o", model).result()
    bins = len(content["score_thresholds"])
    own = {"precision": 0.72, "recall": 0.3, "objective_value": 0.3, "within_bound": True}
    rival = {**own, "precision": 0.61, "recall": 0.32, "objective_value": 0.32}
    rival |= {"method": "st", "uncertainty_bins": 1, "gap": 0.02, "gap_standard_error": 0.004}
    own |= {"method": "exact", "uncertainty_bins": bins, "gap": 0.005, "gap_standard_error": 0.006}
    content["fit"]["candidates"] = [rival, own]
    model.write_text(json.dumps(content))
    said = invoke("show", model).stdout.decode()
    assert "st found more, recall 0.3200 at precision 0.6100, exact 0.3000 at 0.7200" in said
    assert "exact is worth 0.0150 more" in said
    rival["recall"] = 0.2
    model.write_text(json.dumps(content))
    assert "found more" not in invoke("show", model).stdout.decode()


def test_formulas_stand_in_show_alone(invoke: Invoke) -> None:
    path, model = write(simulate(600), "rows.parquet"), Path("m.json")
    line = ("boundary", path, "--precision 0.6 --method logistic -o", model)
    done = invoke(*line)
    assert "logistic (one cut on a logistic surface over score and uncertainty)" in done.stderr
    assert "Fitted log-odds" not in done.stderr
    assert " x rank of uncertainty; selected: " in invoke("show", model).stdout.decode()
    write(simulate(600).drop("uncertainty"), path)
    invoke(*line).succeeded()
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


def test_labels_the_wrong_way_round_warn_twice(invoke: Invoke) -> None:
    rare = simulate(1200).with_columns(label=(pl.col("score") < 0.97).cast(pl.Int8))
    path, options = write(rare, "rows.parquet"), "--precision 0.6 --method logistic"
    done = invoke("boundary", path, options, "-o m.json")
    assert warned(done, "higher scores go with fewer positives")
    assert warned(done, "every row is selected")


def test_segments_that_miss_their_bound_are_named(invoke: Invoke) -> None:
    frame = simulate(900).with_columns(shop=pl.Series(["a", "b", "c"] * 300))
    label = pl.when(pl.col("shop") == "b").then(1 - pl.col("label")).otherwise("label")
    test = write(frame.with_columns(label=label), "test.parquet")
    options = "--precision 0.6 --by shop --bound each --method st"
    path = write(frame, "rows.parquet")
    invoke("boundary", path, options, "--test", test, "-o m.json").succeeded(
        "1 of 3 segments are expected to miss the bound precision >= 0.6 on new data (b)"
    )


def warned(done: Outcome, said: str) -> bool:
    return any(one.startswith("Warning: ") and said in one for one in done.stderr.splitlines())
