"""States of rows: the model of all rows, whatever the shards; damage is found."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import cache
from io import BytesIO
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import ipc

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.files.streams import scratched
from calibkit.methods.hetcal import run
from calibkit.models.model import canonical_text
from calibkit.options.hetcal import HetcalOptions
from calibkit.registry.states import state_of
from calibkit.summaries.row_states import sources_of
from calibkit.summaries.states import KEY, State, join_states, merge_states
from tests.conftest import Invoke

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


def state(frame: pl.DataFrame, train: pl.DataFrame | None = None, **more: Any) -> State:
    options = HetcalOptions(features=("x", "kind"), train=train, **more)
    made = run.state(options, Source.from_frame(frame))
    return state_of(scratched([made.to_bytes()]), "part.state")


def rows_of(state: State) -> pl.DataFrame:
    """Return the rows, sorted."""
    source, train = sources_of(state)
    frame = source.read()
    assert train is None or (train.rows, train.read().height) == (40, 40)
    return frame.sort(frame.columns)


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let states have batches of few rows, which are read some at a time."""
    monkeypatch.setattr("calibkit.summaries.row_states._BATCH", 16)
    monkeypatch.setattr("calibkit.runtime.memory._MOST_BATCH", 23)


@pytest.mark.more
@pytest.mark.usefixtures("small_batches")
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 299), max_size=5), st.randoms(use_true_random=False))
def test_any_split_order_and_grouping(cuts: list[int], random: Any) -> None:
    train = FRAME[:40]
    edges = sorted({0, *cuts, 300})
    parts = [state(FRAME[start:end], train) for start, end in pairwise(edges)]
    random.shuffle(parts)
    merged, whole = merge_states(parts), state(FRAME, train)
    assert rows_of(merged).equals(rows_of(whole))
    assert rows_of(join_states(parts)).equals(rows_of(whole))
    assert join_states(parts).header.shards == whole.header.shards
    again = state_of(scratched([merged.to_bytes()]), "merged.state")
    assert rows_of(again).equals(rows_of(whole)) and again.to_bytes() == merged.to_bytes()
    assert merge_states(parts[::-1]).to_bytes() == merged.to_bytes()
    half = len(parts) // 2
    if half:
        grouped = merge_states([merge_states(parts[half:]), merge_states(parts[:half])])
        assert grouped.to_bytes() == merged.to_bytes()


def test_equal_rows_are_equal_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calibkit.summaries.row_states._BATCH", 16)
    rows, train = FRAME[:60], FRAME[:20]
    whole = state(rows, train).to_bytes()
    assert state(rows.cast({"kind": pl.Categorical}), train).to_bytes() == whole
    pieces = pl.concat([rows[:1], rows[1:40], rows[40:]], rechunk=False)
    assert state(pieces, train).to_bytes() == whole
    for most in (1, 16, 50):
        monkeypatch.setattr("calibkit.runtime.memory._MOST_BATCH", most)
        assert state(rows, train).to_bytes() == whole


def test_a_shard_may_lack_all_values_of_a_feature() -> None:
    empty = FRAME[:100].with_columns(x=pl.lit(None))
    rest = FRAME[100:]
    whole = pl.concat([empty.cast({"x": pl.Float64}), rest])
    for pair in ([state(empty), state(rest)], [state(rest), state(empty)]):
        assert rows_of(merge_states(pair)).equals(rows_of(state(whole)))


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


def crafted(header: Any, *blocks: pl.DataFrame) -> bytes:
    """Return a state file with a batch of each frame."""
    sink = BytesIO()
    schema = blocks[0].to_arrow().schema.with_metadata({KEY: canonical_text(header)})
    with ipc.new_file(sink, schema) as file:
        for block in blocks:
            for batch in block.rechunk().to_arrow().to_batches():
                file.write_batch(batch)
    return sink.getvalue()


def blocks_of(state: State) -> list[pl.DataFrame]:
    """Return the rows of each batch as they are in the file."""
    found = ipc.open_file(pa.BufferReader(state.to_bytes()))
    return [pl.DataFrame(found.get_batch(place)) for place in range(found.num_record_batches)]


def test_damaged_states_are_refused() -> None:
    made = state(FRAME, FRAME[:40])
    header, options = made.header, made.header.options
    train, rows = blocks_of(made)

    def refused(changed: dict[str, Any], said: str, *blocks: pl.DataFrame) -> None:
        data = crafted(msgspec.structs.replace(header, **changed), *(blocks or (train, rows)))
        with pytest.raises(ModelError, match=said):
            state_of(scratched([data]), "odd.state")

    state_of(scratched([crafted(header, train, rows)]), "good.state")
    refused({}, "not as many rows as it says", train, rows[1:])
    refused({}, "not as many rows as it says", train[1:], rows)
    refused({}, "not as many rows as it says", rows)
    refused({}, "not as many rows as it says", train, rows[:100], rows[100:])
    refused({}, "its columns are", *(one.drop("column x") for one in (train, rows)))
    refused({}, "its columns are", *(one.with_columns(odd=1) for one in (train, rows)))
    turned = rows.select(pl.all().reverse())
    # The order of rows says nothing.
    state_of(scratched([crafted(header, train, turned)]), "turned.state")
    moved = rows.with_columns(pl.col("column x").reverse())
    refused({}, "its rows are not those that were written", train, moved)
    refused({}, "its rows are not those that were written", train.select(pl.all().shift(1)), rows)
    none = ({"hash": "0" * 16, "rows": 0, "files": []},)
    refused({"shards": none}, "not as many rows as it says")
    refused({"payload": {"text": 3}}, "text")
    problem = {**options["problem"], "features": ["x", "z"]}
    refused({"options": {**options, "problem": problem}}, "no column 'z'")
    problem = {**options["problem"], "partition": "bush"}
    refused({"options": {**options, "problem": problem}}, "bush")
    shards = ({"hash": "0" * 16, "rows": 5, "files": []},)
    refused({"shards": shards}, "not as many rows as it says|batches")
    refused({"shards": shards * 2}, "its shards are not in order")
    refused({"shards": (*header.shards, *shards)}, "its shards are not in order")
    for cut in (10, 1000, len(made.to_bytes()) - 9):
        with pytest.raises(ModelError, match="truncated"):
            state_of(scratched([made.to_bytes()[:cut]]), "torn.state")


@cache
def stored() -> State:
    """Return the state that every example of the next test damages."""
    return state(FRAME, FRAME[:40])


@given(st.integers(0, 299), st.sampled_from(["score", "label", "x", "kind"]), st.booleans())
def test_a_value_that_changed_is_found(row: int, column: str, on_train: bool) -> None:
    made = stored()
    train, rows = blocks_of(made)
    block, name = (train, f"train {column}") if on_train else (rows, f"column {column}")
    row %= block.height
    values = block[name].to_list()
    value = values[row]
    if value is None:
        values[row] = "a" if column == "kind" else 0.0
    elif isinstance(value, float):
        values[row] = np.nextafter(value, np.inf)
    else:
        values[row] = value + ("b" if column == "kind" else 2)
    changed = block.with_columns(pl.Series(name, values, block.schema[name]))
    pair = (changed, rows) if on_train else (train, changed)
    with pytest.raises(ModelError, match="not those that were written"):
        state_of(scratched([crafted(made.header, *pair)]), "flipped.state")


def test_rows_that_cannot_be_used_are_refused_where_they_are(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    bad = FRAME.with_columns(score=pl.when(pl.int_range(300) == 250).then(2.0).otherwise("score"))
    bad.write_parquet(tmp_path / "bad.parquet")
    made = tmp_path / "bad.state"
    done = invoke("hetcal", tmp_path / "bad.parquet", *TREE, "--partial", "-o", made)
    assert done.code == 3 and "bad.parquet" in done.stderr and "row 251" in done.stderr
    assert not made.exists()
    done = invoke("hetcal", folder / "rows_a.parquet", *TREE, "--train - --partial -o", made)
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


@pytest.mark.few(1)
@pytest.mark.parametrize("name", ["hetcal", "alpha-cal, lists"])
def test_a_state_from_standard_input(
    name: str, folder: Path, tmp_path: Path, command: Callable[..., Any]
) -> None:
    first, rows, options = line(name, folder)
    made = command(first, rows, *options, "--partial", "-q", "-o", "-")
    assert (made.returncode, made.stderr) == (0, b"")
    (tmp_path / "rows.state").write_bytes(made.stdout)
    there = command("merge", "-", "-q", "-o", tmp_path / "there.json", input=made.stdout)
    assert there.returncode == 0, there.stderr
    again = command("merge", tmp_path / "rows.state", "-q", "-o", tmp_path / "here.json")
    assert again.returncode == 0, again.stderr
    assert (tmp_path / "here.json").read_bytes() == (tmp_path / "there.json").read_bytes()


def test_a_plan_is_not_needed(folder: Path, tmp_path: Path, invoke: Invoke) -> None:
    rows, votes = folder / "rows.parquet", folder / "votes.parquet"
    for words in (
        ["hetcal", rows, *TREE],
        ["alpha-cal", votes],
        ["calibrate", votes, "--probs", "prob_*"],
        ["merge", tmp_path / "x.state"],
    ):
        done = invoke(*words, "--plan", "plan.json", "-o", tmp_path / "m.json")
        assert done.code == 2 and "merge finishes in one step" in done.stderr
        assert "--plan" not in invoke(words[0], "--help").stdout.decode()
