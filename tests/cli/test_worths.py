"""``boundary`` with values, costs of single rows, base rates and sampling weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import Model, changed, decisions, recount, simulate, write
from tests.conftest import Invoke

Fit = Callable[..., Model]

METHODS = ["exact", "st", "logistic"]


def rows(count: int = 600, seed: int = 3) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    return simulate(count, seed).with_columns(
        amount=pl.Series(random.exponential(80.0, count).round(2)),
        alarm=pl.Series(random.integers(0, 5, count)),
        miss=pl.Series(random.integers(0, 9, count)),
    )


@pytest.fixture
def fit(invoke: Invoke) -> Fit:
    """Fit and return the model."""

    def call(path: object, *options: object) -> Model:
        return invoke("boundary", path, *options, "-q", "-o fitted.json").result()

    return call


def caught(model: Model, frame: pl.DataFrame) -> float:
    """Return the share of the amounts of positive rows that a boundary selects."""
    lines = zip(decisions(model, frame), frame["label"], frame["amount"], strict=True)
    pairs = [(d, Fraction(a)) for d, y, a in lines if y]
    return float(sum(a for d, a in pairs if d) / sum(a for _, a in pairs))


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    "bound", ["--precision 0.8", "--recall 0.6", "--fpr 0.1", "--capacity 150"]
)
def test_recall_is_the_share_of_a_column(fit: Fit, bound: str, method: str) -> None:
    frame = rows()
    path, test = write(frame, "rows.parquet"), write(rows(500, 4), "b.csv")
    model = fit(path, bound, "--value amount --test", test, "--method", method)
    seen, again = model["fit"]["in_sample"], recount(model, frame)
    for name in ("selected", "true_positives", "precision", "false_positive_rate"):
        assert seen[name] == again[name]
    assert seen["recall"] == pytest.approx(caught(model, frame), rel=1e-12)
    figure = "precision" if "--recall" in bound else "recall"
    assert seen["objective_value"] == seen[figure]
    assert model["fit"]["bound_met"]
    assert model["fit"]["upper_bound"] >= seen["objective_value"]
    assert model["columns"]["value"] == {"name": "amount"}
    assert model["provenance"]["options"]["value"] == "amount"
    judged = model["fit"]["test"]
    assert judged["recall"] == pytest.approx(caught(model, rows(500, 4)), rel=1e-12)
    assert judged["selected"] == recount(model, rows(500, 4))["selected"]
    assert model["fit"]["cross_validated"]["standard_error"] > 0.0


@pytest.mark.parametrize("method", METHODS)
def test_costs_of_single_rows(fit: Fit, method: str) -> None:
    frame = rows().with_columns(two=pl.lit(2), three=pl.lit(3.0))
    path = write(frame, "rows.csv")
    for costs in ("alarm,miss", "2,miss", "alarm,3.5"):
        model = fit(path, "--minimize", f"cost:{costs}", "--method", method)
        alarm, miss = costs.split(",")
        total = 0.0
        for line, chosen in zip(frame.to_dicts(), decisions(model, frame), strict=True):
            if chosen and not line["label"]:
                total += line[alarm] if alarm in line else float(alarm)
            if line["label"] and not chosen:
                total += line[miss] if miss in line else float(miss)
        assert model["fit"]["in_sample"]["objective_value"] == total / frame.height
        assert model["objective"] == {"minimize": f"cost:{costs}", "subject_to": {}}
        assert model["fit"]["in_sample"]["selected"] == recount(model, frame)["selected"]
    numbers, same = (
        fit(path, "--minimize", f"cost:{costs}", "--method", method)["fit"]["in_sample"]
        for costs in ("2,3", "two,three")
    )
    assert same == pytest.approx(numbers, rel=0.0, abs=1e-12)


@pytest.mark.parametrize("method", METHODS)
def test_rates_are_those_of_another_base_rate(fit: Fit, method: str) -> None:
    frame = rows()
    path = write(frame, "rows.parquet")
    model = fit(path, "--precision 0.3 --prevalence 0.05 --method", method, "--test", path)
    seen, again = model["fit"]["in_sample"], recount(model, frame)
    for name in ("selected", "true_positives"):
        assert seen[name] == again[name]
    recall, fpr = again["recall"], again["false_positive_rate"]
    precision = 0.05 * recall / (0.05 * recall + 0.95 * fpr)
    assert seen["precision"] == pytest.approx(precision, rel=1e-12)
    assert (seen["recall"], seen["false_positive_rate"]) == (recall, fpr)
    assert precision >= 0.3 and model["fit"]["exact_arithmetic"]
    assert model["objective"]["prevalence"] == 0.05
    test = model["fit"]["test"]
    assert {name: test[name] for name in seen} == seen
    assert (model["fit"]["rows"], model["fit"]["positives"]) == (600, int(frame["label"].sum()))


@pytest.mark.parametrize(
    "options",
    [
        "--precision 0.8 --value amount",
        "--recall 0.6 --value amount",
        "--minimize cost:alarm,miss",
        "--precision 0.3 --prevalence 0.1",
        "--precision 0.7 --by id --bound each",
        "--precision 0.7 --by id",
    ],
)
def test_a_weight_two_is_two_rows(fit: Fit, options: str) -> None:
    frame = rows(400).with_columns(id=pl.col("id") % 2)
    path = write(frame, "rows.parquet")
    repeated = frame.select(pl.all().repeat_by("weight").explode()).drop_nulls()
    written = write(repeated, "written.parquet")
    options += " --method exact --folds 0"
    model, again = fit(path, options, "--weight", "weight"), fit(written, options)
    for name in ("in_sample", "upper_bound", "rows", "positives"):
        assert model["fit"][name] == pytest.approx(again["fit"][name], rel=1e-12)
    assert model["score_thresholds"] == again["score_thresholds"]


@pytest.mark.parametrize("bound", ["--precision 0.7", "--recall 0.6"])
def test_tenths_of_weights_prove_what_the_weights_do(fit: Fit, bound: str) -> None:
    path = write(rows(400).with_columns(tenth=pl.col("weight") / 10), "rows.parquet")
    options = f"{bound} --value amount --method exact --folds 0 --weight"
    whole, tenths = fit(path, options, "weight"), fit(path, options, "tenth")
    assert tenths["score_thresholds"] == whole["score_thresholds"]
    assert tenths["fit"]["optimal_in_sample"] and not tenths["fit"]["exact_arithmetic"]
    assert tenths["fit"]["upper_bound"] == tenths["fit"]["in_sample"]["objective_value"]


def test_errors_of_sampled_rows_come_from_their_weights(fit: Fit) -> None:
    path = write(rows(2000).with_columns(pl.col("weight") + 1), "rows.parquet")
    options = "--recall 0.6 --method st --weight weight"
    counted, sampled = fit(path, options), fit(path, options, "--weight-kind sampling")
    assert counted["columns"]["weight"]["kind"] == "frequency"
    assert sampled["columns"]["weight"]["kind"] == "sampling"
    assert counted["fit"]["in_sample"] == sampled["fit"]["in_sample"]
    checked = sampled["fit"]["cross_validated"]
    p, m = checked["precision"], sampled["fit"]["in_sample"]["selected"]
    double = write(rows(2000).with_columns(weight=2.0 * (pl.col("weight") + 1)), "double.parquet")
    again = fit(double, options, "--weight-kind sampling")  # their unit says nothing
    assert again["fit"]["cross_validated"] == checked
    # Weights 1 to 4, equally often: effective rows are (2.5^2 / 7.5) of the rows, m / 2.5 of them.
    expected = math.sqrt(p * (1 - p) / (m / 2.5 * 2.5**2 / 7.5))
    assert checked["standard_error"] == pytest.approx(expected, rel=0.1)


@pytest.mark.parametrize(
    ("column", "value", "options", "said"),
    [
        ("amount", -1.0, "--precision 0.5 --value amount", "cannot be negative"),
        ("amount", None, "--precision 0.5 --value amount", "no value"),
        ("amount", math.inf, "--precision 0.5 --value amount", "infinite"),
        ("miss", -2, "--minimize cost:1,miss", "cannot be negative"),
    ],
)
def test_bad_amounts(invoke: Invoke, column: str, value: Any, options: str, said: str) -> None:
    path = write(changed(rows(60), **{column: {3: value}}), "rows.parquet")
    error = invoke("boundary", path, options, "--json", "-o b.json").refused(3, said)
    assert (error["column"], error["rows"], error["first_rows"]) == (column, 1, [3])


def test_bounds_that_nothing_can_be_short_of(fit: Fit) -> None:
    """A precision of 1 is 1 and a missed cell of 0 is 0, however weights are rounded."""
    path, weighed = Path("rows.csv"), "--weight w --folds 0"
    frame = pl.DataFrame({"score": [0.9, 0.5, 0.2], "label": [1, 0, 1], "v": [0.5, 0.0, 1.0]})
    write(frame.with_columns(w=pl.Series([0.3, 0.1, 0.1])), path)
    for method in ("exact", "st"):
        found = fit(path, "--precision 1 --value v --method", method, weighed)
        assert found["score_thresholds"] == [0.9]
        assert found["fit"]["upper_bound"] >= found["fit"]["in_sample"]["recall"]
    write(frame.with_columns(v=pl.Series([0.0, 0.0, 1.0])), path)
    found = fit(path, "--recall 0 --value v --method st --folds 0")
    assert found["fit"]["in_sample"]["precision"] == 1.0  # of a row without value
    write(frame.with_columns(w=pl.Series([0.0, 0.1, 1.7])), path)
    seen = fit(path, "--maximize mcc --method st", weighed)["fit"]["in_sample"]
    assert seen["selected"] == seen["objective_value"] == 0


def test_weights_and_amounts_that_leave_nothing(invoke: Invoke, fit: Fit) -> None:
    path = write(pl.DataFrame({"score": [0.9], "label": [0], "v": [3.0]}), "rows.csv")
    found = fit(path, "--minimize cost:v,2 --method st --folds 0")
    assert found["score_thresholds"] == [None]
    rows = {"score": [0.9, 0.7, 0.1], "label": [0, 1, 0], "v": [1.0, 0.0, 1.0], "one": 1.0}
    for middle, options, code, said in (
        (0.3 - 1e-10, "--precision 0.5 --weight w", 4, "reaches is 0.49999999991"),
        (0.0, "--precision 0.5 --weight w --value one", 3, "value or weight 0 for every"),
        (0.0, "--precision 0.5 --value v", 3, "value 0 for every positive row"),
        (0.0, "--minimize cost:0,v", 3, "no row costs anything"),
    ):
        path = write(pl.DataFrame(rows | {"w": [0.3, middle, 0.3]}), "rows.parquet")
        given = (path, options, "--method st --folds 0 -o", Path("model.json"))
        invoke("boundary", *given).refused(code, said)


def test_rows_within_a_bound_that_are_worth_nothing(invoke: Invoke) -> None:
    frame = pl.DataFrame({"score": [0.9, 0.8, 0.7], "label": [1, 0, 1], "v": [0.0, 1.0, 5.0]})
    path = write(frame, "rows.csv")
    for method, said in (("exact", "worth nothing by --value"), ("st", "--method exact may")):
        given = ("--capacity 1 --value v --folds 0 --method", method)
        invoke("boundary", path, *given).refused(4, said)


@pytest.mark.parametrize("bound", ["overall", "each"])
def test_a_segment_where_nothing_is_worth_anything(invoke: Invoke, bound: str) -> None:
    frame = rows(400).with_columns(shop=pl.Series(["a", "b"] * 200))
    none = frame.with_columns(
        pl.when(pl.col("shop") == "b").then(pl.col(name)).otherwise(0).alias(name)
        for name in ("amount", "alarm", "miss")
    )
    path, judge = write(none, "rows.parquet"), write(none, "judge.parquet")
    given = ("--by", "shop", "--folds", 0, "--test", judge, "-o", Path("b.json"))
    each = ("--bound", bound, "--min-group-positives", 0)
    done = invoke("boundary", path, "--precision", "0.6", "--value", "amount", *each, *given)
    groups = done.result()["groups"]
    assert groups["a"]["fit"]["test"]["recall"] is None
    assert groups["b"]["fit"]["test"]["recall"] > 0.1
    if bound == "each":
        assert "segment 'a' has no positive row of any value" in done.stderr
        return
    costs = invoke("boundary", path, "--minimize", "cost:alarm,miss", *given).result()["groups"]
    assert costs["a"]["fit"]["test"]["objective_value"] == 0.0


def test_a_method_that_takes_no_infinite_scores_is_a_row_of_a_comparison(invoke: Invoke) -> None:
    frame = changed(rows(200), score={1: math.inf})
    path = write(frame, "rows.parquet")
    given = "--scale raw --recall 0.5 --folds 0 --compare"
    done = invoke("boundary", path, given)
    assert done.code == 0, done.stderr
    assert "skipped" in done.stdout.decode() and "needs finite scores" in done.stdout.decode()
    write(frame.with_columns(label=pl.lit(0)), path)
    invoke("boundary", path, given).refused(3, "no positive row")


def test_what_is_said_of_them(invoke: Invoke) -> None:
    path = write(rows(), "rows.parquet")
    given = "--precision 0.6 --prevalence 0.2 --value amount --method exact"
    done = invoke("boundary", path, given, "-o b.json")
    done.succeeded("Recall is the share of the sum of amount", "base rate of 0.2")
    assert "base rate of 0.2" in invoke("show", "b.json").stdout.decode()
    compared = invoke("boundary", path, "--recall 0.5 --value amount --compare")
    assert compared.code == 0, compared.stderr
    assert "exact" in compared.stdout.decode() and "gmt" not in compared.stdout.decode()


def test_a_value_of_one_number_is_no_value(fit: Fit) -> None:
    path = write(rows().with_columns(amount=2.0), "rows.parquet")
    options = "--precision 0.8 --method exact"
    plain, valued = fit(path, options)["fit"], fit(path, options, "--value amount")["fit"]
    for name in ("in_sample", "upper_bound", "score_only"):
        assert valued[name] == plain[name]
