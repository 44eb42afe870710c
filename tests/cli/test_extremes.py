"""Numbers at the end of their range, and those that once gave a wrong result, or exit code 70."""

from __future__ import annotations

import itertools
import json
import math
import random
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import decisions, simulate, write
from tests.conftest import Invoke, words
from tests.fuzz.harness import run_quietly

ZERO = [0.0, math.nextafter(0.0, 1.0), 2.2250738585072014e-308]
ONE = [math.nextafter(1.0, 0.0), 1.0]
METHODS = ("beta", "platt", "isotonic", "histogram", "scaling-binning", "venn-abers", "temperature")
CALIBRATE = [f"calibrate --method {method}" for method in METHODS]
MAPS = [
    *CALIBRATE,
    *(f"{line} --clip 0" for line in CALIBRATE),
    "hetcal --features x --max-depth 1 --min-leaf 10",
    "hetcal --features x --partition forest --trees 2 --min-leaf 10",
    "hetcal --features x --partition boosted --trees 2 --min-leaf 10",
    "vad --members score_?",
]


def run(*line: object) -> Any:
    """Run a command that must succeed; return its result, without a number that is none."""
    out = Path(str(line[-1]))
    code, said = run_quietly([*words(line[:-1]), "-q", "-o", str(out)])
    assert code == 0, (line, said)
    if out.suffix == ".parquet":
        return pl.read_parquet(out)
    return json.loads(out.read_bytes(), parse_constant=pytest.fail)


@pytest.fixture
def ends() -> Path:
    """Return rows whose scores are 0, 1, their neighbours and a few between, with both labels."""
    score = np.tile([*ZERO, 1e-16, 0.25, 0.5, 0.75, 1 - 1e-16, *ONE], 6)
    label = (np.arange(score.size) // (score.size // 6) % 3 == 0) | (score > 0.5)
    members = {f"score_{k}": np.roll(score, k) for k in range(3)}
    x = np.arange(score.size) % 7
    frame = pl.DataFrame({"score": score, "label": label.astype(int), "x": x, **members})
    return write(frame, "ends.parquet")


@pytest.mark.parametrize("command", MAPS)
def test_maps_of_scores_at_the_ends(command: str, ends: Path) -> None:
    name, _, options = command.partition(" ")
    run(name, ends, options, Path("m.json"))
    values = run("apply", Path("m.json"), ends, Path("rows.parquet"))
    ordered, calibrator = values.sort("score")["calibrated"], name == "calibrate"
    strict = calibrator and "--clip" not in options
    assert ordered.is_between(0.0, 1.0, closed="none" if strict else "both").all()
    assert not calibrator or "venn-abers" in options or ordered.is_sorted()


@pytest.mark.parametrize("method", ["exact", "st", "logistic", "gmt", "vw-dpmt", "mist"])
def test_boundaries_of_scores_at_the_ends(method: str, ends: Path) -> None:
    options = f"--precision 0.7 --folds 0 --method {method}"
    model = run("boundary", ends, options, Path("b.json"))
    applied = run("apply", Path("b.json"), ends, Path("rows.parquet"))
    if method != "logistic":
        assert applied["decision"].to_list() == decisions(model, pl.read_parquet(ends))
    assert applied["decision"].sum() == model["fit"]["in_sample"]["selected"]
    margins = applied.drop_nulls("margin")
    assert (margins["decision"] == (margins["margin"] >= 0.0)).all()


def test_metrics_of_scores_at_the_ends(ends: Path) -> None:
    found = run("evaluate", ends, "--no-intervals", Path("m.json"))["metrics"]["score"]["all"]
    rows = pl.read_parquet(ends).select("score", "label").rows()
    clipped = [(min(max(s, 1e-15), 1 - 1e-15), y) for s, y in rows]
    loss = math.fsum(-math.log(s if y else 1 - s) for s, y in clipped) / len(rows)
    assert found["log_loss"] == pytest.approx(loss, rel=1e-12)
    brier = math.fsum((s - y) ** 2 for s, y in rows) / len(rows)
    assert found["brier"] == pytest.approx(brier, rel=1e-12)
    assert all(value is not None for value in found.values())


def score_metrics(path: Path, weight: str) -> Any:
    """Return the metrics of the scores of weighted rows."""
    found = run("evaluate", path, "--weight", weight, "--no-intervals", Path("m.json"))
    return found["metrics"]["score"]["all"]


@pytest.fixture
def whole() -> Path:
    """Return rows with whole weights, and columns with these weights times large numbers."""
    frame = simulate(300, seed=4, ties=True).with_columns(pl.col("weight").cast(pl.Float64))
    factors = (1e9, 2.0**32, 3e9, 1e-200, 1e200)
    scaled = {f"times_{factor}": pl.col("weight") * factor for factor in factors}
    return write(frame.with_columns(**scaled), "whole.parquet")


@pytest.mark.parametrize("factor", [1e9, 2.0**32, 3e9])
def test_counts_beyond_32_bits_are_counts(factor: float, whole: Path, tmp_path: Path) -> None:
    """Counts of weighted rows are exact sums, far beyond 2^31; rates are those of the ratios."""
    found = []
    for weight in ("weight", f"times_{factor}"):
        options = ("--weight", weight, "--folds 0 --precision 0.75 --method exact")
        model = run("boundary", whole, *options, tmp_path / "b.json")
        found.append((model, score_metrics(whole, weight)))
    (model, metrics), (large, scaled) = found
    assert large["score_thresholds"] == model["score_thresholds"]
    one, other = (part["fit"]["in_sample"] for part in (model, large))
    for name in ("selected", "true_positives"):
        assert other[name] == one[name] * factor
    assert scaled["count"] == metrics["count"] * factor > 2**31
    for name in ("auc", "average_precision", "brier", "log_loss", "ece", "miscalibration"):
        assert scaled[name] == pytest.approx(metrics[name], rel=1e-12), name


@pytest.mark.parametrize("factor", [1e-200, 1e200])
def test_tiny_and_huge_weights_give_the_ratios(factor: float, whole: Path) -> None:
    one, other = (score_metrics(whole, name) for name in ("weight", f"times_{factor}"))
    for name in ("auc", "average_precision", "brier", "ece", "base_rate", "log_loss"):
        assert other[name] == pytest.approx(one[name], rel=1e-9), name


@pytest.mark.parametrize(
    ("method", "tolerance"),  # those beyond 1e-12 add a row, or a prior of rows
    [
        ("isotonic", 1e-12),
        ("platt", 1e-6),
        ("beta", 1e-6),
        ("histogram", 1e-12),
        ("venn-abers", 0.1),
    ],
)
def test_maps_of_weights_a_billion_times_larger(method: str, tolerance: float, whole: Path) -> None:
    values, model = [], Path("cal.json")
    for weight in ("weight", f"times_{1e9}"):
        options = ("--method", method, "--clip 0 --weight", weight)
        more = ("--targets", "mle") if method == "platt" else ()
        run("calibrate", whole, *options, *more, model)
        rows = run("apply", model, whole, Path("rows.parquet"))
        values.append(rows["calibrated"].to_numpy())
    np.testing.assert_allclose(values[1], values[0], atol=tolerance)


def test_a_column_of_one_value_by_weights_of_a_hundred_million(tmp_path: Path) -> None:
    lines = {"score": [0.3] * 8, "uncertainty": [1.0] * 8, "label": [1, 1, 1, *[0] * 5]}
    frame = pl.DataFrame(lines | {"w": 100_000_000})
    path, own = write(frame, tmp_path / "one.parquet"), tmp_path / "own.json"
    figures = run("boundary", path, "--recall 0.5 --weight w --method exact --folds 0", own)["fit"]
    figures = figures["in_sample"]
    assert (figures["selected"], figures["true_positives"]) == (800_000_000, 300_000_000)
    assert figures["precision"] == 0.375
    metrics = score_metrics(path, "w")
    assert (metrics["auc"], metrics["average_precision"], metrics["count"]) == (0.5, 0.375, 8e8)
    assert metrics["ece"] == pytest.approx(0.075, rel=1e-12)
    assert metrics["discrimination"] == 0.0
    run("calibrate", path, "--weight w --method isotonic", own)
    applied = run("apply", own, path, tmp_path / "rows.parquet")
    assert applied["calibrated"].to_list() == [0.375] * 8
    bins = "--weight w --uncertainty-bins 2 --score-bins 3"
    assert run("bin", path, bins, tmp_path / "grid.parquet")["count"].sum() == 800_000_000


def test_counts_beyond_53_bits_keep_their_digits(tmp_path: Path) -> None:
    """Whole weights whose sum no float holds exactly: results are the floats next to the sums."""
    weight = [2**53 - 1, 3, 2**52 + 1, 5, 1, 2**51 + 7]
    lines = {"score": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], "label": [1, 0, 1, 0, 0, 1], "w": weight}
    path, options = (
        write(pl.DataFrame(lines), tmp_path / "large.parquet"),
        "--method exact --folds 0",
    )
    model = run("boundary", path, "--fpr 0.6 --weight w", options, tmp_path / "b.json")
    assert model["score_thresholds"] == [0.7]  # 3 of 9 negatives; 8 of 9 with the next
    figures = model["fit"]["in_sample"]
    assert figures["selected"] == float(2**53 + 2**52 + 3)
    assert figures["false_positive_rate"] == pytest.approx(1 / 3, rel=1e-12)
    metrics = score_metrics(path, "w")
    good = [Fraction(weight[place]) for place in (0, 2, 5)]
    area = (good[0] * 9 + good[1] * 6) / (sum(good) * 9)
    assert metrics["auc"] == pytest.approx(float(area), rel=1e-12)
    assert metrics["count"] == float(sum(weight))


def test_counts_of_votes_beyond_32_bits() -> None:
    """Sums of many large histograms of votes are exact."""
    votes = {"count_0": [2**31, 2**31 - 1, 3], "count_1": [2**31, 2**30, 2**31]}
    frame = pl.DataFrame({"prob_0": [0.5, 0.6, 0.4], "prob_1": [0.5, 0.4, 0.6], **votes})
    path = write(frame, "votes.parquet")
    found = run("evaluate", path, "--counts", "count_*", "--no-intervals", Path("m.json"))
    (metrics,) = (part["all"] for part in found["metrics"].values())
    shares = [a / (a + b) for a, b in zip(votes["count_0"], votes["count_1"], strict=True)]
    loss = [2 * (p - m) ** 2 for p, m in zip(frame["prob_0"], shares, strict=True)]
    assert metrics["epistemic_loss_plugin"] == pytest.approx(math.fsum(loss) / 3, rel=1e-9)


# Weights of which some are a billion times others, and no binary fractions: exact rational twins.

Rows = list[tuple[float, int, Fraction]]  # score, label, weight

#: How heavy negative and positive rows are: one class light, or both of both kinds; and what one
#: may expect: half a unit of a class or 1e-9.
SCALES = {
    "light negatives": ((0.1, 0.1), (1e8, 1e8), 2e-9),
    "light positives": ((1e9, 1e9), (1.1, 1.1), 2e-9),
    "mixed": ((0.1, 1e9), (0.1, 1e9), 1e-9),
    "very light negatives": ((1e-3, 1e-3), (1e9, 1e9), 3e-6),
}


@pytest.fixture(params=SCALES)
def weighted(request: pytest.FixtureRequest) -> tuple[Path, Rows, float]:
    """Return a file and its rows; scores are tied now and then."""
    random = np.random.default_rng(8)
    label = (random.random(600) < 0.4).astype(np.int64)
    score = np.clip(np.round(0.3 * label + 0.7 * random.random(600), 3), 0.0, 1.0)
    scale = np.array(SCALES[request.param][:2])[label, random.integers(0, 2, 600)]
    weight = scale * (1.0 + random.random(600))
    frame = pl.DataFrame({"score": score, "label": label, "w": weight})
    rows = list(zip(score.tolist(), label.tolist(), map(Fraction, weight.tolist()), strict=True))
    return write(frame, "rows.parquet"), rows, SCALES[request.param][2]


def cut(rows: Rows) -> list[tuple[float, Fraction, Fraction]]:
    """Return each distinct score, falling, with positive and negative weight from it upwards."""
    found, good, bad = [], Fraction(0), Fraction(0)
    falling = sorted(rows, key=lambda row: -row[0])
    for score, tied in itertools.groupby(falling, key=lambda row: row[0]):
        for _, label, weight in tied:
            good, bad = good + label * weight, bad + (1 - label) * weight
        found.append((score, good, bad))
    return found


def test_metrics_of_mixed_weights(weighted: tuple[Path, Rows, float]) -> None:
    path, rows, tolerance = weighted
    cuts = cut(rows)
    _, good, bad = cuts[-1]
    area = precision = above = left = Fraction(0)
    for _, hits, false in cuts:
        area += (false - left) * (hits + above) / 2
        precision += (hits - above) / good * hits / (hits + false)
        above, left = hits, false
    expected = {
        "count": good + bad,
        "positives": good,
        "base_rate": good / (good + bad),
        "auc": area / (good * bad),
        "average_precision": precision,
        "brier": sum(w * (Fraction(s) - y) ** 2 for s, y, w in rows) / (good + bad),
    }
    metrics = score_metrics(path, "w")
    for name, exact in expected.items():
        assert metrics[name] == pytest.approx(float(exact), rel=tolerance), name
    clipped = [(min(max(s, 1e-15), 1 - 1e-15), y, float(w / (good + bad))) for s, y, w in rows]
    loss = math.fsum(-math.log(s if y else 1 - s) * w for s, y, w in clipped)
    assert metrics["log_loss"] == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize(
    "command",
    [
        ("boundary", "--recall 0.5 --method exact --folds 0"),
        ("calibrate", "--method isotonic"),
        ("evaluate", "--no-intervals"),
    ],
    ids=lambda words: words[0],
)
def test_weights_too_far_apart_are_said(
    command: tuple[str, str], weighted: tuple[Path, Rows, float]
) -> None:
    path, _, tolerance = weighted
    code, said = run_quietly(words([*command, path, "--weight w -q -o", Path("m.json")]))
    assert code == 0
    if tolerance > 1e-6:
        assert re.search(r"weights: negative rows together weigh \d+e-1[23] of the positive", said)
    else:
        assert "weights" not in said


def fit(invoke: Invoke, path: Path, *options: object) -> dict[str, Any]:
    """Fit a boundary and return its model."""
    return invoke("boundary", path, *options, "--folds", "0", "-q").result()


@pytest.mark.parametrize("method", ["exact", "st", "stochastic"])
@pytest.mark.parametrize("bound", ["--capacity 10", "--capacity 3", "--fpr 1", "--precision 0"])
def test_a_bound_that_cannot_bind_lets_all_float_weights_in(
    bound: str, method: str, invoke: Invoke
) -> None:
    rows = pl.DataFrame({"score": [0.9, 0.5, 0.1], "label": [1, 0, 1], "w": [0.3, 0.1, 0.7]})
    path = write(rows, "rows.parquet")
    model = fit(invoke, path, bound, "--method", method, "--weight", "w")
    assert model["fit"]["in_sample"]["recall"] == 1.0
    assert model["fit"]["upper_bound"] == 1.0
    every = fit(invoke, path, "--recall", "1", "--method", method, "--weight", "w")
    assert every["fit"]["in_sample"]["recall"] == 1.0
    least = fit(invoke, path, "--capacity 0.999999999 --method exact --weight w")  # which binds
    assert least["fit"]["in_sample"]["recall"] == pytest.approx(0.3)


@pytest.mark.parametrize("measure", ["mcc", "gmean"])
def test_measures_of_float_weights_whose_sums_are_rounded(measure: str, invoke: Invoke) -> None:
    rows = pl.DataFrame(
        {
            "score": [0.5, 0.6, 0.6, 0.5],
            "label": [0, 0, 0, 1],
            "w": [0.925614088271161, 0.488741569461408, 0.23008952114516357, 0.3546801225823851],
        }
    )
    path = write(rows, "rows.parquet")
    options = ("--method", "exact", "--uncertainty-bins", "1", "--weight", "w")
    model = fit(invoke, path, "--maximize", measure, *options)
    # Of the reachable boundaries none is better than chance, so nothing is selected.
    assert model["fit"]["in_sample"]["objective_value"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        *((column, pl.UInt64, 2**53 + 1) for column in ("score", "uncertainty", "weight")),
        *((column, pl.Int64, -(2**53) - 1) for column in ("score", "uncertainty")),
    ],
)
def test_integers_that_floats_cannot_hold(
    column: str, kind: type[pl.DataType], value: int, invoke: Invoke
) -> None:
    values = {name: [1, 1, 2, 3] for name in ("score", "uncertainty", "weight")}
    values[column] = [1, value, 2, 3]
    rows = pl.DataFrame(values, schema=dict.fromkeys(values, kind))
    path = write(rows.with_columns(label=pl.Series([1, 0, 1, 0])), "rows.parquet")
    ended = invoke("boundary", path, "--scale raw --weight weight --precision 0.5 --folds 0")
    ended.refused(3, "beyond 2^53", f"column '{column}'", str(value))


@pytest.fixture
def ranked() -> pl.DataFrame:
    """Return rows whose label follows the score."""
    drawn = random.Random(3)
    score = [round(drawn.random(), 2) for _ in range(60)]
    return pl.DataFrame(
        {
            "score": score,
            "label": [int(drawn.random() < value) for value in score],
            "uncertainty": [drawn.random() for _ in score],
        }
    )


@pytest.mark.parametrize("factor", [1e-250, 1e-120, 1e100, 1e160, 1e300, 1.7e308])
@pytest.mark.parametrize("scale", ["raw", "logit"])
def test_a_logistic_surface_of_enormous_scores(
    scale: str, factor: float, ranked: pl.DataFrame, invoke: Invoke
) -> None:
    options = ("--method", "logistic", "--recall", "0.5", "--scale", "raw")
    plain = fit(invoke, write(ranked, "plain.parquet"), *options)
    large = ranked.with_columns(pl.col("score") * factor)
    options = (*options[:-1], scale)
    model = fit(invoke, write(large, "large.parquet"), *options)
    for name in ("precision", "recall"):
        assert model["fit"]["in_sample"][name] == plain["fit"]["in_sample"][name]


def test_scores_whose_differences_are_no_numbers(ranked: pl.DataFrame, invoke: Invoke) -> None:
    wide = ranked.with_columns((pl.col("score") - 0.5) * 2.0 * 1.7e308)
    path = write(wide, "wide.parquet")
    ended = invoke("boundary", path, "--method", "logistic", "--recall", "0.5", "--scale", "raw")
    ended.refused(3, "scale the scores")
