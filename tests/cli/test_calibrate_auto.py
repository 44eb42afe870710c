"""``calibrate --method auto`` from the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.maps.methods import BEHIND, NONE_BEHIND
from tests.cli.score_files import write
from tests.conftest import Invoke


def file(folder: Path, count: int, steep: float, seed: int = 1) -> Path:
    """Write scores whose logits are as many times too large."""
    random = np.random.default_rng(seed)
    z = random.normal(-0.5, 1.5, count)
    label = random.random(count) < 1.0 / (1.0 + np.exp(-z))
    score = 1.0 / (1.0 + np.exp(-steep * z))
    site = random.choice(["a", "b"], count)
    frame = pl.DataFrame({"score": score, "label": label.astype(int), "site": site})
    return write(frame, folder / f"rows{count}.parquet")


def chosen(invoke: Invoke, rows: Path, *options: str) -> dict[str, Any]:
    out = rows.parent / "cal.json"
    return invoke("calibrate", rows, "--method", "auto", *options, "-o", out).result()


def test_the_first_within_an_error_of_the_best(tmp_path: Path, invoke: Invoke) -> None:
    for measure in ("log_loss", "brier"):
        model = chosen(invoke, file(tmp_path, 3000, 2.0), "--optimize", measure)
        table = [one for one in model["candidates"] if one["reason"] is None]
        best = min(one[measure] for one in table)
        share = {"none": NONE_BEHIND}
        first = next(
            one
            for one in table
            if one[measure] <= best + share.get(one["method"], BEHIND) * one["error"]
        )
        assert model["method"] == first["method"] != "none"
        assert [one["error"] for one in table if one[measure] == best] == [0.0]
        keys = {"method", "log_loss", "brier", "error", "reason"}
        assert all(one.keys() == keys for one in model["candidates"])
    shown = invoke("show", tmp_path / "cal.json")
    assert b"chosen" in shown.stdout and b"quadratic" in shown.stdout


def test_the_brier_score_of_a_candidate_is_that_of_its_rows(tmp_path: Path, invoke: Invoke) -> None:
    rows = file(tmp_path, 500, 2.0)
    table = chosen(invoke, rows)["candidates"]
    (left_alone,) = (one for one in table if one["method"] == "none")
    frame = pl.read_parquet(rows)
    square = ((frame["score"] - frame["label"]) ** 2).mean()
    assert left_alone["brier"] == pytest.approx(square, rel=1e-9)


def test_good_scores_are_left_alone(tmp_path: Path, invoke: Invoke) -> None:
    rows = file(tmp_path, 2000, 1.0, seed=2)
    out = tmp_path / "cal.json"
    outcome = invoke("calibrate", rows, "--method", "auto", "-o", out)
    assert json.loads(out.read_bytes())["method"] == "none"
    assert "they stay as they are" in outcome.stderr
    frame = invoke("apply", out, rows, "--keep", "score", "-o", tmp_path / "out.parquet").result()
    assert (frame["score"] == frame["calibrated"]).all()


@pytest.mark.parametrize("label", [[0] * 50, [1] * 50, [1] + [0] * 49, [0, 1]])
def test_where_nothing_can_be_compared_scores_stay(
    label: list[int], tmp_path: Path, invoke: Invoke
) -> None:
    score = np.linspace(0.0, 1.0, len(label))
    rows = write(pl.DataFrame({"score": score, "label": label}), tmp_path / "few.csv")
    model = chosen(invoke, rows)
    said = invoke("calibrate", rows, "-o", tmp_path / "again.json").stderr
    assert "no map could be compared (" in said
    assert model["method"] == "none"
    assert all(one["reason"] for one in model["candidates"] if one["method"] != "none")


def test_separated_classes_leave_out_what_cannot_be_fitted(tmp_path: Path, invoke: Invoke) -> None:
    score = np.linspace(0.01, 0.99, 200)
    frame = pl.DataFrame({"score": score, "label": (score > 0.5).astype(int)})
    model = chosen(invoke, write(frame, tmp_path / "apart.csv"))
    reasons = {one["method"]: one["reason"] for one in model["candidates"]}
    assert "separated by a threshold" in reasons["beta"]
    assert reasons["none"] is None


def test_raw_scores_segments_and_weights(tmp_path: Path, invoke: Invoke) -> None:
    rows = file(tmp_path, 2000, 2.0)
    raw = chosen(invoke, rows, "--scale", "raw")
    reasons = {one["method"]: one["reason"] for one in raw["candidates"]}
    assert "needs probabilities" in reasons["none"] and "needs probabilities" in reasons["beta"]
    by = chosen(invoke, rows, "--by", "site")
    assert sorted(by["groups"]) == ["a", "b"]
    frame = pl.read_parquet(rows).with_columns(w=pl.Series(np.tile([0.3, 1.7], 1000)))
    weighted = chosen(invoke, write(frame, tmp_path / "w.parquet"), "--weight", "w")
    assert weighted["method"] != "none"


def test_optimize_goes_with_auto(tmp_path: Path, invoke: Invoke) -> None:
    rows = file(tmp_path, 100, 2.0)
    outcome = invoke("calibrate", rows, "--method", "platt", "--optimize", "brier")
    outcome.refused(2, "--optimize goes with --method auto")
    assert invoke("calibrate", rows, "--method", "auto", "--bins", "4").code == 2


def test_auto_is_the_default(tmp_path: Path, invoke: Invoke) -> None:
    rows, out = file(tmp_path, 600, 2.0), tmp_path / "default.json"
    assert invoke("calibrate", rows, "-o", out).code == 0
    chosen(invoke, rows)
    assert out.read_bytes() == (tmp_path / "cal.json").read_bytes()


@pytest.mark.parametrize("column", ["--groups", "--time"])
def test_folds_follow_a_column(column: str, tmp_path: Path, invoke: Invoke) -> None:
    # Rows of a unit are copies of one row, so that folds by chance have seen the rows that judge them.
    random = np.random.default_rng(3)
    score = random.random(60)
    label = random.integers(0, 2, 60)
    frame = pl.DataFrame({"score": score, "label": label, "unit": np.arange(60)})
    rows = write(pl.concat([frame] * 40), tmp_path / "copies.parquet")
    apart = chosen(invoke, rows, column, "unit")
    mixed = chosen(invoke, rows)
    loss = {
        name: {one["method"]: one["log_loss"] for one in model["candidates"]}
        for name, model in (("apart", apart), ("mixed", mixed))
    }
    assert loss["mixed"]["isotonic"] < 0.69 < loss["apart"]["isotonic"]
    assert apart["provenance"]["options"][column[2:]] == "unit"
    assert set(apart["columns"]) == {"score", "label"}  # apply reads no more
    parts = []
    for place, own in enumerate(pl.read_parquet(rows).iter_slices(1300)):
        shard = write(own, tmp_path / f"part{place}.parquet")
        parts.append(tmp_path / f"part{place}.state")
        done = invoke("calibrate", shard, column, "unit", "--partial", "-q", "-o", parts[-1])
        assert done.code == 0, done.stderr
    assert invoke("merge", *parts, "-q", "-o", tmp_path / "merged.json").code == 0
    merged = json.loads((tmp_path / "merged.json").read_bytes())
    assert merged == apart


def test_folds_of_no_use(tmp_path: Path, invoke: Invoke) -> None:
    rows = file(tmp_path, 200, 2.0)
    one = invoke("calibrate", rows, "--method", "beta", "--groups", "site")
    assert one.code == 2 and "--groups goes with --method auto" in one.stderr
    both = invoke("calibrate", rows, "--groups", "site", "--time", "score")
    assert both.code == 2 and "folds follow one of them" in both.stderr
    assert invoke("calibrate", rows, "--groups", "nobody").code == 2
    assert "another role" in invoke("calibrate", rows, "--time", "score").stderr
    alone = pl.read_parquet(rows).with_columns(site=pl.lit("a"))
    model = chosen(invoke, write(alone, tmp_path / "alone.parquet"), "--groups", "site")
    assert model["method"] == "none"
    assert {one["reason"] for one in model["candidates"][:4]} == {
        "there are too few rows for folds"
    }
    missing = pl.read_parquet(rows).with_columns(site=pl.lit(None, pl.String))
    outcome = invoke("calibrate", write(missing, tmp_path / "m.parquet"), "--groups", "site")
    assert outcome.code == 3 and "no value" in outcome.stderr
