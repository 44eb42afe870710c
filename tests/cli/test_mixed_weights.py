"""Weights of which some are a billion times others, and no binary fractions: exact rational twins."""

from __future__ import annotations

import itertools
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from tests.cli.score_files import write
from tests.cli.test_extremes import run
from tests.fuzz.harness import run_quietly

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
def weighted(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[Path, Rows, float]:
    """Return a file and its rows; scores are tied now and then."""
    random = np.random.default_rng(8)
    label = (random.random(600) < 0.4).astype(np.int64)
    score = np.clip(np.round(0.3 * label + 0.7 * random.random(600), 3), 0.0, 1.0)
    scale = np.array(SCALES[request.param][:2])[label, random.integers(0, 2, 600)]
    weight = scale * (1.0 + random.random(600))
    frame = pl.DataFrame({"score": score, "label": label, "w": weight})
    rows = list(zip(score.tolist(), label.tolist(), map(Fraction, weight.tolist()), strict=True))
    return write(frame, tmp_path / "rows.parquet"), rows, SCALES[request.param][2]


def cut(rows: Rows) -> list[tuple[float, Fraction, Fraction]]:
    """Return each distinct score, falling, with positive and negative weight from it upwards."""
    found, good, bad = [], Fraction(0), Fraction(0)
    falling = sorted(rows, key=lambda row: -row[0])
    for score, tied in itertools.groupby(falling, key=lambda row: row[0]):
        for _, label, weight in tied:
            good, bad = good + label * weight, bad + (1 - label) * weight
        found.append((score, good, bad))
    return found


def near(value: Fraction, tolerance: float) -> Any:
    """Return what a figure must be."""
    return pytest.approx(float(value), rel=tolerance)


def test_metrics_of_mixed_weights(weighted: tuple[Path, Rows, float], tmp_path: Path) -> None:
    path, rows, tolerance = weighted
    found = run("evaluate", path, "--weight", "w", "--no-intervals", tmp_path / "m.json")
    metrics = found["metrics"]["score"]["all"]
    cuts = cut(rows)
    _, good, bad = cuts[-1]
    assert metrics["count"] == near(good + bad, tolerance)
    assert metrics["positives"] == near(good, tolerance)
    assert metrics["base_rate"] == near(good / (good + bad), tolerance)
    area = precision = above = Fraction(0)
    left = Fraction(0)
    for _, hits, false in cuts:
        area += (false - left) * (hits + above) / 2
        precision += (hits - above) / good * hits / (hits + false)
        above, left = hits, false
    assert metrics["auc"] == near(area / (good * bad), tolerance)
    assert metrics["average_precision"] == near(precision, tolerance)
    total = good + bad
    brier = sum(w * (Fraction(s) - y) ** 2 for s, y, w in rows) / total
    assert metrics["brier"] == near(brier, tolerance)
    clipped = [(min(max(s, 1e-15), 1 - 1e-15), y, w) for s, y, w in rows]
    loss = math.fsum(-math.log(s if y else 1 - s) * float(w / total) for s, y, w in clipped)
    assert metrics["log_loss"] == pytest.approx(loss, rel=1e-9)


@pytest.mark.parametrize(
    "command",
    [
        ("boundary", "--recall", "0.5", "--method", "exact", "--folds", "0"),
        ("calibrate", "--method", "isotonic"),
        ("evaluate", "--no-intervals"),
    ],
    ids=lambda words: words[0],
)
def test_weights_too_far_apart_are_said(
    command: tuple[str, ...], weighted: tuple[Path, Rows, float], tmp_path: Path
) -> None:
    path, _, tolerance = weighted
    words = (*command, path, "--weight", "w", "-q", "-o", tmp_path / "m.json")
    code, said = run_quietly([str(word) for word in words])
    assert code == 0
    if tolerance > 1e-6:
        assert re.search(r"weights: negative rows together weigh \d+e-1[23] of the positive", said)
    else:
        assert "weights" not in said
