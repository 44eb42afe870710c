"""Exported trees of any shape: missing values, categories, cuts over the score, great depth."""

from __future__ import annotations

import itertools
from pathlib import Path

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.errors import UsageError
from calibkit.exports.export import Request, check_export, export_model
from calibkit.files.sources import Source
from calibkit.methods.hetcal.model import (
    SCORE_FEATURE,
    FirstMap,
    HetcalModel,
    LeafMap,
    Line,
    PartitionPart,
    TreeNode,
)
from calibkit.models.model import Column, load
from tests import export_models

LANGUAGES = ("duckdb", "polars", "python")

KINDS = ("a", "it's", "c")
CUTS = (-1.0, 0.0, 0.5, 0.1)


@pytest.fixture(scope="module")
def boosted(tmp_path_factory: pytest.TempPathFactory) -> HetcalModel:
    found = load(str(export_models.fit("boosted", tmp_path_factory.mktemp("trees"))))
    assert isinstance(found, HetcalModel)
    return found


@st.composite
def trees(draw: st.DrawFn) -> PartitionPart:
    """Return a tree with any splits; the children of a node stand after it."""
    nodes: list[TreeNode] = []
    maps: list[LeafMap] = []

    def grow(depth: int) -> int:
        place = len(nodes)
        nodes.append(TreeNode())
        if depth == 0 or draw(st.integers(0, 3)) == 0:
            nodes[place] = TreeNode(leaf=len(maps))
            slope = draw(st.sampled_from([1.0, 1.0, 0.5, -1.0]))
            maps.append(LeafMap(a=slope, b=draw(st.floats(-2, 2))))
            return place
        feature = draw(st.sampled_from(["x", "kind", SCORE_FEATURE]))
        node = TreeNode(feature=feature, missing=draw(st.sampled_from(["left", "right"])))
        if feature == "kind":
            sides = draw(st.lists(st.integers(0, 2), min_size=3, max_size=3))
            node.left_categories = [
                name for name, side in zip(KINDS, sides, strict=True) if side == 0
            ]
            node.right_categories = [
                name for name, side in zip(KINDS, sides, strict=True) if side == 1
            ]
        else:
            node.cut = draw(st.sampled_from([*CUTS, None]))
        nodes[place] = node
        node.left, node.right = grow(depth - 1), grow(depth - 1)
        return place

    grow(draw(st.integers(0, 4)))
    return PartitionPart(tree=nodes, maps=maps)


def frame_of(score: type) -> pl.DataFrame:
    """Return rows with every feature missing, on a cut, next to it, unseen."""
    numbers = [
        value for cut in CUTS for value in (cut, np.nextafter(cut, 9), np.nextafter(cut, -9))
    ]
    scores = [0.0, 1e-7, 0.3, 0.5, 0.9, 1.0]
    pairs = list(itertools.product(scores, [*numbers, None], [*KINDS, "unseen", "", None]))
    frame = pl.DataFrame(pairs, schema=["score", "x", "kind"], orient="row")
    return frame.with_columns(
        pl.col("score").cast(pl.Float32 if score is np.float32 else pl.Float64)
    )


@pytest.mark.more
def test_any_trees_agree(boosted: HetcalModel) -> None:
    @settings(max_examples=12)
    @given(
        st.lists(trees(), min_size=1, max_size=3),
        st.sampled_from([np.float32, np.float64]),
        st.sampled_from([None, (1.5, 0.2), (-0.7, 0.1), (0.0, 0.3)]),
    )
    def agree(parts: list[PartitionPart], dtype: type, line: tuple[float, float] | None) -> None:
        model = msgspec.structs.replace(
            boosted,
            columns=boosted.columns | {"score": Column("score", dtype.__name__, "probability")},
            partitions=parts,
            precalibrate=None if line is None else FirstMap(a=line[0], b=line[1]),
            final=Line(a=0.8, b=-0.1),
        )
        model.check()
        source = Source.from_frame(frame_of(dtype))
        for language in LANGUAGES:
            found = check_export(model, language, Request(), source)
            assert found.holds, f"{language}: {found}"

    agree()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_trees_without_a_last_map_are_averaged(boosted: HetcalModel, count: int) -> None:
    model = msgspec.structs.replace(boosted, partitions=[chain(3)] * count, final=msgspec.UNSET)
    source = Source.from_frame(pl.DataFrame({"score": [0.5] * 9, "x": np.linspace(-1, 2, 9)}))
    assert check_export(model, "polars", Request(), source).holds


def chain(depth: int) -> PartitionPart:
    """Return a tree in which every right side parts again."""
    nodes: list[TreeNode] = []
    for level in range(depth):
        cut = level / depth
        split = TreeNode(
            feature="x", cut=cut, missing="left", left=2 * level + 1, right=2 * level + 2
        )
        nodes += [split, TreeNode(leaf=level)]
    nodes.append(TreeNode(leaf=depth))
    maps = [LeafMap(a=1.0, b=level / depth) for level in range(depth + 1)]
    return PartitionPart(tree=nodes, maps=maps)


def test_a_deep_tree_is_written_in_pieces_and_an_absurd_one_refused(boosted: HetcalModel) -> None:
    model = msgspec.structs.replace(boosted, partitions=[chain(120)])
    model.check()
    source = Source.from_frame(pl.DataFrame({"score": [0.5] * 300, "x": np.linspace(-1, 2, 300)}))
    for language in LANGUAGES:
        assert check_export(model, language, Request(), source).holds
    deepest = msgspec.structs.replace(boosted, partitions=[chain(1000)])
    assert export_model(deepest, "polars")
    model = msgspec.structs.replace(boosted, partitions=[chain(5000)])
    for language in LANGUAGES:
        with pytest.raises(UsageError, match="5000 levels deep"):
            export_model(model, language)


def test_the_fitted_file_is_not_needed(boosted: HetcalModel, tmp_path: Path) -> None:
    path = tmp_path / "boosted.json"
    path.write_bytes(boosted.to_json())
    again = load(str(path))
    for language in LANGUAGES:
        assert export_model(again, language) == export_model(boosted, language)
