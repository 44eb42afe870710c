"""Choosing a partition: what is left out teaches nothing, and the first of the good ones is taken."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from msgspec.structs import replace

from calibkit.methods.hetcal.rows import Folds
from calibkit.methods.hetcal.run import (
    CANDIDATES,
    fit_partition,
    judging,
)
from calibkit.numerics.hashes import folds_of_keys
from calibkit.options.hetcal import HetcalOptions
from tests.library.test_hetcal import fit, read, sample

SMALL: dict[str, Any] = {"max_depth": 2, "min_leaf": 40}


def coarse(rows: int, seed: int = 1) -> pl.DataFrame:
    return sample(rows, seed).with_columns(pl.col("score").round(2).clip(0.01, 0.99))


@pytest.mark.parametrize("partition", CANDIDATES)
@pytest.mark.parametrize("weighted", [False, True])
def test_rows_that_weigh_nothing_teach_nothing(partition: Any, weighted: bool) -> None:
    """A fit without the rows of a fold is that of the other rows alone."""
    frame = coarse(900).with_columns(w=pl.int_range(pl.len()) % 3)
    trees = None if partition == "tree" else 5
    options = HetcalOptions(
        partition=partition, max_bins=255, trees=trees, weight="w" if weighted else None, **SMALL
    )
    rows = read(frame, max_bins=255, weight=options.weight)
    folds = Folds(folds_of_keys(rows.key, 5, 0))
    used, inner = folds.used(2), folds.before(2)
    found, *_ = fit_partition(rows.learning(used), None, options, inner, None)
    few = rows.only(used)
    alone, *_ = fit_partition(few, None, options, Folds(inner.part[used]), None)
    assert np.allclose(found.probability[used], alone.probability, rtol=1e-9)
    assert [part.tree for part in found.parts] == [part.tree for part in alone.parts]


@pytest.mark.parametrize("partition", [*CANDIDATES, None])
def test_labels_that_judge_say_nothing_to_the_fit(partition: Any) -> None:
    """With the labels of the rows held out turned round, each has the chance that it had."""
    trees = None if partition in ("tree", None) else 5
    options = HetcalOptions(partition=partition or "tree", max_bins=255, trees=trees, **SMALL)
    rows = read(coarse(900), max_bins=255)
    folds = Folds(folds_of_keys(rows.key, 5, 0))
    held = folds.held(2)
    chances = []
    for turned in (False, True):
        label = np.where(held, rows.label ^ turned, rows.label).astype(rows.label.dtype)
        losses = judging(replace(rows, label=label), folds, 2, options)
        share = np.exp(-losses(options if partition else None, None).log_loss)
        chances.append(np.where(label[held] == 1, share, 1.0 - share))
    np.testing.assert_allclose(chances[0], chances[1], rtol=1e-9)


@pytest.mark.few(1)
@pytest.mark.parametrize(
    "more", [{}, {"groups": "site"}, {"time": "day"}, {"precalibrate": "auto"}]
)
def test_the_first_within_an_error_of_the_best(more: dict[str, Any]) -> None:
    random = np.random.default_rng(3)
    frame = coarse(600).with_columns(
        site=pl.Series(random.integers(0, 60, 600)), day=pl.Series(random.integers(0, 60, 600))
    )
    model = fit(frame, partition="auto", **SMALL, **more)
    assert isinstance(model.candidates, list)
    found = {one.method: one for one in model.candidates}
    assert tuple(found) == CANDIDATES
    assert all(one.reason is None for one in model.candidates)
    least = min(one.log_loss or 0.0 for one in model.candidates)
    first = next(
        one for one in model.candidates if (one.log_loss or 0.0) <= least + (one.error or 0.0)
    )
    assert model.partition == first.method
    checked = model.fit.cross_validated
    assert checked is not None
    assert checked.calibrated == first.log_loss
    assert checked.folds == (4 if "time" in more else 5)
    asked = fit(frame, partition=model.partition, max_bins=255, **SMALL, **more)
    assert (model.parts(), model.final) == (asked.parts(), asked.final)


def test_what_cannot_be_compared_says_why() -> None:
    frame = coarse(600)
    found = fit(frame, partition="auto", map="isotonic", **SMALL)
    assert isinstance(found.candidates, list)
    reasons = {one.method: one.reason or "" for one in found.candidates}
    assert "its --map is platt" in reasons["boosted"] and "platt" in reasons["sequential"]
    assert reasons["tree"] == reasons["forest"] == ""
    few = fit(coarse(600).head(8), partition="auto")
    assert isinstance(few.candidates, list)
    assert few.partition == "tree"
    assert {one.reason for one in few.candidates} == {"there are too few rows for folds"}


def test_rows_to_grow_on_leave_out_what_learns_from_scores() -> None:
    model = fit(coarse(800), train=coarse(800, 9), partition="auto", **SMALL)
    said = {one.method: one.reason for one in model.candidates or ()}
    assert said["boosted"] == said["sequential"] == "--train takes no part in it"
    assert said["tree"] is None
