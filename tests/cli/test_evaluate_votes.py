"""``calibkit evaluate --counts``: class probabilities judged by the votes of several raters."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit import simulate_raters
from tests.cli.score_files import write
from tests.conftest import ROOT, Invoke, make
from tests.library.samples import golden


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rows = simulate_raters(600, seed=4, raters=3, design="modes")
    softer = (pl.col("prob_1") * 0.5 + 0.25).alias("soft_1")
    return rows.with_columns(softer).with_columns(
        soft_0=1 - pl.col("soft_1"), patient=pl.col("id") // 4, strength=pl.lit(2.0)
    )


@pytest.fixture
def votes(frame: pl.DataFrame) -> Path:
    path = Path("votes.parquet")
    frame.write_parquet(path)
    return path


Evaluate = Callable[..., dict[str, Any]]


@pytest.fixture
def evaluate(invoke: Invoke) -> Evaluate:
    """Evaluate rows, or a file of them, by their votes."""

    def call(rows: Path | pl.DataFrame, *more: object) -> dict[str, Any]:
        path = rows if isinstance(rows, Path) else write(rows, "rows.parquet")
        return invoke("evaluate", path, "--counts count_* --json", *more).result()

    return call


def test_golden_ensemble(invoke: Invoke) -> None:
    folder = ROOT / "tests" / "golden" / "p20_histograms_order2"
    expected = golden("p20_histograms_order2")["expected"]
    rows = pl.read_parquet(folder / "rows.parquet").select("^y.$")
    for place in range(2):
        member = pl.read_parquet(folder / f"member{place}.parquet")
        rows = rows.hstack(member.rename(lambda name, place=place: f"m{place}_{name}"))
    rows.write_parquet("rows.parquet")
    members = ["--probs", "m0_z*", "--probs", "m1_z*", "--ensemble", "--counts", "y*"]
    for kind, more in (("raw", []), ("alpha", ["--alpha0", "m0_alpha0,m1_alpha0"])):
        done = invoke("evaluate", "rows.parquet", *members, *more, "--json")
        found, known = done.result()["metrics"]["ensemble"]["all"], expected[kind]
        each = [known[f"D{k}"]["L"] for k in range(3)]
        wanted = {
            "disagreement_loss": known["D"]["L"],
            "disagreement_calibration_loss": known["D"]["CL_debiased"],
            "class_disagreement_loss": np.mean(each),
            **{f"class_disagreement_loss[{k}]": own for k, own in enumerate(each)},
        }
        assert {name: found[name] for name in wanted} == pytest.approx(wanted, abs=1e-10)


def test_rivals_slices_and_intervals(evaluate: Evaluate, votes: Path) -> None:
    rivals = ["--probs", "prob_*", "--probs", "soft_*", "--by", "mode", "--min-rows", "150"]
    found = evaluate(votes, *rivals, "--groups", "patient")
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
    other_way = evaluate(votes, *rivals, "--baseline", "soft_*", "--no-intervals")
    assert list(other_way["differences"]) == ["prob_*-soft_*"]
    assert other_way["intervals"] == {}


def test_given_disagreements_take_the_place_of_derived_ones(
    evaluate: Evaluate, votes: Path, frame: pl.DataFrame
) -> None:
    known = evaluate(votes, "--alpha0 strength --no-intervals")["metrics"]["prob_*"]["all"]
    phi = 2 / 3 * 2 * pl.col("prob_1") * (1 - pl.col("prob_1"))
    given = frame.with_columns(d=phi, d_0=phi, d_1=phi)
    found = evaluate(given, "--disagreement d --class-disagreement d_* --no-intervals")
    assert found["metrics"]["prob_*"]["all"] == pytest.approx(known, abs=1e-12)


def test_a_weight_is_the_row_as_often(
    evaluate: Evaluate, frame: pl.DataFrame, invoke: Invoke
) -> None:
    weighted = frame.with_columns(w=pl.col("id") % 3)
    repeated = weighted.select(pl.all().repeat_by("w").explode())
    found, plain = evaluate(weighted, "--weight w"), evaluate(repeated, "--confidence 0.95")
    signatures = found.pop("signature"), plain.pop("signature")
    assert found == plain
    ours, others = (one["squared_loss"].split("|") for one in signatures)
    assert {*ours} - {*others} == {"weights:frequency"}
    assert "interval:influence:0.95" in others
    half = write(weighted.with_columns(pl.col("w") / 2), "half.parquet")
    said = invoke("evaluate", half, "--counts count_* --weight w --json")
    assert said.refused(3)["column"] == "w"


def test_chosen_metrics_bring_their_classes(evaluate: Evaluate, votes: Path) -> None:
    found = evaluate(votes, "--metrics calibration_loss,rows_used")
    names = ["calibration_loss", "calibration_loss[0]", "calibration_loss[1]", "rows_used"]
    assert sorted(found["metrics"]["prob_*"]["all"]) == sorted(names)


COUNTED = "--counts count_* "


def test_a_dry_run_names_the_votes(invoke: Invoke, votes: Path) -> None:
    said = invoke("evaluate", votes, "--counts count_* --dry-run")
    assert b"votes (count_0)" in said.stdout


def weighted_loss(frame: pl.DataFrame, weights: str) -> float:
    """Return equation 7 of Mimori and others, written out."""
    z, y = (frame.select(f"^{stem}_.$").to_numpy() for stem in ("prob", "count"))
    w, share = frame[weights].to_numpy(), y / y.sum(axis=1, keepdims=True)
    each = ((share - z) ** 2 + share * (1 - share)).sum(axis=1)
    return float(np.average(each, weights=w))


def test_rater_weights_weigh_rows_in_the_squared_loss(
    evaluate: Evaluate, frame: pl.DataFrame
) -> None:
    random = np.random.default_rng(2)
    whole, w = pl.Series(random.integers(0, 4, 600)), pl.Series(random.random(600))
    rows = frame.with_columns(whole=whole, w=w, one=1.0)
    plain = evaluate(rows)
    for name in ("whole", "w", "one"):
        found = evaluate(rows, "--rater-weight", name)
        own = found["metrics"]["prob_*"]["all"]
        assert own["squared_loss"] == pytest.approx(weighted_loss(rows, name), abs=1e-12)
        parts = own["squared_loss[0]"] + own["squared_loss[1]"]
        assert own["squared_loss"] == pytest.approx(parts)
        limits = found["intervals"]["prob_*"]["all"]["squared_loss"]
        assert limits["low"] < own["squared_loss"] < limits["high"]
        assert "weights:raters" in found["signature"]["squared_loss"]
        for other in ("accuracy", "epistemic_loss", "disagreement_loss"):
            assert own[other] == plain["metrics"]["prob_*"]["all"][other]
    assert limits == pytest.approx(plain["intervals"]["prob_*"]["all"]["squared_loss"])
    assert ck.evaluate(rows, counts="count_*", rater_weight="one").metrics == found["metrics"]


def test_the_interval_of_a_weighted_loss_is_that_of_replicates(
    evaluate: Evaluate, frame: pl.DataFrame
) -> None:
    rows = frame.with_columns(w=(pl.col("id") % 5).cast(pl.Float64))
    found = evaluate(rows, "--rater-weight w")
    limits = found["intervals"]["prob_*"]["all"]["squared_loss"]
    random = np.random.default_rng(1)
    again = [
        weighted_loss(rows[random.integers(0, rows.height, rows.height)], "w") for _ in range(2000)
    ]
    assert (limits["high"] - limits["low"]) / 2 / 1.96 == pytest.approx(np.std(again), rel=0.08)


def test_rater_weights_of_slices_and_bad_ones(
    evaluate: Evaluate, invoke: Invoke, frame: pl.DataFrame
) -> None:
    clear = pl.col("mode") == "clear"
    rows = frame.with_columns(w=pl.when(clear).then(0.0).otherwise(1.0))
    rivals = "--probs prob_* --probs soft_* --by mode --min-rows 1 --rater-weight w"
    found = evaluate(rows, rivals)
    own = found["metrics"]["prob_*"]
    assert own["mode:clear"]["squared_loss"] is None
    assert found["differences"]["soft_*-prob_*"]["mode:clear"]["squared_loss"]["value"] is None
    expected = weighted_loss(rows.filter(~clear), "w")
    assert own["all"]["squared_loss"] == pytest.approx(expected)
    for weight, words in ((-1.0, "negative"), (0.0, "weight 0"), ("x", "text")):
        path = write(frame.with_columns(w=pl.lit(weight)), "bad.parquet")
        invoke("evaluate", path, "--counts count_* --rater-weight w").refused(3, words)


def test_markdown_begins_with_predictors_side_by_side(votes: Path, evaluate: Evaluate) -> None:
    rivals = "--probs prob_*,soft_* --no-intervals"
    found = evaluate(votes, rivals)
    out = make("m.md", "evaluate", votes, "--counts count_*", rivals)
    _, table, long = out.read_text().split("\n\n")
    rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
    assert rows[0] == ["metric", "prob_\\*", "soft_\\*"]
    own = found["metrics"]
    assert {row[0] for row in rows[2:]} == {n for n in own["prob_*"]["all"] if n[-1] != "]"}
    for name, *values in rows[2:]:
        expected = [own[score]["all"][name] for score in ("prob_*", "soft_*")]
        assert [float(value) for value in values] == pytest.approx(expected, rel=1e-5)
    assert long.startswith("| score | slice |")


def test_rivals_judged_by_labels_have_a_baseline_too(invoke: Invoke) -> None:
    chance = np.random.default_rng(1)
    columns = {
        f"{name}_{k}": own
        for name in ("prob", "riv")
        for k, own in enumerate(chance.dirichlet(np.ones(3), 200).T)
    }
    rows = pl.DataFrame({**columns, "label": chance.integers(0, 3, 200)})
    rows.write_parquet("rows.parquet")
    line = ["evaluate", "rows.parquet", "--probs prob_* --probs riv_*"]
    found = [
        invoke(*line, *more, "--json").result()["differences"]
        for more in ([], ["--baseline", "riv_*"])
    ]
    assert [list(one) for one in found] == [["riv_*-prob_*"], ["prob_*-riv_*"]]
    assert [one["value"] for one in found[0]["riv_*-prob_*"]["all"].values()] == [
        -one["value"] for one in found[1]["prob_*-riv_*"]["all"].values()
    ]
    invoke(*line, "--baseline nix").refused(2, "--baseline 'nix' is none of the predictors")
