"""Boosting in rounds: the in-memory fit, whatever the shards, and whether scores are kept or not."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest

from calibkit.errors import ModelError, ResourceError
from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.hetcal import boosted
from calibkit.hetcal.rounds import steps
from calibkit.hetcal.rounds.boosted import runs as growing
from calibkit.hetcal.rounds.boosted import scores as boosted_scores
from calibkit.hetcal.rounds.reading import known_of
from calibkit.hetcal.states import hetcal_state
from calibkit.rounds.answers import answer
from calibkit.rounds.kept import Kept
from calibkit.rounds.loop import fit_in_rounds
from calibkit.rounds.plans import Plan
from calibkit.summaries.held_states import without_rows
from calibkit.summaries.states import State
from tests.library.test_hetcal_rounds import (
    ROOM,
    TINY,
    assert_like,
    in_memory,
    in_rounds,
    plain,
    problem_of,
    rows_of,
)


def boosted_problem(columns: dict[str, str], **options: Any) -> Any:
    return problem_of(columns, partition="boosted", **options)


@pytest.mark.parametrize(
    ("columns", "options", "few"),
    [
        ({}, {"groups": "g", "trees": 4}, True),
        ({}, {"max_bins": 20, "seed": 3, "max_depth": 2, "trees": 15}, False),
        ({"weight": "w"}, {"groups": "g", "max_depth": 3, "trees": 8}, False),
        ({"weight": "real"}, {"max_depth": 2, "min_leaf": 60, "trees": 8}, True),
        ({"weight": "w"}, {"time": "g", "max_depth": 2, "trees": 8}, True),
        ({}, {"time": "g", "max_depth": 3, "trees": 5}, False),
        ({"weight": "real", "weight_kind": "sampling"}, {"groups": "g", "trees": 4}, False),
        ({"scale": "raw"}, {"precalibrate": "none", "max_depth": 2, "trees": 5}, True),
        ({}, {"max_depth": 0, "clip": 0.05, "groups": "g"}, False),
    ],
)
def test_rounds_give_what_memory_gives(
    columns: dict[str, str], options: dict[str, Any], few: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not few:
        monkeypatch.setattr(boosted, "FEW_ROWS", 1000)
    frame, problem = rows_of(1200, 5), boosted_problem(columns, **options)
    found, _ = in_rounds([frame[:500], frame[500:]], problem)
    expected = in_memory(frame, problem)
    assert_like(plain(found), plain(expected))
    assert found.warnings == expected.warnings
    assert found.model.fit.cross_validated.folds == (5 if few else 1)


def test_growth_stops_where_rows_left_out_gain_no_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boosted, "PATIENCE", 3)
    monkeypatch.setattr(boosted, "RATE", 0.6)
    frame = rows_of(900, 3)
    problem = boosted_problem({}, groups="g", max_depth=2)
    for few in (boosted.FEW_ROWS, 0):
        monkeypatch.setattr(boosted, "FEW_ROWS", few)
        found, plans = in_rounds([frame], problem)
        expected = in_memory(frame, problem)
        assert_like(plain(found), plain(expected))
        trees = [len(run["trees"]) for run in plans[-1].ask["runs"]]
        assert len(expected.model.partitions) < min(trees[:-1] or trees) < 30


def test_rows_of_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    frame, row = rows_of(600, 8), pl.int_range(600)
    odd = {
        "falling scores": frame.with_columns(score=1.0 - pl.col("score")),
        "one score": frame.with_columns(score=pl.lit(0.3)),
        "rare values": frame.with_columns(
            kind=pl.when(row < 40).then(pl.lit("alder")).otherwise("kind"),
            x=pl.when(row % 3 > 0).then("x"),
            noise=pl.lit(None, pl.Float64),
        ),
        "nothing to learn": frame.with_columns(
            score=pl.lit(0.5), label=row % 2, x=pl.lit(1.0), kind=pl.lit("oak"), noise=pl.lit(0.0),
            g=row // 2,
        ),
    }  # fmt: skip
    for name, rows in odd.items():
        problem = boosted_problem({}, groups="g", max_depth=2, trees=3, max_bins=32)
        found, _ = in_rounds([rows[:200], rows[200:]], problem)
        assert_like(plain(found), plain(in_memory(rows, problem)), name)
    few = frame[:9].with_columns(label=pl.Series([0, 1, 1, 0, 1, 0, 1, 0, 1]))
    problem = boosted_problem({}, groups="g", min_leaf=2, trees=4)
    found, _ = in_rounds([few], problem)
    assert_like(plain(found), plain(in_memory(few, problem)))
    assert found.model.fit.cross_validated is None


def test_shards_batches_and_room_do_not_matter(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = rows_of(600, 2)
    problem = boosted_problem({"weight": "real"}, max_depth=2, trees=2, max_bins=32)
    whole, plans = in_rounds([frame], problem)
    for plan in plans[-8::3]:  # whatever the threads
        source = Source.from_frame(frame)
        one, three = (answer(plan, source, TINY, threads=threads) for threads in (1, 3))
        assert one.to_bytes() == three.to_bytes()
    mixed = frame[np.random.default_rng(1).permutation(600)]
    parts = [mixed[low:high] for low, high in pairwise([0, 100, 101, 600])]
    monkeypatch.setattr(steps, "rows_at_a_time", lambda _: 130)
    again, _ = in_rounds(parts[::-1], problem)
    assert again.model.to_json() == whole.model.to_json()
    monkeypatch.setattr(growing, "MOST_CELLS", 1)
    again, more = in_rounds([frame], problem)
    assert again.model.to_json() == whole.model.to_json()
    assert len(more) > len(plans)


def test_damaged_plans_are_refused() -> None:
    frame, problem = rows_of(300, 1), boosted_problem({}, max_depth=2, trees=2)
    _, plans = in_rounds([frame], problem)
    asks = [plan.ask for plan in plans]
    grown = next(ask for ask in asks if ask["runs"] and ask["runs"][0]["trees"])
    split = next(ask for ask in asks if ask["runs"] and len(ask["runs"][0]["growing"]) > 1)
    run, bud = grown["runs"][0], split["runs"][0]["growing"]
    text = run["trees"][0]
    middle = text[:40] + "////////" + text[48:]
    for ask, changed in (
        (grown, {"trees": [text[:-8]]}),
        (grown, {"trees": [middle]}),
        (grown, {"trees": ["no tree"]}),
        (grown, {"trees": [""]}),
        (grown, {"rows": run["rows"][1:]}),
        (grown, {"losses": run["losses"] * 3}),
        (grown, {"held": [1, 2]}),
        (grown, {"part": 7}),
        (split, {"growing": bud[1:]}),
        (split, {"growing": [{**bud[0], "feature": 9}, *bud[1:]]}),
        (split, {"growing": [{**bud[0], "open": True}, *bud[1:]]}),
        (split, {"growing": [{**bud[0], "categories": [[0], [99]]}, *bud[1:]]}),
        (split, {"growing": [{**bud[0], "sums": [1, 2]}, *bud[1:]]}),
        (split, {"growing": [bud[1], bud[0], bud[2]]}),
        (asks[-1], {"trees": []}),
    ):
        runs = [{**ask["runs"][0], **changed}, *ask["runs"][1:]]
        with pytest.raises(ModelError, match="damaged plan"):
            known_of({**ask, "runs": runs})
    for changed in ({"runs": []}, {"scores": None}, {"step": "line-up", "correction": None}):
        with pytest.raises(ModelError, match="damaged plan"):
            known_of({**grown, **changed})
    other = msgspec.structs.replace(plans[0], ask={**plans[0].ask, "step": "finish"})
    with pytest.raises(ModelError, match="damaged plan"):
        answer(other, Source.from_frame(frame), TINY)


def fit_here(source: Source, problem: Any, kept: Kept | None) -> tuple[Fitted[Any], list[bytes]]:
    """Fit a source by rounds of this process; return the answers too."""
    answers: list[State] = []

    def answered(plan: Plan) -> State:
        answers.append(answer(plan, source, TINY, kept=kept))
        return answers[-1]

    state = without_rows(hetcal_state(source, problem, ROOM))
    found = fit_in_rounds(state, answered)
    return found, [one.to_bytes() for one in answers]


def test_scores_that_are_kept_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(steps, "rows_at_a_time", lambda _: 250)
    walked, move = [0], boosted_scores.move_scores

    def counted(scores: Any, values: Any, trees: list[list[Any]], threads: Any) -> None:
        walked[-1] += sum(map(len, trees))
        move(scores, values, trees, threads)

    monkeypatch.setattr(boosted_scores, "move_scores", counted)
    problem = boosted_problem({"weight": "w"}, max_depth=1, trees=6, max_bins=16)
    source = Source.from_frame(rows_of(600, 4))
    without, answers = fit_here(source, problem, None)
    walked.append(0)
    told: list[tuple[int, int]] = []
    with Kept() as kept:
        source.progress = lambda done, total: told.append((done, total))
        found, own = fit_here(source, problem, kept)
        assert told.count((600, 600)) == 1 + len(own)  # with the first state
        assert own == answers and found.model.to_json() == without.model.to_json()
        assert kept.content
        walked.append(0)
        again, more = fit_here(source, problem, kept)  # what is kept is of other trees at first
        assert more == answers and again.model.to_json() == without.model.to_json()
    assert not kept.content and 4 * walked[1] < walked[0]

    read = Kept.read
    with Kept() as kept, monkeypatch.context() as patch:
        patch.setattr(
            Kept, "read", lambda self, name, *to: name == "rows" and read(self, name, *to)
        )
        _, own = fit_here(source, problem, kept)
        assert own == answers
        patch.setattr(Kept, "read", lambda *_: False)
        with pytest.raises(ResourceError, match="cannot be read any more"):
            fit_here(source, problem, kept)

    def full() -> None:
        raise OSError("no space left on device")

    monkeypatch.setattr("calibkit.rounds.kept.unnamed_file", full)
    with Kept() as kept:
        _, own = fit_here(source, problem, kept)
        assert own == answers and not kept.content
