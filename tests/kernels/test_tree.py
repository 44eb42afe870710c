"""Trees: every split against enumeration, criteria against their definitions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from msgspec.structs import replace

from calibkit.columns.weights import ROW
from calibkit.methods.hetcal import grow
from calibkit.methods.hetcal.grow import Grower, Rules, Vectors
from calibkit.methods.hetcal.trees import Bins, Features, Tree, sorted_bins
from calibkit.methods.hetcal.trees import ends_of as tree_ends
from calibkit.models.model import Column
from calibkit.numerics import sums
from calibkit_kernels import criteria
from calibkit_kernels import tree as kernels
from tests.naive import trees as naive

values = st.one_of(st.none(), st.integers(-3, 3).map(float))
tables = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.tuples(st.tuples(*[values] * width), st.integers(0, 1)), min_size=2, max_size=30
    )
)


def features_of(rows: list[Any], categories: list[bool] | None = None) -> Features:
    """Return rows of numbers, or of categories whose numbers they are."""
    columns = np.array(rows, np.float64).T.copy()  # None becomes NaN
    kinds = categories or [False] * len(columns)
    bins = tuple(
        Bins(np.arange(7.0)) if own else Bins(np.unique(values[~np.isnan(values)]))
        for own, values in zip(kinds, columns, strict=True)
    )
    return Features(
        tuple(Column(f"x{f}") for f in range(len(columns))),
        tuple(tuple("abcdefg") if own else None for own in kinds),
        bins,
        tuple(own.codes(values) for own, values in zip(bins, columns, strict=True)),
        columns.T,
    )


def ends_of(tree: Tree, features: Features) -> list[int]:
    """Return where rows end, whether they are known by code or by value."""
    size = len(features.codes[0])
    found = [
        tree_ends(tree, rows, np.empty(size, np.int32)).tolist()
        for rows in (features, replace(features, values=None))
    ]
    assert found[0] == found[1]
    return found[0]


def grown(features: Features, labels: list[int], depth: int, least: int = 1, **more: Any) -> Tree:
    payload = np.array([[1, label] for label in labels], np.int64)
    rules = Rules(criteria.GINI, depth, least)
    tree, ends = Grower(features, payload, rules, **more).grow()
    assert ends_of(tree, features) == ends.tolist()
    return tree.pruned(depth)


def nested(tree: Tree, place: int = 0) -> Any:
    node = tree.nodes[place]
    if node.feature < 0:
        return node.rows, node.second
    cut: Any = None if math.isnan(node.cut) else node.cut
    if node.categories is not None:
        cut = set(map(float, node.categories[0]))
    children = nested(tree, node.left), nested(tree, node.right)
    return node.feature, cut, node.missing_left, *children


def counted(tree: Any) -> Any:
    if isinstance(tree, list):
        return len(tree), sum(tree)
    return *tree[:3], counted(tree[3]), counted(tree[4])


@given(
    tables,
    st.integers(0, 4),
    st.integers(1, 4),
    st.lists(st.booleans(), min_size=3, max_size=3),
    st.integers(1, 9),
)
def test_a_gini_tree_is_that_of_exact_enumeration(
    table: list[Any], depth: int, least: int, kinds: list[bool], size: int
) -> None:
    """Also where histograms are differences of others, and rows and features are shared out."""
    labels, categories = [label for _, label in table], kinds[: len(table[0][0])]
    rows = [
        [v if v is None or not c else v + 3.0 for v, c in zip(row, categories, strict=True)]
        for row, _ in table
    ]
    expected = counted(naive.grown_tree(rows, labels, categories, depth, least))
    features = features_of(rows, categories)
    for steady in (False, True):
        assert nested(grown(features, labels, depth, least, steady=steady)) == expected
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "BLOCK", size)
        patch.setattr(grow, "_SHARED_VISITS", 0)
        found = grown(features, labels, depth, least, threads=2, steady=True)
    assert nested(found) == expected


@given(tables, st.integers(1, 3))
def test_a_shallow_tree_is_the_top_of_a_deep_one(table: list[Any], depth: int) -> None:
    rows, labels = map(list, zip(*table, strict=True))
    features = features_of(rows)
    deep = grown(features, labels, 5)
    top = deep.pruned(depth)
    assert nested(top) == nested(grown(features, labels, depth))
    below = deep.ancestors(depth)[ends_of(deep, features)].tolist()
    assert len(set(zip(below, ends_of(top, features), strict=True))) == len(set(below))


@given(tables, st.tuples(values, values, values))
def test_new_rows_follow_the_splits(table: list[Any], row: tuple[Any, ...]) -> None:
    rows, labels = map(list, zip(*table, strict=True))
    width = len(rows[0])
    tree = grown(features_of(rows), labels, 3)
    new = replace(features_of([row[:width]]), codes=())
    end = tree.nodes[int(tree_ends(tree, new, np.empty(1, np.int32))[0])]
    expected = naive.route_rows(row, naive.grown_tree(rows, labels, [False] * width, 3, 1))
    assert (end.rows, end.second) == (len(expected), sum(expected))


big = st.integers(1, 2**31 - 1)


@given(big, st.data())
def test_gini_gains_are_compared_exactly(total: int, data: st.DataObject) -> None:
    assume(total > 2)
    hits = data.draw(st.integers(1, total - 1))
    sides = []
    for _ in range(2):
        rows = data.draw(st.integers(1, total - 1))
        own = data.draw(st.integers(max(0, rows - (total - hits)), min(rows, hits)))
        sides.append((rows, own))
    near = (sides[0][0], sides[0][1] + data.draw(st.integers(-1, 1)))
    if 0 <= near[1] <= near[0] and 0 <= hits - near[1] <= total - near[0]:
        sides.append(near)
    whole = np.array([total, hits], np.int64)
    for first in sides:
        for second in sides:
            arrays = np.array(first, np.int64), np.array(second, np.int64)
            found = criteria.compare_gini(*arrays, whole)
            assert found == naive.compare_gini(first, second, (total, hits))


@given(st.integers(1, 200), st.data())
def test_entropy_is_its_definition(rows: int, data: st.DataObject) -> None:
    hits = data.draw(st.integers(0, rows))
    assert criteria.entropy_bits(hits, rows) == pytest.approx(
        naive.entropy_bits(hits, rows), rel=1e-12, abs=1e-12
    )


pairs = st.tuples(st.integers(-50, 50), st.integers(1, 50))


@given(pairs, pairs, st.sampled_from([0.5, 1.0, 3.0]))
def test_the_gain_of_newton_steps_is_its_definition(
    left: tuple[int, int], right: tuple[int, int], ridge: float
) -> None:
    total = np.array([2, left[0] + right[0], left[1] + right[1]], np.int64)
    rules = np.array([criteria.NEWTON, 1, 0.5, ridge])
    found = criteria.split_gain(np.array([1, *left], np.int64), total, rules)
    sides = [(0.5 * g, 0.5 * h) for g, h in (left, right)]
    assert found == pytest.approx(naive.newton_gain(*sides, ridge), rel=1e-9, abs=1e-9)


@given(st.tuples(*[st.integers(0, 3)] * 4), st.sampled_from([2**30, 2**29 + 12345, 3 * 2**27 + 1]))
def test_imbalances_of_all_their_words_are_compared(apart: Any, rows: int) -> None:
    whole = (2**31 - 1, 2**30)
    first, second = (rows + apart[0], rows - apart[1]), (rows + apart[2], rows - apart[3])
    arrays = [np.array(one, np.int64) for one in (first, second, whole)]
    assert criteria.compare_gini(*arrays) == naive.compare_gini(first, second, whole)
    decrease = naive.gini_decrease(first, (whole[0] - first[0], whole[1] - first[1]))
    assert criteria.gini_gain(arrays[0], arrays[2]) == pytest.approx(float(decrease), rel=1e-9)


@given(*[st.integers(0, 2**61)] * 4)
def test_imbalance_of_counts_beyond_63_bits(a: int, b: int, c: int, d: int) -> None:
    left, rows = sorted((a, b))
    hits = min(c, left)
    positives = hits + min(d, rows - left)
    found = criteria.imbalance(
        np.array([left, hits], np.int64), np.array([rows, positives], np.int64)
    )
    scale = max(hits * rows, positives * left)
    assert abs(Fraction(found) - (hits * rows - positives * left)) <= Fraction(scale, 2**50)


#: Scores of the positives and of the negatives of one side of a split.
sides = st.tuples(*[st.lists(st.integers(-40, 40).map(lambda k: k / 8), max_size=15)] * 2)


@given(sides.filter(any), sides.filter(any))
def test_the_auc_of_a_split_is_its_definition(left: Any, right: Any) -> None:
    """And so is what it adds to that of the node, times the pairs of the node a row."""
    whole = tuple([*one, *other] for one, other in zip(left, right, strict=True))
    assume(all(whole))
    (positives, negatives), marks = whole, [True] * len(left[0]) + [False] * len(right[0])
    marks += [True] * len(left[1]) + [False] * len(right[1])
    score = np.array(positives + negatives)
    label = np.repeat(np.array([1, 0], np.uint8), [len(positives), len(negatives)])
    low, high = float(score.min()), float(score.max())
    vectors = Vectors("auc", low, high, score.size, score.size, ROW)
    payload = vectors.of(score, label, np.ones(score.size, np.int64))
    own, total = payload[np.array(marks)].sum(axis=0), payload.sum(axis=0)
    rules = vectors.rules(1, 1).array()
    found, expected = criteria.auc_of_split(own, total, rules), naive.auc_of_split([left, right])
    assert found == pytest.approx(expected, rel=1e-7, abs=1e-7)
    assert 0.0 <= found <= 1.0 + 1e-12
    pairs = len(positives) * len(negatives) / score.size
    added = (expected - naive.auc_of_split([whole])) * pairs
    assert criteria.split_gain(own, total, rules) == pytest.approx(added, abs=1e-6)


@pytest.mark.parametrize("positives", [0, 5])
def test_nodes_of_one_class_gain_nothing_of_the_auc(positives: int) -> None:
    rules = np.array([float(criteria.AUC), 1.0, 1.0, 1.0, 1.0])
    total = np.array([5, positives, 3 * 2**20], np.int64)
    left = np.array([2, min(2, positives), 2**20], np.int64)
    assert criteria.auc_gain(left, total, rules) == 0.0


def test_equal_gains_are_told_apart_by_counts_for_gini_alone() -> None:
    total = np.array([8, 4, 0], np.int64)
    best, candidate = np.zeros(6), np.zeros(6)
    best[[0, 4, 5]], candidate[[0, 4, 5]] = (1.0, 4.0, 2.0), (1.0, 4.0, 4.0)
    better = [kind for kind in range(4) if criteria.is_better(candidate, best, total, kind)]
    assert better == [criteria.GINI]


@pytest.mark.parametrize(("gain", "better"), [(9e-12, False), (2e-11, True)])
def test_a_gain_of_less_than_rounding_is_none(gain: float, better: bool) -> None:
    total, candidate = np.array([10, 1, 0], np.int64), np.zeros(6)
    candidate[kernels.GAIN] = gain
    best = np.full(6, kernels.NONE)
    assert criteria.is_better(candidate, best, total, criteria.ENTROPY) == better


@given(
    st.integers(1, 5),
    st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), min_size=1, max_size=12),
    st.randoms(),
)
def test_vectors_of_any_width_add_up(width: int, rows: Any, random: Any) -> None:
    """In the order of rows for nodes, and by the bins they are in."""
    codes = np.array([code for code, _ in rows], np.uint8)
    payload = np.array([[value + c for c in range(width)] for _, value in rows], np.int64)
    order = np.array(random.sample(range(codes.size), codes.size), np.int32)
    spans = np.array([[0, codes.size // 3], [codes.size // 3, codes.size]])
    gathered, hist = np.zeros_like(payload), np.zeros((5, width), np.int64)
    totals = kernels.gather_nodes(order, gathered, payload, spans)
    assert gathered.tolist() == payload[order].tolist()
    assert totals.tolist() == [gathered[low:high].sum(axis=0).tolist() for low, high in spans]
    kernels.fill_histogram(codes, order, gathered, hist)
    assert hist.tolist() == [payload[codes == code].sum(axis=0).tolist() for code in range(5)]


numbers = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(
    st.lists(st.tuples(st.one_of(st.none(), numbers), st.integers(0, 1)), min_size=4, max_size=60),
    st.lists(numbers, max_size=20),
    st.integers(2, 9),
    st.integers(1, 4),
)
def test_codes_count_the_borders_below_and_go_as_values_do(
    table: list[Any], unseen: list[float], most: int, depth: int
) -> None:
    """With quantile bins also values that no tree has seen."""
    known = [value for value, _ in table]
    column = np.array(known, np.float64)
    present = np.sort(column[~np.isnan(column)])
    assume(present.size > 0)
    bins = sorted_bins(present, most)
    assert bins.between == (np.unique(present).size > most)
    assert 1 <= bins.count <= most
    borders = bins.values.tolist()
    codes = bins.codes(column)
    assert codes.tolist() == [naive.code_of(value, borders, bins.between) for value in known]
    every = column
    if bins.between:
        every = np.concatenate([column, unseen, borders, np.nextafter(borders, -np.inf)])
    features = Features((Column("x"),), (None,), (bins,), (codes,))
    payload = np.array([[1, label] for _, label in table], np.int64)
    tree, _ = Grower(features, payload, Rules(criteria.GINI, depth, 1)).grow()
    there = replace(features, codes=(bins.codes(every),), values=every[:, None])
    ends_of(tree.pruned(depth), there)
    cuts = [node.cut for node in tree.nodes if node.feature >= 0 and not math.isnan(node.cut)]
    assert not bins.between or set(cuts) <= set(borders)


def test_few_values_of_many_rows_are_found() -> None:
    bins = sorted_bins(np.repeat([0.0, 1.0, 2.0], [5, 70_000, 5]), 10)
    assert (bins.values.tolist(), bins.between) == ([0.0, 1.0, 2.0], False)
