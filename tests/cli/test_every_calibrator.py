"""Every calibrator of the registry is fitted, applied, shown, exported and merged; so is a new one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import polars as pl
import pytest

from calibkit import simulate_raters
from calibkit.maps.method import Found, Method, Points
from calibkit.maps.methods import METHODS
from calibkit.maps.steps import steps_program, write_steps
from calibkit.options.calibrate import CLASS_METHODS, SCORE_METHODS, MapOptions, ScoreMethod
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, Outcome

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


def goes_round(invoke: Invoke, rows: Path, options: list[str]) -> dict[str, Any]:
    """Return the model of a fit after doing with it all that can be done."""
    folder = rows.parent

    def done(*arguments: object) -> Outcome:
        outcome = invoke(*arguments)
        assert outcome.code == 0, outcome.stderr
        return outcome

    done("calibrate", rows, *options, "-q", "-o", folder / "cal.json")
    done("apply", folder / "cal.json", rows, "-q", "-o", folder / "applied.parquet")
    assert "calibrated" in "".join(pl.read_parquet(folder / "applied.parquet").columns)
    assert done("show", folder / "cal.json").stdout
    for language in ("sql", "python", "polars"):
        export = ("export", folder / "cal.json", "--to", language, "--check", rows)
        done(*export, "-q", "-o", folder / f"export_{language}.txt")
    frame = pl.read_parquet(rows)
    states = []
    for place in range(2):
        part = folder / f"part_{place}.parquet"
        frame[place::2].write_parquet(part)
        states.append(folder / f"part_{place}.state")
        done("calibrate", part, *options, "--partial", "-q", "-o", states[-1])
    done("merge", *states, "-q", "-o", folder / "merged.json")
    assert (folder / "merged.json").read_bytes() == (folder / "cal.json").read_bytes()
    model: dict[str, Any] = json.loads((folder / "cal.json").read_bytes())
    return model


@pytest.mark.few(20)
@pytest.mark.usefixtures("entries")
@pytest.mark.parametrize("by", [False, True], ids=["all rows", "by"])
@pytest.mark.parametrize("method", [*METHODS, NEW])
def test_every_calibrator_of_scores(method: str, by: bool, tmp_path: Path, invoke: Invoke) -> None:
    if by and not SCORE_METHODS[method].fits:
        return
    frame = simulate(400)
    frame = frame.with_columns(site=pl.Series(["a", "b"] * 200))
    rows = write(frame, tmp_path / "rows.parquet")
    segments = ["--by", "site"] if by else []
    model = goes_round(invoke, rows, ["--method", method, *NEEDED.get(method, []), *segments])
    assert (model["method"], "groups" in model) == (method, by)
    assert set(SCORE_METHODS[method].fields) <= model.keys()


def test_isotonic_in_lines(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(400).with_columns(site=pl.Series(["a", "b"] * 200))
    rows = write(frame, tmp_path / "rows.parquet")
    options = ["--method", "isotonic", "--interpolate"]
    assert goes_round(invoke, rows, options)["interpolate"] is True
    model = goes_round(invoke, rows, [*options, "--by", "site", "--clip", "0"])
    assert all(one["interpolate"] for one in model["groups"].values())
    refused = invoke("calibrate", rows, "--method", "platt", "--interpolate")
    assert refused.code == 2 and "--interpolate goes with --method isotonic" in refused.stderr


@pytest.mark.parametrize("method", CLASS_METHODS)
def test_every_map_of_class_probabilities(method: str, tmp_path: Path, invoke: Invoke) -> None:
    rows = write(simulate_raters(300, raters=3, seed=1), tmp_path / "rows.parquet")
    classes = ["--probs", "prob_*", "--counts", "count_*", "--method", method]
    assert goes_round(invoke, rows, classes)["method"] == method
