"""Fits in rounds: the optimum of the fit in memory, whatever the shards; odd answers refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.calibrators.classes import ClassSpec, fit_class_calibrator
from calibkit.errors import CalibkitError, DataError, ModelError, UsageError
from calibkit.files.sources import Source, open_source
from calibkit.fitted import Fitted
from calibkit.maths.questions import Together, answered, in_step
from calibkit.memory import Memory
from calibkit.raters.alpha import MomentsAsked, SampleSlopes, StrengthAt
from calibkit.raters.alpha_cal import (
    AlphaSpec,
    feature_names,
    fit_alpha,
    isotonic_steps,
    share_units,
)
from calibkit.raters.asking import Asked, Figures, Overview, StepCells, taken
from calibkit.raters.map_search import FoldSizes, MapAt
from calibkit.raters.rows import RaterOptions, RaterRows, read_rater_rows
from calibkit.raters.states import AlphaProblem, ClassProblem, alpha_state, rater_state
from calibkit.raters.step_cells import cells_of, cut_cells, open_cells, steps_from
from calibkit.rounds import answers
from calibkit.rounds.answers import answer, answer_shard
from calibkit.rounds.exact import from_text, whole_of, whole_text
from calibkit.rounds.loop import advanced, first_plan, fit_in_rounds
from calibkit.rounds.plans import Plan, plan_of
from calibkit.rounds.replay import Open, replayed
from calibkit.summaries import held_states
from calibkit.summaries.held_states import bounded, fits, holds_rows, without_rows
from calibkit.summaries.plain import as_plain
from calibkit.summaries.row_hashes import hash_rows
from calibkit.summaries.states import Shard, State, join_states, merge_states, state_of

TINY = Memory(1)

VOTES = RaterOptions(probs=("prob_*",), counts="count_*", on_missing="drop")
LABEL = RaterOptions(probs=("prob_*",), label="label")
LISTS = RaterOptions(probs=("probs",), counts="counts")
SCORES = RaterOptions(probs=("logit_*",), label="label", scale="logit")
OWN = ("probs",)

PROBLEMS: dict[str, tuple[Any, tuple[str, ...]]] = {
    "temperature": (ClassProblem(columns=LABEL, spec=ClassSpec(method="temperature")), ()),
    "vector": (ClassProblem(columns=LISTS, spec=ClassSpec(method="vector")), ()),
    "matrix": (
        ClassProblem(columns=VOTES, spec=ClassSpec(method="matrix", regularization=(0.1, 1.0))),
        (),
    ),
    "scores": (
        ClassProblem(columns=SCORES, spec=ClassSpec(method="temperature", scale="logit")),
        (),
    ),
    "constant": (AlphaProblem(columns=VOTES, spec=AlphaSpec()), ()),
    "logits": (
        AlphaProblem(
            columns=LISTS,
            spec=AlphaSpec(logit_map="temperature", disagreement_map="isotonic"),
            tags={"a": "b"},
        ),
        ("sorted-probs",),
    ),
    "features": (
        AlphaProblem(columns=VOTES, spec=AlphaSpec(disagreement_map="isotonic")),
        ("x_*",),
    ),
}


#: Of how many rows slow fits, and those like others, are made.
SHORT = {"vector": 400, "scores": 350}


def voted(rows: int = 700, seed: int = 2) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    probs = random.dirichlet(np.ones(3), rows).round(4)
    probs[:, 2] = 1.0 - probs[:, 0] - probs[:, 1]
    probs = np.abs(probs)
    x = random.normal(size=(rows, 2)) * [1.0, 30.0] + [0.0, 7.0]
    strength = np.exp(1.0 + 0.7 * x[:, 0])
    shares = random.standard_gamma(np.maximum(strength[:, None] * probs, 1e-3))
    shares /= shares.sum(axis=1, keepdims=True)
    counts = random.multinomial(random.integers(0, 5, rows), shares)
    wide = {f"prob_{k}": probs[:, k] for k in range(3)}
    votes = {f"count_{k}": counts[:, k] for k in range(3)}
    frame = pl.DataFrame({**wide, **votes, "x_a": x[:, 0], "x_b": x[:, 1]})
    return frame.with_columns(
        pl.col("^prob_.*$").clip(1e-4).log().name.replace("prob", "logit"),
        probs=pl.concat_list("^prob_.*$"),
        counts=pl.concat_list("^count_.*$"),
        label=pl.Series(shares.argmax(axis=1)),
        prob_0=pl.when(pl.int_range(rows) % 97 == 5).then(None).otherwise("prob_0"),
    )


FRAME = voted()


def problem_and_rows(name: str) -> tuple[Any, tuple[str, ...], pl.DataFrame]:
    problem, patterns = PROBLEMS[name]
    frame = FRAME.drop_nulls() if problem.columns.on_missing == "error" else FRAME
    return problem, patterns, frame[: SHORT.get(name, 700)]


def first(frame: pl.DataFrame, name: str, *, hold: bool = False) -> State:
    problem, patterns, _ = problem_and_rows(name)
    source = Source.from_frame(frame)
    if isinstance(problem, AlphaProblem):
        made = alpha_state(source, problem, patterns, TINY, hold=hold)
    else:
        made = rater_state(source, problem, TINY, hold=hold)
    return state_of(made.to_bytes(), "first.state")


def in_memory(name: str) -> tuple[Fitted[Any], RaterRows]:
    problem, patterns, frame = problem_and_rows(name)
    source, columns, spec = Source.from_frame(frame), problem.columns, problem.spec
    if isinstance(problem, ClassProblem):
        rows = read_rater_rows(source, columns)
        return fit_class_calibrator(rows, spec), rows
    found = feature_names(source, patterns)
    columns = replace(columns, others=tuple(found) if isinstance(found, list) else ())
    rows = read_rater_rows(source, columns)
    return fit_alpha(rows, replace(spec, features=found), tags=problem.tags), rows


def numbers(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        for name, own in value.items():
            yield from numbers(own, f"{path}/{name}")
    elif isinstance(value, list):
        for place, own in enumerate(value):
            yield from numbers(own, f"{path}/{place}")
    else:
        yield path, value


def check_near(found: Any, wanted: Any) -> None:
    """Hold that the numbers of two models are equal to nine digits, and all else is."""
    mine, yours = dict(numbers(wanted)), dict(numbers(found))
    assert mine.keys() == yours.keys()
    for place, value in mine.items():
        near = isinstance(value, float)
        assert yours[place] == (pytest.approx(value, rel=1e-9, abs=1e-9) if near else value), place


def parts_of(frame: pl.DataFrame, cuts: list[int]) -> list[pl.DataFrame]:
    edges = sorted({0, *cuts, frame.height})
    return [frame[start:end] for start, end in pairwise(edges)]


def loop(name: str, parts: list[pl.DataFrame], seed: int) -> tuple[Fitted[Any], int]:
    """Fit as ``--partial`` and ``merge`` do, every file read back; shards in some other order."""
    random = np.random.default_rng(seed)
    states = [first(part, name, hold=place > 0) for place, part in enumerate(parts)]
    following: Any = first_plan(merge_states(states))
    rounds = 0
    while isinstance(following, Plan):
        plan = plan_of(following.to_json(), "plan.json")
        sources = [Source.from_frame(parts[place]) for place in random.permutation(len(parts))]
        made = [answer_shard(plan, one, TINY, threads=1 + seed % 2) for one in sources]
        states = [state_of(one.to_bytes(), "one.state") for one in made]
        merged = states[-1]
        for one in states[:-1]:
            merged = merge_states([one, merged])
        following = advanced(plan, merged)
        rounds += 1
    return following, rounds


@pytest.mark.parametrize("name", PROBLEMS)
def test_rounds_reach_the_optimum_of_the_fit_in_memory(name: str) -> None:
    _, _, frame = problem_and_rows(name)
    wanted, rows = in_memory(name)
    found, rounds = loop(name, parts_of(frame, [10, 300]), 1)
    check_near(found.model.as_dict(), wanted.model.as_dict())
    assert found.warnings == (*rows.warnings, *wanted.warnings)
    assert 3 < rounds < 150
    if name == "features":
        mixed = frame.sample(fraction=1.0, shuffle=True, seed=3)
        other, _ = loop(name, parts_of(mixed, [300]), 2)
        assert other.model.to_json() == found.model.to_json()


@settings(max_examples=4)
@given(st.lists(st.integers(1, 699), max_size=3), st.integers(0, 9))
def test_any_split_gives_the_same_bytes(cuts: list[int], seed: int) -> None:
    frame = FRAME.sample(fraction=1.0, shuffle=True, seed=seed)
    assert loop("constant", parts_of(frame, cuts), seed)[0].model.to_json() == WHOLE


WHOLE = loop("constant", [FRAME], 0)[0].model.to_json()


def test_one_process_gives_the_same_bytes() -> None:
    def all_rows(plan: Plan) -> State:
        return answer(plan, Source.from_frame(FRAME), TINY)

    assert fit_in_rounds(first(FRAME, "constant"), all_rows).model.to_json() == WHOLE

    def joined(plan: Plan) -> State:
        halves = [Source.from_frame(part) for part in (FRAME[:99], FRAME[99:])]
        return join_states([answer(plan, half, TINY) for half in halves])

    state = join_states([first(FRAME[:99], "constant"), first(FRAME[99:], "constant", hold=True)])
    assert fit_in_rounds(state, joined).model.to_json() == WHOLE


def test_rows_are_let_go_where_they_do_not_fit_together(monkeypatch: pytest.MonkeyPatch) -> None:
    states = [first(FRAME[:350], "constant", hold=True), first(FRAME[350:], "constant", hold=True)]
    assert all(map(holds_rows, bounded(states, TINY)))
    for fewest in (349, 350):
        monkeypatch.setattr("calibkit.memory._FEWEST_ROWS", fewest)
        assert fits(states[0], TINY) == (fewest == 350)
        assert not fits(without_rows(states[0]), TINY)
    monkeypatch.setattr("calibkit.memory._FEWEST_ROWS", 400)
    small = bounded(states, TINY)
    assert not any(map(holds_rows, small))
    looks = []

    def looked(one: State) -> bool:
        looks.append(one)
        return holds_rows(one)

    monkeypatch.setattr(held_states, "holds_rows", looked)
    assert len(bounded(states * 40, TINY)) == 80 >= len(looks)  # each is looked at once
    assert small[0].to_bytes() == first(FRAME[:350], "constant").to_bytes()
    assert merge_states([small[0], states[1]]).to_bytes() == merge_states(small).to_bytes()
    assert without_rows(merge_states(states)).to_bytes() == merge_states(small).to_bytes()


def test_answers_that_do_not_go_with_a_plan_are_refused() -> None:
    a, b = FRAME[:300], FRAME[300:]
    plan = first_plan(merge_states([first(a, "constant"), first(b, "constant")]))
    one, two = (answer_shard(plan, Source.from_frame(part), TINY) for part in (a, b))
    after = advanced(plan, merge_states([one, two]))
    assert isinstance(after, Plan)
    with pytest.raises(DataError, match=r"1 of 2 shards of the plan missing: [0-9a-f]{16} \(400"):
        advanced(plan, one)
    with pytest.raises(ModelError, match="the same shard of 300 rows"):
        merge_states([one, one])
    with pytest.raises(ModelError, match="a state of round 2, but the plan asks for round 3"):
        advanced(after, merge_states([one, two]))
    with pytest.raises(ModelError, match="a state of round 1, but the plan asks for round 2"):
        advanced(plan, first(FRAME, "constant"))
    with pytest.raises(ModelError, match=r"a state of round 3, but .* is one of round 2"):
        merge_states([one, answer_shard(after, Source.from_frame(b), TINY)])
    with pytest.raises(ModelError, match="no shard of the plan, which has 2"):
        answer_shard(plan, Source.from_frame(FRAME), TINY)
    other = msgspec.structs.replace(plan, shards=after.shards, ask={**plan.ask, "width": 3})
    with pytest.raises(ModelError, match="answers another plan of the same round"):
        advanced(other, merge_states([one, two]))
    with pytest.raises(ModelError, match="that answers another plan than"):
        merge_states([one, answer_shard(other, Source.from_frame(b), TINY)])
    whole = answer(plan, Source.from_frame(FRAME), TINY)
    with pytest.raises(DataError, match="2 of 2 shards of the plan missing"):
        advanced(plan, whole)
    with pytest.raises(ModelError, match="of `calibkit alpha-cal`, but the plan is one of"):
        advanced(msgspec.structs.replace(plan, of="hetcal"), merge_states([one, two]))


def test_shards_are_known_by_hash_and_rows_and_named() -> None:
    parts = [FRAME[start : start + 100] for start in range(0, 700, 100)]
    plan = first_plan(merge_states([first(part, "constant") for part in parts]))
    answers = [answer_shard(plan, Source.from_frame(part), TINY) for part in parts]
    with pytest.raises(DataError, match=r"6 of 7 shards [^;]*(; [^;]*){4}; …; make the states"):
        advanced(plan, answers[0])
    with pytest.raises(DataError, match=r"5 of 7 shards [^;]*(; [^;…]*){4}; make the states"):
        advanced(plan, merge_states(answers[:2]))
    odd = answer(plan, Source.from_frame(FRAME[:50]), TINY)
    with pytest.raises(DataError, match=r"^no shard of the plan: [0-9a-f]{16} \(50 rows\)$"):
        advanced(plan, merge_states([*answers, odd]))
    shards = merge_states(answers).header.shards
    header = msgspec.structs.replace(odd.header, shards=(Shard(shards[0].hash, 99), *shards[1:]))
    with pytest.raises(DataError, match="1 of 7 shards of the plan missing"):
        advanced(plan, State(header, odd.table))
    following = advanced(plan, merge_states(answers))
    assert isinstance(following, Plan)
    second = [answer_shard(following, Source.from_frame(part), TINY) for part in parts]
    with pytest.raises(ModelError, match="a state of round 3, but the plan asks for round 2"):
        advanced(plan, merge_states(second))


def test_a_shard_that_answers_is_one_of_the_plan(tmp_path: Path) -> None:
    FRAME.write_parquet(tmp_path / "a.parquet")
    source = open_source([str(tmp_path / "a.parquet")])
    (shard,) = first(FRAME, "constant").header.shards
    plan = first_plan(first(FRAME, "constant"))
    for odd in (Shard("0" * 16, shard.rows), Shard(shard.hash, shard.rows - 1)):
        with pytest.raises(ModelError, match=r"a\.parquet: these 700 rows are no shard") as caught:
            answer_shard(msgspec.structs.replace(plan, shards=(odd,)), source, TINY)
        assert caught.value.file == str(tmp_path / "a.parquet")
    named = Shard(shard.hash, shard.rows, ("b.parquet",))  # as the first round called it
    known = msgspec.structs.replace(plan, shards=(named,))
    assert answer_shard(known, source, TINY).header.shards == (named,)
    assert len({one.hash for one in (plan, known, msgspec.structs.replace(plan, options={}))}) == 3
    assert len({one.hash for one in (plan, msgspec.structs.replace(plan, round=3))}) == 2


def test_windows_of_a_shard_are_summed_and_hashed_together() -> None:
    many = voted(2500, seed=6)  # of which 1,024 are read at a time
    parts = parts_of(many, [900, 1800])
    whole, rounds = loop("constant", [many], 1)
    assert rounds > 3
    assert loop("constant", parts, 0)[0].model.to_json() == whole.model.to_json()


def test_damaged_plans_and_answers_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = first_plan(first(FRAME, "constant"))
    source = Source.from_frame(FRAME)
    known = json.loads(plan.to_json())

    def refused(said: str, **changed: Any) -> None:
        with pytest.raises(ModelError, match=said):
            odd = plan_of(json.dumps({**known, **changed}).encode(), "plan.json")
            answer_shard(odd, source, TINY)

    refused("of kind 'boundary', not a plan", kind="boundary")
    refused("version 2 of plans", version=2)
    refused("not fitted in rounds here", of="boundary")
    refused("not in order", shards=[])
    refused("its numbers cannot be", round=1)
    refused("its numbers cannot be", round=100_001)
    refused("its numbers cannot be", shards=[{**known["shards"][0], "rows": 0}])
    refused("not in order", shards=known["shards"] * 2)
    refused("unknown field", more=1)
    refused("damaged", ask={})
    refused("damaged", ask={**known["ask"], "questions": [{"question": {"type": "odd"}}]})
    refused("damaged", options={**known["options"], "problem": {}})
    for text in (b"", b"{}", b"[1]", b"\xff"):
        with pytest.raises(ModelError, match="not a calibkit plan"):
            plan_of(text, "plan.json")
    monkeypatch.setattr("calibkit.rounds.plans._MOST_BYTES", 100)
    with pytest.raises(ModelError, match="bytes is not plausible"):
        plan_of(plan.to_json(), "plan.json")
    made = answer_shard(plan, source, TINY)
    payload = made.header.payload

    def odd_answer(said: str, table: pl.DataFrame = made.table, **changed: Any) -> None:
        header = msgspec.structs.replace(made.header, payload={**payload, **changed})
        with pytest.raises(ModelError, match=said):
            advanced(plan, state_of(State(header, table).to_bytes(), "odd.state"))

    odd_answer("no whole number", sums=[{"rows": ["x"]}])
    odd_answer("no whole number", sums=[{"rows": ["1+9999"]}])
    odd_answer("damaged", sums=[{"rows": 1}])
    odd_answer("do not answer the question", sums=[])
    odd_answer("do not answer the question", sums=[{"rows": ["1"]}])
    odd_answer("cannot be", width=-1)
    odd_answer("cannot be", remarks=[["column ", "a", "b", 0]])
    odd_answer("its columns are", pl.DataFrame({"cell": [1]}))
    header = msgspec.structs.replace(made.header, kind="boundary")
    with pytest.raises(ModelError, match="not fitted in rounds"):
        state_of(State(header, made.table).to_bytes(), "odd.state")


ONE, THREE = [1.0], [1.0, 2.0, 3.0]
ODD_QUESTIONS: list[dict[str, Any]] = [
    {"question": {"type": "overview"}, "weights": ONE, "intercept": [1.0, 2.0]},
    {"question": {"type": "overview"}, "weights": ONE * 6, "intercept": THREE},
    {"question": {"type": "overview"}, "weights": [1e999], "intercept": THREE},
    {"question": {"type": "overview"}, "weights": ONE},
    {"question": {"type": "map", "weights": ONE * 6, "intercept": THREE}},
    {"question": {"type": "map", "weights": ONE, "intercept": THREE * 2}},
    {"question": {"type": "strength", "point": THREE, "mean": [1.0, 2.0], "factor": ONE}},
    {
        "question": {
            "type": "strength",
            "point": THREE * 2,
            "mean": [1.0, 2.0],
            "factor": [1.0, 2.0],
        }
    },
    {"question": {"type": "strength", "point": [1.0, 2.0], "mean": ONE, "factor": ONE}},
    {"question": {"type": "strength", "point": []}},
    {"question": {"type": "cells", "strength": ONE}},
    {"question": {"type": "steps", "strength": ONE, "cells": []}},
    {"question": {"type": "figures", "strength": ONE}},
    {"question": {"type": "figures", "strength": THREE, "knots": [0.5], "values": []}},
]


def test_questions_of_too_many_or_too_few_numbers_are_refused() -> None:
    frame = FRAME.drop_nulls()
    plan, source = first_plan(first(frame, "features")), Source.from_frame(frame)
    for odd in ODD_QUESTIONS:
        ask = {**plan.ask, "width": 3, "questions": [odd]}
        with pytest.raises(ModelError, match="a damaged plan: a question has"):
            answer_shard(msgspec.structs.replace(plan, ask=ask), source, TINY)
    ask = {**plan.ask, "width": 4}
    with pytest.raises(DataError, match="rows of 3 classes, but of 4 in the first round"):
        answer_shard(msgspec.structs.replace(plan, ask=ask), source, TINY)


@pytest.mark.parametrize(
    ("question", "name", "odd"),
    [
        (MapAt(ONE, THREE), "rise", ["1"] * 2),
        (MapAt(ONE, THREE), "products", ["1"] * 2),
        (MapAt(ONE, THREE, fold=1, held=True), "rise", ["1"]),
        (FoldSizes(), "folds", ["1", "2"]),
        (StrengthAt(ONE), "rise", []),
        (Overview(), "votes", []),
        (Figures(), "after label", []),
        (Figures(), "before rows", []),
        (MomentsAsked(), "squares", ["1"]),
    ],
)
def test_answers_of_too_many_or_too_few_numbers_are_refused(
    question: Any, name: str, odd: list[str]
) -> None:
    frame = FRAME.drop_nulls()
    plan, source = first_plan(first(frame, "features")), Source.from_frame(frame)
    ask = {**plan.ask, "width": 3, "questions": [as_plain(Asked(question))]}
    plan = msgspec.structs.replace(plan, ask=ask)
    made = answer_shard(plan, source, TINY)
    (sums,) = made.header.payload["sums"]
    payload = {**made.header.payload, "sums": [{**sums, name: odd}]}
    header = msgspec.structs.replace(made.header, payload=payload)
    with pytest.raises(ModelError, match="sums that do not answer the question"):
        advanced(plan, State(header, made.table))


def test_tables_that_no_shard_has_are_refused() -> None:
    frame = FRAME.drop_nulls()
    plan, source = first_plan(first(frame, "constant")), Source.from_frame(frame)
    asked: list[tuple[Any, dict[str, list[Any]]]] = [
        (SampleSlopes([0.0]), {"p0": [-0.5, 1.5, None], "c1": [-1]}),
        (StepCells(ONE), {"low": [-0.5, None], "high": [1.5], "rows": [-1]}),
    ]
    tables: list[State] = []
    for question, changes in asked:
        ask = {**plan.ask, "width": 3, "questions": [as_plain(Asked(question))]}
        made = answer_shard(msgspec.structs.replace(plan, ask=ask), source, TINY)
        state_of(made.to_bytes(), "one.state")
        for name, odd in ((name, odd) for name, values in changes.items() for odd in values):
            values = [odd, *made.table[name].to_list()[1:]]
            table = made.table.with_columns(pl.Series(name, values, made.table.schema[name]))
            with pytest.raises(ModelError, match=r"numbers cannot be|its columns are"):
                state_of(State(made.header, table).to_bytes(), "odd.state")
        other = State(made.header, made.table.clear())
        with pytest.raises(ModelError, match="a table that does not answer the question"):
            advanced(
                msgspec.structs.replace(plan, ask=ask), state_of(other.to_bytes(), "odd.state")
            )
        tables.append(made)
    with pytest.raises(ModelError, match="tables that do not answer the same question"):
        answers.merge_states(tables)
    two = msgspec.structs.replace(made.header, payload={**made.header.payload, "sums": [{}, {}]})
    with pytest.raises(ModelError, match="do not answer the same questions"):
        answers.merge_states([made, State(two, made.table)])
    rows = {**made.header.payload, "sums": [{"rows": ["1"]}]}
    less = {**made.header.payload, "sums": [{"rows": ["1", "2"]}]}
    pair = [
        State(msgspec.structs.replace(made.header, payload=one), pl.DataFrame())
        for one in (rows, less)
    ]
    with pytest.raises(ModelError, match="do not answer the same question"):
        answers.merge_states(pair)


def asking(plan: Plan, question: Any) -> Plan:
    """Return a later plan that asks one question about rows of three classes."""
    ask = {**plan.ask, "width": 3, "questions": [as_plain(Asked(question))]}
    return msgspec.structs.replace(plan, ask=ask)


def test_moments_are_exact_far_from_zero() -> None:
    frame = FRAME.drop_nulls().with_columns(pl.col("^x_.*$") + 2.0**30)
    plan = asking(first_plan(first(frame, "features")), MomentsAsked())
    (found,) = answer(plan, Source.from_frame(frame), TINY).header.payload["sums"]
    moments = taken(Asked(MomentsAsked()), from_text(found))
    voters = frame.filter(pl.sum_horizontal("^count_.*$") > 0).select("^x_.*$") - 2.0**30
    assert 1.0 / moments.factor == pytest.approx(voters.to_numpy().std(axis=0), rel=1e-9)


@pytest.mark.parametrize(
    "question", [MapAt([1e308], THREE), StrengthAt([1e300] * 3, [0.0] * 2, [1e300] * 2)]
)
def test_costs_that_are_no_numbers_are_infinite(question: Any) -> None:
    frame = FRAME.drop_nulls()
    plan = asking(first_plan(first(frame, "features")), question)
    (found,) = answer(plan, Source.from_frame(frame), TINY).header.payload["sums"]
    assert found["infinite"] == ["1"]


def test_samples_of_parts_make_that_of_all_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = parts_of(FRAME, [250, 300])
    plan = asking(
        first_plan(merge_states([first(one, "constant") for one in parts])), SampleSlopes([0.0])
    )
    everyone = answer(plan, Source.from_frame(FRAME), TINY)
    for module in ("asking", "rounds", "summing"):
        monkeypatch.setattr(f"calibkit.raters.{module}.SAMPLE", 100)
    made = [answer_shard(plan, Source.from_frame(one), TINY) for one in parts]
    assert [one.table.height for one in made] == [100, 39, 100]  # 39 of 50 have a vote
    table = merge_states(made).table
    assert table.equals(everyone.table[:100])
    assert table["hash"].to_list() == sorted(everyone.table["hash"])[:100]
    with pytest.raises(ModelError, match="a sample of too many rows"):
        state_of(everyone.to_bytes(), "one.state")


def test_a_model_says_where_its_rows_came_from() -> None:
    def fitted(name: str, **changed: Any) -> Any:
        state = first(problem_and_rows(name)[2], name)
        problem = {**state.header.options["problem"], **changed}
        (shard,) = state.header.shards
        header = msgspec.structs.replace(
            state.header,
            options={**state.header.options, "problem": problem},
            shards=(Shard(shard.hash, shard.rows, ("b.csv", "a.csv")),),
        )
        source = Source.from_frame(problem_and_rows(name)[2])
        return fit_in_rounds(
            State(header, state.table), lambda plan: answer(plan, source, TINY)
        ).model

    for name in ("constant", "temperature"):
        model = fitted(name, provenance="names", makers={"probs": "a model"})
        assert model.provenance.files == ["b.csv", "a.csv"]
        assert model.columns["probs"].made_by == "a model"
        model = fitted(name, provenance="hash")
        assert not model.provenance.files and not model.columns["probs"].made_by
        assert fitted(name, provenance="none").provenance is None


def test_rows_of_one_vote_have_no_map_of_disagreements() -> None:
    columns = RaterOptions(probs=("prob_*",), label="label")
    frame = FRAME.drop_nulls()
    spec = AlphaSpec(disagreement_map="isotonic")
    source = Source.from_frame(frame)
    state = alpha_state(
        source, AlphaProblem(columns=columns, spec=spec), ("prob_0", "x_a"), TINY, hold=False
    )
    found = fit_in_rounds(state, lambda plan: answer(plan, source, TINY))
    rows = read_rater_rows(source, replace(columns, others=("prob_0", "x_a")))
    wanted = fit_alpha(rows, replace(spec, features=["prob_0", "x_a"]))
    check_near(found.model.as_dict(), wanted.model.as_dict())
    assert found.warnings == wanted.warnings and "no row has two votes" in found.warnings[0]


def test_lists_of_another_length_are_counted_over_all_windows() -> None:
    odd = pl.DataFrame({"probs": [[0.4, 0.6]], "counts": [[1, 1]]})
    usual = pl.DataFrame({"probs": [[0.2, 0.3, 0.5]], "counts": [[1, 0, 1]]})
    frame = pl.concat([*[usual] * 2100, *[odd] * 4000])  # of which 2,048 are read at a time
    problem = AlphaProblem(columns=LISTS, spec=AlphaSpec())
    with pytest.raises(DataError, match=r"'probs': a list that is not of length 3.* in 4000 rows"):
        alpha_state(Source.from_frame(frame), problem, (), TINY)
    parts = [frame[:2048], frame[-2048:]]
    with pytest.raises(DataError, match="rows of 2 and of 3 classes; give every row"):
        fit_parts(parts, problem)


def fit_parts(parts: list[pl.DataFrame], problem: AlphaProblem) -> Fitted[Any]:
    sources = [Source.from_frame(part) for part in parts]
    states = [alpha_state(source, problem, (), TINY, hold=False) for source in sources]

    def answered(plan: Plan) -> State:
        return merge_states([answer_shard(plan, source, TINY) for source in sources])

    return fit_in_rounds(merge_states(states), answered)


def test_what_a_label_means_does_not_depend_on_the_rows_beside_it() -> None:
    frame = FRAME.drop_nulls().rename({"prob_0": "prob_1", "prob_1": "prob_2", "prob_2": "prob_3"})
    columns = RaterOptions(probs=("prob_*",), label="label")  # 0 to 2, but classes 1 to 3
    parts = [frame.filter(pl.col("label") == 0), frame.filter(pl.col("label") > 0)]
    with pytest.raises(
        DataError, match=r"a label that is no class in .*the classes are '1', '2', '3'"
    ):
        fit_parts(parts, AlphaProblem(columns=columns, spec=AlphaSpec()))


def test_a_search_asks_a_question_once() -> None:
    def search() -> Any:
        found = yield ["a", "b", "a"]
        return found

    def take(question: str, answer: int) -> str:
        return question * answer

    assert replayed(search(), {"b": 2}, take) == Open(["a"])
    assert replayed(search(), {"a": 3, "b": 2}, take) == ["aaa", "bb", "aaa"]


def test_rows_of_which_none_is_left() -> None:
    none = FRAME.with_columns(pl.col("^count_.*$") * 0)
    with pytest.raises(CalibkitError, match=r"no row is left to fit on: .*without a vote"):
        loop("constant", [none], 0)
    some = [FRAME[:300], none[300:400], FRAME[300:]]  # one shard may have none
    assert (
        loop("constant", some, 0)[0].model.fit.votes
        == loop("constant", [FRAME], 0)[0].model.fit.votes
    )
    with pytest.raises(UsageError, match="too many weights to try penalties on"):
        answered(too_wide(), lambda _: None)


def too_wide() -> Any:
    from calibkit.raters.map_search import map_search

    search = map_search(101, "matrix", None)
    next(search)
    yield from ()
    return search.send(None)


@given(st.integers(-(2**2000), 2**2000), st.integers(0, 2200))
def test_whole_numbers_as_text(number: int, shift: int) -> None:
    assert whole_of(whole_text(number << shift)) == number << shift


@given(st.data())
def test_isotonic_maps_of_cells_are_those_of_rows(data: st.DataObject) -> None:
    random = np.random.default_rng(data.draw(st.integers(0, 2**32)))
    rows, grid = data.draw(st.integers(1, 300)), data.draw(st.sampled_from([7, 500, 10**6, 2**40]))
    phi = random.integers(0, grid, rows) / grid * data.draw(st.sampled_from([1.0, 1e-3]))
    counts = random.integers(0, 4, (rows, 2))
    counts[0] = 2
    several = counts.sum(axis=1) >= 2
    wanted = isotonic_steps(phi[several], share_units(counts[several]))
    half = rows // 2
    cells = open_cells(
        cut_cells(pl.concat([cells_of(phi, counts, []).clear(), cells_of(phi, counts, [])]))
    )
    tables = [cells_of(phi[own], counts[own], cells) for own in (slice(half), slice(half, None))]
    assert steps_from(cut_cells(pl.concat(tables))) == wanted


@given(st.integers(0, 60), st.integers(0, 2**32))
def test_hashes_of_rows_add_up(cut: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    frame = pl.DataFrame(
        {
            "number": random.integers(0, 5, 60),
            "text": random.choice(["a", "b", ""], 60),
            "list": [random.random(size).tolist() for size in random.integers(0, 4, 60)],
            "flag": random.random(60) < 0.5,
        }
    ).with_columns(text=pl.when(pl.col("number") > 0).then("text"))
    whole = hash_rows(frame)
    assert (hash_rows(frame[:cut]) + hash_rows(frame[cut:])) % 2**64 == whole
    other = frame.sample(fraction=1.0, shuffle=True, seed=1).select(reversed(frame.columns))
    assert hash_rows(other.cast({"text": pl.Categorical, "number": pl.Float32})) == whole
    grouped = frame.group_by(pl.all()).len()
    assert hash_rows(grouped.drop("len"), grouped["len"].to_numpy()) == whole
    assert hash_rows(frame.with_columns(number=pl.lit(None))) != whole


def test_searches_may_go_on_together() -> None:
    def one(steps: int) -> Any:
        total = 0
        for step in range(steps):
            total += yield step
        return total

    def both() -> Any:
        found = yield Together([one(3), one(0), one(1)])
        last = yield 10
        return [*found, last]

    def double(question: int) -> int:
        return 2 * question

    assert answered(both(), double) == [6, 0, 0, 20]
    asked = []
    search = in_step(both())
    questions = next(search)
    with pytest.raises(StopIteration) as end:
        while True:
            asked.append(questions)
            questions = search.send([double(question) for question in questions])
    assert end.value.value == [6, 0, 0, 20]
    assert asked == [[0, 0], [1], [2], [10]]
