"""Trees by the AUC in rounds: the very trees of the fit in memory, which take scores as they are."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.hetcal.payload import vectors_of
from calibkit.hetcal.rounds import grow as growing
from calibkit.hetcal.rounds import steps
from calibkit.hetcal.rounds.tables import What
from calibkit.rounds.answers import answer, answer_shard
from calibkit.rounds.protocol import Sums
from calibkit.rows.weights import ROW, Unit
from tests.library.test_hetcal_rounds import (
    TINY,
    assert_like,
    in_memory,
    in_rounds,
    plain,
    problem_of,
    rows_of,
    trees_of,
)


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({}, {"groups": "g"}),
        ({}, {"max_depth": 3, "min_leaf": 50, "shrinkage": 0.0, "precalibrate": "none"}),
        ({"weight": "real"}, {"groups": "g", "max_depth": 3, "min_leaf": 40}),
        ({"weight": "real", "weight_kind": "sampling"}, {"max_depth": 2, "max_bins": 20}),
        ({"weight": "w"}, {"groups": "g", "max_depth": 3, "min_leaf": 30, "shrinkage": 5.0}),
        ({"scale": "raw"}, {"max_depth": 3, "min_leaf": 40, "map": "beta"}),
        ({"weight": "eighths"}, {"max_depth": 3, "min_leaf": 60, "map": "histogram"}),
    ],
)
def test_rounds_give_the_trees_of_memory(columns: dict[str, str], options: dict[str, Any]) -> None:
    frame, problem = rows_of(1200, 5), problem_of(columns, criterion="auc", **options)
    found, expected = in_rounds([frame[:500], frame[500:]], problem)[0], in_memory(frame, problem)
    assert_like(plain(found), plain(expected))
    assert plain(found)["tree"] == plain(expected)["tree"]
    assert len(plain(found)["tree"]) > 1 and found.warnings == expected.warnings


@pytest.mark.parametrize("columns", [{}, {"weight": "real"}])
def test_trees_of_other_rows_are_those_of_memory(columns: dict[str, str]) -> None:
    frame, train = rows_of(900, 5), rows_of(1200, 6).drop("g")
    problem = problem_of(columns, criterion="auc", groups="g", max_depth=3, min_leaf=40)
    expected, parts = in_memory(frame, problem, train), [frame[:300], frame[300:]]
    held, _ = in_rounds(parts, problem, train=lambda: Source.from_frame(train))
    grown, _ = in_rounds(parts, problem, trees=trees_of([train[:100], train[100:]], problem))
    for found in (held, grown):
        assert_like(plain(found), plain(expected))
        assert plain(found)["tree"] == plain(expected)["tree"]


def test_shards_batches_threads_and_room_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = rows_of(700, 3)
    problem = problem_of({"weight": "real"}, criterion="auc", max_depth=2, min_leaf=30, max_bins=16)
    whole, plans = in_rounds([frame], problem)
    mixed = frame.sample(fraction=1, shuffle=True, seed=1)
    monkeypatch.setattr(steps, "rows_at_a_time", lambda _: 90)
    found, _ = in_rounds([mixed[:10], mixed[400:], mixed[10:400]], problem)
    assert found.model.to_json() == whole.model.to_json()
    one, three = (
        answer_shard(plans[2], Source.from_frame(frame), TINY, threads=threads)
        for threads in (1, 3)
    )
    assert one.to_bytes() == three.to_bytes()
    monkeypatch.setattr(growing, "MOST_CELLS", 300)
    again, more = in_rounds([frame], problem)
    assert_like(plain(again)["maps"], plain(whole)["maps"])
    assert plain(again)["tree"] == plain(whole)["tree"] and len(more) > len(plans)


def test_scores_far_from_zero_keep_their_digits() -> None:
    frame = rows_of(1500, 4).with_columns(score=(pl.col("score") * 2**20).round() / 2**20)
    far = frame.with_columns(score=pl.col("score") * 2.0**300 + 2.0**320)
    problem = problem_of({"scale": "raw"}, criterion="auc", max_depth=3, min_leaf=60, groups="g")
    near, apart = in_memory(frame, problem), in_memory(far, problem)
    assert plain(near)["tree"] == plain(apart)["tree"]


def test_rounded_weights_weigh_scores_as_exact_ones_do() -> None:
    """Their sums of scores once had no digits left."""
    frame, options = rows_of(1500, 4), {"criterion": "auc", "groups": "g", "max_depth": 2}
    frame = frame.with_columns(near=(pl.col("real") * 2**30).round() / 2**30)
    rounded, exact = (
        in_memory(frame, problem_of({"weight": name}, **options)).model for name in ("real", "near")
    )
    assert not rounded.fit.exact_arithmetic and exact.fit.exact_arithmetic
    gains = [node.gain for node in exact.tree if node.gain]
    assert [node.gain for node in rounded.tree if node.gain] == pytest.approx(gains, rel=1e-6)


@pytest.mark.parametrize("unit", [ROW, Unit(2.0**-59, exact=False)])
def test_sums_of_vectors_have_room(unit: Unit) -> None:
    score, label = np.array([-3.0, 5.0, 5.0, -3.0]), np.array([0, 1, 1, 0], np.uint8)
    weight = np.full(4, int(2.0**60 / 4 if unit is not ROW else 7))
    vectors = vectors_of("auc", -3.0, 5.0, 4, int(weight.sum()), unit)
    sums = vectors.of(score, label, weight).astype(object).sum(axis=0)
    assert max(map(abs, sums)) <= 2**60 and max(map(abs, sums[2:])) > 2**54
    assert vectors.of(score + 100.0, label, weight)[1, 2] == vectors.of(score, label, weight)[1, 2]


def test_what_a_damaged_plan_or_state_says_of_scores_is_refused_or_harmless() -> None:
    frame, problem = rows_of(300, 1), problem_of({}, criterion="auc", max_depth=1, min_leaf=30)
    source, (_, plans) = Source.from_frame(frame), in_rounds([frame], problem)
    plan = next(plan for plan in plans if plan.ask["step"] == "grow")
    table = answer(plan, source, TINY).table
    moment = pl.col("what") // (1 << 16) == What.MOMENT
    assert table.filter(moment).height > 0
    changed = table.with_columns(place=pl.when(moment).then(10**9).otherwise("place"))
    with pytest.raises(ModelError, match="not asked"):
        steps.advance(plan, Sums({}, changed))
    seen = {**plan.ask["seen"], "low": plan.ask["seen"]["high"]}  # scores are lower
    less = msgspec.structs.replace(plan, ask={**plan.ask, "seen": seen})
    assert answer(less, source, TINY).table.filter(moment).height == 0
