"""Objectives of every kind, and randomised boundaries: fitted, shown, and decided by a row's key."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import Model, recount, rounded, simulate, threshold_of, write
from tests.conftest import Invoke, make
from tests.naive import boundaries as naive

Fit = Callable[..., tuple[Path, Model]]
Applied = Callable[..., pl.DataFrame]

EXACT, ST = "--method exact", "--method st"
TIE, BLOCK = "--method stochastic --randomise tie", "--method stochastic"
KINDS = pytest.mark.parametrize("kind", [BLOCK, TIE], ids=["block", "tie"])
METHODS = pytest.mark.parametrize("method", [EXACT, ST, BLOCK, TIE])
PRECISE = "--precision 0.75"
OBJECTIVES = [
    ["--precision", "0.75"],
    ["--recall", "0.4"],
    ["--fpr", "0.1"],
    ["--capacity", "77"],
    ["--capacity", "0.123"],
    ["--maximize", "gmean"],
    ["--maximize", "f1"],
    ["--minimize", "cost:1,3"],
]


@pytest.fixture
def fit() -> Fit:
    """Fit and return the model's file and content."""

    def call(frame: pl.DataFrame, *options: object) -> tuple[Path, Model]:
        path = write(frame, "fit.parquet")
        model = make("model.json", "boundary", path, "--folds 0", *options)
        return model, json.loads(model.read_text())

    return call


# A second reading of the model, from the documentation alone -----------------------------------


def probability(model: Model, score: float, uncertainty: float | None) -> float:
    """Return the probability with which a row is positive."""

    def own(name: str) -> float | None:
        return threshold_of({**model, "score_thresholds": model[name]}, uncertainty)

    threshold, lowest, chance = map(
        own, ("score_thresholds", "random_thresholds", "tie_probability")
    )
    threshold, score = math.inf if threshold is None else threshold, rounded(model, "score", score)
    assert chance is not None
    if model["randomise"] == "tie":
        return chance if score == threshold else float(score > threshold)
    if score >= threshold:
        return 1.0
    return chance if lowest is not None and score >= lowest else 0.0


def check(content: Model, rows: pl.DataFrame, keys: list[Any], seed: int) -> list[float]:
    """Compare the added columns with the second reading; return the probabilities."""
    several = len(content["score_thresholds"]) > 1
    spread = rows["uncertainty"].to_list() if several else [None] * rows.height
    chances = [probability(content, s, u) for s, u in zip(rows["score"], spread, strict=True)]
    assert rows["decision_probability"].to_list() == chances
    assert rows["decision"].to_list() == [
        int(naive.chance(key, seed) < chance) for chance, key in zip(chances, keys, strict=True)
    ]
    return chances


@pytest.mark.few(12)
@KINDS
@pytest.mark.parametrize("objective", OBJECTIVES, ids=" ".join)
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
def test_rows_decided_again(
    objective: list[str], ties: bool, kind: str, fit: Fit, applied: Applied
) -> None:
    frame = simulate(ties=ties)
    model, content = fit(frame, *objective, kind)
    rows = applied(model, frame, "--key", "id")
    chances = check(content, rows, frame["id"].to_list(), 0)
    assert rows.columns == [*frame.columns, "decision", "margin", "decision_probability"]
    seen, labels = content["fit"]["in_sample"], frame["label"].to_list()
    assert seen["selected"] == pytest.approx(math.fsum(chances))
    hits = math.fsum(c * y for c, y in zip(chances, labels, strict=True))
    assert seen["true_positives"] == pytest.approx(hits)
    option, bound = objective
    reached = {
        "--precision": seen["precision"],
        "--recall": seen["recall"],
        "--fpr": seen["false_positive_rate"],
        "--capacity": seen["selected"] / (600 if "." in bound else 1),
    }
    if option in reached and kind is BLOCK:
        assert reached[option] == pytest.approx(float(bound))
    elif option in ("--fpr", "--capacity"):
        assert reached[option] <= float(bound) + 1e-9
    elif option in reached:
        assert reached[option] >= float(bound) - 1e-9
    assert content["fit"]["bound_met"] and content["fit"]["optimal_in_sample"]


@KINDS
def test_a_stochastic_model_and_what_is_shown_of_it(kind: str, fit: Fit, invoke: Invoke) -> None:
    model, content = fit(simulate(ties=True), "--fpr 0.1", kind, "--seed 7")
    assert (content["method"], content["seed"]) == ("stochastic", 7)
    assert content["objective"] == {"maximize": "recall", "subject_to": {"fpr": 0.1}}
    assert content["randomise"] == ("tie" if kind is TIE else "block")
    assert content["provenance"]["options"]["randomise"] == content["randomise"]
    chances = content["tie_probability"]
    (chance,) = (chance for chance in chances if 0 < chance < 1)
    if kind is TIE:
        assert (len(content["score_thresholds"]), content["random_thresholds"]) == (1, [None])
    else:
        assert len(content["score_thresholds"]) == 3
        for low, own in zip(content["random_thresholds"], chances, strict=True):
            assert (low is None) == (own == 0.0)
    text = invoke("show", model).stdout.decode()
    assert f"with probability {chance:.6g}" in text and text.count("with probability") == 1
    assert invoke("show", model, "--json").stdout == model.read_bytes()


# Keys ------------------------------------------------------------------------------------------


def keyed() -> pl.DataFrame:
    return simulate(200, seed=5, ties=True).with_columns(
        user="user " + pl.col("id").cast(pl.String) + " é",
        negative=-pl.col("id"),
        large=pl.col("id").cast(pl.UInt64) + 2**63,
        kind=pl.col("id").cast(pl.String).cast(pl.Categorical),
    )


@pytest.mark.parametrize("key", ["id", "user", "negative", "large", "kind", "row-number"])
def test_rows_are_drawn_by_key_and_seed(key: str, fit: Fit, applied: Applied) -> None:
    model, content = fit(simulate(ties=True), PRECISE, TIE, "--seed", 11)
    frame = keyed()
    keys = list(range(1, 201)) if key == "row-number" else frame[key].to_list()
    own, other = (applied(model, frame, "--key", key, *more) for more in ([], ["--seed 12"]))
    assert any(0 < chance < 1 for chance in check(content, own, keys, 11))
    check(content, other, keys, 12)
    assert own["decision"].to_list() != other["decision"].to_list()


def test_selected_rows_and_rows_of_text_files(fit: Fit, applied: Applied, invoke: Invoke) -> None:
    (model, _), frame = fit(simulate(ties=True), PRECISE, BLOCK), keyed()
    rows = applied(model, frame, "--key", "id")
    chosen = applied(model, frame, "--key", "id", "--selected", "--column", "alarm")
    assert chosen["alarm"].to_list() == [1] * chosen.height
    assert chosen["id"].to_list() == rows.filter(pl.col("decision") == 1)["id"].to_list()
    assert chosen["decision_probability"].is_between(0, 1, closed="none").any()
    path = write(frame.drop("large", "kind"), "rows.csv")
    text = invoke("apply", model, path, "--key", "id", "-q", "-o out.csv").result()
    for name in ("decision", "decision_probability"):
        assert text[name].to_list() == rows[name].to_list()


@pytest.mark.parametrize("key", ["id", "row-number"])  # row numbers count all rows
def test_rows_that_lack_a_value(key: str, fit: Fit, applied: Applied) -> None:
    (model, _), frame = fit(simulate(ties=True), PRECISE, BLOCK), keyed()
    whole, lacks = applied(model, frame, "--key", key), pl.col("id") % 7 == 0
    holes = frame.with_columns(score=pl.when(~lacks).then("score"))
    rows = applied(model, holes, "--key", key, "--on-missing", "null")
    for name in ("decision", "margin", "decision_probability"):
        assert rows.filter(lacks)[name].null_count() == rows.filter(lacks).height
        assert rows.filter(~lacks)[name].to_list() == whole.filter(~lacks)[name].to_list()
    # A row without a decision needs no key.
    keyless = holes.with_columns(user=pl.when(~lacks).then("user"))
    assert applied(model, keyless, "--key", "user", "--on-missing", "null").height == 200
    nothing = frame.with_columns(score=pl.lit(None, pl.Float64))
    empty = applied(model, nothing, "--key", key, "--on-missing", "null")
    assert empty["decision"].null_count() == 200


def test_keys_that_cannot_be_used(fit: Fit, invoke: Invoke) -> None:
    frame = keyed().with_columns(
        user=pl.when(pl.col("id") != 4).then("user"),
        real=pl.col("score") * 2,
        flag=pl.col("label") == 1,
    )
    path = write(frame, "rows.parquet")
    sure, _ = fit(simulate(), PRECISE)
    for options in ("--key id", "--seed 3", "--key row-number"):
        invoke("apply", sure, path, options, "-o out.parquet").refused(2, "--key")
    run = ["apply", fit(simulate(ties=True), PRECISE, BLOCK)[0], path, "-o out.parquet"]
    invoke(*run).refused(2, "--key", "row-number")
    invoke(*run, "--seed 3").refused(2, "--key")
    invoke(*run, "--key usr").refused(2, "'usr'", "did you mean 'user'")
    invoke(*run, "--key user").refused(3, "rows.parquet", "'user'", "no key", "row 5")
    invoke(*run, "--key real").refused(3, "rows.parquet", "'real'", "Float64", "integer")
    invoke(*run, "--key flag").refused(3, "'flag'", "Boolean")
    write(frame.with_columns(decision_probability=0.5), path)
    invoke(*run, "--key id").refused(2, "'decision_probability'", "--overwrite-columns")
    invoke(*run, "--key id --overwrite-columns").succeeded()
    invoke(*run, "--key id --overwrite-columns --column margin").refused(2, "another added column")


# Objectives ------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [TIE, BLOCK, EXACT])
def test_grids_as_input(kind: str, invoke: Invoke) -> None:
    path = write(simulate(), "rows.parquet")
    for order in ("uncertainty-score", "score-uncertainty"):
        assert invoke("bin", path, "--score-bins", 9, "--order", order, "-o grid.parquet").code == 0
        done = invoke("boundary", "grid.parquet", "--precision", "0.7", kind, "-q", "-o m.json")
        if "stochastic" in kind and order == "score-uncertainty":
            done.refused(2, "--order uncertainty-score")
        elif kind is TIE:
            done.refused(2, "not a grid")
        else:
            assert ("randomise" in done.result()) == (kind is BLOCK)


def test_one_class_only(invoke: Invoke) -> None:
    frame, out = simulate(60), Path("m.json")
    all_positive = write(frame.with_columns(label=1), "p.parquet")
    all_negative = write(frame.with_columns(label=0), "n.parquet")
    for method in (EXACT, BLOCK, TIE):
        line = ["--folds", 0, method, "-o", out]
        invoke("boundary", all_positive, "--fpr", "0.1", *line).refused(3, "no negative row")
        invoke("boundary", all_positive, "--maximize", "mcc", *line).refused(3, "negative")
        for option in ("--precision 0.5", "--capacity 5", "--maximize f1"):
            invoke("boundary", all_negative, option, *line).refused(3, "no positive row")
        for option in ("--precision 0.5", "--capacity 5", "--maximize accuracy"):
            invoke("boundary", all_positive, option, *line).succeeded()
        out.unlink()


@METHODS
def test_capacities_are_rows_or_shares(method: str, fit: Fit) -> None:
    frame = simulate()
    number, share = (fit(frame, "--capacity", text, method)[1] for text in ("60", "0.1"))
    assert number["score_thresholds"] == share["score_thresholds"]
    assert number["fit"] == share["fit"]
    assert number["objective"]["subject_to"] == {"capacity": 60.0}
    assert share["objective"]["subject_to"] == {"capacity": 0.1}
    assert number["fit"]["in_sample"]["selected"] <= 60 + 1e-9
    _, every = fit(frame, "--capacity", "100000", method)
    assert every["fit"]["in_sample"]["recall"] == 1.0
    halves = frame.with_columns(half=pl.lit(0.5))
    _, of_weight = fit(halves, "--capacity 30 --weight half", method)
    assert of_weight["score_thresholds"] == number["score_thresholds"]
    if method not in (BLOCK, TIE):
        content = recount(number, frame)
        assert {k: number["fit"]["in_sample"][k] for k in content} == content


def test_a_capacity_in_rows_is_one_of_the_rows_at_hand_at_any_base_rate(fit: Fit) -> None:
    number, share = (
        fit(simulate(), "--capacity", text, "--prevalence 0.1")[1] for text in ("150", "0.25")
    )
    assert number["score_thresholds"] == share["score_thresholds"]
    assert number["fit"]["in_sample"]["selected"] > 150  # negatives count for more


@METHODS
def test_selecting_nothing_is_a_result_of_a_measure(
    method: str, fit: Fit, applied: Applied, invoke: Invoke
) -> None:
    frame = simulate(100)
    worst = frame.with_columns(score=1 - pl.col("label") * 0.5, uncertainty=pl.lit(0.5))
    for option in ("--minimize cost:9,1", "--maximize weighted-accuracy:0.99"):
        model, content = fit(worst, option, method, "--folds", 5)
        assert set(content["score_thresholds"]) == {None}
        assert content["fit"]["in_sample"]["selected"] == 0
        assert content["fit"]["in_sample"]["precision"] is None
        key = ["--key", "id"] if method in (BLOCK, TIE) else []
        rows = applied(model, frame, *key)
        assert rows["decision"].to_list() == [0] * 100
        assert rows["margin"].null_count() == 100
        if key:
            assert rows["decision_probability"].to_list() == [0.0] * 100
        shown = invoke("show", model)
        assert shown.code == 0
        assert "Flag no row." in shown.stdout.decode()


@pytest.mark.parametrize("method", [EXACT, BLOCK])
def test_the_bounded_figure_is_expected_on_new_rows(method: str, invoke: Invoke) -> None:
    path, model = write(simulate(), "rows.parquet"), Path("m.json")
    other = write(simulate(500, seed=8), "test.parquet")
    for bound in ("--fpr 0.1", "--capacity 50"):
        run = ["boundary", path, bound, method, "-o", model]
        first = invoke(*run, "--test", other).stderr.splitlines()[0]
        seen = json.loads(model.read_text())["fit"]["test"]
        share = f"{seen['selected'] / 500:.2%} of rows selected"
        rate = f"false positive rate {seen['false_positive_rate']:.4f}"
        assert (rate if "--fpr" in bound else share) in first
        first = invoke(*run).stderr.splitlines()[0]
        assert ("false positive rate 0.1" if "--fpr" in bound else "% of rows selected") in first
    assert "undefined" not in invoke(*run, "--folds", 0).stderr


def test_fractional_weights_of_chance_do_not_depend_on_the_order_of_rows(fit: Fit) -> None:
    random = np.random.default_rng(4)
    score = random.random(2000).round(2)
    frame = pl.DataFrame(
        {
            "score": score,
            "uncertainty": random.normal(size=2000).round(1),
            "label": (random.random(2000) < score).astype(int),
            "w": random.random(2000),
            "shop": random.choice(["a", "b", "c"], 2000),
        }
    )
    given = f"--weight w --capacity 0.003 {BLOCK} --by shop --bound each --min-group-positives 1"
    first = fit(frame, given)[0].read_bytes()
    assert fit(frame.sample(fraction=1.0, shuffle=True, seed=4), given)[0].read_bytes() == first


@pytest.mark.parametrize(("measure", "kind"), [("mcc", BLOCK), ("mcc", TIE), ("gmean", TIE)])
def test_what_no_threshold_gains_selects_nothing(fit: Fit, measure: str, kind: str) -> None:
    rows = {"score": [0.9, 0.8, 0.7, 0.6], "label": [0, 0, 0, 1], "w": [1.11, 1.12, 0.86, 1.2]}
    _, found = fit(pl.DataFrame(rows), kind, "--maximize", measure, "--weight w")
    assert found["score_thresholds"] == [None]
    seen = found["fit"]["in_sample"]
    assert (seen["objective_value"], seen["selected"]) == (0.0, 0.0)
