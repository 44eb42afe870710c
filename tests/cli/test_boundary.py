"""``boundary``: golden optima, every reported figure counted again, weights, summaries, options."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.score_files import Model, decisions, recount, simulate, write
from tests.conftest import ROOT, Invoke

Fit = Callable[..., Model]
GOLDEN = ROOT / "tests" / "golden"
GRIDS = ["p06_boundary_600", "p07_boundary_ties_empty_bins", "p09_boundary_5000"]


@pytest.fixture
def fit(tmp_path: Path, invoke: Invoke) -> Fit:
    """Fit and return the model; an infeasible bound returns an empty dictionary."""

    def call(path: Path, *options: object) -> Model:
        output = tmp_path / "fitted.json"
        output.unlink(missing_ok=True)
        given = ["--method", "exact", *options, "--folds", 0]
        done = invoke("boundary", path, *given, "-q", "-o", output)
        assert done.stdout == b""
        if done.code == 4:
            assert not output.exists()
            return {}
        assert done.code == 0, done.stderr
        model: Model = json.loads(output.read_bytes())
        return model

    return call


def golden(case: str) -> tuple[Path, Any, Any]:
    found = json.loads((GOLDEN / case / "expected.json").read_text())
    return GOLDEN / case / "rows.parquet", found["params"], found["expected"]


def totals(model: Model) -> list[int]:
    seen = model["fit"]["in_sample"] if model else {"true_positives": 0, "selected": 0}
    return [seen["true_positives"], seen["selected"]]


def check_counts(model: Model, frame: pl.DataFrame, weights: list[float] | None = None) -> None:
    """Count everything again that a model says of its fitting rows."""
    if not model:
        return
    seen = dict(model["fit"]["in_sample"])
    value = seen.pop("objective_value")
    again = recount(model, frame, weights)
    assert seen == again
    assert value == again[model["objective"]["maximize"]]
    assert model["fit"]["rows"] == (sum(weights) if weights else frame.height)
    ((bounded, bound),) = model["objective"]["subject_to"].items()
    hits, of = again["true_positives"], again["selected"]
    if bounded == "recall":
        of = model["fit"]["positives"]
    met = Fraction(hits) >= Fraction(repr(bound)) * Fraction(of)
    assert model["fit"]["bound_met"] == met
    if met:
        assert model["fit"]["upper_bound"] >= value
    if model["fit"]["optimal_in_sample"]:
        assert met
    expected = [sum(decisions(model, frame)) / frame.height] if weights is None else []
    assert [model["fit"]["reference"]["selected_share"]][: len(expected)] == expected


# Golden cases --------------------------------------------------------------------------------


@pytest.mark.parametrize("case", GRIDS)
def test_golden_optima_on_a_grid(case: str, fit: Fit) -> None:
    """Of the exact search; those of the tables are in tests/library/test_grid_methods.py."""
    path, params, expected = golden(case)
    bins = ["--uncertainty-bins", params["K"], "--score-bins", params["L"]]
    frame = pl.read_parquet(path)
    for sigma, by_method in expected["by_sigma"].items():
        model = fit(path, "--precision", sigma, *bins)
        assert totals(model) == by_method["exact"], sigma
        check_counts(model, frame)
        assert not model or model["fit"]["optimal_in_sample"]
    for eta, best in expected["by_eta"].items():
        model = fit(path, "--recall", eta, *bins)
        assert totals(model) == best, eta
        check_counts(model, frame)


@pytest.mark.parametrize("case", GRIDS)
@pytest.mark.parametrize("method", ["gmt", "mist"])
def test_golden_heuristics_on_a_grid(case: str, method: str, fit: Fit, invoke: Invoke) -> None:
    path, params, expected = golden(case)
    bins = ["--uncertainty-bins", params["K"], "--score-bins", params["L"]]
    grid = json_grid(invoke, path, bins)
    for sigma, by_method in expected["by_sigma"].items():
        model = fit(path, "--precision", sigma, *bins, "--method", method)
        known = by_method[method]
        assert totals(model) == [known["tp"], known["rows"]], sigma
        if not model:
            continue
        check_counts(model, pl.read_parquet(path))
        for level, (take, threshold) in enumerate(
            zip(known["take"], model["score_thresholds"], strict=True)
        ):
            if take == 0:
                assert threshold is None
            elif take < params["L"] and threshold != "-inf":
                assert threshold == grid[level][params["L"] - take]


def json_grid(invoke: Invoke, path: Path, bins: list[Any]) -> list[list[float | None]]:
    """Return the lower score limits of each level's bins."""
    done = invoke("bin", path, *bins, "--output-format", "csv")
    table = pl.read_csv(done.stdout, infer_schema_length=None)
    return [part["score_low"].to_list() for part in table.partition_by("uncertainty_bin")]


def test_golden_single_thresholds(fit: Fit) -> None:
    path, _, expected = golden("p05_single_threshold_ties")
    frame = pl.read_parquet(path)
    for option, by_bound in (("--precision", "by_sigma"), ("--recall", "by_eta")):
        for bound, known in expected[by_bound].items():
            model = fit(path, option, bound, "--method", "st")
            assert totals(model) == [known["tp"], known["rows"]]
            if model:
                assert model["score_thresholds"] == [known["threshold"]]
                assert (model["uncertainty_edges"], "uncertainty" in model["columns"]) == (
                    [],
                    False,
                )
            else:
                assert known["threshold"] == "inf"
            check_counts(model, frame)


def test_golden_mist_on_raw_scores(fit: Fit) -> None:
    path, params, expected = golden("p10_mist_samples")
    for sigma, known in expected.items():
        bins = ["--uncertainty-bins", params["K"]]
        model = fit(path, "--precision", sigma, "--method", "mist", *bins)
        assert totals(model) == [known["tp"], known["rows"]]
        for level, threshold in known["thresholds"].items() if model else ():
            found = model["score_thresholds"][int(level)]
            assert found == (None if threshold == "inf" else threshold)
        check_counts(model, pl.read_parquet(path))


# Figures, counted again ----------------------------------------------------------------------


@pytest.mark.parametrize("options", [[], ["--score-bins", "12"], ["--method", "mist"]], ids=str)
def test_figures_on_float32_columns(tmp_path: Path, options: list[str], fit: Fit) -> None:
    frame = simulate().with_columns(pl.col("score", "uncertainty").cast(pl.Float32))
    model = fit(write(frame, tmp_path / "a.parquet"), "--precision", "0.75", *options)
    assert model["columns"]["score"]["dtype"] == "float32"
    check_counts(model, frame)


def test_weights_that_are_no_binary_fractions_are_said_to_be_rounded(
    tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate().with_columns(weight=pl.col("weight") / 10)
    path, out = write(frame, tmp_path / "a.csv"), tmp_path / "b.json"
    done = invoke("boundary", path, "--precision", "0.75", "--weight", "weight", "-o", out)
    done.succeeded("rounded")
    model = json.loads(out.read_text())
    assert model["fit"]["exact_arithmetic"] is False
    again = recount(model, frame, frame["weight"].to_list())
    for name, value in again.items():
        assert model["fit"]["in_sample"][name] == pytest.approx(value, rel=1e-12)
    assert again["precision"] >= 0.75


def test_bounds_are_compared_exactly(tmp_path: Path, fit: Fit) -> None:
    """7 of 100 is 0.07, and 0.07 * 100 is 7.000000000000001 in binary."""
    frame = pl.DataFrame({"score": [0.5] * 100, "label": [1] * 7 + [0] * 93})
    path = write(frame, tmp_path / "a.csv")
    assert totals(fit(path, "--precision", "0.07")) == [7, 100]
    assert fit(path, "--precision", "0.070000001") == {}
    third = pl.DataFrame({"score": [0.5] * 3, "label": [1, 0, 0]})
    assert totals(fit(write(third, tmp_path / "b.csv"), "--precision", "0.333333333")) == [1, 3]
    assert fit(tmp_path / "b.csv", "--precision", "0.333333334") == {}


@pytest.mark.parametrize("data", ["criteo_tau3", "bank_tau5", "creditcard"])
def test_figures_of_real_files(
    tmp_path: Path, data: str, invoke: Invoke, real_data: Callable[[str], Path]
) -> None:
    folder, out = real_data(data), tmp_path / "b.json"
    columns = ["score", "uncertainty", "label"]
    test = pl.read_parquet(folder / "test.parquet", columns=columns)
    for method in ("exact", "mist"):
        goal = ["--precision", "0.6", "--method", method, "--uncertainty-bins", "4"]
        line = ["boundary", folder / "calib.parquet", *goal, "--test", folder / "test.parquet"]
        model = invoke(*line, "-q", "-o", out).result()
        check_counts(model, pl.read_parquet(folder / "calib.parquet", columns=columns))
        judged = dict(model["fit"]["test"])
        assert judged.pop("rows") == test.height
        assert judged.pop("positives") == test["label"].sum()
        assert judged.pop("objective_value") == judged["recall"]
        assert judged == recount(model, test)


# What the model says -------------------------------------------------------------------------


def test_the_fields_of_a_model(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate()
    path, out = write(frame, tmp_path / "a.parquet"), tmp_path / "b.json"
    tags = ["--tag", "owner=risk", "--tag", "run=a=b"]
    goal = ["--precision 0.75 --method exact --seed 3 --provenance names", *tags]
    model = invoke("boundary", path, *goal, "--test", path, "-o", out).result()
    assert (model["kind"], model["version"], model["method"]) == ("boundary", 1, "exact")
    assert model["objective"] == {"maximize": "recall", "subject_to": {"precision": 0.75}}
    assert model["tags"] == {"owner": "risk", "run": "a=b"}
    assert model["columns"] == {
        "score": {"name": "score", "dtype": "float64", "scale": "probability"},
        "uncertainty": {"name": "uncertainty", "dtype": "float64"},
        "label": {"name": "label"},
    }
    assert model["uncertainty_min"] == frame["uncertainty"].min()
    ordered = frame["uncertainty"].sort()
    assert model["uncertainty_edges"] == [ordered[200], ordered[400]]
    fitted = model["fit"]
    assert {
        "rows",
        "positives",
        "in_sample",
        "upper_bound",
        "optimal_in_sample",
        "exact_arithmetic",
        "bound_met",
        "cross_validated",
        "score_only",
        "test",
        "reference",
    } <= set(fitted)
    assert set(fitted["cross_validated"]) == {
        "precision",
        "recall",
        "objective_value",
        "standard_error",
        "folds",
    }
    assert (fitted["optimal_in_sample"], fitted["exact_arithmetic"]) == (True, True)
    assert fitted["cross_validated"]["folds"] == 5
    assert {name: fitted["test"][name] for name in fitted["in_sample"]} == fitted["in_sample"]
    assert fitted["reference"]["rows_per_level"] == [200, 200, 200]
    scores = frame["score"].sort()
    assert fitted["reference"]["score_quantiles"] == [scores[j * 600 // 20] for j in range(20)]
    assert model["provenance"]["files"] == [str(path)]
    assert model["provenance"]["rows"] == 600
    assert re.fullmatch("[0-9a-f]{16}", model["provenance"]["data_hash"])
    assert str(out) not in out.read_text()


def test_without_uncertainties_there_is_one_level(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate().drop("uncertainty"), tmp_path / "a.csv")
    done = invoke("boundary", path, "--precision", "0.75", "--json")
    assert "K = 1" in done.stderr
    model = json.loads(done.stdout)
    assert (len(model["score_thresholds"]), model["uncertainty_min"]) == (1, None)


@pytest.mark.parametrize(
    ("labels", "options", "suffix"),
    [
        (["True", "FALSE"], [], ".csv"),
        ([True, False], [], ".parquet"),
        (["yes", "no"], ["--positive", "yes"], ".parquet"),
        ([7, 3], ["--positive", "7"], ".csv"),
    ],
    ids=str,
)
def test_kinds_of_labels(
    tmp_path: Path, labels: list[Any], options: list[str], suffix: str, fit: Fit
) -> None:
    frame = simulate(200)
    plain = fit(write(frame, tmp_path / "a.csv"), "--precision", "0.75")
    values = [labels[1 - y] for y in frame["label"].to_list()]
    path = write(frame.with_columns(pl.Series("label", values)), tmp_path / f"b{suffix}")
    model = fit(path, "--precision", "0.75", *options)
    assert model["fit"] == plain["fit"]
    assert model["provenance"]["data_hash"] == plain["provenance"]["data_hash"]
    assert model["columns"]["label"].get("positive") == (options[-1] if options else None)


def test_one_row(tmp_path: Path, fit: Fit) -> None:
    frame = pl.DataFrame({"score": [0.5], "uncertainty": [1.0], "label": [1]})
    model = fit(write(frame, tmp_path / "a.csv"), "--precision", "1")
    assert totals(model) == [1, 1]
    check_counts(model, frame)


@pytest.mark.parametrize("scale", ["logit", "raw"])
def test_other_scales(tmp_path: Path, scale: str, fit: Fit) -> None:
    probability = simulate()
    odds = pl.col("score") / (1 - pl.col("score"))
    frame = probability.with_columns(score=odds.log())
    model = fit(write(frame, tmp_path / "a.parquet"), "--precision", "0.75", "--scale", scale)
    same = fit(write(probability, tmp_path / "b.parquet"), "--precision", "0.75")
    assert model["columns"]["score"]["scale"] == scale
    assert model["fit"]["in_sample"] == same["fit"]["in_sample"]
    check_counts(model, frame)


# What is said --------------------------------------------------------------------------------


def test_the_first_line_says_what_to_expect(tmp_path: Path, invoke: Invoke) -> None:
    path, out = write(simulate(), tmp_path / "a.csv"), tmp_path / "b.json"
    start = ["boundary", path, "--precision", "0.75", "-o", out]
    done = invoke(*start)
    checked = json.loads(out.read_text())["fit"]["cross_validated"]
    first = done.stderr.splitlines()[0]
    figures = [f"{checked[name]:.4f}" for name in ("precision", "recall")]
    for word in (*figures, "cross-validated", "new data"):
        assert word in first
    assert "guarantee" in first
    first = invoke(*start, "--test", path).stderr.splitlines()[0]
    assert "test rows" in first
    first = invoke(*start, "--folds", 0).stderr.splitlines()[0]
    assert "not judged" in first
    assert invoke(*start, "-q").stderr == ""


def test_a_missed_bound_is_a_warning(tmp_path: Path, invoke: Invoke) -> None:
    """Bins of unequal size: the table over bins of average size may miss the bound."""
    for seed in range(40):
        frame = simulate(150, seed, ties=True)
        path, out = write(frame, tmp_path / "a.csv"), tmp_path / "b.json"
        options = ["--method", "ew-dpmt", "--score-bins", "7", "--precision", "0.7", "--folds", "0"]
        out.unlink(missing_ok=True)
        done = invoke("boundary", path, *options, "-q", "-o", out)
        if done.code == 4:
            continue
        model = json.loads(out.read_text())
        check_counts(model, frame)
        if not model["fit"]["bound_met"]:
            assert "misses the bound" in done.stderr
            refused = invoke("boundary", path, *options, "--warnings", "error", "-o", out)
            assert refused.code == 3
            return
    pytest.fail("no case found where the bound is missed")
