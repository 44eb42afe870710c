"""Forests in rounds: those of memory, given the same draws, whatever the shards and the memory."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from calibkit.errors import ModelError, ResourceError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.hetcal import forest
from calibkit.hetcal.rounds import steps
from calibkit.hetcal.rounds.forest import grow as forest_grow
from calibkit.hetcal.rounds.forest import packed as forest_packed
from calibkit.hetcal.rounds.forest.draws import draws
from calibkit.hetcal.rounds.forest.packed import as_bytes, grove_of, trees_of
from calibkit.hetcal.rows import read_hetcal_rows
from calibkit.hetcal.run import fit_source
from calibkit.hetcal.states import HetcalProblem, hetcal_state
from calibkit.hetcal.trees import Node, Tree
from calibkit.rounds.answers import answer, answer_shard
from calibkit.rounds.loop import advanced, fit_in_rounds
from calibkit.rounds.plans import Plan, damaged_else
from calibkit.summaries.held_states import without_rows
from tests.library.test_hetcal import FEATURES, applied, loss
from tests.library.test_hetcal_rounds import (
    ROOM,
    TINY,
    assert_like,
    hashes_in_order,
    in_memory,
    in_rounds,
    plain,
    problem_of,
    rows_of,
)
from tests.library.test_hetcal_rounds import (
    trees_of as trees_in_rounds_of,
)


def forest_of(columns: dict[str, Any], **options: Any) -> HetcalProblem:
    return problem_of(columns, partition="forest", **options)


def twin(
    patch: pytest.MonkeyPatch,
    frame: pl.DataFrame,
    problem: HetcalProblem,
    train: pl.DataFrame | None = None,
) -> Fitted[Any]:
    """Fit in memory; rows are drawn by their hash, as in rounds."""
    source = Source.from_frame(frame if train is None else train)
    hashes = hashes_in_order(read_hetcal_rows(source, problem.columns, FEATURES))

    def counts(grower: forest.Grower, number: int) -> Any:
        return draws(hashes, grower.seed, number)

    patch.setattr(forest.Grower, "counts", counts)
    return in_memory(frame, problem, train)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({}, {"max_depth": 3, "min_leaf": 40, "shrinkage": 10.0}),
        (
            {"weight": "real"},
            {"max_depth": 2, "min_leaf": 40, "shrinkage": 0.0, "criterion": "entropy", "seed": 3},
        ),
        (
            {"weight": "eighths", "weight_kind": "sampling"},
            {"max_depth": 3, "min_leaf": 30, "shrinkage": 5.0, "clip": 0.05, "max_bins": 20},
        ),
        ({}, {"max_depth": 3, "min_leaf": 40, "shrinkage": 10.0, "criterion": "auc"}),
        ({}, {"max_depth": 2, "min_leaf": 60, "shrinkage": 10.0, "map": "beta"}),
        (
            {"weight": "real"},
            {"max_depth": 2, "min_leaf": 60, "shrinkage": 9.0, "map": "histogram"},
        ),
        ({}, {"max_depth": 2, "min_leaf": 60, "shrinkage": 0.0, "map": "isotonic"}),
        ({}, {"time": "g", "max_depth": 2, "min_leaf": 40, "max_bins": 50}),
        ({"scale": "raw"}, {"max_depth": 0, "min_leaf": 1, "shrinkage": 0.0}),
        ({}, {"max_bins": 30, "precalibrate": "none", "max_depth": 2, "shrinkage": 9.0}),
        ({"weight": "w"}, {"max_depth": 3, "min_leaf": 50, "groups": "g", "trees": 22}),
        ({"weight": "eighths", "weight_kind": "sampling"}, {"groups": "g", "min_leaf": 30}),
    ],
)
def test_rounds_give_what_memory_gives(
    monkeypatch: pytest.MonkeyPatch, columns: dict[str, str], options: dict[str, Any]
) -> None:
    frame, problem = rows_of(1200, 5), forest_of(columns, **{"trees": 5, **options})
    found, _ = in_rounds([frame[:500], frame[500:]], problem)
    expected = twin(monkeypatch, frame, problem)
    assert_like(plain(found), plain(expected))
    assert found.warnings == expected.warnings
    checked = plain(found)["fit"]["cross_validated"]
    assert (checked is None) == ({"max_depth", "min_leaf", "shrinkage"} <= options.keys())
    if checked is not None:
        assert checked.get("dealt") == (None if {"groups", "time"} & options.keys() else "by hash")


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"weight": "real"}, {"max_depth": 3, "min_leaf": 40, "shrinkage": 10.0}),
        ({}, {"max_bins": 30, "groups": "g", "max_depth": 2, "shrinkage": 5.0, "trees": 2}),
        ({}, {"max_depth": 2, "min_leaf": 40, "shrinkage": 5.0, "map": "beta"}),
    ],
)
def test_trees_of_other_rows_get_the_maps_of_memory(
    monkeypatch: pytest.MonkeyPatch, columns: dict[str, str], options: dict[str, Any]
) -> None:
    frame, train, problem = (
        rows_of(900, 5),
        rows_of(1200, 6),
        forest_of(columns, **{"trees": 4, **options}),
    )
    # Leaves without rows, categories that no tree has seen, training rows without groups.
    frame = frame.filter((pl.col("x") < 1.0) | (pl.col("x") > 1.2))
    frame = frame.with_columns(kind=pl.col("kind").replace("birch", "new"))
    train = train.drop("g")
    expected = twin(monkeypatch, frame, problem, train)
    parts = [frame[:300], frame[300:]]
    held, _ = in_rounds(parts, problem, train=lambda: Source.from_frame(train))
    assert_like(plain(held), plain(expected))
    assert held.warnings == expected.warnings
    assert plain(held)["provenance"]["options"]["train_data_hash"]
    trees = trees_in_rounds_of([train[:100], train[100:]], problem)
    grown, _ = in_rounds(parts, problem, trees=trees)
    assert grown.model.to_json() == held.model.to_json()


@pytest.mark.parametrize(("seed", "cut", "batch"), [(2, 150, 90), (1, 590, 250)])
def test_shards_batches_and_threads_do_not_matter(seed: int, cut: int, batch: int) -> None:
    frame = rows_of(600, seed)
    columns = [{}, {"weight": "real"}][seed % 2]
    problem = forest_of(columns, max_depth=2, min_leaf=30, max_bins=16, trees=3)
    whole, plans = in_rounds([frame], problem)
    mixed = frame[np.random.default_rng(seed).permutation(600)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(steps, "rows_at_a_time", lambda _: batch)
        patch.setattr(forest_grow, "MOST_CELLS", 100)
        found, more = in_rounds([mixed[cut:], mixed[:cut]], problem)
        assert found.model.to_json() == whole.model.to_json() and len(more) > len(plans)
        for plan in more[1::9]:
            one, three = (
                answer(plan, Source.from_frame(frame), TINY, threads=threads).to_bytes()
                for threads in (1, 3)
            )
            assert one == three


def test_forests_of_rounds_and_of_memory_are_equally_good() -> None:
    frame, new = rows_of(4000, 1), rows_of(4000, 9)
    problem = forest_of({}, max_depth=4, min_leaf=50, shrinkage=30.0, trees=20)
    source = Source.from_frame(frame)
    run = fit_source(source, None, problem.columns, FEATURES, problem.spec)
    found, _ = in_rounds([frame[:1000], frame[1000:]], problem)
    rounds, memory = (loss(applied(model, new)) for model in (found.model, run.fitted.model))
    one = in_memory(frame, problem_of({}, max_depth=0, min_leaf=1, shrinkage=0.0)).model
    assert rounds < loss(applied(one, new)) - 0.02
    assert rounds == pytest.approx(memory, abs=0.002)


def test_draws_are_poisson_and_go_by_the_row() -> None:
    hashes = np.random.default_rng(0).integers(0, 2**64, 200_000, np.uint64)
    found = draws(hashes, 0, 0)
    shares = np.bincount(found, minlength=4)[:4] / found.size
    assert shares == pytest.approx(np.exp(-1) / np.array([1, 1, 2, 6]), abs=0.004)
    assert found.var() == pytest.approx(1.0, abs=0.02)
    for seed, tree in ((0, 1), (1, 0), (2**64 - 1, 99_999)):
        other = draws(hashes, seed, tree)
        assert abs(np.corrcoef(found, other)[0, 1]) < 0.01
    assert (draws(hashes[::-1], 0, 0) == found[::-1]).all()
    assert (draws(np.repeat(hashes[:50], 2), 0, 7)[::2] == draws(hashes[:50], 0, 7)).all()


def test_features_of_nodes_do_not_depend_on_how_many_are_asked_for() -> None:
    at_once = forest.some_features(forest.feature_stream(3, 4), 9, 7)
    random = forest.feature_stream(3, 4)
    parts = [forest.some_features(random, nodes, 7) for nodes in (1, 2, 6)]
    assert (np.vstack(parts) == at_once).all() and (at_once.sum(axis=1) == 3).all()


def test_few_rows_and_trees_that_no_row_was_drawn_for() -> None:
    frame = rows_of(200, 4).with_columns(g=pl.lit("one"))
    found, _ = in_rounds([frame], forest_of({}, groups="g", trees=3, max_depth=2))
    assert "too few for 5 folds" in found.warnings[0]
    fit = found.model.fit
    assert (fit.min_leaf, fit.shrinkage, fit.cross_validated) == (20, 0.0, None)
    assert len(found.model.partitions) == 3
    two = frame[:2].with_columns(label=pl.Series([0, 1], dtype=pl.Int8))
    same = pl.concat([two] * 50)  # two rows by their hash: some trees have none
    alike, _ = in_rounds([same], forest_of({}, trees=20, max_depth=2, min_leaf=1))
    roots = [part.tree[0].rows for part in alike.model.partitions]
    assert 0 in roots and max(roots) > 50 and "different rows are too few" in alike.warnings[-1]
    assert len(alike.model.partitions) == 20
    bent, _ = in_rounds(
        [same], forest_of({}, trees=9, max_depth=0, min_leaf=1, shrinkage=0.0, map="beta")
    )
    lines = {(part.maps[0].a, part.maps[0].b) for part in bent.model.partitions}
    assert (bent.model.pooled.a, bent.model.pooled.a) in lines  # of trees that drew both rows


def test_forests_that_no_plan_can_hold_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forest_packed, "MOST_NODES", 40)
    problem = forest_of({}, max_depth=4, min_leaf=20, shrinkage=0.0, trees=5)
    with pytest.raises(ResourceError, match=r"more than 40 nodes.*lower --max-depth"):
        in_rounds([rows_of(600, 1)], problem)


def test_trees_come_back_as_they_were() -> None:
    nodes = [Node(9, 4, 0, 1, 0.5, 1, 2, False, None, 0.25), Node(5, 2, 1, 0), Node(4, 2, 1)]
    nodes[1].categories, nodes[1].left, nodes[1].right = ([0, 2], [1]), 3, 4
    nodes += [Node(3, 1, 2), Node(2, 1, 2)]
    trees = [Tree(nodes), Tree([Node(7, 0, 0)])]
    names = [["a", "b", "c"], None]
    assert repr(trees_of(grove_of(trees), names)) == repr(trees)
    assert trees_of(grove_of([]), names) == []


def damaged_plans() -> list[tuple[str, Any]]:
    """Return changes to the forest of a plan, and the name of each."""

    def swap(name: str, column: int, columns: int, value: int) -> Any:
        def change(wood: dict[str, Any]) -> None:
            data = bytearray(msgspec.convert(wood["grove"][name], bytes))
            data[8 * column : 8 * column + 8] = as_bytes(np.array([value]))
            wood["grove"][name] = msgspec.to_builtins(bytes(data))

        return change

    return [
        ("a child of itself", swap("links", 2, 5, 0)),
        ("a child that is not there", swap("links", 3, 5, 10_000)),
        ("a feature that is not there", swap("links", 1, 5, 3)),
        ("a depth that cannot be", swap("links", 0, 5, 1)),
        ("lines cut off", lambda wood: wood.update(lines=wood["lines"][:-4])),
        ("no lines", lambda wood: wood.update(lines="")),
        ("no counts", lambda wood: wood.update(counts="")),
        ("trees of other sizes", lambda wood: wood["grove"]["sizes"].append(1)),
        ("no trees", lambda wood: wood.update(grove={"sizes": []})),
        ("a category that is not there", swap("sides", 2, 1, 99)),
        ("categories lost", lambda wood: wood["grove"].update(sides="")),
    ]


@pytest.mark.parametrize(("what", "change"), damaged_plans())
def test_damaged_plans_end_in_an_error(what: str, change: Any, settling: Plan) -> None:
    ask = json.loads(json.dumps(settling.ask))
    change(ask["forest"])
    plan = replace_plan(settling, ask)
    with pytest.raises(ModelError, match="damaged"), damaged_else("plan.json"):
        answer_shard(plan, Source.from_frame(rows_of(400, 1)), TINY)


def replace_plan(plan: Plan, ask: dict[str, Any]) -> Plan:
    return msgspec.structs.replace(plan, ask=ask)


def test_every_leaf_size_has_to_be_judged() -> None:
    problem = forest_of({}, max_depth=1, shrinkage=1.0, trees=2, max_bins=8)
    frame = rows_of(400, 1)
    _, plans = in_rounds([frame], problem)
    last = [plan for plan in plans if plan.ask["step"] == "weigh"][-1]
    wood = {**last.ask["forest"], "judged": [[0.0]] * 4}
    plan = replace_plan(last, {**last.ask, "forest": wood})
    told = answer_shard(plan, Source.from_frame(frame), TINY)
    with pytest.raises(ModelError, match="a leaf size has not been judged"):
        advanced(plan, told)


@pytest.fixture(scope="module")
def settling() -> Plan:
    """Return a plan that asks for the maps of leaves."""
    problem = forest_of({}, max_depth=2, min_leaf=20, shrinkage=0.0, trees=3)
    _, plans = in_rounds([rows_of(400, 1)], problem)
    return next(plan for plan in plans if plan.ask["step"] == "settle")


def test_a_forest_is_in_its_plan_alone(settling: Plan) -> None:
    source = Source.from_frame(rows_of(400, 1))
    ask = {**settling.ask, "forest": None}
    with pytest.raises(ModelError, match="it has no forest"):
        answer_shard(replace_plan(settling, ask), source, TINY)


def test_rounds_begin_from_states_without_rows() -> None:
    frame, problem = (
        rows_of(400, 1),
        forest_of({}, max_depth=1, min_leaf=20, shrinkage=0.0, trees=2),
    )
    state = hetcal_state(Source.from_frame(frame), problem, ROOM)
    found = fit_in_rounds(
        without_rows(state), lambda plan: answer(plan, Source.from_frame(frame), TINY)
    )
    expected, _ = in_rounds([frame], replace(problem, tags={"a": "b"}))
    assert plain(found)["partitions"] == plain(expected)["partitions"]
