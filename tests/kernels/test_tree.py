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


def features_of(rows: list[tuple[Any, ...]], categories: list[bool]) -> Features:
    columns = np.array(
        [[np.nan if row[f] is None else row[f] for row in rows] for f in range(len(categories))],
        np.float64,
    ).reshape(len(categories), len(rows))
    names = tuple(tuple("abcdefg") if category else None for category in categories)
    kinds = tuple(Column(f"x{f}") for f in range(len(categories)))
    bins = tuple(
        Bins(np.arange(7.0)) if own else Bins(np.unique(values[~np.isnan(values)]))
        for own, values in zip(names, columns, strict=True)
    )
    codes = tuple(own.codes(values) for own, values in zip(bins, columns, strict=True))
    return Features(kinds, names, bins, codes, columns.T)


def by_code(features: Features) -> Features:
    return replace(features, values=None)


def ends_of(tree: Tree, features: Features) -> list[int]:
    """Return where rows end, whether they are known by code or by value."""
    size = len(features.codes[0])
    found = [
        tree_ends(tree, rows, np.empty(size, np.int32)).tolist()
        for rows in (features, by_code(features))
    ]
    assert found[0] == found[1]
    return found[0]


def grown(features: Features, labels: list[int], depth: int, least: int, kind: int = 0) -> Tree:
    payload = np.array([[1, label] for label in labels], np.int64)
    tree, ends = Grower(features, payload, Rules(kind, depth, least)).grow()
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


@given(tables, st.integers(0, 3), st.integers(1, 4), st.lists(st.booleans(), min_size=3))
def test_a_gini_tree_is_that_of_exact_enumeration(
    table: list[Any], depth: int, least: int, kinds: list[bool]
) -> None:
    rows = [row for row, _ in table]
    labels = [label for _, label in table]
    categories = kinds[: len(rows[0])]
    rows = [
        tuple(v if v is None or not c else v + 3.0 for v, c in zip(row, categories, strict=True))
        for row in rows
    ]
    expected = naive.grown_tree(rows, labels, categories, depth, least)
    tree = grown(features_of(rows, categories), labels, depth, least)
    assert nested(tree) == counted(expected)


@given(tables, st.integers(1, 3))
def test_an_entropy_tree_decreases_entropy_as_no_other_split(table: list[Any], least: int) -> None:
    rows, labels = [row for row, _ in table], [label for _, label in table]

    def gain(left: Any, right: Any) -> float:
        whole = naive.entropy_bits(left[1] + right[1], left[0] + right[0])
        parts = [naive.entropy_bits(side[1], side[0]) for side in (left, right)]
        return whole - sum(parts)

    expected = naive.grown_tree(rows, labels, [False] * len(rows[0]), 1, least, gain)
    tree = grown(features_of(rows, [False] * len(rows[0])), labels, 1, least, criteria.ENTROPY)
    if isinstance(expected, list):
        assert len(tree.nodes) == 1
    else:
        sides = counted(expected)[3:]
        assert tree.nodes[0].gain == pytest.approx(gain(*sides), rel=1e-9, abs=1e-9)


@given(tables, st.integers(1, 3))
def test_a_shallow_tree_is_the_top_of_a_deep_one(table: list[Any], depth: int) -> None:
    rows, labels = [row for row, _ in table], [label for _, label in table]
    features = features_of(rows, [False] * len(rows[0]))
    deep = grown(features, labels, 5, 1)
    assert nested(deep.pruned(depth)) == nested(grown(features, labels, depth, 1))
    ends = ends_of(deep, features)
    top = deep.pruned(depth)
    below = deep.ancestors(depth)[ends]
    found = ends_of(top, features)
    assert len(set(zip(below.tolist(), found, strict=True))) == len(set(below.tolist()))


@given(st.lists(values, max_size=20), st.lists(st.integers(-3, 3), unique=True, max_size=5))
def test_bins_begin_at_their_least_values(column: list[Any], lows: list[int]) -> None:
    edges = sorted(map(float, lows))
    array = np.array([np.nan if value is None else value for value in column], np.float64)
    out = np.empty(array.size, np.uint16)
    kernels.bin_codes(array, np.array(edges, np.float64), out)
    assert out.tolist() == naive.bin_codes(column, edges)


@given(tables, st.lists(values, min_size=3, max_size=3))
def test_new_rows_follow_the_splits(table: list[Any], row: list[Any]) -> None:
    rows, labels = [row for row, _ in table], [label for _, label in table]
    width = len(rows[0])
    features = features_of(rows, [False] * width)
    tree = grown(features, labels, 3, 1)
    new = features_of([tuple(row)], [False] * width)
    end = tree.nodes[int(tree_ends(tree, replace(new, codes=()), np.empty(1, np.int32))[0])]
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


@given(st.tuples(*[st.integers(0, 3)] * 4), st.sampled_from([2**30, 2**29 + 12345, 3 * 2**27 + 1]))
def test_imbalances_of_all_their_words_are_compared(apart: Any, rows: int) -> None:
    whole = (2**31 - 1, 2**30)
    first, second = (rows + apart[0], rows - apart[1]), (rows + apart[2], rows - apart[3])
    found = criteria.compare_gini(*(np.array(one, np.int64) for one in (first, second, whole)))
    assert found == naive.compare_gini(first, second, whole)


def test_ties_that_floats_cannot_tell_go_to_the_better_split() -> None:
    total = np.array([2**31 - 1, 2**30], np.int64)
    first = np.array([2**30, 2**29 + 1], np.int64)
    second = np.array([2**30 + 1, 2**29 + 1], np.int64)
    exact = naive.compare_gini(first.tolist(), second.tolist(), total.tolist())
    assert exact != 0
    assert criteria.compare_gini(first, second, total) == exact
    assert criteria.gini_gain(first, total) == pytest.approx(
        float(naive.gini_decrease(first.tolist(), (total - first).tolist())), rel=1e-9
    )


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


scored = st.lists(
    st.tuples(st.integers(-40, 40).map(lambda k: k / 8), st.integers(0, 1), st.booleans()),
    min_size=4,
    max_size=40,
)


@given(scored)
def test_the_auc_of_a_split_is_its_definition(rows: list[tuple[float, int, bool]]) -> None:
    labels = [label for _, label, _ in rows]
    assume(0 < sum(labels) < len(labels))
    assume(any(left for *_, left in rows) and not all(left for *_, left in rows))
    sides = [
        tuple([score for score, y, left in rows if left == side and y == hit] for hit in (1, 0))
        for side in (True, False)
    ]
    score = np.array([score for score, _, _ in rows])
    label = np.array(labels, np.uint8)
    weight = np.ones(len(rows), np.int64)
    low, high = float(score.min()), float(score.max())
    vectors = Vectors("auc", low, high, score.size, score.size, ROW)
    payload = vectors.of(score, label, weight)
    left = np.array([left for *_, left in rows])
    rules = vectors.rules(1, 1).array()
    found = criteria.auc_of_split(payload[left].sum(axis=0), payload.sum(axis=0), rules)
    assert found == pytest.approx(naive.auc_of_split(sides), rel=1e-7, abs=1e-7)
    assert 0.0 <= found <= 1.0 + 1e-12


@given(st.integers(1, 5), st.lists(st.tuples(st.integers(0, 3), st.integers(-9, 9)), max_size=12))
def test_histograms_hold_the_sums_of_their_rows(width: int, rows: list[tuple[int, int]]) -> None:
    codes = np.array([code for code, _ in rows], np.uint8)
    order = np.arange(codes.size, dtype=np.int32)[::-1].copy()
    payload = np.array([[value + c for c in range(width)] for _, value in rows], np.int64)
    payload = payload.reshape(codes.size, width)
    hist = np.zeros((5, width), np.int64)
    kernels.fill_histogram(codes, order, payload[order], hist)
    for code in range(5):
        own = [value for b, value in rows if b == code]
        assert hist[code].tolist() == [sum(value + c for value in own) for c in range(width)]


@given(*[st.floats(-3.0, 3.0), st.sampled_from([0.25, 1.0, 2.0])] * 2)
def test_normal_densities_are_equal_where_they_cross(
    mu1: float, v1: float, mu0: float, v0: float
) -> None:
    def log_density(x: float, mu: float, v: float) -> float:
        return -0.5 * (x - mu) ** 2 / v - 0.5 * math.log(v)

    x = criteria.crossing(mu1, v1, mu0, v0)
    if mu1 == mu0 and v1 == v0:
        assert x == mu1
    elif abs(mu1 - mu0) > 1e-3:
        middle = 0.5 * (mu1 + mu0)
        apart = log_density(x, mu1, v1) - log_density(x, mu0, v0)
        assert x == middle or abs(apart) < 1e-6 * max(1.0, x * x)


def test_equal_gains_are_told_apart_by_counts_for_gini_alone() -> None:
    total = np.array([8, 4, 0], np.int64)
    best, candidate = np.zeros(6), np.zeros(6)
    best[[0, 4, 5]], candidate[[0, 4, 5]] = (1.0, 4.0, 2.0), (1.0, 4.0, 4.0)
    assert criteria.is_better(candidate, best, total, criteria.GINI)
    others = [kind for kind in range(4) if kind != criteria.GINI]
    assert not any(criteria.is_better(candidate, best, total, kind) for kind in others)


@pytest.mark.parametrize("positives", [0, 1])
def test_a_gain_of_less_than_rounding_is_none(positives: int) -> None:
    total = np.array([10, positives, 0], np.int64)
    best, candidate = np.full(6, kernels.NONE), np.zeros(6)
    for gain, better in ((9e-12, False), (2e-11, True)):
        candidate[kernels.GAIN] = gain
        assert criteria.is_better(candidate, best, total, criteria.ENTROPY) == better


def test_missing_values_of_one_class_go_to_their_likes() -> None:
    """Or to the side that is better without them, whichever of both is larger."""
    hist = np.array([[1, 0], [3, 3]], np.int64)
    rules = Rules(criteria.GINI, 1, 1).array()
    for missing, side in ([1, 0], 1.0), ([1, 1], 0.0):
        gone = np.array(missing, np.int64)
        best = np.full(kernels.SPLIT_WIDTH, kernels.NONE)
        kernels.best_cut(hist, np.arange(2), gone, hist.sum(axis=0) + gone, rules, best)
        assert best[kernels.MISSING_LEFT] == side
        assert best[kernels.LEFT_COUNT] == 1.0 + side


def test_scores_without_spread_are_ranked_by_their_means() -> None:
    for gap, expected in ((0.5, 1.0), (0.0, 0.5), (-0.5, 0.0)):
        assert criteria.mixture_auc(np.array([[gap, 0.0, 0.0, 0.0, 3.0, 4.0]])) == expected


def test_nodes_of_one_class_gain_nothing_of_the_auc() -> None:
    rules = np.array([float(criteria.GINI), 1.0, 1.0, 1.0, 1.0])
    for positives in (0, 5):
        total = np.array([5, positives, 3 * 2**20], np.int64)
        left = np.array([2, min(2, positives), 2**20], np.int64)
        assert criteria.auc_gain(left, total, rules) == 0.0


@given(st.integers(0, 2**32), st.integers(4, 12), st.integers(4, 12))
def test_a_split_gains_what_it_adds_to_the_auc(seed: int, first: int, second: int) -> None:
    """Times the pairs of the node a row, against the twin of one side and of two."""
    random = np.random.default_rng(seed)
    unit = 2.0**-40
    sides = []
    for size in (first, second):
        score = random.normal(random.normal(), 1.0, 2 * size)
        sides.append(([*score[:size]], [*score[size:]]))
    whole = tuple([*one, *other] for one, other in zip(*sides, strict=True))

    def sums(part: tuple[list[float], list[float]]) -> np.ndarray:
        found = [float(len(part[0]) + len(part[1])), float(len(part[0]))]
        for scores in part:
            found += [math.fsum(scores) / unit, math.fsum(s * s for s in scores) / unit]
        return np.rint(found).astype(np.int64)

    left, total = sums(sides[0]), sums(sides[0]) + sums(sides[1])
    rules = np.array([float(criteria.AUC), 1.0, unit, unit, 1.0])
    positives, negatives = map(len, whole)
    pairs = positives * negatives / (positives + negatives)
    expected = (naive.auc_of_split(sides) - naive.auc_of_split([whole])) * pairs
    assert criteria.auc_gain(left, total, rules) == pytest.approx(expected, abs=1e-6)
    assert criteria.split_gain(left, total, rules) == criteria.auc_gain(left, total, rules)


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


@given(tables, st.integers(2, 4), st.integers(1, 2))
def test_histograms_had_as_differences_give_the_same_tree(
    table: list[Any], depth: int, least: int
) -> None:
    rows, labels = [row for row, _ in table], [label for _, label in table]
    features = features_of(rows, [False] * len(rows[0]))
    payload = np.array([[1, label] for label in labels], np.int64)
    rules = Rules(criteria.GINI, depth, least)
    (tree, ends), (other, others) = (
        Grower(features, payload, rules, steady=steady).grow() for steady in (False, True)
    )
    assert nested(other) == nested(tree)
    assert others.tolist() == ends.tolist()


@given(tables, st.integers(2, 4), st.integers(1, 9))
def test_trees_grow_block_by_block(table: list[Any], depth: int, size: int) -> None:
    rows, labels = [row for row, _ in table], [label for _, label in table]
    features = features_of(rows, [False] * len(rows[0]))
    payload = np.array([[1, label] for label in labels], np.int64)
    used = np.arange(len(labels)) % 5 != 3
    grower = Grower(features, payload, Rules(criteria.GINI, depth, 1), steady=True)
    tree, ends = grower.grow(used)
    whole = nested(tree), ends.tolist()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sums, "BLOCK", size)
        patch.setattr(grow, "_SHARED_VISITS", 0)
        rules = Rules(criteria.GINI, depth, 1)
        tree, ends = Grower(features, payload, rules, threads=2, steady=True).grow(used)
    assert (nested(tree), ends.tolist()) == whole


@given(st.integers(2, 4), st.lists(st.integers(0, 9), max_size=5), st.randoms())
def test_vectors_come_in_the_order_of_rows_and_add_up(
    width: int, sizes: list[int], random: Any
) -> None:
    payload = np.array([[random.randint(-9, 9) for _ in range(width)] for _ in range(50)], np.int64)
    rows = np.array(random.sample(range(50), sum(sizes)), np.int32)
    ends = np.cumsum(sizes, dtype=np.int64)
    spans = np.stack([ends - np.array(sizes, np.int64), ends], axis=1)
    out = np.zeros((rows.size, width), np.int64)
    totals = kernels.gather_nodes(rows, out, payload, spans)
    assert out.tolist() == payload[rows].tolist()
    assert totals.tolist() == [payload[rows[low:high]].sum(axis=0).tolist() for low, high in spans]


numbers = st.floats(-1e3, 1e3, allow_subnormal=False)


@given(
    st.lists(st.tuples(st.one_of(st.none(), numbers), st.integers(0, 1)), min_size=4, max_size=60),
    st.lists(numbers, max_size=20),
    st.integers(2, 9),
    st.integers(1, 4),
)
def test_codes_and_values_go_the_same_way(
    table: list[Any], unseen: list[float], most: int, depth: int
) -> None:
    """With quantile bins also values that no tree has seen."""
    column = np.array([np.nan if value is None else value for value, _ in table])
    bins = sorted_bins(np.sort(column[~np.isnan(column)]), most) if any(column == column) else None
    assume(bins is not None)
    assert bins is not None
    new = np.array(unseen if bins.between else [], np.float64)
    every = np.concatenate([column, new, bins.values, np.nextafter(bins.values, -np.inf)])
    every = every if bins.between else column
    features = Features((Column("x"),), (None,), (bins,), (bins.codes(column),))
    payload = np.array([[1, label] for _, label in table], np.int64)
    tree, _ = Grower(features, payload, Rules(criteria.GINI, depth, 1)).grow()
    ends_of(
        tree.pruned(depth), replace(features, codes=(bins.codes(every),), values=every[:, None])
    )
    for node in tree.nodes:
        if node.feature >= 0 and not math.isnan(node.cut) and bins.between:
            assert node.cut in bins.values


def test_few_values_of_many_rows_are_found() -> None:
    bins = sorted_bins(np.repeat([0.0, 1.0, 2.0], [5, 70_000, 5]), 10)
    assert (bins.values.tolist(), bins.between) == ([0.0, 1.0, 2.0], False)


@given(st.lists(st.one_of(st.none(), numbers), max_size=40), st.integers(2, 9))
def test_codes_count_the_borders_below(column: list[Any], most: int) -> None:
    present = sorted(value for value in column if value is not None)
    assume(len(present) > 0)
    bins = sorted_bins(np.array(present), most)
    assert bins.between == (len(set(present)) > most)
    assert 1 <= bins.count <= most
    array = np.array([np.nan if value is None else value for value in column], np.float64)
    assert bins.codes(array).tolist() == [
        naive.code_of(value, bins.values.tolist(), bins.between) for value in column
    ]


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 3)), max_size=12), st.integers(1, 3))
def test_a_sparse_histogram_is_the_histogram(rows: list[tuple[int, int]], width: int) -> None:
    codes = np.array([code for code, _ in rows], np.uint16)
    order = np.arange(codes.size, dtype=np.int32)
    payload = np.array([[count * (c + 1) for c in range(width)] for _, count in rows], np.int64)
    payload = payload.reshape(codes.size, width)
    expected, hist = np.zeros((41, width), np.int64), np.full((41, width), -7, np.int64)
    kernels.fill_histogram(codes, order, payload, expected)
    ranks = np.empty(41, np.int64)
    marks = np.zeros(48, np.uint8)
    used = kernels.sparse_histogram(codes, order, payload, marks, hist, ranks)
    assert not marks.any()
    assert ranks[:used].tolist() == np.flatnonzero(expected[:40, 0]).tolist()
    assert hist[ranks[:used]].tolist() == expected[ranks[:used]].tolist()
    assert hist[40].tolist() == expected[40].tolist()
