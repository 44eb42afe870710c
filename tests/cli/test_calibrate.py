"""``calibkit calibrate``, the choice of a map, and what ``apply`` and ``show`` make of its models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.maps.methods import BEHIND, NONE_BEHIND
from tests.cli.score_files import merge_parts, scores, simulate, write
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
    parts = pl.read_parquet(rows).iter_slices(1300)
    merged = merge_parts("merged.json", parts, "calibrate", column, "unit")
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
