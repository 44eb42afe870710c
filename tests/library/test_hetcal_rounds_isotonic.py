"""Isotonic maps in rounds: the blocks of the fit in memory, to the bit."""

from __future__ import annotations

import sys
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.hetcal.maps import _isotonic
from calibkit.hetcal.rounds import isotonic, steps
from calibkit.hetcal.rounds.isotonic import blocks_of, cut_stretches, cuts_of
from calibkit.hetcal.rounds.reading import known_of, stretches_fit
from calibkit.hetcal.rounds.sought import Stretches
from calibkit.hetcal.rounds.tables import Numbers, What, keys_of, together
from calibkit.rounds.answers import answer_shard
from calibkit.rounds.protocol import Sums
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

MAP: dict[str, Any] = {"map": "isotonic", "shrinkage": 20.0}


@pytest.mark.parametrize(
    ("columns", "options"),
    [
        ({"weight": "w"}, {"max_depth": 2, "groups": "g", "criterion": "entropy"}),
        ({"weight": "real"}, {"max_depth": 1, "min_leaf": 30}),
        ({"weight": "eighths", "weight_kind": "sampling"}, {"max_depth": 2, "min_leaf": 60}),
        ({"scale": "raw"}, {"max_depth": 1, "min_leaf": 60}),
    ],
)
def test_isotonic_maps_are_those_of_memory(
    columns: dict[str, str], options: dict[str, Any]
) -> None:
    frame, problem = rows_of(900, 5), problem_of(columns, **MAP, **options)
    found, plans = in_rounds([frame[:500], frame[500:]], problem)
    expected = in_memory(frame, problem)
    assert_like(plain(found), plain(expected))
    assert found.warnings == expected.warnings
    assert 1 < sum(plan.ask["step"] == "pool" for plan in plans) < 5


def test_maps_of_scores_as_they_are_have_the_bits_of_memory() -> None:
    frame = rows_of(900, 5).with_columns(score=pl.col("score").round(2))
    problem = problem_of({"weight": "w"}, **MAP, max_depth=2, min_leaf=90, precalibrate="none")
    found, _ = in_rounds([frame[::2], frame[1::2]], problem)
    expected = in_memory(frame, problem)
    for own, other in zip(found.model.maps, expected.model.maps, strict=True):
        assert (own.knots, own.values, own.share) == (other.knots, other.values, other.share)


@pytest.mark.parametrize("score", [1.0 - pl.col("score"), pl.col("score") ** 4, pl.lit(0.3)])
def test_maps_of_odd_scores_are_those_of_memory(score: pl.Expr) -> None:
    frame = rows_of(800, 6).with_columns(score=score)
    problem = problem_of({}, **MAP, groups="g", max_depth=1, min_leaf=50)
    found, _ = in_rounds([frame[:300], frame[300:]], problem)
    assert_like(plain(found), plain(in_memory(frame, problem)))


def test_trees_of_other_rows_get_isotonic_maps() -> None:
    frame, train = rows_of(900, 5).filter(pl.col("x") < 1.0), rows_of(1200, 6)
    problem = problem_of({}, **MAP, max_depth=3, min_leaf=40)
    found, _ = in_rounds([frame[:300], frame[300:]], problem, trees=trees_of([train], problem))
    assert_like(plain(found), plain(in_memory(frame, problem, train)))
    assert "no rows: the map of all rows" in {own.note for own in found.model.maps}


def test_shards_and_the_room_for_parts_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = rows_of(400, 3)
    problem = problem_of({"weight": "real"}, **MAP, max_depth=1, min_leaf=60)
    whole, plans = in_rounds([frame], problem)
    monkeypatch.setattr(isotonic, "_MOST_PARTS", 8)
    monkeypatch.setattr(steps, "rows_at_a_time", lambda _: 100)
    found, more = in_rounds([frame[350:], frame[:100], frame[100:350]], problem)
    assert found.model.to_json() == whole.model.to_json()
    assert len(more) > len(plans)
    plan = next(plan for plan in more if plan.ask["step"] == "pool")
    one, three = (
        answer_shard(plan, Source.from_frame(frame[:100]), TINY, threads=threads)
        for threads in (1, 3)
    )
    assert one.to_bytes() == three.to_bytes()


scores = st.one_of(st.integers(-3, 3).map(float), st.floats(allow_infinity=False, allow_nan=False))
weights = st.one_of(st.integers(0, 3), st.integers(0, 2**57))


@example([(-sys.float_info.max, False, 1), (sys.float_info.max, True, 1)], 2)
@given(
    st.lists(st.tuples(scores, st.booleans(), weights), min_size=1, max_size=30),
    st.sampled_from([2, 16, 256]),
)
def test_blocks_are_those_of_memory(rows: list[tuple[float, bool, int]], room: int) -> None:
    score, label, weight = (np.array(values) for values in zip(*rows, strict=True))
    score, kept = score + 0.0, weight > 0
    if not kept.any():
        return
    score, weight = score[kept], weight[kept]
    hits = weight * label[kept]
    keys, places = np.unique(score, return_inverse=True)
    totals = np.zeros((2, keys.size), np.int64)
    np.add.at(totals[0], places, weight)
    np.add.at(totals[1], places, hits)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(isotonic, "_MOST_PARTS", room)
        cuts, rates = blocks_of([_stretches(keys_of(score), weight, hits)])
    knots, values = _isotonic(keys, *totals)
    assert (cuts[0].lows, rates[0]) == (knots.tolist(), values.tolist())


def _stretches(keys: Any, weight: Any, hits: Any) -> Stretches:
    """Return the stretches of a leaf, told by two shards until none is open."""
    ends = [int(keys.min())], [int(keys.max())]
    leaves = [Stretches(*ends, [int(weight.sum())], [int(hits.sum())])]
    while leaves[0].lows != leaves[0].highs:
        cuts, tables = cuts_of(leaves)[0], []
        for shard in range(2):
            own = [values[shard::2] for values in (keys, weight, hits)]
            inside, parts = cuts.parts(own[0])
            told = Numbers()
            _tell(told, parts, *(values[inside] for values in own))
            tables.append(told.table())
        leaves = cut_stretches(leaves, together(tables))
        assert stretches_fit(leaves[0])
    return leaves[0]


def _tell(told: Numbers, parts: Any, keys: Any, weight: Any, hits: Any) -> None:
    used, places = np.unique(parts, return_inverse=True)
    for what, values in ((What.ROWS, weight), (What.HITS, hits)):
        sums = np.zeros(used.size, np.int64)
        np.add.at(sums, places, values)
        told.add(what, used, sums)
    for what, values in ((What.LOW, -keys), (What.HIGH, keys)):
        most = np.full(used.size, -(2**63))
        np.maximum.at(most, places, values)
        told.add(what, used, most)


def test_damaged_stretches_are_refused() -> None:
    frame, problem = rows_of(600, 1), problem_of({}, **MAP, max_depth=1, min_leaf=30)
    _, plans = in_rounds([frame], problem)
    plan = next(plan for plan in plans if plan.ask["step"] == "pool")
    empty = msgspec.structs.replace(plan, ask={**plan.ask, "stretches": []})
    with pytest.raises(ModelError, match="a leaf has no map"):
        steps.advance(empty, Sums({}, Numbers().table()))
    (own, *others), source = plan.ask["stretches"], Source.from_frame(frame)
    count = len(own["lows"])
    for changed in (
        {"lows": own["lows"][1:]},
        {"lows": own["highs"], "highs": own["lows"]},
        {"lows": own["lows"] * 2, "highs": own["highs"] * 2, "rows": own["rows"] * 2},
        {"rows": [0] * count},
        {"rows": [2**63 - 1] * count, "lows": [*own["lows"][:-1], -(2**63)]},
        {"hits": [-1] * count},
    ):
        with pytest.raises(ModelError, match="damaged plan"):
            known_of({**plan.ask, "stretches": [{**own, **changed}, *others]})
    fewer = msgspec.structs.replace(plan, ask={**plan.ask, "stretches": [own, own, own]})
    with pytest.raises(ModelError, match="a leaf has no map"):
        answer_shard(fewer, source, TINY)
    table = answer_shard(plan, source, TINY).table
    less = table.with_columns(pl.when(pl.col("value") < 0).then("value").otherwise(1))
    with pytest.raises(ModelError, match="its stretches of scores"):
        steps.advance(plan, Sums({}, less))
