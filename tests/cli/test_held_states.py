"""States of fits that go through their rows many times: the bytes of all rows, whatever the shards."""

from __future__ import annotations

import json
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem, hetcal_state
from calibkit.memory import memory_budget
from calibkit.rows.columns import ColumnOptions
from calibkit.summaries.states import State, join_states, merge_states, read_state, state_of
from tests.conftest import Outcome

Invoke = Callable[..., Outcome]

TREE = ["--features", "x,kind", "--max-depth", "2", "--min-leaf", "30", "--shrinkage", "10"]
COMMANDS: dict[str, list[str]] = {
    "hetcal": ["rows", *TREE, "--weight", "twice", "--groups", "user", "--on-missing", "drop"],
    "hetcal, train": ["rows", *TREE, "--train", "TRAIN", "--provenance", "names"],
    "hetcal, boosted": ["rows", "--features", "x,kind", "--partition", "boosted", "--trees", "5"],
    "alpha-cal": ["votes", "--features", "f", "--map", "temperature", "--tag", "team=eyes"],
    "alpha-cal, lists": ["lists", "--probs", "probs", "--counts", "counts"],
    "calibrate": ["votes", "--probs", "prob_*", "--counts", "count_*", "--method", "vector"],
    "calibrate, label": ["votes", "--probs", "prob_*", "--label", "f", "--on-missing", "drop"],
}  # fmt: skip


def labelled(rows: int = 900, seed: int = 1) -> pl.DataFrame:
    random = np.random.default_rng(seed)
    score, kind = random.random(rows).round(2), random.choice(list("abc"), rows)
    x = random.normal(size=rows).round(1)
    x[x == 0.0] *= random.choice([-1.0, 1.0], (x == 0.0).sum())
    true = np.clip(score + 0.2 * (kind == "a") * (x > 0), 0, 1)
    frame = pl.DataFrame(
        {
            "score": score,
            "label": (random.random(rows) < true).astype(int),
            "x": x,
            "kind": kind,
            "user": random.integers(0, 90, rows),
            "twice": random.integers(1, 3, rows).astype(float),
        }
    )
    return frame.with_columns(
        x=pl.when(pl.col("x") == 0.5).then(None).otherwise(pl.col("x")),
        kind=pl.when(pl.col("x") == -0.5).then(None).otherwise(pl.col("kind")),
    )


def voted(rows: int = 600) -> pl.DataFrame:
    random = np.random.default_rng(2)
    probs = random.dirichlet(np.ones(3), rows)
    votes = [
        random.multinomial(k, p) for p, k in zip(probs, random.integers(0, 5, rows), strict=True)
    ]
    counts = np.array(votes)
    wide = {f"prob_{k}": probs[:, k] for k in range(3)} | {
        f"count_{k}": counts[:, k] for k in range(3)
    }
    return pl.DataFrame({**wide, "f": random.integers(0, 3, rows)})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with all rows of each kind, and with three shards of them."""
    found = tmp_path_factory.mktemp("held")
    labelled(500, seed=7).write_parquet(found / "train.parquet")
    votes = voted()
    lists = votes.select(
        probs=pl.concat_list("^prob_.*$"), counts=pl.concat_list("^count_.*$").list.to_array(3)
    )
    for name, rows in {"rows": labelled(), "votes": votes, "lists": lists}.items():
        frame = pl.concat([rows, rows[:150]])
        frame.write_parquet(found / f"{name}.parquet")
        mixed = frame.sample(fraction=1, shuffle=True, seed=1)
        first, second = mixed[:200], mixed[200:220]
        first.write_parquet(found / f"{name}_a.parquet")
        if name == "lists":
            second.write_parquet(found / f"{name}_b.parquet")
        else:
            second.write_csv(found / f"{name}_b.csv")
        mixed[220:].write_ipc(found / f"{name}_c.arrow")
    return found


def line(name: str, folder: Path) -> tuple[str, Path, list[Any]]:
    """Return a command, the file with all rows, and options."""
    rows, *options = COMMANDS[name]
    found = [folder / "train.parquet" if text == "TRAIN" else text for text in options]
    return name.partition(",")[0], folder / f"{rows}.parquet", found


@pytest.mark.parametrize("name", COMMANDS)
def test_shards_give_what_all_rows_give(
    name: str, folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    command, rows, options = line(name, folder)
    done = invoke(command, rows, *options, "-o", tmp_path / "whole.json")
    assert done.code == 0, done.stderr
    said = [text for text in done.stderr.splitlines() if "Warning" in text]
    states = []
    for shard in sorted(folder.glob(f"{rows.stem}_*")):
        states.append(tmp_path / f"{shard.stem}.state")
        made = invoke(command, shard, *options, "--partial", "-q", "-o", states[-1])
        assert made.code == 0, made.stderr
    half, merged = tmp_path / "half.state", tmp_path / "merged.json"
    assert invoke("merge", states[2], states[0], "-q", "-o", half).code == 0
    done = invoke("merge", half, states[1], "--expect", 3, "-o", merged)
    assert done.code == 0, done.stderr
    mine, yours = (
        json.loads((tmp_path / f"{one}.json").read_bytes()) for one in ("whole", "merged")
    )
    if "names" in options:
        mine["provenance"].pop("files")
        files = yours["provenance"].pop("files")
        assert [Path(file).name for file in files] == [
            "rows_a.parquet", "rows_b.csv", "rows_c.arrow", "train.parquet",
        ]  # fmt: skip
        assert mine == yours
    else:
        assert merged.read_bytes() == (tmp_path / "whole.json").read_bytes()
    assert [text for text in done.stderr.splitlines() if "Warning" in text] == said


FRAME = labelled(300)


def state(frame: pl.DataFrame, train: pl.DataFrame | None = None, **spec: Any) -> State:
    problem = HetcalProblem(
        columns=ColumnOptions(), features=("x", "kind"), spec=HetcalSpec(**spec)
    )
    opened = None if train is None else (lambda: Source.from_frame(train))
    made = hetcal_state(Source.from_frame(frame), problem, memory_budget("1GB"), opened)
    return state_of(made.to_bytes(), "part.state")


@settings(max_examples=12)
@given(st.lists(st.integers(1, 299), max_size=5), st.randoms(use_true_random=False))
def test_any_split_order_and_grouping(cuts: list[int], random: Any) -> None:
    train = FRAME[:40]
    edges = sorted({0, *cuts, 300})
    parts = [state(FRAME[start:end], train) for start, end in pairwise(edges)]
    random.shuffle(parts)
    merged, whole = merge_states(parts), state(FRAME, train)
    assert merged.table.equals(whole.table)
    assert join_states(parts).table.equals(whole.table)
    assert state(FRAME.cast({"kind": pl.Categorical}), train).to_bytes() == whole.to_bytes()
    half = len(parts) // 2
    if half:
        grouped = merge_states([merge_states(parts[half:]), merge_states(parts[:half])])
        assert grouped.to_bytes() == merged.to_bytes()


def test_a_shard_may_lack_all_values_of_a_feature() -> None:
    empty = FRAME[:100].with_columns(x=pl.lit(None))
    rest = FRAME[100:]
    whole = pl.concat([empty.cast({"x": pl.Float64}), rest])
    for pair in ([state(empty), state(rest)], [state(rest), state(empty)]):
        assert merge_states(pair).table.equals(state(whole).table)


def test_states_that_do_not_go_together() -> None:
    a, b = FRAME[:100], FRAME[100:]
    with pytest.raises(ModelError, match="the same shard of 100 rows"):
        merge_states([state(a), state(b), state(a[::-1])])
    with pytest.raises(ModelError, match="max_depth is 3 here"):
        merge_states([state(a), state(b, max_depth=3)])
    with pytest.raises(ModelError, match="another problem: train"):
        merge_states([state(a, FRAME[:40]), state(b, FRAME[:41])])
    with pytest.raises(Exception, match="column 'x' is String, but Float64"):
        merge_states([state(a), state(b.cast({"x": pl.String}))])


def test_damaged_states_are_refused() -> None:
    made = state(FRAME, FRAME[:40])
    header = made.header

    def refused(changed: dict[str, Any], table: pl.DataFrame, said: str) -> None:
        data = State(msgspec.structs.replace(header, **changed), table).to_bytes()
        with pytest.raises(ModelError, match=said):
            state_of(data, "odd.state")

    table, options = made.table, header.options
    refused({}, table[1:], "not as many rows as it says")
    refused({}, table[:-1], "not as many training rows")
    refused({}, table.drop("column x"), "its columns are")
    refused({}, table.with_columns(count=-pl.col("count")), "less than once")
    refused({}, table.with_columns(train=None), "which are training rows|training rows")
    first = pl.int_range(table.height) == 0
    unsure = table.with_columns(train=pl.when(~first).then("train"))
    refused({}, unsure, "which rows are training rows")
    refused({}, table.with_columns(count=pl.when(~first).then("count")), "less than once")
    refused({}, table.cast({"count": pl.Int32}), "its columns are")
    none = ({"hash": "0" * 16, "rows": 0, "files": []},)
    empty = {"payload": {"rows": 0, "text": False}, "shards": none}
    refused(empty, table.filter("train"), "not as many rows as it says")
    let_go = {"payload": {**header.payload, "held": False}}
    refused(let_go, table, "it has rows, though it says that it has none")
    refused({"payload": {"rows": 3, "text": False}}, table, "not as many rows")
    problem = {**options["problem"], "features": ["x", "z"]}
    refused({"options": {**options, "problem": problem}}, table, "no column 'z'")
    odd = {**options["problem"]["spec"], "partition": "bush"}
    problem = {**options["problem"], "spec": odd}
    refused({"options": {**options, "problem": problem}}, table, "bush")
    shards = ({"hash": "0" * 16, "rows": 5, "files": []},)
    refused({"shards": shards}, table, "its shards have not as many rows")
    refused({"shards": shards * 2}, table, "its shards are not in order")
    refused({"shards": (*header.shards, *shards)}, table, "its shards are not in order")


def test_rows_that_cannot_be_used_are_refused_where_they_are(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    bad = FRAME.with_columns(score=pl.when(pl.int_range(300) == 250).then(2.0).otherwise("score"))
    bad.write_parquet(tmp_path / "bad.parquet")
    made = tmp_path / "bad.state"
    done = invoke("hetcal", tmp_path / "bad.parquet", *TREE, "--partial", "-o", made)
    assert done.code == 3 and "bad.parquet" in done.stderr and "row 251" in done.stderr
    assert not made.exists()
    done = invoke(
        "hetcal", folder / "rows_a.parquet", *TREE, "--train", "-", "--partial", "-o", made
    )
    assert done.code == 2 and "--train" in done.stderr
    done = invoke("hetcal", folder / "rows.parquet", *TREE, "-o", made)
    assert done.code == 2 and "--partial" in done.stderr
    one = FRAME.filter(pl.col("label") == 0)  # a shard may be of one class, all of them may not
    one.write_parquet(tmp_path / "one.parquet")
    assert (
        invoke("hetcal", tmp_path / "one.parquet", *TREE, "--partial", "-q", "-o", made).code == 0
    )
    done = invoke("merge", made, "-o", tmp_path / "one.json")
    assert done.code == 3 and "no row is positive" in done.stderr


def test_rows_that_do_not_fit(folder: Path, tmp_path: Path, invoke: Invoke) -> None:
    votes = pl.concat([voted()] * 15)  # equal rows are held once, but fitted each
    votes.write_parquet(tmp_path / "votes.parquet")
    for command in (["alpha-cal"], ["calibrate", "--probs", "prob_*", "--counts", "count_*"]):
        line = [command[0], tmp_path / "votes.parquet", *command[1:], "--memory", "1MB"]
        assert invoke(*line, "--partial", "-q", "-o", tmp_path / "v.state").code == 0
        assert read_state(str(tmp_path / "v.state")).table.height <= 600
        done = invoke("merge", tmp_path / "v.state", "--memory", "1MB", "-o", tmp_path / "m.json")
        assert done.code == 0 and "Round 2 is needed" in done.stderr
        assert not (tmp_path / "m.json").exists() and (tmp_path / "plan.json").exists()


@pytest.mark.parametrize("name", ["hetcal, train", "alpha-cal", "calibrate"])
def test_on_a_cluster(
    name: str,
    folder: Path,
    tmp_path: Path,
    invoke: Invoke,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(folder)
    command, rows, options = line(name, Path())
    shards = sorted(Path().glob(f"{rows.stem}_*"))
    alone, there = tmp_path / "alone.json", tmp_path / "there.json"
    assert invoke(command, *shards, *options, "-q", "-o", alone).code == 0
    done = invoke(command, *shards, *options, "--dask", address, "-q", "-o", there)
    assert done.code == 0, done.stderr
    assert there.read_bytes() == alone.read_bytes()
