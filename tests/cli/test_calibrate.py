"""``calibkit calibrate``, and what ``apply`` and ``show`` make of its models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import scores, simulate, write
from tests.conftest import ROOT, Invoke

METHODS = {
    "beta": {"a", "b", "c"},
    "platt": {"a", "b"},
    "isotonic": {"knots", "values"},
    "histogram": {"knots", "values"},
    "scaling-binning": {"a", "b", "knots", "values"},
    "venn-abers": {"low_knots", "low", "high_knots", "high"},
    "temperature": {"temperature"},
    "prior-shift": {"negatives_kept"},
}
SHARED = {"tags", "clip", "columns", "fit", "kind", "method", "provenance", "version"}


BETA = ("--method", "beta")


def options_of(method: str) -> list[str]:
    more = ["--negatives-kept", "0.4"] if method == "prior-shift" else []
    return ["--method", method, *more]


def fitted(invoke: Invoke, path: Path, *options: object) -> dict[str, Any]:
    """Return the model of a run that must succeed, written beside its input."""
    output = path.with_name("cal.json")
    return invoke("calibrate", path, *options, "-o", output).result()


def applied(invoke: Invoke, path: Path, *options: object) -> pl.DataFrame:
    output = path.with_name("applied.parquet")
    return invoke("apply", path.with_name("cal.json"), path, *options, "-q", "-o", output).result()


@pytest.mark.parametrize("method", METHODS)
def test_every_method_fits_and_applies(method: str, tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(300)
    path = write(frame, tmp_path / "rows.parquet")
    model = fitted(invoke, path, *options_of(method))
    assert model.keys() == SHARED | METHODS[method]
    assert model["clip"] == 1 / 302
    assert model["fit"]["rows"] == 300
    result = applied(invoke, path)
    added = ["calibrated"]
    if method == "venn-abers":
        added += ["calibrated_low", "calibrated_high"]
    assert result.columns == [*frame.columns, *added]
    assert result.drop(added).equals(frame)
    p, label = result["calibrated"].to_numpy(), frame["label"].to_numpy()
    loss = -np.where(label == 1, np.log(p), np.log1p(-p)).mean()
    assert model["fit"]["log_loss"] == pytest.approx(loss, abs=1e-12)
    if method == "venn-abers":
        low, high = result["calibrated_low"].to_numpy(), result["calibrated_high"].to_numpy()
        assert (low <= p).all() and (p <= high).all()
    shown = invoke("show", tmp_path / "cal.json")
    assert shown.code == 0
    assert method in shown.stdout.decode()


CASES = {
    "p16_platt": ({"prob": ["platt"]}, ["--scale", "logit"]),
    "p18_maps": (
        {
            "histogram_mass": ["histogram", "--bins", "8"],
            "histogram_width": ["histogram", "--bins", "8", "--bin-strategy", "equal-width"],
            "scaling_binning_same": ["scaling-binning", "--bins", "8"],
            "isotonic": ["isotonic"],
        },
        ["--out-of-range", "clip"],
    ),
}


@pytest.mark.parametrize(
    ("case", "name"), [(case, name) for case, (names, _) in CASES.items() for name in names]
)
def test_golden_cases(case: str, name: str, tmp_path: Path, invoke: Invoke) -> None:
    folder = ROOT / "tests" / "golden" / case
    known = json.loads((folder / "expected.json").read_text())
    names, shared = CASES[case]
    model, output = tmp_path / "cal.json", tmp_path / "out.csv"
    start = ["calibrate", folder / "rows.parquet", "--method", *names[name], *shared]
    assert invoke(*start, "--clip", "0", "-o", model).code == 0
    wanted = known["expected"]["smoothed" if case == "p16_platt" else name]
    if isinstance(wanted, dict):
        wanted = wanted["prob" if case == "p16_platt" else "new"]
    new = folder / ("new.parquet" if case == "p18_maps" else "rows.parquet")
    assert invoke("apply", model, new, "-o", output).code == 0
    allowed = known["tolerance"]
    found = pl.read_csv(output)["calibrated"].to_list()
    assert found == pytest.approx(wanted, rel=allowed["rel"], abs=allowed["abs"])


def grouped(rows: int = 400) -> pl.DataFrame:
    """Return rows of two segments that need different maps, and of one with three rows."""
    frame = simulate(rows).with_columns(country=pl.lit("de"))
    other = simulate(rows, seed=2).with_columns(
        country=pl.lit("fr"), score=1 / (1 + (-3 * (pl.col("score") - 0.2)).exp())
    )
    return pl.concat([frame, other, frame[:3].with_columns(country=pl.lit("li"))])


def test_segments_have_maps_of_their_own(tmp_path: Path, invoke: Invoke) -> None:
    frame = grouped()
    path = write(frame, tmp_path / "rows.parquet")
    said = invoke("calibrate", path, *BETA, "--by", "country", "-o", tmp_path / "cal.json")
    said.succeeded("1 value uses the map of all rows (li)")
    model = json.loads((tmp_path / "cal.json").read_text())
    assert list(model["groups"]) == ["de", "fr"]
    assert model["pooled_groups"] == ["li"]
    shown = invoke("show", tmp_path / "cal.json").stdout.decode()
    assert "country" in shown
    assert "that of all rows" in shown
    result = applied(invoke, path)
    for name in ("de", "fr", "li"):
        alone = write(frame.filter(country=name), tmp_path / name / "rows.parquet")
        own = result.filter(country=name)["calibrated"]
        if name == "li":
            whole = fitted(invoke, path, *BETA)
            assert {key: whole[key] for key in "abc"} == {key: model[key] for key in "abc"}
            assert applied(invoke, path).filter(country="li")["calibrated"].equals(own)
            continue
        separate = fitted(invoke, alone, *BETA)
        assert {key: separate[key] for key in "abc"} == {
            key: model["groups"][name][key] for key in "abc"
        }
        assert separate["fit"] == model["groups"][name]["fit"]
        assert applied(invoke, alone)["calibrated"].equals(own)
    p, label = result["calibrated"].to_numpy(), frame["label"].to_numpy()
    loss = -np.where(label == 1, np.log(p), np.log1p(-p)).mean()
    assert model["fit"]["log_loss"] == pytest.approx(loss, abs=1e-12)


def test_segments_that_were_not_seen_use_the_map_of_all_rows(
    tmp_path: Path, invoke: Invoke
) -> None:
    path = write(grouped(), tmp_path / "rows.parquet")
    model = fitted(invoke, path, *BETA, "--by", "country")
    new = pl.DataFrame({"score": [0.3, 0.3, 0.3], "country": ["xx", None, "de"]})
    write(new, path)
    found = applied(invoke, path)["calibrated"].to_list()
    z = model["a"] * np.log(0.3) - model["b"] * np.log(0.7) + model["c"]
    assert found[:2] == pytest.approx([1 / (1 + np.exp(-z))] * 2)
    assert found[2] != found[0]


def test_segments_that_are_separated_use_the_map_of_all_rows(
    tmp_path: Path, invoke: Invoke
) -> None:
    frame = grouped().with_columns(
        score=pl.when(pl.col("country") == "fr")
        .then(0.25 + 0.5 * pl.col("label"))
        .otherwise(pl.col("score"))
    )
    path = write(frame, tmp_path / "rows.parquet")
    said = invoke("calibrate", path, *BETA, "--by", "country", "-o", tmp_path / "cal.json")
    said.succeeded("fr uses the map of all rows")
    assert json.loads((tmp_path / "cal.json").read_text())["pooled_groups"] == ["fr", "li"]


def test_out_of_range_is_refused_or_clipped(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate(200)
    path = write(frame.with_columns(score=pl.col("score") * 1.2 - 0.1), tmp_path / "rows.csv")
    model = tmp_path / "cal.json"
    assert invoke("calibrate", path, "-o", model).code == 3
    said = invoke("calibrate", path, "--out-of-range", "clip", "-o", model)
    said.succeeded("scores outside [0, 1] clipped")
    result = invoke("apply", model, path, "-o", tmp_path / "out.csv").result()
    low = result.filter(pl.col("score") <= 0)["calibrated"].unique()
    assert low.len() == 1
    assert invoke("calibrate", write(frame, path), "-o", model).code == 0
    write(frame.with_columns(score=pl.lit(1.5)), path)
    assert invoke("apply", model, path, "-o", tmp_path / "out.csv").code == 3


@pytest.mark.parametrize("method", ["centred-isotonic", "spline"])
def test_scores_that_float32_cannot_hold_are_refused(
    method: str, tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(300).cast({"score": pl.Float32})
    fitted(invoke, write(frame, tmp_path / "a.parquet"), "--scale", "raw", "--method", method)
    path = write(pl.DataFrame({"score": [0.5, 3.5e38]}), tmp_path / "new.parquet")
    done = invoke("apply", tmp_path / "cal.json", path, "-o", tmp_path / "out.csv")
    done.refused(3, "'score': too large for float32", "row 2", "3.5e+38")


@pytest.mark.parametrize(
    ("changed", "options", "code", "says"),
    [
        ({"score": {3: None}}, [], 3, "no value"),
        ({"score": {3: 1.5}}, [], 3, "[0, 1]"),
        ({"score": {3: float("inf")}}, ["--scale", "raw", "--method", "platt"], 3, "infinite"),
        ({"label": {3: 2}}, [], 3, "label"),
        ({"label": {3: None}}, [], 3, "no label"),
        ({"weight": {3: -1.0}}, ["--weight", "weight"], 3, "negative"),
        ({"label": dict.fromkeys(range(1, 41), 1)}, [*BETA], 3, "one class"),
        ({}, ["--by", "nothing"], 2, "nothing"),
        ({}, ["--by", "score"], 2, "another role"),
        ({}, ["--method", "bete"], 2, "beta"),
        ({}, ["--clip", "x"], 2, "--clip"),
    ],
)
def test_what_is_refused(
    changed: dict[str, dict[int, Any]],
    options: list[str],
    code: int,
    says: str,
    tmp_path: Path,
    invoke: Invoke,
) -> None:
    path = write(scores(**changed), tmp_path / "rows.parquet")
    output = tmp_path / "cal.json"
    said = invoke("calibrate", path, *options, "-o", output)
    assert (said.code, said.stdout) == (code, b"")
    assert says in said.stderr
    as_json = invoke("calibrate", path, *options, "-o", output, "--json")
    error = json.loads(as_json.stdout)["error"]
    assert error["code"] == code
    if code == 3:
        assert error["file"] == str(path) and error["column"]
    assert not output.exists()


def test_prior_shift_needs_no_labels(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate(50).drop("label"), tmp_path / "rows.parquet")
    model = fitted(invoke, path, *options_of("prior-shift"))
    assert model["fit"]["log_loss"] is None
    assert "label" not in model["columns"]
    assert invoke("calibrate", path, "-o", tmp_path / "x.json").code == 2


def test_one_model_for_each_input(tmp_path: Path, invoke: Invoke) -> None:
    paths = [write(simulate(80, seed), tmp_path / f"{seed}.csv") for seed in (1, 2)]
    assert invoke("calibrate", *paths, "-o", f"{tmp_path / 'out'}/").code == 0
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["1.json", "2.json"]


def test_dry_run_json_and_pipe(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate(80), tmp_path / "rows.parquet")
    plan = invoke("calibrate", path, "--by", "uncertainty", "--dry-run", "--json").result()
    assert plan["columns"] == {"score": "score", "label": "label", "by": "uncertainty"}
    assert "choose a map" in plan["plan"][0]
    for option in ("--by", "--groups", "--time"):
        invoke("calibrate", path, option, "nowhere", "--dry-run").refused(2, f"for {option}")
        invoke("calibrate", path, option, "score", "--dry-run").refused(2, "another role")
    piped = invoke("calibrate", path)
    as_json = invoke("calibrate", path, "--json")
    assert piped.stdout == as_json.stdout
    assert json.loads(piped.stdout)["kind"] == "calibrator"
    assert "log loss" in piped.stderr
    quiet = invoke("calibrate", path, "-q")
    assert quiet.stderr == ""
