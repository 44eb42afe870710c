"""``calibkit calibrate --probs``: temperature, vector and matrix scaling, fitted and applied."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.files.sources import open_source
from calibkit.maps.class_rows import RaterOptions, logits_of, softmax
from calibkit.maps.logit_maps import fit_logit_map, read_rater_rows
from calibkit.maps.methods import FOLDS
from calibkit.methods.calibrators.classes import _judged, choose_class_map
from calibkit.numerics.hashes import folds_of_keys
from calibkit.options.calibrate import CalibrateOptions
from tests.conftest import ROOT, Invoke

ROWS = ROOT / "tests" / "golden" / "p22_logit_scaling" / "rows.parquet"
GOLDEN = [ROWS, "--probs", "logit*", "--counts", "y*", "--scale", "logit"]


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    generator = np.random.default_rng(3)
    truth = generator.dirichlet(np.ones(3), 500)
    stretched = softmax(2 * logits_of(truth) + [0.3, 0.0, -0.3])
    counts = generator.multinomial(4, truth)
    label = np.array(["cat", "dog", "fox"])[[generator.choice(3, p=p) for p in truth]]
    columns = {f"prob_{name}": stretched[:, k] for k, name in enumerate(("cat", "dog", "fox"))}
    columns |= {f"count_{name}": counts[:, k] for k, name in enumerate(("cat", "dog", "fox"))}
    return pl.DataFrame(columns).with_columns(label=pl.Series(label))


@pytest.fixture
def rows(tmp_path: Path, frame: pl.DataFrame) -> Path:
    path = tmp_path / "rows.parquet"
    frame.write_parquet(path)
    return path


def fit(invoke: Invoke, *arguments: object) -> dict[str, Any]:
    return invoke("calibrate", *arguments, "--json").result()


@pytest.mark.parametrize("method", ["temperature", "vector", "matrix"])
@pytest.mark.parametrize("votes", [["--counts", "count_*"], ["--label", "label"]])
def test_maps_gain_and_are_applied(
    invoke: Invoke, rows: Path, frame: pl.DataFrame, tmp_path: Path, method: str, votes: list[str]
) -> None:
    out, applied = tmp_path / "cal.json", tmp_path / "rows.csv"
    said = invoke("calibrate", rows, "--probs", "prob_*", *votes, "--method", method, "-o", out)
    model = said.result()
    assert model["kind"] == "calibrator"
    assert model["classes"] == ["cat", "dog", "fox"]
    assert model["fit"]["log_loss"] < model["fit"]["log_loss_before"]
    assert f"{method}: log loss" in said.stderr
    assert f"{method}: log loss" in invoke("show", out).stdout.decode()
    found = invoke("apply", out, rows, "-q", "-o", applied).result()
    z = found.select("^calibrated_.*$").to_numpy()
    assert z.sum(axis=1) == pytest.approx(1.0)
    u = logits_of(frame.select("^prob_.*$").to_numpy())
    if method == "temperature":
        expected = softmax(u / model["temperature"])
    else:
        weights = np.array(model["weights"])
        mapped = u * weights if method == "vector" else u @ weights.T
        expected = softmax(mapped + model["intercept"])
    assert z == pytest.approx(expected)


def test_logits_are_mapped_as_they_are(invoke: Invoke, tmp_path: Path) -> None:
    out, applied = tmp_path / "cal.json", tmp_path / "rows.parquet"
    model = invoke("calibrate", *GOLDEN, "-o", out).result()
    assert invoke("apply", out, ROWS, "-q", "-o", applied).code == 0
    found = pl.read_parquet(applied)
    z, u = (found.select(f"^{name}.*$").to_numpy() for name in ("calibrated_", "logit"))
    assert z == pytest.approx(softmax(u / model["temperature"]), abs=1e-12)


def test_labels_by_index_and_rows_without_one(
    invoke: Invoke, frame: pl.DataFrame, tmp_path: Path
) -> None:
    place = pl.col("label").replace_strict({"cat": 0, "dog": 1, "fox": 2})
    some = frame.with_columns(label=place).with_row_index()
    some = some.with_columns(label=pl.when(pl.col("index") == 7).then(None).otherwise("label"))
    some.write_parquet(tmp_path / "some.parquet")
    said = invoke("calibrate", tmp_path / "some.parquet", "--probs", "prob_*", "--json")
    error = json.loads(said.stdout)["error"]
    assert (said.code, error["column"], error["first_rows"]) == (3, "label", [8])
    more = ["--unlabelled", "drop"]
    found = fit(invoke, tmp_path / "some.parquet", "--probs", "prob_*", *more)
    assert found["fit"]["rows"] == 499
    by_name = fit(invoke, tmp_path / "some.parquet", "--probs", "prob_*", *more)
    assert by_name["temperature"] == found["temperature"]


def test_labels_that_are_no_class(invoke: Invoke, frame: pl.DataFrame, tmp_path: Path) -> None:
    wrong = frame.with_row_index().with_columns(
        label=pl.when(pl.col("index") == 4).then(pl.lit("cow")).otherwise("label")
    )
    wrong.write_parquet(tmp_path / "wrong.parquet")
    said = invoke("calibrate", tmp_path / "wrong.parquet", "--probs", "prob_*", "--json")
    error = json.loads(said.stdout)["error"]
    assert (said.code, error["rows"], error["first_rows"]) == (3, 1, [5])
    assert "'cow'" in error["message"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--method", "beta"], "temperature, vector, matrix"),
        (["--regularization", "1"], "goes with --method vector and matrix"),
        (["--method", "vector", "--regularization", "x"], "expected a number"),
        (["--bins", "3"], "--bins is for scores"),
        (["--by", "label"], "--by is for scores"),
        (["--clip", "0.1"], "--clip is for scores"),
        (["--out-of-range", "clip"], "--out-of-range is for scores"),
        (["--weight", "w"], "--weight is for scores"),
        (["--scale", "raw"], "--scale raw"),
        (["--probs", "count_*"], "one pattern"),
    ],
)
def test_bad_options_are_refused(
    invoke: Invoke, rows: Path, options: list[str], words: str
) -> None:
    invoke("calibrate", rows, "--probs", "prob_*", *options).refused(2, words)
    said = invoke("calibrate", rows, "--regularization", "1", "--label", "label")
    assert said.code == 2


def test_an_infinite_temperature_says_so(invoke: Invoke, tmp_path: Path) -> None:
    wrong = pl.DataFrame(
        {"prob_0": [0.9, 0.1], "prob_1": [0.1, 0.9], "count_0": [0, 3], "count_1": [3, 0]}
    )
    wrong.write_parquet(tmp_path / "wrong.parquet")
    said = invoke(
        *("calibrate", tmp_path / "wrong.parquet", "--counts", "count_*", "-o", tmp_path / "c.json")
    )
    assert "the best temperature is infinite" in said.stderr
    assert json.loads((tmp_path / "c.json").read_text())["temperature"] is None
    assert "temperature infinite" in invoke("show", tmp_path / "c.json").stdout.decode()
    applied = invoke("apply", tmp_path / "c.json", tmp_path / "wrong.parquet", "-o", "-")
    assert applied.code == 0


@pytest.mark.parametrize("measure", ["log_loss", "brier"])
def test_a_map_is_chosen_by_rows_held_out(
    measure: str, rows: Path, tmp_path: Path, invoke: Invoke
) -> None:
    votes = ["--probs", "prob_*", "--counts", "count_*"]
    model = fit(invoke, rows, *votes, "--method", "auto", "--optimize", measure)
    table = model["candidates"]
    assert [one["method"] for one in table] == ["none", "temperature", "vector", "matrix"]
    best = min(one[measure] for one in table)
    within = [
        one["method"]
        for one in table
        if one[measure] <= best + one["error"] * (0.25 if one["method"] == "none" else 1.0)
    ]
    assert (
        model["method"] == within[0] == "vector"
    )  # the truth: logits halved, and shifted by class
    plain = fit(invoke, rows, *votes, "--method", "vector")
    assert (model["weights"], model["intercept"]) == (plain["weights"], plain["intercept"])
    (tmp_path / "cal.json").write_text(json.dumps(model))
    shown = invoke("show", tmp_path / "cal.json").stdout.decode()
    assert "vector was chosen from 4 methods" in shown and "chosen" in shown


def test_errors_of_the_choice_are_those_of_paired_rows(rows: Path) -> None:
    options = CalibrateOptions(probs=("prob_*",), counts="count_*", method="auto")
    source = open_source([str(rows)])
    stored = read_rater_rows(source, RaterOptions(probs=("prob_*",), counts="count_*", logits=True))
    _, table = choose_class_map(stored, options)
    fold = folds_of_keys(stored.key, FOLDS, 0)
    lost = {}
    for name in ("none", "temperature"):
        own = np.empty(stored.rows)
        for k in range(FOLDS):
            held = fold == k
            fitted = fit_logit_map(stored.logits[~held], stored.counts[~held], name)
            p = fitted.probabilities(stored.logits[held])
            own[held] = -(stored.counts[held] * np.log(p)).sum(axis=1)
        lost[name] = own
    votes = stored.counts.sum(axis=1)
    found = {one.method: one for one in table}
    for name, own in lost.items():
        assert found[name].log_loss == pytest.approx(own.sum() / votes.sum(), rel=1e-9)
    _, errors = _judged(
        stored,
        fold,
        [
            [
                fit_logit_map(stored.logits, stored.counts, name, chosen=fold != k)
                for k in range(FOLDS)
            ]
            for name in lost
        ],
    )
    apart = lost["none"] - lost["temperature"]
    spread = apart - votes * apart.sum() / votes.sum()
    wanted = np.sqrt((spread**2).sum()) / votes.sum()
    assert errors[0, 0, 1] == pytest.approx(wanted, rel=1e-9)


def test_class_probabilities_that_are_right_stay(tmp_path: Path, invoke: Invoke) -> None:
    generator = np.random.default_rng(5)
    truth = generator.dirichlet(np.ones(3), 2000)
    frame = pl.DataFrame({f"prob_{k}": truth[:, k] for k in range(3)})
    label = [int(generator.choice(3, p=p)) for p in truth]
    path = tmp_path / "right.parquet"
    frame.with_columns(label=pl.Series(label)).write_parquet(path)
    model = fit(invoke, path, "--probs", "prob_*", "--method", "auto")
    assert model["method"] == "none"
    cal, out = tmp_path / "cal.json", tmp_path / "out.parquet"
    cal.write_text(json.dumps(model))
    assert invoke("apply", cal, path, "-q", "-o", out).code == 0
    found = pl.read_parquet(out).select(f"calibrated_{k}" for k in range(3)).to_numpy()
    assert found == pytest.approx(truth, abs=1e-12)
    few = tmp_path / "few.parquet"
    pl.read_parquet(path).head(2).write_parquet(few)
    model = fit(invoke, few, "--probs", "prob_*", "--method", "auto")
    assert model["method"] == "none"
    assert {one["reason"] for one in model["candidates"]} == {"there are too few rows for folds"}
