"""``calibkit evaluate --counts``: class probabilities judged by the votes of several raters."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit import simulate_raters
from tests.conftest import ROOT, Invoke
from tests.library.samples import golden


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rows = simulate_raters(600, seed=4, raters=3, design="modes")
    softer = (pl.col("prob_1") * 0.5 + 0.25).alias("soft_1")
    return rows.with_columns(softer).with_columns(
        soft_0=1 - pl.col("soft_1"), patient=pl.col("id") // 4, strength=pl.lit(2.0)
    )


@pytest.fixture
def votes(tmp_path: Path, frame: pl.DataFrame) -> Path:
    path = tmp_path / "votes.parquet"
    frame.write_parquet(path)
    return path


def evaluate(invoke: Invoke, path: Path, *more: object) -> dict[str, Any]:
    return invoke("evaluate", path, "--counts", "count_*", "--json", *more).result()


def test_golden_ensemble(invoke: Invoke, tmp_path: Path) -> None:
    folder = ROOT / "tests" / "golden" / "p20_histograms_order2"
    expected = golden("p20_histograms_order2")["expected"]
    rows = pl.read_parquet(folder / "rows.parquet").select("^y.$")
    for place in range(2):
        member = pl.read_parquet(folder / f"member{place}.parquet")
        rows = rows.hstack(member.rename(lambda name, place=place: f"m{place}_{name}"))
    rows.write_parquet(tmp_path / "rows.parquet")
    members = ["--probs", "m0_z*", "--probs", "m1_z*", "--ensemble", "--counts", "y*"]
    for kind, more in (("raw", []), ("alpha", ["--alpha0", "m0_alpha0,m1_alpha0"])):
        said = invoke("evaluate", tmp_path / "rows.parquet", *members, *more, "--json")
        assert said.code == 0, said
        found = json.loads(said.stdout)["metrics"]["ensemble"]["all"]
        known = expected[kind]
        assert found["disagreement_loss"] == pytest.approx(known["D"]["L"], abs=1e-10)
        assert found["disagreement_calibration_loss"] == pytest.approx(
            known["D"]["CL_debiased"], abs=1e-10
        )
        for k in range(3):
            assert found[f"class_disagreement_loss[{k}]"] == pytest.approx(
                known[f"D{k}"]["L"], abs=1e-10
            )
        means = np.mean([known[f"D{k}"]["L"] for k in range(3)])
        assert found["class_disagreement_loss"] == pytest.approx(means, abs=1e-10)


def test_rivals_slices_and_intervals(invoke: Invoke, votes: Path) -> None:
    rivals = ["--probs", "prob_*", "--probs", "soft_*", "--by", "mode", "--min-rows", "150"]
    found = evaluate(invoke, votes, *rivals, "--groups", "patient")
    assert list(found["metrics"]) == ["prob_*", "soft_*"]
    slices = found["metrics"]["prob_*"]
    assert set(slices) == {"all", "mode:aleatoric", "mode:clear", "mode:epistemic"}
    assert slices["mode:clear"]["squared_loss"] is None  # fewer than 150 rows
    assert slices["mode:clear"]["rows_used"] < 150
    assert found["intervals"]["prob_*"]["mode:clear"] == {}
    whole, limits = slices["all"], found["intervals"]["prob_*"]["all"]
    for name in ("squared_loss", "epistemic_loss", "accuracy", "disagreement_loss"):
        assert limits[name]["low"] < whole[name] < limits[name]["high"]
    for name in ("class_calibration_error", "dispersion_error"):
        assert 0 <= limits[name]["low"] <= whole[name] <= limits[name]["high"]
    difference = found["differences"]["soft_*-prob_*"]["all"]["squared_loss"]
    other = found["metrics"]["soft_*"]["all"]["squared_loss"]
    assert difference["value"] == pytest.approx(other - whole["squared_loss"])
    assert difference["low"] < difference["value"] < difference["high"]
    assert "groups" in found["signature"]["epistemic_loss"]
    assert "estimator:plugin" in found["signature"]["epistemic_loss_plugin"]
    other_way = evaluate(invoke, votes, *rivals, "--baseline", "soft_*", "--no-intervals")
    assert list(other_way["differences"]) == ["prob_*-soft_*"]
    assert other_way["intervals"] == {}


def test_given_disagreements_take_the_place_of_derived_ones(
    invoke: Invoke, votes: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    derived = evaluate(invoke, votes, "--alpha0", "strength", "--no-intervals")
    p = frame["prob_1"].to_numpy()
    phi = 2 / 3 * 2 * p * (1 - p)
    given = frame.with_columns(d=pl.Series(phi), d_0=pl.Series(phi), d_1=pl.Series(phi))
    given.write_csv(tmp_path / "given.csv")
    more = ["--disagreement", "d", "--class-disagreement", "d_*", "--no-intervals"]
    found = evaluate(invoke, tmp_path / "given.csv", *more)
    known = derived["metrics"]["prob_*"]["all"]
    assert found["metrics"]["prob_*"]["all"] == pytest.approx(known, abs=1e-12)


def test_a_weight_is_the_row_as_often(
    invoke: Invoke, votes: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    weighted = frame.with_columns(w=pl.col("id") % 3)
    weighted.write_parquet(tmp_path / "weighted.parquet")
    repeated = weighted.select(pl.all().repeat_by("w").explode())
    repeated.write_parquet(tmp_path / "repeated.parquet")
    found = evaluate(invoke, tmp_path / "weighted.parquet", "--weight", "w")
    assert found == evaluate(invoke, tmp_path / "repeated.parquet")
    weighted.with_columns(pl.col("w") / 2).write_parquet(tmp_path / "half.parquet")
    said = invoke("evaluate", tmp_path / "half.parquet", "--counts count_* --weight w --json")
    assert said.code == 3
    assert json.loads(said.stdout)["error"]["column"] == "w"


def test_chosen_metrics_bring_their_classes(invoke: Invoke, votes: Path) -> None:
    found = evaluate(invoke, votes, "--metrics", "calibration_loss,rows_used")
    names = ["calibration_loss", "calibration_loss[0]", "calibration_loss[1]", "rows_used"]
    assert sorted(found["metrics"]["prob_*"]["all"]) == sorted(names)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--alpha0", "a,b"], "names 2 columns"),
        (["--alpha0", "nothing"], "nothing"),
        (["--probs", "prob_*,soft_*", "--disagreement", "strength"], "one predictor"),
        (["--baseline", "soft_*"], "none of the predictors"),
        (["--ensemble", "--baseline", "prob_*"], "an ensemble is one predictor"),
        (["--score", "prob_1"], "--score"),
        (["--top", "0.1"], "--top"),
        (["--metrics", "epistemic_los"], "epistemic_loss"),
        (["--weight-kind", "sampling", "--weight", "strength"], "sampling"),
    ],
)
def test_bad_options_are_refused(
    invoke: Invoke, votes: Path, options: list[str], words: str
) -> None:
    invoke("evaluate", votes, "--counts", "count_*", *options).refused(2, words)


def test_votes_are_needed_for_what_votes_judge(invoke: Invoke, votes: Path) -> None:
    said = invoke("evaluate", votes, "--probs", "prob_*", "--label", "id", "--ensemble")
    said.refused(2, "--counts")
    said = invoke("evaluate", votes, "--counts", "count_*", "--dry-run")
    assert b"votes (count_0)" in said.stdout


def weighted_loss(frame: pl.DataFrame, weights: str) -> float:
    """Return equation 7 of Mimori and others, written out."""
    z, y = (frame.select(f"^{stem}_.$").to_numpy() for stem in ("prob", "count"))
    w, share = frame[weights].to_numpy(), y / y.sum(axis=1, keepdims=True)
    each = ((share - z) ** 2 + share * (1 - share)).sum(axis=1)
    return float(np.average(each, weights=w))


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_rater_weights_weigh_rows_in_the_squared_loss(
    invoke: Invoke, frame: pl.DataFrame, tmp_path: Path, suffix: str
) -> None:
    random = np.random.default_rng(2)
    rows = frame.with_columns(
        whole=pl.Series(random.integers(0, 4, 600)), w=pl.Series(random.random(600))
    )
    path = tmp_path / f"rows.{suffix}"
    rows.write_csv(path) if suffix == "csv" else rows.write_parquet(path)
    plain = evaluate(invoke, path)
    for name in ("whole", "w"):
        found = evaluate(invoke, path, "--rater-weight", name)
        own = found["metrics"]["prob_*"]["all"]
        assert own["squared_loss"] == pytest.approx(weighted_loss(rows, name), abs=1e-12)
        parts = own["squared_loss[0]"] + own["squared_loss[1]"]
        assert own["squared_loss"] == pytest.approx(parts)
        limits = found["intervals"]["prob_*"]["all"]["squared_loss"]
        assert limits["low"] < own["squared_loss"] < limits["high"]
        assert "weights:raters" in found["signature"]["squared_loss"]
        for other in ("accuracy", "epistemic_loss", "disagreement_loss"):
            assert own[other] == plain["metrics"]["prob_*"]["all"][other]
    # Whole weights: the rows written out.
    repeated = evaluate(invoke, path, "--weight", "whole")["metrics"]["prob_*"]["all"]
    found = evaluate(invoke, path, "--rater-weight", "whole")["metrics"]["prob_*"]["all"]
    assert found["squared_loss"] == pytest.approx(repeated["squared_loss"])
    ones = rows.with_columns(w=1.0)
    ones.write_parquet(tmp_path / "ones.parquet")
    same = evaluate(invoke, tmp_path / "ones.parquet", "--rater-weight", "w")
    for name in ("low", "high"):
        limits = same["intervals"]["prob_*"]["all"]["squared_loss"]
        assert limits[name] == pytest.approx(
            plain["intervals"]["prob_*"]["all"]["squared_loss"][name]
        )
    assert ck.evaluate(ones, counts="count_*", rater_weight="w").metrics == same["metrics"]


def test_the_interval_of_a_weighted_loss_is_that_of_replicates(
    invoke: Invoke, frame: pl.DataFrame, tmp_path: Path
) -> None:
    rows = frame.with_columns(w=(pl.col("id") % 5).cast(pl.Float64))
    rows.write_parquet(tmp_path / "rows.parquet")
    found = evaluate(invoke, tmp_path / "rows.parquet", "--rater-weight", "w")
    limits = found["intervals"]["prob_*"]["all"]["squared_loss"]
    random = np.random.default_rng(1)
    again = [
        weighted_loss(rows[random.integers(0, rows.height, rows.height)], "w") for _ in range(2000)
    ]
    assert (limits["high"] - limits["low"]) / 2 / 1.96 == pytest.approx(np.std(again), rel=0.08)


def test_rater_weights_of_slices_and_bad_ones(
    invoke: Invoke, frame: pl.DataFrame, tmp_path: Path
) -> None:
    path = tmp_path / "rows.parquet"
    clear = pl.col("mode") == "clear"
    rows = frame.with_columns(w=pl.when(clear).then(0.0).otherwise(1.0))
    rows.write_parquet(path)
    rivals = ["--probs", "prob_*", "--probs", "soft_*", "--by", "mode", "--min-rows", "1"]
    found = evaluate(invoke, path, *rivals, "--rater-weight", "w")
    assert found["metrics"]["prob_*"]["mode:clear"]["squared_loss"] is None
    assert found["differences"]["soft_*-prob_*"]["mode:clear"]["squared_loss"]["value"] is None
    rest = rows.filter(~clear)
    assert found["metrics"]["prob_*"]["all"]["squared_loss"] == pytest.approx(
        weighted_loss(rest, "w")
    )
    for weight, words in (
        (pl.lit(-1.0), "negative"),
        (pl.lit(0.0), "weight 0"),
        (pl.lit("x"), "text"),
    ):
        frame.with_columns(w=weight).write_parquet(path)
        said = invoke("evaluate", path, "--counts", "count_*", "--rater-weight", "w")
        assert said.code == 3 and words in said.stderr, said
    for line in (["--counts", "count_*", "--rater-weight", "no"], ["--rater-weight", "w"]):
        assert invoke("evaluate", path, *line).code == 2


def test_markdown_begins_with_predictors_side_by_side(
    votes: Path, tmp_path: Path, invoke: Invoke
) -> None:
    out = tmp_path / "m.md"
    found = evaluate(invoke, votes, "--probs", "prob_*", "--probs", "soft_*", "--no-intervals")
    line = ["--counts", "count_*", "--probs", "prob_*,soft_*", "--no-intervals", "-q", "-o", out]
    assert invoke("evaluate", votes, *line).code == 0
    _, table, long = out.read_text().split("\n\n")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    assert rows[0] == ["metric", "prob_\\*", "soft_\\*"]
    own = found["metrics"]
    assert {row[0] for row in rows[2:]} == {n for n in own["prob_*"]["all"] if n[-1] != "]"}
    for name, *values in rows[2:]:
        expected = [own[score]["all"][name] for score in ("prob_*", "soft_*")]
        assert [float(value) for value in values] == pytest.approx(expected, rel=1e-5)
    assert long.startswith("| score | slice |")


def test_rivals_judged_by_labels_have_a_baseline_too(invoke: Invoke, tmp_path: Path) -> None:
    chance = np.random.default_rng(1)
    columns = {
        f"{name}_{k}": own
        for name in ("prob", "riv")
        for k, own in enumerate(chance.dirichlet(np.ones(3), 200).T)
    }
    rows = pl.DataFrame({**columns, "label": chance.integers(0, 3, 200)})
    rows.write_parquet(tmp_path / "rows.parquet")
    line = ["evaluate", tmp_path / "rows.parquet", "--probs prob_* --probs riv_*"]
    found = [
        invoke(*line, *more, "--json").result()["differences"]
        for more in ([], ["--baseline", "riv_*"])
    ]
    assert [list(one) for one in found] == [["riv_*-prob_*"], ["prob_*-riv_*"]]
    assert [one["value"] for one in found[0]["riv_*-prob_*"]["all"].values()] == [
        -one["value"] for one in found[1]["prob_*-riv_*"]["all"].values()
    ]
    said = "--baseline 'nix' is none of the predictors"
    invoke(*line, "--baseline nix").refused(2, said)
