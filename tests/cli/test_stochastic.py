"""Objectives of every kind, and randomised boundaries: fitted, shown, and decided by a row's key."""

from __future__ import annotations

import hashlib
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

Fit = Callable[..., Path]
Applied = Callable[..., pl.DataFrame]

TIE = ["--method", "stochastic", "--randomise", "tie"]
BLOCK = ["--method", "stochastic"]
KINDS = pytest.mark.parametrize("kind", [BLOCK, TIE], ids=["block", "tie"])
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
def fit(tmp_path: Path) -> Fit:
    def call(frame: pl.DataFrame, *options: object) -> Path:
        path = write(frame, tmp_path / "fit.parquet")
        return make(tmp_path / "model.json", "boundary", path, "--folds 0", *options)

    return call


# A second reading of the model, from the documentation alone -----------------------------------


def level_of(model: Model, uncertainty: float | None) -> int:
    if len(model["score_thresholds"]) == 1:
        return 0
    value = max(rounded(model, "uncertainty", uncertainty), model["uncertainty_min"])
    return sum(edge <= value for edge in model["uncertainty_edges"])


def probability(model: Model, score: float, uncertainty: float | None) -> float:
    """Return the probability with which a row is positive."""
    level, score = level_of(model, uncertainty), rounded(model, "score", score)
    threshold = threshold_of(model, uncertainty)
    threshold = math.inf if threshold is None else threshold
    chance: float = model["tie_probability"][level]
    if model["randomise"] == "tie":
        return chance if score == threshold else float(score > threshold)
    if score >= threshold:
        return 1.0
    lowest = model["random_thresholds"][level]
    return chance if lowest is not None and score >= float(lowest) else 0.0


def draw(chance: float, key: object, seed: int) -> int:
    digits = hashlib.md5(f"{seed}:{key}".encode()).hexdigest()[:13]
    return int(int(digits, 16) / 16**13 < chance)


def check(model: Path, rows: pl.DataFrame, keys: list[Any], seed: int) -> list[float]:
    """Compare the added columns with the second reading; return the probabilities."""
    content = json.loads(model.read_text())
    several = len(content["score_thresholds"]) > 1
    spread = rows["uncertainty"].to_list() if several else [None] * rows.height
    chances = [probability(content, s, u) for s, u in zip(rows["score"], spread, strict=True)]
    assert rows["decision_probability"].to_list() == chances
    assert rows["decision"].to_list() == [
        draw(chance, key, seed) for chance, key in zip(chances, keys, strict=True)
    ]
    return chances


@pytest.mark.few(12)
@KINDS
@pytest.mark.parametrize("objective", OBJECTIVES, ids=" ".join)
@pytest.mark.parametrize("ties", [False, True], ids=["distinct", "tied"])
def test_rows_decided_again(
    objective: list[str], ties: bool, kind: list[str], fit: Fit, applied: Applied
) -> None:
    frame = simulate(ties=ties)
    model = fit(frame, *objective, *kind)
    content = json.loads(model.read_text())
    rows = applied(model, frame, "--key", "id")
    chances = check(model, rows, frame["id"].to_list(), 0)
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
def test_the_keys_of_a_stochastic_model(kind: list[str], fit: Fit) -> None:
    content = json.loads(fit(simulate(ties=True), "--fpr", "0.1", *kind, "--seed", 7).read_text())
    levels = 1 if kind is TIE else 3
    assert content["method"] == "stochastic"
    assert content["objective"] == {"maximize": "recall", "subject_to": {"fpr": 0.1}}
    assert content["randomise"] == ("tie" if kind is TIE else "block")
    assert content["seed"] == 7
    for name in ("score_thresholds", "random_thresholds", "tie_probability"):
        assert len(content[name]) == levels
    chances = content["tie_probability"]
    assert sum(0 < chance < 1 for chance in chances) == 1
    assert content["provenance"]["options"]["randomise"] == content["randomise"]
    if kind is TIE:
        assert content["random_thresholds"] == [None]
    else:
        for low, chance in zip(content["random_thresholds"], chances, strict=True):
            assert (low is None) == (chance == 0.0)


# Keys ------------------------------------------------------------------------------------------


def keyed(rows: int = 200) -> pl.DataFrame:
    frame = simulate(rows, seed=5, ties=True)
    return frame.with_columns(
        user="user " + pl.col("id").cast(pl.String) + " é",
        negative=-pl.col("id"),
        large=pl.col("id").cast(pl.UInt64) + 2**63,
        kind=pl.col("id").cast(pl.String).cast(pl.Categorical),
    )


@pytest.mark.parametrize("key", ["id", "user", "negative", "large", "kind"])
def test_keys_of_integers_and_of_text(key: str, fit: Fit, applied: Applied) -> None:
    model, frame = fit(simulate(ties=True), "--precision", "0.75", *TIE), keyed()
    rows = applied(model, frame, "--key", key)
    chances = check(model, rows, frame[key].to_list(), 0)
    assert any(0 < chance < 1 for chance in chances)


def test_row_numbers_count_from_one(fit: Fit, applied: Applied) -> None:
    model, frame = fit(simulate(ties=True), "--precision", "0.75", *TIE), keyed()
    rows = applied(model, frame, "--key", "row-number", "--keep", "score")
    check(model, rows, list(range(1, 201)), 0)


def test_the_seed_of_the_model_and_another_one(fit: Fit, applied: Applied) -> None:
    model = fit(simulate(ties=True), "--precision", "0.75", *TIE, "--seed", 11)
    frame = keyed()
    own = applied(model, frame, "--key", "id")
    check(model, own, frame["id"].to_list(), 11)
    other = applied(model, frame, "--key", "id", "--seed", 12)
    check(model, other, frame["id"].to_list(), 12)
    assert own["decision"].to_list() != other["decision"].to_list()


def test_text_files_give_the_same_decisions(
    tmp_path: Path, fit: Fit, applied: Applied, invoke: Invoke
) -> None:
    model, frame = fit(simulate(ties=True), "--precision", "0.75", *BLOCK), keyed()
    rows = applied(model, frame, "--key", "id")
    path = write(frame.drop("large", "kind"), tmp_path / "rows.csv")
    text = invoke("apply", model, path, "--key", "id", "-q", "-o", tmp_path / "out.csv").result()
    for name in ("decision", "decision_probability"):
        assert text[name].to_list() == rows[name].to_list()


def test_only_selected_rows(fit: Fit, applied: Applied) -> None:
    model, frame = fit(simulate(ties=True), "--precision", "0.75", *BLOCK), keyed()
    rows = applied(model, frame, "--key", "id")
    chosen = applied(model, frame, "--key", "id", "--selected", "--column", "alarm")
    assert chosen["alarm"].to_list() == [1] * chosen.height
    assert chosen["id"].to_list() == rows.filter(pl.col("decision") == 1)["id"].to_list()
    assert ((chosen["decision_probability"] > 0) & (chosen["decision_probability"] < 1)).any()


def test_rows_that_lack_a_value(fit: Fit, applied: Applied) -> None:
    model, frame = fit(simulate(ties=True), "--precision", "0.75", *BLOCK), keyed()
    whole = applied(model, frame, "--key", "id")
    holes = frame.with_columns(
        score=pl.when(pl.col("id") % 7 == 0).then(None).otherwise(pl.col("score"))
    )
    rows = applied(model, holes, "--key", "id", "--on-missing", "null")
    lacks = pl.col("id") % 7 == 0
    for name in ("decision", "margin", "decision_probability"):
        assert rows.filter(lacks)[name].null_count() == rows.filter(lacks).height
        assert rows.filter(~lacks)[name].to_list() == whole.filter(~lacks)[name].to_list()
    # Row numbers count all rows.
    numbered = applied(model, holes, "--key", "row-number", "--on-missing", "null")
    expected = applied(model, frame, "--key", "row-number")
    assert (
        numbered.filter(~lacks)["decision"].to_list()
        == expected.filter(~lacks)["decision"].to_list()
    )
    # A row without a decision needs no key.
    keyless = holes.with_columns(user=pl.when(lacks).then(None).otherwise(pl.col("user")))
    assert applied(model, keyless, "--key", "user", "--on-missing", "null").height == 200
    nothing = frame.with_columns(score=pl.lit(None, pl.Float64))
    empty = applied(model, nothing, "--key", "id", "--on-missing", "null")
    assert empty["decision"].null_count() == 200


def test_keys_that_cannot_be_used(tmp_path: Path, fit: Fit, invoke: Invoke) -> None:
    model = fit(simulate(ties=True), "--precision", "0.75", *BLOCK)
    frame = keyed().with_columns(
        user=pl.when(pl.col("id") == 4).then(None).otherwise(pl.col("user")),
        real=pl.col("score") * 2,
        flag=pl.col("label") == 1,
    )
    path, out = write(frame, tmp_path / "rows.parquet"), tmp_path / "out.parquet"
    run = ["apply", model, path, "-o", out]
    invoke(*run).refused(2, "--key", "row-number")
    invoke(*run, "--seed", 3).refused(2, "--key")
    invoke(*run, "--key", "usr").refused(2, "'usr'", "did you mean 'user'")
    invoke(*run, "--key", "user").refused(3, "rows.parquet", "'user'", "no key", "row 5")
    invoke(*run, "--key", "real").refused(3, "rows.parquet", "'real'", "Float64", "integer")
    invoke(*run, "--key", "flag").refused(3, "'flag'", "Boolean")
    assert not out.exists()


@pytest.mark.parametrize("options", [["--key", "id"], ["--seed", 3], ["--key", "row-number"]])
def test_a_model_without_chance_needs_no_key(
    options: list[object], tmp_path: Path, fit: Fit, invoke: Invoke
) -> None:
    model, path = fit(simulate(), "--precision", "0.75"), tmp_path / "fit.parquet"
    invoke("apply", model, path, *options, "-o", tmp_path / "out.csv").refused(2, "--key")


def test_added_names_must_not_clash(tmp_path: Path, fit: Fit, invoke: Invoke) -> None:
    model = fit(simulate(ties=True), "--precision", "0.75", *BLOCK)
    path = write(simulate().with_columns(decision_probability=0.5), tmp_path / "rows.parquet")
    run = ["apply", model, path, "--key", "id", "-o", tmp_path / "out.parquet"]
    invoke(*run).refused(2, "'decision_probability'", "--overwrite-columns")
    assert invoke(*run, "--overwrite-columns").code == 0
    invoke(*run, "--overwrite-columns", "--column", "margin").refused(2, "another added column")


# Objectives ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--fpr", "0.1", "--method", "gmt"], ["exact, st, logistic, stochastic", "--precision"]),
        (["--maximize", "f1", "--method", "mist"], ["--maximize: exact, st, logistic, stochastic"]),
        (["--minimize", "cost:1,1", "--method", "ew-dpmt"], ["vw-dpmt"]),
        (["--capacity", "5", "--method", "ew-dpmt-mono"], ["--capacity: exact"]),
        (["--precision", "0.5", "--randomise", "tie"], ["--method stochastic"]),
        (["--precision", "0.5", *TIE, "--uncertainty-bins", "3"], ["--randomise block"]),
        (["--precision", "0.5", *TIE, "--score-bins", "5"], ["--score-bins"]),
        (
            ["--precision", "0.5", *BLOCK, "--score-bins", "5", "--order", "score-uncertainty"],
            ["uncertainty-score"],
        ),
    ],
    ids=lambda value: " ".join(value),
)
def test_impossible_pairs(
    options: list[str], words: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    path = write(simulate(50), tmp_path / "rows.parquet")
    invoke("boundary", path, *options, "-o", tmp_path / "m.json").refused(2, *words)
    assert not (tmp_path / "m.json").exists()


@pytest.mark.parametrize("kind", [TIE, BLOCK, ["--method", "exact"]], ids=" ".join)
def test_grids_as_input(kind: list[str], tmp_path: Path, invoke: Invoke) -> None:
    path, model = write(simulate(), tmp_path / "rows.parquet"), tmp_path / "m.json"
    for order in ("uncertainty-score", "score-uncertainty"):
        grid = tmp_path / "grid.parquet"
        assert invoke("bin", path, "--score-bins", 9, "--order", order, "-o", grid).code == 0
        done = invoke("boundary", grid, "--precision", "0.7", *kind, "-q", "-o", model)
        if "stochastic" in kind and order == "score-uncertainty":
            done.refused(2, "--order uncertainty-score")
        elif kind is TIE:
            done.refused(2, "not a grid")
        else:
            assert done.code == 0, done.stderr
            content = json.loads(model.read_text())
            assert ("randomise" in content) == (kind is BLOCK)


def test_one_class_only(tmp_path: Path, invoke: Invoke) -> None:
    frame, out = simulate(60), tmp_path / "m.json"
    all_positive = write(frame.with_columns(label=1), tmp_path / "p.parquet")
    all_negative = write(frame.with_columns(label=0), tmp_path / "n.parquet")
    for method in (["--method", "exact"], BLOCK, TIE):
        line = ["--folds", 0, *method, "-o", out]
        invoke("boundary", all_positive, "--fpr", "0.1", *line).refused(3, "no negative row")
        invoke("boundary", all_positive, "--maximize", "mcc", *line).refused(3, "negative")
        for option in (["--precision", "0.5"], ["--capacity", "5"], ["--maximize", "f1"]):
            invoke("boundary", all_negative, *option, *line).refused(3, "no positive row")
        assert not out.exists()
        for option in (["--precision", "0.5"], ["--capacity", "5"], ["--maximize", "accuracy"]):
            done = invoke("boundary", all_positive, *option, *line)
            assert done.code == 0, done.stderr
        out.unlink()


@pytest.mark.parametrize("method", [["--method", "exact"], ["--method", "st"], BLOCK, TIE])
def test_capacities_are_rows_or_shares(method: list[str], fit: Fit) -> None:
    frame = simulate()
    number, share = (
        json.loads(fit(frame, "--capacity", text, *method).read_text()) for text in ("60", "0.1")
    )
    assert number["score_thresholds"] == share["score_thresholds"]
    assert number["fit"] == share["fit"]
    assert number["objective"]["subject_to"] == {"capacity": 60.0}
    assert share["objective"]["subject_to"] == {"capacity": 0.1}
    assert number["fit"]["in_sample"]["selected"] <= 60 + 1e-9
    every = json.loads(fit(frame, "--capacity", "100000", *method).read_text())
    assert every["fit"]["in_sample"]["recall"] == 1.0
    halves = frame.with_columns(half=pl.lit(0.5))
    of_weight = json.loads(fit(halves, "--capacity 30 --weight half", *method).read_text())
    assert of_weight["score_thresholds"] == number["score_thresholds"]
    if method not in (BLOCK, TIE):
        content = recount(number, frame)
        assert {k: number["fit"]["in_sample"][k] for k in content} == content


def test_a_capacity_in_rows_is_one_of_the_rows_at_hand_at_any_base_rate(fit: Fit) -> None:
    number, share = (
        json.loads(fit(simulate(), "--capacity", text, "--prevalence 0.1").read_text())
        for text in ("150", "0.25")
    )
    assert number["score_thresholds"] == share["score_thresholds"]
    assert number["fit"]["in_sample"]["selected"] > 150  # negatives count for more


@pytest.mark.parametrize("method", [["--method", "exact"], ["--method", "st"], BLOCK, TIE])
def test_selecting_nothing_is_a_result_of_a_measure(
    method: list[str], fit: Fit, applied: Applied, invoke: Invoke
) -> None:
    frame = simulate(100)
    worst = frame.with_columns(score=1 - pl.col("label") * 0.5, uncertainty=pl.lit(0.5))
    for option in (["--minimize", "cost:9,1"], ["--maximize", "weighted-accuracy:0.99"]):
        model = fit(worst, *option, *method, "--folds", 5)
        content = json.loads(model.read_text())
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


# show, and models that contradict themselves -----------------------------------------------------


@KINDS
def test_what_is_shown(kind: list[str], fit: Fit, invoke: Invoke) -> None:
    model = fit(simulate(ties=True), "--precision", "0.75", *kind, "--folds", 5)
    content = json.loads(model.read_text())
    done = invoke("show", model)
    assert (done.code, done.stderr) == (0, "")
    text = done.stdout.decode()
    chances = [c for c in content["tie_probability"] if 0 < c < 1]
    for chance in chances:
        assert f"with probability {chance:.6g}" in text
    assert text.count("with probability") == len(chances)
    assert invoke("show", model, "--json").stdout == model.read_bytes()


@pytest.mark.parametrize("method", [["--method", "exact"], BLOCK])
def test_the_bounded_figure_is_expected_on_new_rows(
    method: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    path, model = write(simulate(), tmp_path / "rows.parquet"), tmp_path / "m.json"
    other = write(simulate(500, seed=8), tmp_path / "test.parquet")
    for bound in (["--fpr", "0.1"], ["--capacity", "50"]):
        run = ["boundary", path, *bound, *method, "-o", model]
        first = invoke(*run, "--test", other).stderr.splitlines()[0]
        seen = json.loads(model.read_text())["fit"]["test"]
        share = f"{seen['selected'] / 500:.2%} of rows selected"
        rate = f"false positive rate {seen['false_positive_rate']:.4f}"
        assert (rate if "--fpr" in bound else share) in first
        first = invoke(*run).stderr.splitlines()[0]
        assert ("false positive rate 0.1" if "--fpr" in bound else "% of rows selected") in first
    assert "undefined" not in invoke(*run, "--folds", 0).stderr


def test_test_rows_and_folds_are_counted_by_probability(
    tmp_path: Path, fit: Fit, applied: Applied
) -> None:
    other = write(simulate(500, seed=8, ties=True), tmp_path / "test.parquet")
    frame = pl.read_parquet(other)
    for kind in (BLOCK, TIE):
        model = fit(simulate(ties=True), "--fpr", "0.1", *kind, "--test", other)
        seen = json.loads(model.read_text())["fit"]["test"]
        chance = applied(model, frame, "--key", "id")["decision_probability"].to_numpy()
        label = frame["label"].to_numpy()
        assert seen["selected"] == pytest.approx(chance.sum())
        assert seen["true_positives"] == pytest.approx(np.dot(chance, label))
        assert (seen["rows"], seen["positives"]) == (500, label.sum())
        assert seen["false_positive_rate"] == pytest.approx(
            np.dot(chance, 1 - label) / (1 - label).sum()
        )


def test_fractional_weights_of_chance_do_not_depend_on_the_order_of_rows(
    tmp_path: Path, invoke: Invoke
) -> None:
    random = np.random.default_rng(4)
    score = random.random(2000).round(2)
    frame = pl.DataFrame(
        {
            "score": score,
            "uncertainty": random.normal(size=2000).round(1),
            "label": (random.random(2000) < score).astype(int),
            "w": random.random(2000),
            "shop": [["a", "b", "c"][place] for place in random.integers(0, 3, 2000)],
        }
    )
    given = "--weight w --capacity 0.003 --method stochastic --by shop --bound each"
    found = []
    for rows in (frame, frame.sample(fraction=1.0, shuffle=True, seed=4)):
        path, model = tmp_path / "rows.parquet", tmp_path / "model.json"
        rows.write_parquet(path)
        more = ("--min-group-positives 1 --folds 0 -o", model)
        assert invoke("boundary", path, given, *more).code == 0
        found.append(model.read_bytes())
    assert found[0] == found[1]


@pytest.mark.parametrize(("measure", "kind"), [("mcc", BLOCK), ("mcc", TIE), ("gmean", TIE)])
def test_what_no_threshold_gains_selects_nothing(fit: Fit, measure: str, kind: list[str]) -> None:
    rows = {"score": [0.9, 0.8, 0.7, 0.6], "label": [0, 0, 0, 1], "w": [1.11, 1.12, 0.86, 1.2]}
    model = fit(pl.DataFrame(rows), *kind, "--maximize", measure, "--weight w")
    found = json.loads(model.read_text())
    assert found["score_thresholds"] == [None]
    seen = found["fit"]["in_sample"]
    assert (seen["objective_value"], seen["selected"]) == (0.0, 0.0)
