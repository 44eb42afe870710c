"""Golden cases of calibration by parts: a tree and its maps, partitions in turn and beside, the AUC."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from calibkit.hetcal.given import apply_beside, apply_in_turn, fit_in_turn, lines_of

from calibkit.apply import ApplySpec, apply_model
from calibkit.files.sources import open_source
from calibkit.hetcal.application import HetcalApplier
from calibkit.hetcal.cells import cell_gaps
from calibkit.hetcal.fit import fit_hetcal
from calibkit.hetcal.model import HetcalModel, TreeNode
from calibkit.hetcal.payload import vectors_of
from calibkit.hetcal.rows import read_hetcal_rows
from calibkit.hetcal.spec import HetcalSpec
from calibkit.rows.columns import ColumnOptions
from calibkit.rows.weights import ROW
from calibkit_kernels import criteria
from tests.conftest import ROOT
from tests.library.samples import golden

OPTIONS = ColumnOptions(score="logit", scale="logit")
FEATURES = ["x0", "x1", "x2"]


def table(case: str, file: str) -> pl.DataFrame:
    return pl.read_parquet(ROOT / "tests" / "golden" / case / file)


def nested(model: HetcalModel, place: int = 0) -> dict[str, Any]:
    assert isinstance(model.tree, list)
    node: TreeNode = model.tree[place]
    if isinstance(node.leaf, int):
        return {"leaf": node.leaf, "n": node.rows}
    assert isinstance(node.left, int)
    assert isinstance(node.right, int)
    return {
        "feature": FEATURES.index(str(node.feature)),
        "cut": node.cut,
        "left": nested(model, node.left),
        "right": nested(model, node.right),
    }


def without_positives(tree: dict[str, Any]) -> dict[str, Any]:
    if "leaf" in tree:
        return {"leaf": tree["leaf"], "n": tree["n"]}
    sides = {side: without_positives(tree[side]) for side in ("left", "right")}
    return {"feature": tree["feature"], "cut": tree["cut"], **sides}


def test_tree_maps_and_cells() -> None:
    case = "p23_heterogeneous_gini"
    known = golden(case)
    expected, params = known["expected"], known["params"]
    folder = ROOT / "tests" / "golden" / case
    read = {
        name: open_source([str(folder / f"{name}.parquet")])
        for name in ("train", "calibration", "test")
    }
    train = read_hetcal_rows(read["train"], OPTIONS, FEATURES)
    rows = read_hetcal_rows(read["calibration"], OPTIONS, FEATURES, known=train.features)
    spec = HetcalSpec(
        max_depth=params["max_depth"],
        min_leaf=params["min_leaf"],
        shrinkage=0.0,
        precalibrate="none",
    )
    model = fit_hetcal(rows, spec, train=train).model
    assert nested(model) == without_positives(expected["tree"])
    assert isinstance(model.maps, list)
    maps = [[leaf.a, leaf.b] for leaf in model.maps]
    np.testing.assert_allclose(maps, expected["maps"], rtol=1e-6, atol=1e-7)
    applied = apply_model(model, read["test"], ApplySpec(columns={})).frame
    assert applied["leaf"].to_list() == expected["test_leaf"]
    np.testing.assert_allclose(
        applied["calibrated"].to_numpy(), expected["test_prob"], rtol=1e-6, atol=1e-7
    )
    gaps = cell_gaps(
        applied["calibrated"].to_numpy(),
        applied["label"].to_numpy().astype(np.uint8),
        np.ones(applied.height),
        applied["leaf"].to_numpy(),
    )
    cells = expected["multicalibration"]
    assert gaps.cells == cells["cells"]
    assert gaps.largest == pytest.approx(cells["max_gap"], rel=1e-6)
    assert gaps.mean == pytest.approx(cells["mean_gap"], rel=1e-6)
    assert HetcalApplier(model).added == ("calibrated", "leaf")


def test_partitions_in_turn_and_side_by_side() -> None:
    case = "p24_sequential_forest"
    expected = golden(case)["expected"]
    fitted, new = table(case, "calibration.parquet"), table(case, "test.parquet")
    score = fitted["logit"].to_numpy()
    label = fitted["label"].to_numpy().astype(np.uint8)
    leaves = [fitted[name].to_numpy().astype(np.int32) for name in ("leaf1", "leaf2")]
    there = [new[name].to_numpy().astype(np.int32) for name in ("leaf1", "leaf2")]
    counts = [len(maps) for maps in expected["maps"]]
    in_turn = fit_in_turn(score, label, leaves, counts)
    for found, maps in zip(in_turn, expected["maps"], strict=True):
        np.testing.assert_allclose(found, maps, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(
        apply_in_turn(new["logit"].to_numpy(), there, in_turn),
        expected["sequential"],
        rtol=1e-6,
        atol=1e-7,
    )
    beside = [
        lines_of(score, label, leaf, count) for leaf, count in zip(leaves, counts, strict=True)
    ]
    np.testing.assert_allclose(
        apply_beside(new["logit"].to_numpy(), there, beside),
        expected["forest"],
        rtol=1e-6,
        atol=1e-7,
    )


def test_the_auc_of_splits() -> None:
    case = "p25_auc_split"
    expected = golden(case)["expected"]
    rows = table(case, "rows.parquet")
    cuts = table(case, "cuts.parquet")["cut"].to_list()
    score, label = rows["logit"].to_numpy(), rows["label"].to_numpy().astype(np.uint8)
    weight = np.ones(score.size, np.int64)
    low, high = float(score.min()), float(score.max())
    vectors = vectors_of("auc", low, high, score.size, score.size, ROW)
    payload = vectors.of(score, label, weight)
    rules = vectors.rules(1, 1).array()
    total = payload.sum(axis=0)
    found = [
        criteria.auc_of_split(payload[rows["x0"].to_numpy() <= cut].sum(axis=0), total, rules)
        for cut in cuts
    ]
    np.testing.assert_allclose(found, expected["score"], rtol=1e-8, atol=1e-8)
    assert cuts[int(np.argmax(found))] == expected["best_cut"]
