"""Calibration by parts in rounds: the in-memory fit, whatever the shards and however little memory."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.errors import DataError, ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.hetcal.features import Features, bin_features, read_known_features
from calibkit.hetcal.fit import fit_hetcal
from calibkit.hetcal.folds import Folds
from calibkit.hetcal.rounds import bins as binning
from calibkit.hetcal.rounds import edges as finding
from calibkit.hetcal.rounds import grow as growing
from calibkit.hetcal.rounds import steps
from calibkit.hetcal.rounds.edges import Look, Refine, first_edges, refined
from calibkit.hetcal.rounds.known import Fork, Trees
from calibkit.hetcal.rounds.reading import known_of
from calibkit.hetcal.rounds.rows import hash_parts
from calibkit.hetcal.rounds.tables import Numbers, What, array_of, keys_of, together, values_of
from calibkit.hetcal.rounds.trained import trees_in_rounds
from calibkit.hetcal.rows import HetcalRows, linear_scores, read_hetcal_rows
from calibkit.hetcal.run import fit_source
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem, hetcal_state
from calibkit.memory import Memory
from calibkit.models import Column
from calibkit.rounds.answers import answer, answer_shard
from calibkit.rounds.loop import fit_in_rounds
from calibkit.rounds.plans import Plan
from calibkit.rounds.protocol import Sums
from calibkit.rows.columns import ColumnOptions
from calibkit.rows.provenance import row_hashes
from calibkit.summaries.held_states import without_rows
from calibkit.summaries.states import State, merge_states
from tests.library.test_hetcal import FEATURES, sample

ROOM, TINY = Memory(2**34), Memory(2**20)


def problem_of(columns: dict[str, Any], **options: Any) -> HetcalProblem:
    spec = HetcalSpec(**options)
    return HetcalProblem(
        columns=ColumnOptions(**columns), features=tuple(FEATURES), spec=spec, tags={"a": "b"}
    )


def in_rounds(
    parts: list[pl.DataFrame], problem: HetcalProblem, **more: Any
) -> tuple[Fitted[Any], list[Plan]]:
    """Fit shards in rounds, with next to no memory; `more`: what `hetcal_state` takes."""
    sources = [Source.from_frame(part) for part in parts]
    states = [without_rows(hetcal_state(source, problem, ROOM, **more)) for source in sources]
    plans: list[Plan] = []

    def answered(plan: Plan) -> State:
        return merge_states([answer_shard(plan, source, TINY) for source in sources])

    return fit_in_rounds(merge_states(states), answered, plans.append), plans


def in_memory(
    frame: pl.DataFrame, problem: HetcalProblem, train: pl.DataFrame | None = None
) -> Fitted[Any]:
    """Fit in memory; folds without groups are dealt by hash, as in rounds."""
    spec, source = problem.spec, Source.from_frame(frame)
    grown = None
    if train is not None:
        grown = read_hetcal_rows(Source.from_frame(train), problem.columns, FEATURES)
    rows = read_hetcal_rows(
        source,
        problem.columns,
        FEATURES,
        known=grown.features if grown else None,
        groups=spec.groups,
        time=spec.time,
        folds=spec.folds,
        seed=spec.seed,
    )
    if spec.groups is None and spec.time is None:
        part = hash_parts(hashes_in_order(rows), spec.folds, spec.seed)
        rows = replace(rows, folds=Folds(part, spec.folds))
    return fit_hetcal(rows, spec, train=grown, tags=problem.tags)


def hashes_in_order(rows: HetcalRows) -> Any:
    """Return the hash of each row, in the order of the rows."""
    data = rows.data
    assert data.label is not None and data.others is not None and data.where is not None
    names, features = rows.features.categories, rows.features.columns
    known = read_known_features(data.others, features, names, data.where)
    used = {"score": data.score, "label": data.label, **known.words()}
    if data.weight is not None:
        used["weight"] = data.weight
    hashes = row_hashes(used)
    linear, _ = linear_scores(data.score, data.options.scale)
    return hashes[np.lexsort((hashes, linear))]


def assert_like(found: Any, expected: Any, path: str = "") -> None:
    """Compare what models hold: numbers to 1e-9, all else exactly."""
    if isinstance(expected, dict):
        assert found.keys() - {"dealt"} == expected.keys(), path
        for name in expected:
            assert_like(found[name], expected[name], f"{path}/{name}")
    elif isinstance(expected, list):
        assert len(found) == len(expected), path
        for place, (one, other) in enumerate(zip(found, expected, strict=True)):
            assert_like(one, other, f"{path}[{place}]")
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-9, abs=1e-9), path
    else:
        assert found == expected, path


def plain(fitted: Fitted[Any]) -> Any:
    return json.loads(fitted.model.to_json())


def rows_of(count: int, seed: int) -> pl.DataFrame:
    frame = sample(count, seed)
    random = np.random.default_rng(seed)
    return frame.with_columns(
        w=pl.Series(random.integers(0, 4, count)),
        g=pl.Series(random.integers(0, 200, count)),
        eighths=pl.Series(random.integers(0, 16, count) / 8),
        real=pl.Series(random.gamma(2.0, size=count)),
    )


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({}, {"groups": "g"}),
        ({}, {"max_bins": 20, "seed": 3}),
        ({"weight": "w"}, {"groups": "g", "criterion": "entropy", "max_depth": 3}),
        ({}, {"max_depth": 2, "min_leaf": 40, "shrinkage": 10.0, "precalibrate": "none"}),
        ({}, {"max_depth": 0, "clip": 0.05, "groups": "g"}),
        ({"scale": "raw"}, {"groups": "g", "min_leaf": 100}),
        ({}, {"groups": "g", "max_depth": 3, "map": "beta"}),
        ({}, {"max_depth": 3, "min_leaf": 60, "map": "histogram", "shrinkage": 20.0}),
        ({"weight": "real"}, {"groups": "g", "max_depth": 2, "map": "histogram"}),
        ({"weight": "real"}, {"max_depth": 2, "map": "beta", "min_leaf": 30, "shrinkage": 0.0}),
        ({"weight": "eighths"}, {"groups": "g", "max_depth": 2}),
        ({"weight": "real"}, {"max_bins": 20, "max_depth": 3, "criterion": "entropy"}),
        ({"weight": "eighths", "weight_kind": "sampling"}, {"max_bins": 20, "max_depth": 2}),
        ({"weight": "real", "weight_kind": "sampling"}, {"groups": "g", "max_depth": 3}),
    ],
)
def test_rounds_give_what_memory_gives(columns: dict[str, str], options: dict[str, Any]) -> None:
    frame, problem = rows_of(1200, 5), problem_of(columns, **options)
    found, _ = in_rounds([frame[:500], frame[500:]], problem)
    expected = in_memory(frame, problem)
    assert_like(plain(found), plain(expected))
    assert found.warnings == expected.warnings
    checked = plain(found)["fit"]["cross_validated"]
    assert checked.get("dealt") == (None if "groups" in options else "by hash")


def trees_of(parts: list[pl.DataFrame], problem: HetcalProblem) -> Trees:
    """Grow the trees of training rows in rounds."""
    problem = replace(problem, spec=replace(problem.spec, groups=None))
    sources = [Source.from_frame(part) for part in parts]
    states = [hetcal_state(source, problem, ROOM, hold=False) for source in sources]

    def answered(plan: Plan) -> State:
        return merge_states([answer_shard(plan, source, TINY) for source in sources])

    return trees_in_rounds(merge_states(states), answered, lambda _: None)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({}, {"groups": "g"}),
        ({"weight": "real"}, {"max_bins": 20, "max_depth": 3}),
        ({"weight": "eighths", "weight_kind": "sampling"}, {"max_depth": 2, "groups": "g"}),
        ({}, {"max_depth": 3, "min_leaf": 40, "shrinkage": 10.0, "precalibrate": "none"}),
        ({"scale": "raw"}, {"max_depth": 3, "min_leaf": 40, "shrinkage": 10.0, "map": "beta"}),
        ({}, {"max_depth": 3, "min_leaf": 40, "map": "histogram"}),
    ],
)
def test_trees_of_other_rows_get_the_maps_of_memory(
    columns: dict[str, str], options: dict[str, Any]
) -> None:
    frame, train, problem = rows_of(900, 5), rows_of(1200, 6), problem_of(columns, **options)
    # Leaves without rows, categories that no tree has seen, training rows without groups.
    frame = frame.filter((pl.col("x") < 1.0) | (pl.col("x") > 1.2))
    frame = frame.with_columns(kind=pl.col("kind").replace("birch", "new"))
    train = train.drop("g")
    expected = in_memory(frame, problem, train)
    parts = [frame[:300], frame[300:]]
    held, _ = in_rounds(parts, problem, train=lambda: Source.from_frame(train))
    assert_like(plain(held), plain(expected))
    assert held.warnings == expected.warnings
    assert plain(held)["provenance"]["options"]["train_data_hash"]
    grown, _ = in_rounds(parts, problem, trees=trees_of([train[:100], train[100:]], problem))
    assert_like(plain(grown), plain(expected))
    assert grown.warnings == expected.warnings


def test_trees_of_other_features_are_refused() -> None:
    frame, problem = rows_of(300, 1), problem_of({}, max_depth=1, min_leaf=30)
    trees = trees_of([frame], problem)
    with pytest.raises(UsageError, match=r"--features are x in .*, but x, .* in --train"):
        in_rounds([frame], replace(problem, features=("x",)), trees=trees)
    with pytest.raises(DataError, match="every row is positive"):
        trees_of([frame.with_columns(label=pl.lit(1))], problem)


@settings(max_examples=4, deadline=None)
@given(st.integers(0, 99), st.lists(st.integers(0, 600), max_size=3), st.randoms())
def test_shards_and_their_order_do_not_matter(seed: int, cuts: list[int], random: Any) -> None:
    frame = rows_of(600, seed)
    columns = [{}, {"weight": "real"}, {"weight": "real", "weight_kind": "sampling"}][seed % 3]
    problem = problem_of(columns, max_depth=2, min_leaf=30, max_bins=16)
    whole, _ = in_rounds([frame], problem)
    mixed = frame[np.random.default_rng(seed).permutation(600)]
    ends = sorted({0, *cuts, 600})
    parts = [mixed[low:high] for low, high in pairwise(ends)]
    random.shuffle(parts)
    found, _ = in_rounds(parts, problem)
    assert found.model.to_json() == whole.model.to_json()


def test_the_room_for_histograms_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, problem = rows_of(900, 2), problem_of({}, max_depth=2, groups="g")
    found, plans = in_rounds([frame], problem)
    monkeypatch.setattr(growing, "MOST_CELLS", 1)
    again, more = in_rounds([frame], problem)
    assert_like(plain(again), plain(found))
    assert len(more) > len(plans)


def test_the_room_for_stretches_of_keys_does_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = rows_of(900, 2)
    problem = problem_of({"weight": "real"}, max_depth=1, map="histogram", min_leaf=90)
    found, plans = in_rounds([frame], problem)
    monkeypatch.setattr(binning, "MOST_CELLS", 64)
    again, more = in_rounds([frame[:200], frame[200:]], problem)
    assert again.model.to_json() == found.model.to_json()
    assert len(more) > len(plans)


numbers = st.one_of(
    st.just(float("nan")), st.integers(-3, 3).map(float), st.floats(allow_infinity=False)
)


@given(st.lists(numbers, min_size=1, max_size=60), st.integers(2, 9), st.integers(1, 3))
def test_bins_are_those_of_memory(values: list[float], bins: int, shards: int) -> None:
    array = np.array(values) + 0.0
    tables, many = [], False
    for start in range(shards):
        look = Look(bins)
        look.add(array[start::shards])
        told = Numbers()
        look.tell(told, 0)
        tables.append(told.table())
        many = many or look.keys is None
    edges = first_edges(together(tables), 0, many, bins)
    while edges.lows is None:
        tables = []
        for start in range(shards):
            refine = Refine(edges, 1)
            refine.add(array[start::shards])
            told = Numbers()
            refine.tell(told, 0)
            tables.append(told.table())
        edges = refined(edges, together(tables), 0, 1, bins)
    features = Features((Column("x"),), array[None], (None,))
    assert edges.lows == bin_features(features, 1, bins).lows[0].tolist()


@given(st.lists(st.floats(allow_nan=False), min_size=1))
def test_keys_are_in_the_order_of_numbers(values: list[float]) -> None:
    array = np.array(values)
    keys = keys_of(array)
    assert values_of(keys).tolist() == array.tolist()
    assert (np.argsort(keys, kind="stable") == np.argsort(array + 0.0, kind="stable")).all()


def test_zeros_of_both_signs_have_one_key_and_seeds_deal_otherwise() -> None:
    assert keys_of(np.array([-0.0, 0.0])).tolist() == [0, 0]
    hashes = np.random.default_rng(0).integers(0, 2**63, 500).astype(np.uint64)
    zero, one = (hash_parts(hashes, 5, seed) for seed in (0, 1))
    assert np.count_nonzero(zero == one) < 150 and np.bincount(zero).min() > 60


def test_finer_stretches_find_the_same_bins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_MOST_COUNTED", 64)
    monkeypatch.setattr(finding, "_FEWEST_COUNTED", 64)
    array = np.random.default_rng(0).normal(size=5000)
    look = Look(32)
    look.add(array)
    told = Numbers()
    look.tell(told, 0)
    edges, more = first_edges(told.table(), 0, True, 32), 0
    while edges.lows is None:
        refine, told = Refine(edges, 1), Numbers()
        refine.add(array)
        refine.tell(told, 0)
        edges, more = refined(edges, told.table(), 0, 1, 32), more + 1
    features = Features((Column("x"),), array[None], (None,))
    assert more > 3 and edges.lows == bin_features(features, 1, 32).lows[0].tolist()


def test_values_next_to_each_other_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(finding, "_FEWEST_COUNTED", 64)
    monkeypatch.setattr(finding, "_MOST_COUNTED", 64)
    frame = rows_of(900, 8)
    close = np.nextafter(1.0, 2.0) - 1.0
    frame = frame.with_columns(noise=1.0 + close * (pl.int_range(900) % 150))
    problem = problem_of({}, groups="g", max_depth=1, min_leaf=50, max_bins=40)
    found, plans = in_rounds([frame], problem)
    assert_like(plain(found), plain(in_memory(frame, problem)))
    assert sum(plan.ask["step"] == "refine" for plan in plans) > 5


def test_few_rows_are_not_cross_validated() -> None:
    frame = rows_of(200, 4).with_columns(g=pl.lit("one"))
    problem = problem_of({}, groups="g", max_depth=1, min_leaf=20)
    found, _ = in_rounds([frame], problem)
    expected = in_memory(frame, problem)
    assert_like(plain(found), plain(expected))
    assert found.warnings == expected.warnings and "too few for 5 folds" in found.warnings[0]
    nine = rows_of(9, 4).with_columns(label=pl.Series([0, 1, 1, 0, 1, 0, 1, 0, 1]))
    one = rows_of(60, 4).with_columns(label=(pl.int_range(60) == 7).cast(pl.Int8))
    for few in (nine, one, nine.with_columns(score=pl.lit(0.3))):
        problem = problem_of({}, groups="g", max_depth=1, min_leaf=2)
        found, source = in_rounds([few], problem)[0], Source.from_frame(few)
        run = fit_source(source, None, problem.columns, FEATURES, problem.spec, tags={"a": "b"})
        assert_like(plain(found), plain(run.fitted))
        assert found.warnings == run.warnings and "too few for 5 folds" in found.warnings[-1]
    two = frame[:2].with_columns(label=pl.Series([0, 1], dtype=pl.Int8))
    same = pl.concat([two] * 50)  # equal rows are in one part
    alike, _ = in_rounds([same], problem_of({}, max_depth=1, min_leaf=20))
    assert "different rows are too few" in alike.warnings[-1]


def test_a_deep_tree_of_rows_of_one_group_is_that_of_memory() -> None:
    frame = rows_of(400, 4).with_columns(g=pl.lit("one"))
    problem = problem_of({}, groups="g", max_depth=3, min_leaf=20)
    assert_like(plain(in_rounds([frame], problem)[0]), plain(in_memory(frame, problem)))


def test_windows_are_summed_together(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "rows_at_a_time", lambda _: 100)
    frame, row = rows_of(900, 11), pl.int_range(900)
    ends = pl.when(row % 50 == 7).then(row % 2).otherwise("score").cast(pl.Float32)
    frame = frame.with_columns(
        score=pl.when((row < 230) | (row > 350)).then(ends),  # one window of which nothing is left
        kind=pl.when(row != 17).then("kind"),
    )
    problem = problem_of({"on_missing": "drop"}, max_depth=1, min_leaf=60, groups="g")
    found, plans = in_rounds([frame[:440], frame[440:]], problem)
    for plan in plans[1::3]:  # whatever the threads
        one, three = (
            answer_shard(plan, Source.from_frame(frame[:440]), TINY, threads=threads)
            for threads in (1, 3)
        )
        assert one.to_bytes() == three.to_bytes()
    run = fit_source(
        Source.from_frame(frame), None, problem.columns, FEATURES, problem.spec, tags={"a": "b"}
    )
    assert_like(plain(found), plain(run.fitted))
    assert found.warnings == run.warnings and "121 rows" in found.warnings[0]
    fit = found.model.fit
    assert (fit.rows, fit.clipped) == (779, 17) and found.model.columns["score"].dtype == "float32"


def test_rare_categories_and_values_of_one_shard(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "rows_at_a_time", lambda _: 100)
    for name, module in list(sys.modules.items()):
        if name.startswith("calibkit.hetcal") and hasattr(module, "MOST_BINS"):
            monkeypatch.setattr(module, "MOST_BINS", 3)
    frame, row = rows_of(500, 12), pl.int_range(500)
    frame = frame.with_columns(
        kind=pl.when(row < 60)
        .then(pl.lit("oak"))  # many, in one window alone
        .when(row < 70)
        .then(pl.lit("alder"))
        .otherwise(pl.col("kind").replace({"ash": "", "birch": "fir"})),
        x=pl.when(row < 200).then(0.5).otherwise("x"),  # one shard has few values, the other many
    )
    problem = problem_of({}, max_depth=3, min_leaf=20, shrinkage=0.0, max_bins=16, groups="g")
    found, _ = in_rounds([frame[:200], frame[200:]], problem)
    assert_like(plain(found), plain(in_memory(frame, problem)))


def test_a_value_may_tell_by_being_there() -> None:
    frame = rows_of(400, 13)
    known = (pl.int_range(400) % 4 != 1) & pl.col("x").is_not_null()
    frame = frame.with_columns(
        label=pl.when(known).then(pl.col("label") * (pl.col("x") < 1.0)).otherwise(1),
        x=pl.when(known).then("x"),
    )
    problem = problem_of({}, max_depth=1, min_leaf=40, shrinkage=0.0, groups="g")
    found, _ = in_rounds([frame], problem)
    assert_like(plain(found), plain(in_memory(frame, problem)))
    root = found.model.tree[0]
    assert (root.feature, root.cut) == ("x", None)


@pytest.mark.parametrize("missing_left", [False, True])
def test_categories_that_a_node_has_not_seen_go_with_missing_values(missing_left: bool) -> None:
    fork = Fork([0], 0, 1.0, missing_left, 1, 2, categories=([0], [2]))
    assert growing._table(fork, 4) == [1, missing_left, 0, missing_left]


def test_sums_that_come_to_nothing_are_not_told() -> None:
    parts = []
    for value in (3, -3):
        numbers = Numbers()
        numbers.add_all(What.GAIN, np.array([0, value, 1]))
        numbers.add(What.HIGH, np.zeros(1, np.int64), np.zeros(1, np.int64))
        parts.append(numbers.table())
    told = together(parts).rows()
    assert [(place, value) for _, place, value in told] == [(2, 2), (0, 0)]
    table = numbers.table()
    assert array_of(table, What.GAIN, 3).tolist() == [0, -3, 1]
    for size, less in ((2, 0), (3, 2)):
        with pytest.raises(ModelError, match="not asked"):
            array_of(table.with_columns(pl.col("place") - less), What.GAIN, size)


def test_one_score_in_all_rows_has_no_slope() -> None:
    frame = rows_of(800, 6).with_columns(score=pl.lit(0.3))
    problem = problem_of({}, groups="g", max_depth=1, min_leaf=50)
    found, _ = in_rounds([frame], problem)
    assert_like(plain(found), plain(in_memory(frame, problem)))
    assert "one score in all rows" in found.warnings[0]


def test_a_shard_that_changed_is_no_shard_of_the_plan() -> None:
    frame = rows_of(300, 1).with_columns(noise=pl.lit(None, pl.Float64))
    _, plans = in_rounds([frame], problem_of({"scale": "raw"}, max_depth=1, min_leaf=30))
    changed = frame.with_columns(noise=pl.lit(1.0), score=10.0 * pl.col("score") - 5.0)
    for plan in plans:
        with pytest.raises(ModelError, match="no shard of the plan"):
            answer_shard(plan, Source.from_frame(changed), TINY)


@pytest.mark.parametrize("score", [1.0 - pl.col("score"), pl.col("score") ** 4, pl.lit(0.3)])
@pytest.mark.parametrize("kind", ["beta", "histogram"])
def test_maps_of_odd_scores_are_those_of_memory(score: pl.Expr, kind: str) -> None:
    frame = rows_of(800, 6).with_columns(score=score)
    problem = problem_of({}, groups="g", max_depth=1, min_leaf=50, map=kind, shrinkage=5.0)
    found, _ = in_rounds([frame[:300], frame[300:]], problem)
    assert_like(plain(found), plain(in_memory(frame, problem)))


def test_scores_that_rank_badly_are_told() -> None:
    frame = rows_of(800, 6).with_columns(score=1.0 - pl.col("score"))
    problem = problem_of({}, max_depth=1, min_leaf=50)
    found, _ = in_rounds([frame], problem)
    assert "higher scores go with fewer positives" in found.warnings[0]
    run = fit_source(Source.from_frame(frame), None, problem.columns, FEATURES, problem.spec)
    assert found.warnings == run.warnings


def test_rows_that_no_fit_can_use_are_refused() -> None:
    frame = rows_of(9000, 1)
    with pytest.raises(DataError, match="column 'w': weight 0 in all 100 rows"):
        in_rounds(
            [frame[:50].with_columns(w=0), frame[50:100].with_columns(w=0)],
            problem_of({"weight": "w"}),
        )
    with pytest.raises(DataError, match="every row is positive"):
        in_rounds([frame.with_columns(label=pl.lit(1))], problem_of({}))


def test_damaged_plans_and_answers_are_refused() -> None:
    frame, problem = rows_of(300, 1), problem_of({}, max_depth=1, min_leaf=30)
    _, plans = in_rounds([frame], problem)
    ask = next(plan.ask for plan in plans if any(node["forks"] for node in plan.ask["nodes"]))
    fork = next(node["forks"][0] for node in ask["nodes"] if node["forks"])
    for name, value in (("left", 0), ("right", 10**6), ("feature", -1), ("feature", "x")):
        kept, fork[name] = fork[name], value
        with pytest.raises(ModelError, match="damaged plan"):
            known_of(ask)
        fork[name] = kept
    with pytest.raises(ModelError, match="damaged plan"):
        known_of({**ask, "step": "dance"})
    fork["left"] = fork["right"]
    with pytest.raises(ModelError, match="damaged plan"):
        known_of(ask)
    edges = [{**edge, "lows": [1.0, float("nan"), 0.0]} for edge in plans[-1].ask["edges"]]
    with pytest.raises(ModelError, match="damaged plan"):
        known_of({**plans[-1].ask, "edges": edges})
    last, node, edge = plans[-1].ask, ask["nodes"][0], plans[-1].ask["edges"][0]
    bucket = {"first": 0, "bits": 48, "below": 0, "rows": 1}
    for changed in (
        {"nodes": [{**node, "sizes": [9]}]},
        {"nodes": [{**node, "forks": [], "hits": node["rows"] + 1}]},
        {"edges": [{**edge, "highs": [*edge["lows"], 9.0]}, *last["edges"][1:]]},
        {"edges": [{"buckets": [bucket, bucket]}, *last["edges"][1:]]},
        {"edges": [{**edge, "buckets": [{**bucket, "bits": 49}]}, *last["edges"][1:]]},
        {"edges": last["edges"][1:]},
        {"folds": 101},
    ):
        with pytest.raises(ModelError, match="damaged plan"):
            known_of({**last, **changed})
    with pytest.raises(ModelError, match="no sums"):
        steps.check_sums(Sums({}, pl.DataFrame({"x": [1]})))
    source = Source.from_frame(frame)
    for kind, step, part in (("beta", "bend", "curves"), ("histogram", "rate", "cuts")):
        _, more = in_rounds([frame], problem_of({}, max_depth=1, min_leaf=30, map=kind))
        plan = next(plan for plan in more if plan.ask["step"] == step)
        fewer = msgspec.structs.replace(plan, ask={**plan.ask, part: plan.ask[part][:1]})
        with pytest.raises(ModelError, match="a leaf has no map"):
            answer(fewer, source, TINY)
    seen, line = plan.ask["seen"], {**plan.ask["nodes"][0]["line"], "scale": 0.0}
    for name, value in (
        ("cuts", [{"present": 3, "lows": [1.0, 0.0]}]),
        ("seen", {**seen, "low": seen["high"] + 1.0}),
        ("nodes", []),
        ("nodes", [{**plan.ask["nodes"][0], "line": line}]),
    ):
        with pytest.raises(ModelError, match="damaged plan"):
            known_of({**plan.ask, name: value})
    chosen = {**plan.ask["chosen"], "depth": 9}
    with pytest.raises(ModelError, match="its choice is none"):
        answer(msgspec.structs.replace(plan, ask={**plan.ask, "chosen": chosen}), source, TINY)
    state = answer(plans[-1], source, TINY)
    place = state.table.with_columns(place=pl.lit(10**9))
    with pytest.raises(ModelError, match="not asked"):
        steps.advance(plans[-1], Sums({}, place))


def test_answers_that_do_not_add_up_are_refused() -> None:
    frame = rows_of(300, 1)
    _, plans = in_rounds([frame], problem_of({}, max_depth=2, min_leaf=30))
    source = Source.from_frame(frame)
    grow = next(plan for plan in plans if plan.ask["step"] == "grow")
    table = answer(grow, source, TINY).table
    hits = pl.when(pl.col("what") == What.HITS << 16).then(10**6).otherwise("value")
    with pytest.raises(ModelError, match="more positives than rows"):
        steps.advance(grow, Sums({}, table.with_columns(value=hits)))
    first = pl.col("what").eq(What.ROWS << 16) & pl.col("what").is_first_distinct()
    more = pl.when(first).then(10**6).otherwise("value")
    with pytest.raises(ModelError, match="different rows"):
        steps.advance(grow, Sums({}, table.with_columns(value=more)))
    hits = pl.when(pl.col("what") == What.POSITIVES << 16).then(0).otherwise("value")
    whole = answer(grow, source, TINY).header.payload
    with pytest.raises(ModelError, match="its scores"):
        steps.advance(grow, Sums(whole, table.with_columns(value=hits)))
    double = pl.when(pl.col("what") < What.LINE << 16).then(2 * pl.col("value")).otherwise("value")
    later = next(plan for plan in plans if any(n["depth"] and n["open"] for n in plan.ask["nodes"]))
    table = answer(later, source, TINY).table
    with pytest.raises(ModelError, match="not those of the plan"):
        steps.advance(later, Sums({}, table.with_columns(value=double)))
