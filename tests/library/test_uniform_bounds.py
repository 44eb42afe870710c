"""Uniform bounds: the golden case, and what they claim, by simulation."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest

from calibkit.methods.boundary.certificate.uniform_bounds import (
    confusion_deviation,
    regret_bound,
)

CASE = Path(__file__).parent.parent / "golden" / "p28_bounds"


def test_golden_bounds() -> None:
    case = json.loads((CASE / "expected.json").read_text())
    expected, given_ = case["expected"], case["params"]
    rows = pl.read_parquet(CASE / "rows.parquet").rows(named=True)
    close = pytest.approx
    tight = [confusion_deviation(int(r["n"]), r["delta"]) for r in rows]
    assert tight == close(expected["lemma6_tight"], rel=1e-12)
    for row, regret in zip(rows, expected["regret_weighted_accuracy"], strict=True):
        plugged = given_["margin_C"] * given_["sup_err"] ** given_["margin_beta"]
        found = plugged + regret_bound(1.0, int(row["n"]), row["delta"])  # of weighted accuracy
        assert found == close(regret, rel=1e-12)


def test_the_deviation_of_every_threshold_stays_within_the_bound() -> None:
    rng, rows = np.random.default_rng(0), 2_000
    bound = confusion_deviation(rows, 0.05)
    grid = np.linspace(0, 1, 101)
    for _ in range(200):
        score = rng.random(rows)
        label = rng.random(rows) < score
        tp = np.array([(label & (score > t)).mean() for t in grid])
        assert abs(tp - (1 - grid**2) / 2).max() <= bound
