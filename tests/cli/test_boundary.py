"""``boundary``: golden optima, every reported figure counted again, weights, summaries, options."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from tests.cli.score_files import Model, decisions, recount, simulate, write
from tests.conftest import ROOT, Invoke

Fit = Callable[..., Model]
GOLDEN = ROOT / "tests" / "golden"
GRIDS = ["p06_boundary_600", "p07_boundary_ties_empty_bins", "p09_boundary_5000"]
#: The golden files' names of methods that are exact in their class.
EXACT = {"exact": "exact", "vw-dpmt": "exact", "vw-dpmt-mono": "mono", "staircase": "staircase"}


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
@pytest.mark.parametrize("method", EXACT)
def test_golden_optima_on_a_grid(case: str, method: str, fit: Fit) -> None:
    path, params, expected = golden(case)
    if method == "vw-dpmt-mono" and case.startswith("p09"):
        pytest.skip("its table takes seconds; tests/library compares it")
    bins = ["--uncertainty-bins", params["K"], "--score-bins", params["L"], "--method", method]
    frame = pl.read_parquet(path)
    for sigma, by_method in expected["by_sigma"].items():
        model = fit(path, "--precision", sigma, *bins)
        assert totals(model) == by_method[EXACT[method]], sigma
        check_counts(model, frame)
        if method == "exact" and model:
            assert model["fit"]["optimal_in_sample"]
    for eta, best in expected["by_eta"].items() if EXACT[method] == "exact" else ():
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


@pytest.mark.few(13)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    "options",
    [
        ["--precision", "0.75"],
        ["--precision", "0.75", "--method", "st"],
        ["--precision", "0.75", "--method", "st", "--uncertainty-bins", "4"],
        ["--precision", "0.75", "--method", "mist", "--uncertainty-bins", "5"],
        ["--precision", "0.75", "--method", "gmt"],
        ["--precision", "0.75", "--score-bins", "12"],
        ["--precision", "0.75", "--score-bins", "12", "--strategy", "equal-width"],
        ["--precision", "0.75", "--score-bins", "12", "--order", "score-uncertainty"],
        ["--precision", "0.75", "--method", "gmt", "--score-bins", "9"],
        ["--precision", "0.75", "--method", "ew-dpmt", "--score-bins", "20"],
        ["--precision", "0.75", "--method", "vw-dpmt", "--score-bins", "20"],
        ["--recall", "0.4"],
        ["--recall", "0.4", "--method", "st"],
        ["--recall", "1", "--uncertainty-bins", "2"],
        ["--recall", "0", "--strategy", "equal-width"],
        ["--recall", "0.4", "--score-bins", "12", "--order", "score-uncertainty"],
        ["--precision", "0"],
        ["--precision", "0", "--score-bins", "7", "--order", "score-uncertainty"],
    ],
    ids=" ".join,
)
def test_figures_counted_again(tmp_path: Path, options: list[str], ties: bool, fit: Fit) -> None:
    frame = simulate(ties=ties)
    for suffix in (".parquet", ".csv"):
        model = fit(write(frame, tmp_path / f"a{suffix}"), *options)
        assert model
        check_counts(model, frame)


@pytest.mark.parametrize("options", [[], ["--score-bins", "12"], ["--method", "mist"]], ids=str)
def test_figures_on_float32_columns(tmp_path: Path, options: list[str], fit: Fit) -> None:
    frame = simulate().with_columns(pl.col("score", "uncertainty").cast(pl.Float32))
    model = fit(write(frame, tmp_path / "a.parquet"), "--precision", "0.75", *options)
    assert model["columns"]["score"]["dtype"] == "float32"
    check_counts(model, frame)


def test_new_rows_beyond_the_fitting_range_count_as_its_ends(
    tmp_path: Path, fit: Fit, invoke: Invoke
) -> None:
    frame = simulate(ties=True)
    scores = [0.0, 0.03, 0.05, 0.1, 0.5, 0.97, 1.0]
    new = pl.DataFrame(
        [(s, u) for s in scores for u in (-1e300, -1.0, 0.0, 0.5, 2.0, 1e300)],
        schema=["score", "uncertainty"],
        orient="row",
    )
    path, out = write(new, tmp_path / "new.parquet"), tmp_path / "out.parquet"
    narrow = write(frame.filter(pl.col("score") > 0.05), tmp_path / "a.parquet")
    for precision in ("0", "0.6", "0.8"):
        for more in ([], ["--score-bins", 6], ["--score-bins", 6, "--order", "score-uncertainty"]):
            model = fit(narrow, "--precision", precision, *more)
            assert invoke("apply", tmp_path / "fitted.json", path, "-o", out).code == 0
            assert pl.read_parquet(out)["decision"].to_list() == decisions(model, new), more


@pytest.mark.parametrize("unit", [1, 0.25])
def test_weights_are_rows(tmp_path: Path, unit: float, fit: Fit) -> None:
    frame = simulate(ties=True)
    written_out = frame[np.repeat(np.arange(frame.height), frame["weight"].to_numpy())]
    weighted = frame.with_columns(weight=pl.col("weight") * unit)
    for goal in (["--precision", "0.75"], ["--recall", "0.4"]):
        for more in ([], ["--method", "st"], ["--score-bins", "10"]):
            path = write(weighted, tmp_path / "w.csv")
            model = fit(path, *goal, *more, "--weight", "weight")
            plain = fit(write(written_out, tmp_path / "r.csv"), *goal, *more)
            check_counts(model, frame, [weight * unit for weight in frame["weight"].to_list()])
            for field in ("score_thresholds", "uncertainty_edges", "uncertainty_min"):
                assert model[field] == plain[field]
            assert model["fit"]["rows"] == plain["fit"]["rows"] * unit
            assert model["fit"]["exact_arithmetic"]
            assert model["columns"]["weight"]["name"] == "weight"


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


def test_rows_of_weight_zero_change_nothing(tmp_path: Path, fit: Fit) -> None:
    frame = simulate()
    lightest = frame.sort("uncertainty")["id"].head(30).to_list()
    weights = pl.when(pl.col("id").is_in(lightest)).then(0).otherwise(1)
    frame = frame.with_columns(weight=weights)
    some = fit(write(frame, tmp_path / "a.csv"), "--precision", "0.75", "--weight", "weight")
    kept = frame.filter(pl.col("weight") > 0)
    plain = fit(write(kept, tmp_path / "b.csv"), "--precision", "0.75")
    for field in ("score_thresholds", "uncertainty_edges", "uncertainty_min"):
        assert some[field] == plain[field]
    for field in ("in_sample", "upper_bound", "reference"):
        assert some["fit"][field] == plain["fit"][field]


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


def test_a_model_is_canonical_json(tmp_path: Path, fit: Fit) -> None:
    fit(write(simulate(), tmp_path / "a.csv"), "--precision", "0.75")
    text = (tmp_path / "fitted.json").read_text()
    assert text.endswith("}\n")

    def ordered(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        assert [key for key, _ in pairs] == sorted(key for key, _ in pairs)
        return dict(pairs)

    json.loads(text, object_pairs_hook=ordered, parse_constant=lambda _: pytest.fail("no number"))


def test_the_single_threshold_is_the_best_one(tmp_path: Path, fit: Fit) -> None:
    path = write(simulate(), tmp_path / "a.csv")
    several = fit(path, "--precision", "0.75", "--score-bins", "10")
    alone = fit(path, "--precision", "0.75", "--method", "st")
    assert several["fit"]["score_only"] == alone["fit"]["in_sample"]


def test_the_best_boundary_is_at_least_as_good_as_every_other(tmp_path: Path, fit: Fit) -> None:
    path = write(simulate(seed=5), tmp_path / "a.csv")
    best = fit(path, "--precision", "0.8")["fit"]["in_sample"]
    for method in ("st", "gmt", "mist"):
        other = fit(path, "--precision", "0.8", "--method", method)["fit"]
        assert other["in_sample"]["recall"] <= best["recall"]
        assert other["upper_bound"] >= (best["recall"] if method != "st" else 0.0)


def test_provenance_depends_on_rows_and_options_only(tmp_path: Path, invoke: Invoke) -> None:
    frame = simulate()
    found: list[bytes] = []
    for name in ("a.csv", "b.csv"):
        path, out = write(frame, tmp_path / name), tmp_path / f"{name}.json"
        threads = ["--threads", str(len(found) + 1)]
        assert invoke("boundary", path, "--precision", "0.75", *threads, "-o", out).code == 0
        found.append(out.read_bytes())
    assert found[0] == found[1]
    path = write(frame.with_columns(id=0), tmp_path / "c.csv")  # a column that is not used
    assert invoke("boundary", path, "--precision", "0.75", "-o", tmp_path / "c.json").code == 0
    assert (tmp_path / "c.json").read_bytes() == found[0]
    path = write(frame.with_columns(score=pl.col("score") / 2), tmp_path / "d.csv")
    assert invoke("boundary", path, "--precision", "0.75", "-o", tmp_path / "d.json").code == 0
    other = json.loads((tmp_path / "d.json").read_text())["provenance"]
    assert other["data_hash"] != json.loads(found[0])["provenance"]["data_hash"]
    none = invoke("boundary", path, "--precision", "0.75", "--provenance", "none", "--json")
    assert json.loads(none.stdout)["provenance"] is None


@pytest.mark.parametrize("text", ["0.75", ".75", "7.5e-1", "0.750"])
def test_a_bound_is_its_decimal_value(tmp_path: Path, text: str, invoke: Invoke) -> None:
    path = write(simulate(), tmp_path / "a.csv")
    model = invoke("boundary", path, "--precision", text, "--json", "-q").result()
    assert model["objective"]["subject_to"] == {"precision": 0.75}
    assert model["provenance"]["options"]["precision"] == "0.75"


def test_levels_of_one_threshold_are_kept_where_they_were_asked_for(
    tmp_path: Path, fit: Fit
) -> None:
    path = write(simulate(), tmp_path / "a.csv")
    options = ["--precision", "0.75", "--method", "st"]
    one, four = fit(path, *options), fit(path, *options, "--uncertainty-bins", "4")
    assert four["score_thresholds"] == one["score_thresholds"] * 4
    assert len(four["uncertainty_edges"]) == 3
    binned = fit(path, *options, "--uncertainty-bins", "4", "--score-bins", "20")
    rows = [model["fit"]["reference"]["rows_per_level"] for model in (four, binned)]
    assert rows[0] == rows[1] != []
    assert ck.load(tmp_path / "fitted.json").levels == 4  # a model of its own


def test_without_uncertainties_there_is_one_level(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate().drop("uncertainty"), tmp_path / "a.csv")
    done = invoke("boundary", path, "--precision", "0.75", "--json")
    assert "K = 1" in done.stderr
    model = json.loads(done.stdout)
    assert (len(model["score_thresholds"]), model["uncertainty_min"]) == (1, None)


@pytest.mark.parametrize(
    ("labels", "options"),
    [
        (["t", "f"], []),
        (["True", "FALSE"], []),
        ([True, False], []),
        ([1.0, 0.0], []),
        (["yes", "no"], ["--positive", "yes"]),
        ([7, 3], ["--positive", "7"]),
        ([0, 1], ["--positive", "0"]),
    ],
    ids=str,
)
@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
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


def test_too_few_rows_for_the_folds(tmp_path: Path, invoke: Invoke) -> None:
    frame = pl.DataFrame({"score": [0.1, 0.2, 0.8, 0.9], "label": [0, 0, 1, 1]})
    done = invoke("boundary", write(frame, tmp_path / "a.csv"), "--precision", "0.5", "--json")
    done.succeeded("Warning:", "too few")
    assert json.loads(done.stdout)["fit"]["cross_validated"] is None


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


def test_a_table_of_bin_is_recognised(tmp_path: Path, fit: Fit, invoke: Invoke) -> None:
    frame = simulate()
    path = write(frame, tmp_path / "a.parquet")
    bins = ["--uncertainty-bins", 3, "--score-bins", 12]
    for suffix in (".parquet", ".csv"):
        grid = tmp_path / f"grid{suffix}"
        assert invoke("bin", path, *bins, "-q", "-o", grid).code == 0
        fitted = fit(grid, "--precision", "0.75")
        direct = fit(path, "--precision", "0.75", *bins)
        for field in ("score_thresholds", "uncertainty_edges", "uncertainty_min"):
            assert fitted[field] == direct[field]
        assert fitted["fit"]["in_sample"] == direct["fit"]["in_sample"]
        assert math.isclose(fitted["fit"]["upper_bound"], direct["fit"]["upper_bound"])


def test_options_that_a_grid_or_a_comparison_cannot_follow(tmp_path: Path, invoke: Invoke) -> None:
    path, grid = write(simulate(), tmp_path / "a.parquet"), tmp_path / "grid.parquet"
    assert invoke("bin", path, "--score-bins", "5", "-o", grid).code == 0
    for more in (
        ("--strategy", "equal-width"),
        ("--order", "score-uncertainty"),
        ("--weight", "count"),
    ):
        done = invoke("boundary", grid, "--precision", "0.75", *more)
        assert done.code == 2 and more[0] in done.stderr
    table = tmp_path / "frontier.csv"
    done = invoke("boundary", path, "--precision", "0.75", "--compare", "--frontier", table)
    assert done.code == 2 and not table.exists()
