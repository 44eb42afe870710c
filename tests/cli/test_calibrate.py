"""``calibkit calibrate``, and what ``apply`` and ``show`` make of its models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import scores, simulate, write
from tests.conftest import ROOT, Invoke, make

BETA = ("--method", "beta")


def fitted(path: Path, *options: object) -> dict[str, Any]:
    """Return the model of a run that must succeed, written beside its input."""
    return json.loads(make(path.with_name("cal.json"), "calibrate", path, *options).read_bytes())


def applied(path: Path, *options: object) -> pl.DataFrame:
    model, output = path.with_name("cal.json"), path.with_name("applied.parquet")
    return pl.read_parquet(make(output, "apply", model, path, *options))


#: Names of what is expected, where no map can be fitted its error, and options.
CASES = {
    "p16_platt smoothed": "--method platt --scale logit",
    "p16_platt mle": "--method platt --scale logit --targets mle",
    "p17_platt_separated smoothed": "--method platt --scale logit",
    "p17_platt_separated mle": "--method platt --scale logit --targets mle",
    "p18_maps histogram_mass": "--method histogram --bins 8",
    "p18_maps histogram_width": "--method histogram --bins 8 --bin-strategy equal-width",
    "p18_maps scaling_binning_same": "--method scaling-binning --bins 8",
    "p18_maps isotonic": "--method isotonic",
}


@pytest.mark.parametrize("name", CASES)
def test_golden_cases(name: str, invoke: Invoke) -> None:
    case, key = name.split()
    folder = ROOT / "tests" / "golden" / case
    known = json.loads((folder / "expected.json").read_text())
    wanted, allowed = known["expected"][key], known["tolerance"]
    clip = ("--out-of-range clip",) if case == "p18_maps" else ()
    done = invoke("calibrate", folder / "rows.parquet", CASES[name], *clip, "--clip 0 -o cal.json")
    if wanted is None:
        done.refused(3, "separated by a threshold")
        return
    if isinstance(wanted, dict):
        wanted = wanted["new" if case == "p18_maps" else "prob"]
    new = folder / ("new.parquet" if case == "p18_maps" else "rows.parquet")
    found = pl.read_parquet(make("out.parquet", "apply", "cal.json", new))["calibrated"]
    assert found.to_list() == pytest.approx(wanted, rel=allowed["rel"], abs=allowed["abs"])


def grouped(rows: int = 400) -> pl.DataFrame:
    """Return rows of two segments that need different maps, and of one with three rows."""
    frame = simulate(rows).with_columns(country=pl.lit("de"))
    other = simulate(rows, seed=2).with_columns(
        country=pl.lit("fr"), score=1 / (1 + (-3 * (pl.col("score") - 0.2)).exp())
    )
    return pl.concat([frame, other, frame[:3].with_columns(country=pl.lit("li"))])


def test_segments_have_maps_of_their_own(invoke: Invoke) -> None:
    frame = grouped()
    path = write(frame, "rows.parquet")
    said = invoke("calibrate", path, *BETA, "--by", "country", "-o cal.json")
    said.succeeded("1 value uses the map of all rows (li)")
    model = said.result()
    assert (list(model["groups"]), model["pooled_groups"]) == (["de", "fr"], ["li"])
    shown = invoke("show", "cal.json").stdout.decode()
    assert "country" in shown
    assert "that of all rows" in shown
    result = applied(path)
    p, label = result["calibrated"].to_numpy(), frame["label"].to_numpy()
    loss = -np.where(label == 1, np.log(p), np.log1p(-p)).mean()
    assert model["fit"]["log_loss"] == pytest.approx(loss, abs=1e-12)
    for name in ("de", "fr"):
        alone = write(frame.filter(country=name), Path(name) / "rows.parquet")
        separate, own = fitted(alone, *BETA), model["groups"][name]
        assert {key: separate[key] for key in (*"abc", "fit")} == {
            key: own[key] for key in (*"abc", "fit")
        }
        assert applied(alone)["calibrated"].equals(result.filter(country=name)["calibrated"])
    whole = fitted(path, *BETA)
    assert {key: whole[key] for key in "abc"} == {key: model[key] for key in "abc"}
    of_all = applied(path).filter(country="li")["calibrated"]
    assert of_all.equals(result.filter(country="li")["calibrated"])


def test_segments_that_were_not_seen_use_the_map_of_all_rows() -> None:
    path = write(grouped(), "rows.parquet")
    model = fitted(path, *BETA, "--by", "country")
    write(pl.DataFrame({"score": [0.3, 0.3, 0.3], "country": ["xx", None, "de"]}), path)
    found = applied(path)["calibrated"].to_list()
    z = model["a"] * np.log(0.3) - model["b"] * np.log(0.7) + model["c"]
    assert found[:2] == pytest.approx([1 / (1 + np.exp(-z))] * 2)
    assert found[2] != found[0]


def test_segments_that_are_separated_use_the_map_of_all_rows(invoke: Invoke) -> None:
    apart = pl.when(country="fr").then(0.25 + 0.5 * pl.col("label")).otherwise("score")
    path = write(grouped().with_columns(score=apart), "rows.parquet")
    said = invoke("calibrate", path, *BETA, "--by", "country", "-o cal.json")
    said.succeeded("fr uses the map of all rows")
    assert said.result()["pooled_groups"] == ["fr", "li"]


def test_out_of_range_is_refused_or_clipped(invoke: Invoke) -> None:
    frame, model = scores(score={1: -0.5, 2: 0.0, 3: 1.0, 4: 1.5, 5: 2.0}), Path("cal.json")
    path = write(frame, "rows.csv")
    assert invoke("calibrate", path, "-o", model).code == 3
    said = invoke("calibrate", path, "--out-of-range clip --method isotonic -o", model)
    said.succeeded("3 scores outside [0, 1] clipped")
    found = applied(path)["calibrated"]
    assert found[0] == found[1] and found[2] == found[3] == found[4]
    fitted(write(simulate(200), path))
    write(frame, path)
    assert invoke("apply", model, path, "-o out.csv").code == 3


@pytest.mark.parametrize("method", ["centred-isotonic", "spline"])
def test_scores_that_float32_cannot_hold_are_refused(method: str, invoke: Invoke) -> None:
    frame = simulate(300).cast({"score": pl.Float32})
    fitted(write(frame, "a.parquet"), "--scale", "raw", "--method", method)
    path = write(pl.DataFrame({"score": [0.5, 3.5e38]}), "new.parquet")
    done = invoke("apply", "cal.json", path, "-o out.csv")
    done.refused(3, "'score': too large for float32", "row 2", "3.5e+38")


@pytest.mark.parametrize(
    ("changed", "options", "code", "says"),
    [
        ({"score": {3: None}}, "", 3, "no value"),
        ({"score": {3: 1.5}}, "", 3, "[0, 1]"),
        ({"score": {3: float("inf")}}, "--scale raw --method platt", 3, "infinite"),
        ({"label": {3: 2}}, "", 3, "label"),
        ({"label": {3: None}}, "", 3, "no label"),
        ({"weight": {3: -1.0}}, "--weight weight", 3, "negative"),
        ({"label": dict.fromkeys(range(1, 41), 1)}, "--method beta", 3, "one class"),
        ({}, "--by nothing", 2, "for --by"),
        ({}, "--by score", 2, "another role"),
        ({}, "--groups nothing", 2, "for --groups"),
        ({}, "--time score", 2, "another role"),
        ({}, "--method bete", 2, "beta"),
        ({}, "--clip x", 2, "--clip"),
        ({}, "--method beta --groups id", 2, "--groups goes with --method auto"),
        ({}, "--groups id --time uncertainty", 2, "folds follow one of them"),
        ({}, "--method platt --optimize brier", 2, "--optimize goes with --method auto"),
        ({}, "--method auto --bins 4", 2, "--bins"),
    ],
)
def test_what_is_refused(
    changed: dict[str, dict[int, Any]], options: str, code: int, says: str, invoke: Invoke
) -> None:
    path = write(scores(**changed), "rows.parquet")
    line = ["calibrate", path, *options.split()]
    said = invoke(*line, "-o cal.json")
    assert said.stdout == b""
    said.refused(code, says)
    error = invoke(*line, "-o cal.json", "--json").refused(code)
    if code == 3:
        assert error["file"] == str(path) and error["column"]
    if "nothing" in options or "another role" in says:
        invoke(*line, "--dry-run").refused(2, says)


def test_prior_shift_needs_no_labels(invoke: Invoke) -> None:
    path = write(simulate(50).drop("label"), "rows.parquet")
    model = fitted(path, "--method prior-shift --negatives-kept 0.4")
    assert model["fit"]["log_loss"] is None
    assert "label" not in model["columns"]
    assert invoke("calibrate", path, "-o x.json").code == 2


def test_dry_run_json_and_pipe(invoke: Invoke) -> None:
    path = write(simulate(80), "rows.parquet")
    plan = invoke("calibrate", path, "--by", "uncertainty", "--dry-run", "--json").result()
    assert plan["columns"] == {"score": "score", "label": "label", "by": "uncertainty"}
    assert "choose a map" in plan["plan"][0]
    piped = invoke("calibrate", path)
    assert piped.stdout == invoke("calibrate", path, "--json").stdout
    assert piped.result()["kind"] == "calibrator"
    assert "log loss" in piped.stderr
    assert invoke("calibrate", path, "-q").stderr == ""
