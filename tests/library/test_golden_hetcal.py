"""Golden cases of calibration by parts: a tree and its maps, partitions in turn and beside, the AUC."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from scipy.special import expit

from calibkit.apply.apply import apply_model
from calibkit.columns.weights import ROW
from calibkit.files.sources import Source
from calibkit.methods.hetcal.grow import Vectors
from calibkit.methods.hetcal.model import HetcalModel, Line
from calibkit.methods.hetcal.rows import read_hetcal_rows
from calibkit.methods.hetcal.run import cell_gaps, fit_hetcal
from calibkit.options.apply import ApplyOptions
from calibkit.options.hetcal import HetcalOptions
from calibkit_kernels import criteria
from calibkit_kernels import leaves as kernels
from tests.conftest import ROOT
from tests.library.samples import golden

FEATURES = ["x0", "x1", "x2"]


def table(case: str, name: str) -> pl.DataFrame:
    return pl.read_parquet(ROOT / "tests" / "golden" / case / f"{name}.parquet")


def grows_as(model: HetcalModel, known: dict[str, Any], place: int = 0) -> bool:
    """Return whether a tree is the one that is known."""
    node: Any = model.parts()[0].tree[place]
    if "leaf" in known:
        return (node.leaf, node.rows) == (known["leaf"], known["n"])
    split = (FEATURES.index(node.feature), node.cut) == (known["feature"], known["cut"])
    sides = ("left", "right")
    return split and all(grows_as(model, known[one], getattr(node, one)) for one in sides)


def test_tree_maps_and_cells() -> None:
    case = "p23_heterogeneous_gini"
    known = golden(case)
    expected, params = known["expected"], known["params"]
    options = HetcalOptions(
        score="logit",
        scale="logit",
        max_depth=params["max_depth"],
        min_leaf=params["min_leaf"],
        shrinkage=0.0,
        precalibrate="none",
    )
    sources = {
        name: Source.from_frame(table(case, name)) for name in ("train", "calibration", "test")
    }
    train = read_hetcal_rows(sources["train"], options, FEATURES)
    rows = read_hetcal_rows(sources["calibration"], options, FEATURES, known=train.features)
    model = fit_hetcal(rows, options, train=train).model
    assert grows_as(model, expected["tree"])
    maps = [[leaf.a, leaf.b] for leaf in model.parts()[0].maps]
    np.testing.assert_allclose(maps, expected["maps"], rtol=1e-6, atol=1e-7)
    applied = apply_model(model, sources["test"], ApplyOptions()).frame
    assert applied["leaf"].to_list() == expected["test_leaf"]
    found = applied["calibrated"].to_numpy()
    np.testing.assert_allclose(found, expected["test_prob"], rtol=1e-6, atol=1e-7)
    label = applied["label"].to_numpy().astype(np.uint8)
    gaps = cell_gaps(found, label, np.ones(label.size), applied["leaf"].to_numpy())
    cells = [expected["multicalibration"][name] for name in ("max_gap", "mean_gap", "cells")]
    assert gaps[:3] == pytest.approx(cells, rel=1e-6)


def lines_of(score: np.ndarray, label: np.ndarray, leaf: np.ndarray, leaves: int) -> np.ndarray:
    """Return (a, b) of each leaf; without rows that of all rows."""
    order = np.argsort(score, kind="stable")
    found = []
    for count, own in ((1, np.zeros(score.size, np.int32)), (leaves, leaf[order])):
        spans, places = np.empty((count, 2), np.int64), np.empty(score.size, np.int32)
        kernels.rows_by_leaf(own, spans, places)
        lines, starts = np.empty((count, 4)), np.full((count, 2), np.nan)
        kernels.fit_leaf_lines(
            score[order], label[order], np.ones(score.size), places, spans, starts,
            np.empty((3, score.size)), lines,
        )  # fmt: skip
        found.append(lines[:, :2])
    return np.where(np.isnan(found[1]), found[0], found[1])


def test_partitions_in_turn_and_side_by_side() -> None:
    case = "p24_sequential_forest"
    expected = golden(case)["expected"]
    fitted, new = table(case, "calibration"), table(case, "test")
    score = fitted["logit"].to_numpy()
    label = fitted["label"].to_numpy().astype(np.uint8)
    leaves = [fitted[name].to_numpy().astype(np.int32) for name in ("leaf1", "leaf2")]
    there = [new[name].to_numpy().astype(np.int32) for name in ("leaf1", "leaf2")]
    counts = [len(maps) for maps in expected["maps"]]
    before, after = score, new["logit"].to_numpy()
    beside = np.zeros(new.height)
    for leaf, other, count, maps in zip(leaves, there, counts, expected["maps"], strict=True):
        lines = lines_of(before, label, leaf, count)
        np.testing.assert_allclose(lines, maps, rtol=1e-6, atol=1e-7)
        before = lines[leaf, 0] * before + lines[leaf, 1]
        after = lines[other, 0] * after + lines[other, 1]
        own = lines_of(score, label, leaf, count)
        beside += expit(own[other, 0] * new["logit"].to_numpy() + own[other, 1])
    for found, known in ((expit(after), "sequential"), (beside / 2, "forest")):
        np.testing.assert_allclose(found, expected[known], rtol=1e-6, atol=1e-7)


def test_sequential_maps_go_on_from_the_scores_that_the_last_partition_left() -> None:
    random = np.random.default_rng(4)
    x, z, score = random.normal(size=(3, 4000))
    label = (
        random.random(4000) < expit(score + np.where(x > 0.3, 1.5, -1.0) + np.where(z > 0, 1, -1))
    ).astype(np.uint8)
    frame = pl.DataFrame({"score": score, "label": label, "x": x, "z": z})
    options = HetcalOptions(
        scale="logit",
        partition="sequential",
        trees=3,
        max_depth=1,
        min_leaf=100,
        precalibrate="none",
    )
    rows = read_hetcal_rows(Source.from_frame(frame), options, ["x", "z"])
    model = fit_hetcal(rows, options).model
    assert len(model.parts()) > 1
    for part in model.parts():
        root = part.tree[0]
        assert isinstance(root.cut, float)
        leaf = (frame[str(root.feature)].to_numpy() > root.cut).astype(np.int32)
        lines = lines_of(score, label, leaf, 2)
        np.testing.assert_allclose(
            [[one.a, one.b] for one in part.maps], lines, rtol=1e-6, atol=1e-7
        )
        assert [one.rows for one in part.maps] == np.bincount(leaf).tolist()
        score = lines[leaf, 0] * score + lines[leaf, 1]
    assert isinstance(model.final, Line)
    expected = expit(model.final.a * score + model.final.b)
    found = apply_model(model, Source.from_frame(frame), ApplyOptions()).frame["calibrated"]
    np.testing.assert_allclose(found.to_numpy(), expected, rtol=1e-6)


def test_the_auc_of_splits() -> None:
    case = "p25_auc_split"
    expected = golden(case)["expected"]
    rows = table(case, "rows")
    cuts = table(case, "cuts")["cut"].to_list()
    score, label = rows["logit"].to_numpy(), rows["label"].to_numpy().astype(np.uint8)
    weight = np.ones(score.size, np.int64)
    low, high = float(score.min()), float(score.max())
    vectors = Vectors("auc", low, high, score.size, score.size, ROW)
    payload = vectors.of(score, label, weight)
    rules = vectors.rules(1, 1).array()
    total = payload.sum(axis=0)
    found = [
        criteria.auc_of_split(payload[rows["x0"].to_numpy() <= cut].sum(axis=0), total, rules)
        for cut in cuts
    ]
    np.testing.assert_allclose(found, expected["score"], rtol=1e-8, atol=1e-8)
    assert cuts[int(np.argmax(found))] == expected["best_cut"]
