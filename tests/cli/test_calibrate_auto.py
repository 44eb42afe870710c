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
from tests.conftest import Invoke, make


def file(folder: Path, count: int, steep: float, seed: int = 1) -> Path:
    """Write scores whose logits are as many times too large."""
    random = np.random.default_rng(seed)
    z = random.normal(-0.5, 1.5, count)
    label = random.random(count) < 1.0 / (1.0 + np.exp(-z))
    score = 1.0 / (1.0 + np.exp(-steep * z))
    site = random.choice(["a", "b"], count)
    frame = pl.DataFrame({"score": score, "label": label.astype(int), "site": site})
    return write(frame, folder / f"rows{count}.parquet")


def chosen(rows: Path, *options: str) -> dict[str, Any]:
    out = rows.parent / "cal.json"
    return json.loads(make(out, "calibrate", rows, "--method", "auto", *options).read_bytes())


def reasons_of(model: dict[str, Any]) -> dict[str, str | None]:
    return {one["method"]: one["reason"] for one in model["candidates"]}


@pytest.mark.parametrize("measure", ["log_loss", "brier"])
def test_the_first_within_an_error_of_the_best(
    measure: str, tmp_path: Path, invoke: Invoke
) -> None:
    rows = file(tmp_path, 3000, 2.0)
    model = chosen(rows, "--optimize", measure)
    keys = {"method", "log_loss", "brier", "error", "reason"}
    assert all(one.keys() == keys for one in model["candidates"])
    table = [one for one in model["candidates"] if one["reason"] is None]
    best = min(one[measure] for one in table)
    allowed = {one["method"]: BEHIND * one["error"] for one in table}
    allowed["none"] *= NONE_BEHIND / BEHIND
    within = [one["method"] for one in table if one[measure] <= best + allowed[one["method"]]]
    assert model["method"] == within[0] != "none"
    assert [one["error"] for one in table if one[measure] == best] == [0.0]
    (left_alone,) = (one for one in table if one["method"] == "none")
    frame = pl.read_parquet(rows)
    square = ((frame["score"] - frame["label"]) ** 2).mean()
    assert left_alone["brier"] == pytest.approx(square, rel=1e-9)
    shown = invoke("show", tmp_path / "cal.json")
    assert b"chosen" in shown.stdout and b"quadratic" in shown.stdout
    if measure == "log_loss":  # as by default
        by_default = make(tmp_path / "default.json", "calibrate", rows)
        chosen(rows)
        assert by_default.read_bytes() == (tmp_path / "cal.json").read_bytes()


def test_good_scores_are_left_alone(tmp_path: Path, invoke: Invoke) -> None:
    rows, out = file(tmp_path, 2000, 1.0, seed=2), tmp_path / "cal.json"
    outcome = invoke("calibrate", rows, "--method", "auto", "-o", out)
    outcome.succeeded("they stay as they are")
    assert outcome.result()["method"] == "none"
    frame = invoke("apply", out, rows, "--keep", "score", "-o", tmp_path / "out.parquet").result()
    assert (frame["score"] == frame["calibrated"]).all()


@pytest.mark.parametrize("label", [[0] * 50, [1] * 50, [1] + [0] * 49, [0, 1]])
def test_where_nothing_can_be_compared_scores_stay(label: list[int], invoke: Invoke) -> None:
    score = np.linspace(0.0, 1.0, len(label))
    rows = write(pl.DataFrame({"score": score, "label": label}), "few.csv")
    done = invoke("calibrate", rows, "-o m.json")
    done.succeeded("no map could be compared (")
    model = done.result()
    assert model["method"] == "none"
    assert all(one["reason"] for one in model["candidates"] if one["method"] != "none")


def test_what_cannot_be_fitted_is_left_out_with_its_reason(tmp_path: Path) -> None:
    score = np.linspace(0.01, 0.99, 200)
    frame = pl.DataFrame({"score": score, "label": (score > 0.5).astype(int)})
    apart = reasons_of(chosen(write(frame, tmp_path / "apart.csv")))
    assert "separated by a threshold" in apart["beta"]
    assert apart["none"] is None
    raw = reasons_of(chosen(file(tmp_path, 2000, 2.0), "--scale", "raw"))
    assert "needs probabilities" in raw["none"] and "needs probabilities" in raw["beta"]


def test_segments_and_weights(tmp_path: Path) -> None:
    rows = file(tmp_path, 2000, 2.0)
    assert sorted(chosen(rows, "--by", "site")["groups"]) == ["a", "b"]
    frame = pl.read_parquet(rows).with_columns(w=pl.Series(np.tile([0.3, 1.7], 1000)))
    weighted = chosen(write(frame, tmp_path / "w.parquet"), "--weight", "w")
    assert weighted["method"] != "none"


@pytest.mark.parametrize("column", ["--groups", "--time"])
def test_folds_follow_a_column(column: str) -> None:
    # Rows of a unit are copies of one row, so that folds by chance have seen the rows that judge them.
    random = np.random.default_rng(3)
    score, label = random.random(60), random.integers(0, 2, 60)
    frame = pl.DataFrame({"score": score, "label": label, "unit": np.arange(60)})
    rows = write(pl.concat([frame] * 40), "copies.parquet")
    mixed, apart = chosen(rows), chosen(rows, column, "unit")
    seen, unseen = (
        {one["method"]: one["log_loss"] for one in model["candidates"]} for model in (mixed, apart)
    )
    assert seen["isotonic"] < 0.69 < unseen["isotonic"]
    assert apart["provenance"]["options"][column[2:]] == "unit"
    assert set(apart["columns"]) == {"score", "label"}  # apply reads no more
    parts = []
    for place, own in enumerate(pl.read_parquet(rows).iter_slices(1300)):
        shard = write(own, f"part{place}.parquet")
        state = shard.with_suffix(".state")
        parts.append(make(state, "calibrate", shard, column, "unit", "--partial"))
    merged = make("merged.json", "merge", *parts)
    assert json.loads(merged.read_bytes()) == apart


def test_folds_of_no_use(tmp_path: Path, invoke: Invoke) -> None:
    frame = pl.read_parquet(file(tmp_path, 200, 2.0))
    alone = write(frame.with_columns(site=pl.lit("a")), tmp_path / "alone.parquet")
    model = chosen(alone, "--groups", "site")
    assert model["method"] == "none"
    reasons = set(list(reasons_of(model).values())[:4])
    assert reasons == {"there are too few rows for folds"}
    missing = frame.with_columns(site=pl.lit(None, pl.String))
    outcome = invoke("calibrate", write(missing, tmp_path / "m.parquet"), "--groups", "site")
    outcome.refused(3, "no value")
