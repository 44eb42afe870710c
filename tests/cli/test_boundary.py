"""``boundary``: golden optima, every reported figure counted again, weights, summaries, options."""

from __future__ import annotations

import json
import math
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
def fit(invoke: Invoke) -> Fit:
    """Fit and return the model; an infeasible bound returns an empty dictionary."""

    def call(path: Path, *options: object) -> Model:
        output = Path("fitted.json")
        output.unlink(missing_ok=True)
        given = ["--method", "exact", *options, "--folds", 0]
        done = invoke("boundary", path, *given, "-q", "-o", output)
        assert done.stdout == b"" and output.exists() == (done.code != 4)
        return done.result() if done.code != 4 else {}

    return call


def golden(case: str) -> tuple[Path, Any, Any]:
    found = json.loads((GOLDEN / case / "expected.json").read_text())
    return GOLDEN / case / "rows.parquet", found["params"], found["expected"]


def totals(model: Model) -> list[int]:
    seen = model["fit"]["in_sample"] if model else {"true_positives": 0, "selected": 0}
    return [seen["true_positives"], seen["selected"]]


def check_counts(model: Model, frame: pl.DataFrame) -> None:
    """Count everything again that a model says of its fitting rows."""
    if not model:
        return
    seen = dict(model["fit"]["in_sample"])
    value = seen.pop("objective_value")
    again = recount(model, frame)
    assert seen == again
    assert value == again[model["objective"]["maximize"]]
    assert model["fit"]["rows"] == frame.height
    ((bounded, bound),) = model["objective"]["subject_to"].items()
    of = model["fit"]["positives"] if bounded == "recall" else again["selected"]
    met = again["true_positives"] >= Fraction(repr(bound)) * of
    assert model["fit"]["bound_met"] == met
    if met:
        assert model["fit"]["upper_bound"] >= value
    if model["fit"]["optimal_in_sample"]:
        assert met
    assert (
        model["fit"]["reference"]["selected_share"] == sum(decisions(model, frame)) / frame.height
    )


@pytest.mark.parametrize("case", GRIDS)
def test_golden_optima_on_a_grid(case: str, fit: Fit) -> None:
    """Of the exact search; those of the tables are in tests/library/test_grid_methods.py."""
    path, params, expected = golden(case)
    bins = ["--uncertainty-bins", params["K"], "--score-bins", params["L"]]
    frame = pl.read_parquet(path)
    wanted = [
        ("--precision", s, by_method["exact"]) for s, by_method in expected["by_sigma"].items()
    ]
    wanted += [("--recall", eta, best) for eta, best in expected["by_eta"].items()]
    for option, bound, best in wanted:
        model = fit(path, option, bound, *bins)
        assert totals(model) == best, bound
        check_counts(model, frame)
        assert not model or model["fit"]["optimal_in_sample"]


@pytest.mark.parametrize("case", GRIDS)
@pytest.mark.parametrize("method", ["gmt", "mist"])
def test_golden_heuristics_on_a_grid(case: str, method: str, fit: Fit, invoke: Invoke) -> None:
    path, params, expected = golden(case)
    bins = ["--uncertainty-bins", params["K"], "--score-bins", params["L"]]
    cells = pl.read_csv(invoke("bin", path, *bins, "--output-format", "csv").stdout)
    grid = [part["score_low"].to_list() for part in cells.partition_by("uncertainty_bin")]
    for sigma, by_method in expected["by_sigma"].items():
        model = fit(path, "--precision", sigma, *bins, "--method", method)
        known = by_method[method]
        assert totals(model) == [known["tp"], known["rows"]], sigma
        check_counts(model, pl.read_parquet(path))
        for level, threshold in enumerate(model.get("score_thresholds", ())):
            take = known["take"][level]
            if take == 0:
                assert threshold is None
            elif take < params["L"] and threshold != "-inf":
                assert threshold == grid[level][params["L"] - take]


def test_golden_single_thresholds(fit: Fit) -> None:
    path, _, expected = golden("p05_single_threshold_ties")
    for option, by_bound in (("--precision", "by_sigma"), ("--recall", "by_eta")):
        for bound, known in expected[by_bound].items():
            model = fit(path, option, bound, "--method", "st")
            assert totals(model) == [known["tp"], known["rows"]]
            assert model.get("score_thresholds", ["inf"]) == [known["threshold"]]
            if model:
                assert model["uncertainty_edges"] == [] and "uncertainty" not in model["columns"]
            check_counts(model, pl.read_parquet(path))


def test_golden_mist_on_raw_scores(fit: Fit) -> None:
    path, params, expected = golden("p10_mist_samples")
    bins = ["--method", "mist", "--uncertainty-bins", params["K"]]
    for sigma, known in expected.items():
        model = fit(path, "--precision", sigma, *bins)
        assert totals(model) == [known["tp"], known["rows"]]
        for level, threshold in known["thresholds"].items() if model else ():
            found = model["score_thresholds"][int(level)]
            assert found == (None if threshold == "inf" else threshold)
        check_counts(model, pl.read_parquet(path))


@pytest.mark.parametrize(
    "options",
    [
        *("--method auto", "--method st", "--method exact --score-bins 6"),
        "--score-bins 6 --order score-uncertainty",
    ],
)
def test_every_point_of_a_frontier_is_reached_by_its_boundary(options: str, fit: Fit) -> None:
    frame, table = simulate(300).with_columns(pl.col("score").round(2)), Path("f.csv")
    path = write(frame, "a.csv")
    bins = ["--precision 0.5 --uncertainty-bins 2", options, "--frontier", table]
    model = fit(path, *bins)
    points = pl.read_csv(table)
    assert points["recall"].is_sorted() and points.height > 3
    field, name = ("take", "take") if "order" in options else ("score_thresholds", "threshold")
    for point in points.iter_rows(named=True):
        own = [point[f"{name}_{level}"] for level in (0, 1)]
        assert own[0] == own[1] or "st" not in options.split()
        reached = recount(model | {field: own}, frame)
        for figure in ("selected", "true_positives", "precision", "recall"):
            assert reached[figure] == point[figure]


def test_weights_that_are_no_binary_fractions_are_said_to_be_rounded(invoke: Invoke) -> None:
    frame = simulate().with_columns(weight=pl.col("weight") / 10)
    path = write(frame, "a.csv")
    options = "--precision 0.75 --weight weight --warnings error"  # for it is said, but no warning
    done = invoke("boundary", path, options, "-o b.json")
    done.succeeded("rounded")
    model = done.result()
    assert model["fit"]["exact_arithmetic"] is False
    again = recount(model, frame, frame["weight"].to_list())
    for name, value in again.items():
        assert model["fit"]["in_sample"][name] == pytest.approx(value, rel=1e-12)
    assert again["precision"] >= 0.75


def test_bounds_are_compared_exactly(fit: Fit) -> None:
    """7 of 100 is 0.07, and 0.07 * 100 is 7.000000000000001 in binary."""
    frame = pl.DataFrame({"score": [0.5] * 100, "label": [1] * 7 + [0] * 93})
    path = write(frame, "a.csv")
    assert totals(fit(path, "--precision", "0.07")) == [7, 100]
    assert fit(path, "--precision", "0.070000001") == {}
    third = pl.DataFrame({"score": [0.5] * 3, "label": [1, 0, 0]})
    assert totals(fit(write(third, "b.csv"), "--precision", "0.333333333")) == [1, 3]
    assert fit(Path("b.csv"), "--precision", "0.333333334") == {}


@pytest.mark.parametrize("data", ["criteo_tau3", "bank_tau5", "creditcard"])
def test_figures_of_real_files(data: str, invoke: Invoke, real_data: Callable[[str], Path]) -> None:
    calib, test = (real_data(data) / f"{name}.parquet" for name in ("calib", "test"))
    columns = ["score", "uncertainty", "label"]
    fitted, judged = (pl.read_parquet(path, columns=columns) for path in (calib, test))
    goal = ["--precision 0.6 --uncertainty-bins 4 -q --test", test, "-o", Path("b.json")]
    for method in ("exact", "mist"):
        model = invoke("boundary", calib, *goal, "--method", method).result()
        check_counts(model, fitted)
        again = recount(model, judged)
        sizes = {"rows": judged.height, "positives": judged["label"].sum()}
        assert model["fit"]["test"] == {**again, **sizes, "objective_value": again["recall"]}


def test_the_fields_of_a_model(invoke: Invoke) -> None:
    frame = simulate()
    path, out = write(frame, "a.parquet"), Path("b.json")
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
    checked = model["fit"]["cross_validated"]
    figures = ("precision", "recall", "objective_value", "standard_error")
    assert set(checked) == {*figures, "folds"}
    assert checked["folds"] == 5
    assert model["provenance"]["files"] == [str(path)]
    assert model["provenance"]["rows"] == 600
    assert re.fullmatch("[0-9a-f]{16}", model["provenance"]["data_hash"])
    assert str(out) not in out.read_text()


def test_without_uncertainties_there_is_one_level(invoke: Invoke) -> None:
    path = write(simulate().drop("uncertainty"), "a.csv")
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
def test_kinds_of_labels(labels: list[Any], options: list[str], suffix: str, fit: Fit) -> None:
    frame = simulate(200)
    plain = fit(write(frame, "a.csv"), "--precision", "0.75")
    values = pl.Series("label", [labels[1 - y] for y in frame["label"]])
    path = write(frame.with_columns(values), f"b{suffix}")
    model = fit(path, "--precision", "0.75", *options)
    assert model["fit"] == plain["fit"]
    assert model["provenance"]["data_hash"] == plain["provenance"]["data_hash"]
    assert model["columns"]["label"].get("positive") == (options[-1] if options else None)


def test_the_first_line_says_what_to_expect(invoke: Invoke) -> None:
    path = write(simulate(), "a.csv")
    start = ["boundary", path, "--precision", "0.75", "-o b.json"]
    done = invoke(*start)
    checked = done.result()["fit"]["cross_validated"]
    first = done.stderr.splitlines()[0]
    figures = [f"{checked[name]:.4f}" for name in ("precision", "recall")]
    for word in (*figures, "cross-validated", "new data", "guarantee"):
        assert word in first
    for option, said in ((("--test", path), "test rows"), (("--folds", 0), "not judged")):
        assert said in invoke(*start, *option).stderr.splitlines()[0]
    assert invoke(*start, "-q").stderr == ""


def test_a_missed_bound_is_a_warning(invoke: Invoke) -> None:
    """Bins of unequal size: the table over bins of average size may miss the bound."""
    out, missed = Path("b.json"), 0
    options = ["--method ew-dpmt --score-bins 7 --precision 0.7 --folds 0 -o", out]
    for seed in range(40):
        frame = simulate(150, seed, ties=True)
        path = write(frame, "a.csv")
        done = invoke("boundary", path, *options, "-q")
        if done.code == 4:
            continue
        check_counts(done.result(), frame)
        if not done.result()["fit"]["bound_met"]:
            assert "misses the bound" in done.stderr
            missed += 1
            assert invoke("boundary", path, *options, "--warnings", "error").code == 3
            break
    assert missed


@pytest.mark.parametrize("options", [(), ("--score-bins", 12), ("--method", "mist")], ids=str)
@pytest.mark.parametrize("kind", ["float32", "logit", "raw"])
def test_figures_on_columns_of_other_kinds(
    kind: str, options: tuple[object, ...], fit: Fit
) -> None:
    frame = simulate()
    plain = fit(write(frame, "a.parquet"), "--precision", "0.75", *options)
    if kind == "float32":
        frame = frame.with_columns(pl.col("score", "uncertainty").cast(pl.Float32))
    else:
        frame = frame.with_columns(score=(pl.col("score") / (1 - pl.col("score"))).log())
        options = (*options, "--scale", kind)
    model = fit(write(frame, "b.parquet"), "--precision", "0.75", *options)
    check_counts(model, frame)
    score = model["columns"]["score"]
    if kind == "float32":
        assert (score["dtype"], score["scale"]) == ("float32", "probability")
    else:
        assert (score["dtype"], score["scale"]) == ("float64", kind)
        assert model["fit"]["in_sample"] == plain["fit"]["in_sample"]


def test_a_boundary_that_flags_nothing_promises_nothing(invoke: Invoke) -> None:
    """Those fitted on the other folds may flag rows, which are none of its alerts."""
    place = pl.int_range(400)
    rows = pl.select(score=place / 400, label=(place % 5 == 0) & (place < 390))
    path = write(rows, "a.csv")
    done = invoke("boundary", path, "--maximize accuracy --method st")
    done.succeeded("Flag no row. On new data expect no alerts.")
    review = invoke("boundary", path, "--precision 0.95 --recall 0.5 --method st")
    review.succeeded("block if never", "expect no alerts: ", "precision undefined")
    assert "misses the bound precision" not in review.stderr
    by = write(rows.with_columns(g=pl.Series(["a", "b"] * 200)), "by.csv")
    groups = invoke("boundary", by, "--minimize cost:9,1 --method st --by g")
    groups.succeeded("Flag rows by g. On new data expect no alerts.")


def test_a_boundary_that_flags_by_chance_alone_flags_some(invoke: Invoke) -> None:
    place = pl.int_range(4000)
    rows = pl.select(score=(place % 2 + 1) / 4, label=(place % 16 % 3 == 1).cast(pl.Int8))
    random = invoke("boundary", write(rows, "a.csv"), "--fpr 0.0123 --method stochastic")
    random.succeeded("Flag rows from 0.5 up with probability 0.0", "alerts to be right")
    assert "no alerts" not in random.stderr
    low, bound = re.findall(r"rate ([0-9.]+) on new .* fpr <= ([0-9.]+);", random.stderr)[0]
    assert float(low) > float(bound)


def test_a_score_bin_that_begins_at_an_infinite_score_has_no_place_in_a_model(
    invoke: Invoke,
) -> None:
    scores = [-math.inf, 1.0, 0.0, 2.0]
    frame = pl.DataFrame({"score": scores, "label": [0, 0, 0, 1], "uncertainty": [1, 2, 3, 4]})
    order = "--order score-uncertainty --score-bins 2 --folds 0 --method exact --scale raw"
    rows = write(frame, "a.parquet")
    found = invoke("boundary", rows, order, "--precision 0.5 --json").refused(3, "clip the scores")
    assert (found["column"], found["file"]) == ("score", str(rows))
