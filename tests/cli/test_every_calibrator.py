"""Every calibrator of the registry is fitted, applied, shown, exported and merged; so is a new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import polars as pl
import pytest

from calibkit import simulate_raters
from calibkit.maps.method import Found, Method, Points
from calibkit.maps.methods import METHODS
from calibkit.maps.steps import steps_program, write_steps
from calibkit.options.calibrate import CLASS_METHODS, SCORE_METHODS, MapOptions, ScoreMethod
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, make

NEW = "halves"

#: Options without which a method does nothing.
NEEDED = {"prior-shift": ["--negatives-kept", "0.4"]}


def halves(points: Points, _: MapOptions, __: list[Points]) -> Found:
    """Return the share of positive rows below 1/2, and from there on."""
    low = points.score < 0.5
    shares = [float(points.positive[own].sum() / points.count[own].sum()) for own in (low, ~low)]
    return Found({"knots": [0.0, 0.5], "values": shares})


@pytest.fixture
def entries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Add an entry: what CONTRIBUTING says of a new calibrator, and no more."""
    method = Method(halves, write_steps, steps_program)
    new = ScoreMethod(step="fit halves", fields=("knots", "values"))
    monkeypatch.setitem(cast(dict[str, ScoreMethod], SCORE_METHODS), NEW, new)
    monkeypatch.setitem(cast(dict[str, Method], METHODS), NEW, method)


@pytest.fixture
def rows() -> Path:
    frame = simulate(400).with_columns(site=pl.Series(["a", "b"] * 200))
    return write(frame, "rows.parquet")


def goes_round(invoke: Invoke, rows: Path, options: list[str]) -> dict[str, Any]:
    """Return the model of a fit after doing with it all that can be done."""
    folder = rows.parent
    model = make(folder / "cal.json", "calibrate", rows, *options)
    make(folder / "applied.parquet", "apply", model, rows)
    assert invoke("show", model).stdout
    for language in ("sql", "python", "polars"):
        make(folder / f"{language}.txt", "export", model, "--to", language, "--check", rows)
    frame = pl.read_parquet(rows)
    states = []
    for place in range(2):
        part = write(frame[place::2], folder / f"part_{place}.parquet")
        states.append(make(part.with_suffix(".state"), "calibrate", part, *options, "--partial"))
    merged = make(folder / "merged.json", "merge", *states)
    assert merged.read_bytes() == model.read_bytes()
    return json.loads(model.read_bytes())


def judge(model: dict[str, Any], rows: Path) -> None:
    """See that added columns are where they belong, and that the log loss is that of the rows."""
    frame, applied = pl.read_parquet(rows), pl.read_parquet(rows.parent / "applied.parquet")
    added = ["calibrated"]
    if model["method"] == "venn-abers":
        added += ["calibrated_low", "calibrated_high"]
        low, high = applied["calibrated_low"], applied["calibrated_high"]
        assert ((low <= applied["calibrated"]) & (applied["calibrated"] <= high)).all()
    assert applied.columns == [*frame.columns, *added]
    assert applied.drop(added).equals(frame)
    p, label = applied["calibrated"].to_numpy(), frame["label"].to_numpy()
    if model["method"] != "prior-shift":
        loss = -np.where(label == 1, np.log(p), np.log1p(-p)).mean()
        assert model["fit"]["log_loss"] == pytest.approx(loss, abs=1e-12)
        assert model["clip"] == 1 / (frame.height + 2) or model["method"] == "none"


@pytest.mark.few(20)
@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize("by", [False, True], ids=["all rows", "by"])
@pytest.mark.parametrize("method", [*METHODS, NEW])
def test_every_calibrator_of_scores(method: str, by: bool, rows: Path, invoke: Invoke) -> None:
    if by and not SCORE_METHODS[method].fits:
        return
    segments = ["--by", "site"] if by else []
    model = goes_round(invoke, rows, ["--method", method, *NEEDED.get(method, []), *segments])
    assert (model["method"], "groups" in model) == (method, by)
    assert set(SCORE_METHODS[method].fields) <= model.keys()
    judge(model, rows)


def test_isotonic_in_lines(rows: Path, invoke: Invoke) -> None:
    options = ["--method", "isotonic", "--interpolate"]
    assert goes_round(invoke, rows, options)["interpolate"] is True
    model = goes_round(invoke, rows, [*options, "--by", "site", "--clip", "0"])
    assert all(one["interpolate"] for one in model["groups"].values())
    refused = invoke("calibrate", rows, "--method", "platt", "--interpolate")
    refused.refused(2, "--interpolate goes with --method isotonic")


@pytest.mark.parametrize("method", CLASS_METHODS)
def test_every_map_of_class_probabilities(method: str, invoke: Invoke) -> None:
    rows = write(simulate_raters(300, raters=3, seed=1), "rows.parquet")
    classes = ["--probs", "prob_*", "--counts", "count_*", "--method", method]
    assert goes_round(invoke, rows, classes)["method"] == method
