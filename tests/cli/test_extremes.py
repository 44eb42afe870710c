"""Numbers at the end of their range: scores at 0 and 1, enormous weights, counts beyond 2^31."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import decisions, simulate, write
from tests.conftest import words
from tests.fuzz.harness import run_quietly

ZERO, ONE = (
    [0.0, math.nextafter(0.0, 1.0), 2.2250738585072014e-308],
    [math.nextafter(1.0, 0.0), 1.0],
)
METHODS = ("beta", "platt", "isotonic", "histogram", "scaling-binning", "venn-abers", "temperature")


def run(*line: object) -> Any:
    """Run a command that must succeed; return its result, without a number that is none."""
    out = Path(str(line[-1]))
    code, said = run_quietly([*words(line[:-1]), "-q", "-o", str(out)])
    assert code == 0, (line, said)
    if out.suffix == ".parquet":
        return pl.read_parquet(out)
    return json.loads(out.read_bytes(), parse_constant=pytest.fail)


@pytest.fixture
def ends(tmp_path: Path) -> Path:
    """Return rows whose scores are 0, 1, their neighbours and a few between, with both labels."""
    scores = [*ZERO, 1e-16, 0.25, 0.5, 0.75, 1 - 1e-16, *ONE]
    rows = [(score, place % 3 == 0 or score > 0.5) for place in range(6) for score in scores]
    score = np.array([row[0] for row in rows])
    frame = pl.DataFrame({"score": score, "label": [int(row[1]) for row in rows]})
    members = {f"score_{k}": pl.Series(np.roll(score, k)) for k in range(3)}
    return write(
        frame.with_columns(x=pl.Series(np.arange(score.size) % 7), **members),
        tmp_path / "ends.parquet",
    )


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("clip", [None, "0"])
def test_calibrators_of_scores_at_the_ends(
    method: str, clip: str | None, ends: Path, tmp_path: Path
) -> None:
    more = () if clip is None else ("--clip", clip)
    model = tmp_path / "cal.json"
    run("calibrate", ends, "--method", method, *more, model)
    values = run("apply", model, ends, tmp_path / "rows.parquet")
    ordered = values.sort("score")["calibrated"]
    assert ordered.is_between(0.0, 1.0).all()
    assert method == "venn-abers" or ordered.is_sorted()
    if clip is None:
        assert ordered.is_between(0.0, 1.0, closed="none").all()


@pytest.mark.parametrize(
    "words",
    [
        ("hetcal", "--features", "x", "--max-depth", "1", "--min-leaf", "10"),
        ("hetcal", "--features", "x", "--partition", "forest", "--trees", "2", "--min-leaf", "10"),
        ("hetcal", "--features", "x", "--partition", "boosted", "--trees", "2", "--min-leaf", "10"),
        ("vad", "--members", "score_?"),
    ],
    ids=lambda words: " ".join(words[:5]),
)
def test_other_maps_of_scores_at_the_ends(
    words: tuple[str, ...], ends: Path, tmp_path: Path
) -> None:
    command, *options = words
    run(command, ends, *options, tmp_path / "m.json")
    values = run("apply", tmp_path / "m.json", ends, tmp_path / "rows.parquet")
    assert values["calibrated"].is_between(0.0, 1.0).all()


@pytest.mark.parametrize("method", ["exact", "st", "logistic", "gmt", "vw-dpmt", "mist"])
def test_boundaries_of_scores_at_the_ends(method: str, ends: Path, tmp_path: Path) -> None:
    model = run(
        "boundary", ends, "--precision 0.7 --method", method, "--folds 0", tmp_path / "b.json"
    )
    applied = run("apply", tmp_path / "b.json", ends, tmp_path / "rows.parquet")
    if method != "logistic":
        assert applied["decision"].to_list() == decisions(model, pl.read_parquet(ends))
    assert applied["decision"].sum() == model["fit"]["in_sample"]["selected"]
    margins = applied.drop_nulls("margin")
    assert (margins["decision"] == (margins["margin"] >= 0.0)).all()


def test_metrics_of_scores_at_the_ends(ends: Path, tmp_path: Path) -> None:
    found = run("evaluate", ends, "--no-intervals", tmp_path / "m.json")["metrics"]["score"]["all"]
    rows = pl.read_parquet(ends).select("score", "label").rows()
    clipped = [(min(max(s, 1e-15), 1 - 1e-15), y) for s, y in rows]
    loss = math.fsum(-math.log(s if y else 1 - s) for s, y in clipped) / len(rows)
    assert found["log_loss"] == pytest.approx(loss, rel=1e-12)
    brier = math.fsum((s - y) ** 2 for s, y in rows) / len(rows)
    assert found["brier"] == pytest.approx(brier, rel=1e-12)
    assert all(value is not None for value in found.values())


@pytest.fixture
def whole(tmp_path: Path) -> Path:
    """Return rows with whole weights, and columns with these weights times large numbers."""
    frame = simulate(300, seed=4, ties=True).with_columns(pl.col("weight").cast(pl.Float64))
    scaled = {f"times_{factor:g}": pl.col("weight") * factor for factor in (1e9, 2.0**32, 3e9)}
    return write(frame.with_columns(**scaled, huge=pl.lit(1e8)), tmp_path / "whole.parquet")


@pytest.mark.parametrize("column", ["times_1e+09", "times_3e+09", f"times_{2.0**32:g}"])
def test_counts_beyond_32_bits_are_counts(column: str, whole: Path, tmp_path: Path) -> None:
    """Counts of weighted rows are exact sums, far beyond 2^31; rates are those of the ratios."""
    factor = float(column.removeprefix("times_"))
    factor = 2.0**32 if factor == float(f"{2.0**32:g}") else factor
    found = []
    for weight in ("weight", column):
        options = ("--weight", weight, "--folds", "0", "--precision", "0.75")
        model = run("boundary", whole, *options, "--method", "exact", tmp_path / "b.json")
        metrics = run("evaluate", whole, "--weight", weight, "--no-intervals", tmp_path / "m.json")
        found.append((model, metrics["metrics"]["score"]["all"]))
    (model, metrics), (large, scaled) = found
    assert large["score_thresholds"] == model["score_thresholds"]
    one, other = (part["fit"]["in_sample"] for part in (model, large))
    assert other["selected"] == one["selected"] * factor
    assert other["true_positives"] == one["true_positives"] * factor
    assert scaled["count"] == metrics["count"] * factor > 2**31
    for name in ("auc", "average_precision", "brier", "log_loss", "ece", "miscalibration"):
        assert scaled[name] == pytest.approx(metrics[name], rel=1e-12), name


@pytest.mark.parametrize("method", ["isotonic", "platt", "beta", "histogram", "venn-abers"])
def test_maps_of_weights_a_billion_times_larger(method: str, whole: Path, tmp_path: Path) -> None:
    values = []
    for weight in ("weight", "times_1e+09"):
        model = tmp_path / "cal.json"
        options = ("--method", method, "--weight", weight, "--clip", "0")
        more = ("--targets", "mle") if method == "platt" else ()
        run("calibrate", whole, *options, *more, model)
        rows = run("apply", model, whole, tmp_path / "rows.parquet")
        values.append(rows["calibrated"].to_numpy())
    exact = method in ("isotonic", "histogram")  # the others add a row, or a prior of rows
    tolerance = 1e-12 if exact else 1e-6 if method in ("platt", "beta") else 0.1
    np.testing.assert_allclose(values[1], values[0], atol=tolerance)


def test_a_column_of_one_value_by_weights_of_a_hundred_million(tmp_path: Path) -> None:
    frame = pl.DataFrame(
        {"score": [0.3] * 8, "uncertainty": [1.0] * 8, "label": [1, 1, 1, *[0] * 5]}
    )
    path = write(frame.with_columns(w=pl.lit(100_000_000)), tmp_path / "one.parquet")
    model = run(
        "boundary", path, "--recall 0.5 --weight w --method exact --folds 0", tmp_path / "b.json"
    )
    figures = model["fit"]["in_sample"]
    assert (figures["selected"], figures["true_positives"]) == (800_000_000, 300_000_000)
    assert figures["precision"] == 0.375
    found = run("evaluate", path, "--weight", "w", "--no-intervals", tmp_path / "m.json")
    metrics = found["metrics"]["score"]["all"]
    assert (metrics["auc"], metrics["average_precision"], metrics["count"]) == (0.5, 0.375, 8e8)
    assert metrics["ece"] == pytest.approx(0.075, rel=1e-12)
    assert metrics["discrimination"] == 0.0
    run("calibrate", path, "--weight", "w", "--method", "isotonic", tmp_path / "c.json")
    applied = run("apply", tmp_path / "c.json", path, tmp_path / "rows.parquet")
    assert applied["calibrated"].to_list() == [0.375] * 8
    grid = run(
        "bin", path, "--weight w --uncertainty-bins 2 --score-bins 3", tmp_path / "grid.parquet"
    )
    assert grid["count"].sum() == 800_000_000


def test_counts_beyond_53_bits_keep_their_digits(tmp_path: Path) -> None:
    """Whole weights whose sum no float holds exactly: results are the floats next to the sums."""
    weight = np.array([2**53 - 1, 3, 2**52 + 1, 5, 1, 2**51 + 7], np.int64)
    frame = pl.DataFrame(
        {"score": [0.9, 0.8, 0.7, 0.6, 0.5, 0.4], "label": [1, 0, 1, 0, 0, 1], "w": weight}
    )
    path = write(frame, tmp_path / "large.parquet")
    model = run(
        "boundary", path, "--fpr 0.6 --weight w --method exact --folds 0", tmp_path / "b.json"
    )
    assert model["score_thresholds"] == [0.7]  # 3 of 9 negatives; 8 of 9 with the next
    figures = model["fit"]["in_sample"]
    assert figures["selected"] == float(2**53 + 2**52 + 3)
    assert figures["false_positive_rate"] == pytest.approx(1 / 3, rel=1e-12)
    found = run("evaluate", path, "--weight", "w", "--no-intervals", tmp_path / "m.json")
    metrics = found["metrics"]["score"]["all"]
    good = [Fraction(int(w)) for w in weight[[0, 2, 5]]]
    area = (good[0] * 9 + good[1] * 6) / (sum(good) * 9)
    assert metrics["auc"] == pytest.approx(float(area), rel=1e-12)
    assert metrics["count"] == float(weight.sum())


def test_counts_of_votes_beyond_32_bits(tmp_path: Path) -> None:
    """Sums of many large histograms of votes are exact."""
    votes = {"count_0": [2**31, 2**31 - 1, 3], "count_1": [2**31, 2**30, 2**31]}
    frame = pl.DataFrame({"prob_0": [0.5, 0.6, 0.4], "prob_1": [0.5, 0.4, 0.6], **votes})
    path = write(frame, tmp_path / "votes.parquet")
    found = run("evaluate", path, "--counts", "count_*", "--no-intervals", tmp_path / "m.json")
    (metrics,) = (part["all"] for part in found["metrics"].values())
    shares = [a / (a + b) for a, b in zip(votes["count_0"], votes["count_1"], strict=True)]
    loss = [2 * (p - m) ** 2 for p, m in zip(frame["prob_0"], shares, strict=True)]
    assert metrics["epistemic_loss_plugin"] == pytest.approx(math.fsum(loss) / 3, rel=1e-9)


@pytest.mark.parametrize("weight", [1e-200, 1e200])
def test_tiny_and_huge_weights_give_the_ratios(weight: float, tmp_path: Path) -> None:
    frame = simulate(200, seed=5, ties=True).with_columns(w=pl.col("weight") * weight)
    path = write(frame.with_columns(pl.col("weight").cast(pl.Float64)), tmp_path / "rows.parquet")
    metrics = [
        run("evaluate", path, "--weight", name, "--no-intervals", tmp_path / "m.json")
        for name in ("weight", "w")
    ]
    one, other = (found["metrics"]["score"]["all"] for found in metrics)
    for name in ("auc", "average_precision", "brier", "ece", "base_rate", "log_loss"):
        assert other[name] == pytest.approx(one[name], rel=1e-9), name
