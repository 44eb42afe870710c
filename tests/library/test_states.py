"""States of scores, of rows and of sums: any split is the whole, and damage is found."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache, partial
from itertools import pairwise
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
from calibkit.files.sinks import arrow_file
from calibkit.files.sources import Source
from calibkit.files.streams import scratched
from calibkit.methods.calibrators.run import state as score_state
from calibkit.methods.hetcal.run import state as row_state
from calibkit.methods.vad import moments as vad_rows
from calibkit.methods.vad.moments import read_vad_rows
from calibkit.methods.vad.run import finish, fit_vad
from calibkit.methods.vad.run import state as vad_state
from calibkit.models.model import canonical_text
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.hetcal import HetcalOptions
from calibkit.options.vad import VadOptions
from calibkit.registry.states import state_of
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import sources_of
from calibkit.summaries.states import KEY, State, join_states, merge_states


def labelled(rows: int = 300) -> pl.DataFrame:
    """Return rows with zeros of both signs and with features that have no value."""
    random = np.random.default_rng(1)
    score, kind = random.random(rows).round(2), random.choice(list("abc"), rows)
    x = random.normal(size=rows).round(1)
    x[x == 0.0] *= random.choice([-1.0, 1.0], (x == 0.0).sum())
    label = (random.random(rows) < score).astype(int)
    frame = pl.DataFrame({"score": score, "label": label, "x": x, "kind": kind})
    return frame.with_columns(
        x=pl.when(pl.col("x") == 0.5).then(None).otherwise(pl.col("x")),
        kind=pl.when(pl.col("x") == -0.5).then(None).otherwise(pl.col("kind")),
    )


def members(rows: int = 600) -> pl.DataFrame:
    random = np.random.default_rng(1)
    truth = random.normal(0.0, 1.5, rows)
    noisy = (truth + random.normal(0.0, 0.4, (3, rows))).clip(-20, 14)
    return pl.DataFrame(
        {
            **{f"score_{k}": 1.0 / (1.0 + np.exp(-one)) for k, one in enumerate(noisy, start=1)},
            "country": random.choice(list("abc"), rows),
            "weight": random.random(rows),
            "twice": random.integers(0, 3, rows).astype(float),
        }
    )


FRAME, MEMBERS = labelled(), members()


def parts_of(frame: pl.DataFrame, cuts: list[int], random: Any) -> list[pl.DataFrame]:
    """Return the rows cut at some places, the parts in any order."""
    parts = [frame[start:end] for start, end in pairwise(sorted({0, *cuts, frame.height}))]
    random.shuffle(parts)
    return parts


def read_back(state: State) -> State:
    return state_of(scratched([state.to_bytes()]), "part.state")


def state(frame: pl.DataFrame, train: pl.DataFrame | None = None, **more: Any) -> State:
    options = HetcalOptions(features=("x", "kind"), train=train, **more)
    return read_back(row_state(options, Source.from_frame(frame)))


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


def merged_of(parts: list[State]) -> State:
    """Return what parts make together, which is the same bytes in another order and in groups."""
    merged, half = merge_states(parts, expect=len(parts)), len(parts) // 2
    again = [read_back(merged), merge_states(parts[::-1])]
    if half:
        again.append(merge_states([merge_states(parts[half:]), merge_states(parts[:half])]))
    assert {one.to_bytes() for one in again} == {merged.to_bytes()}
    return merged


@pytest.mark.more
@pytest.mark.usefixtures("small_batches")
@settings(max_examples=12, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.integers(1, 299), max_size=5), st.randoms(use_true_random=False))
def test_any_split_order_and_grouping(cuts: list[int], random: Any) -> None:
    train = FRAME[:40]
    parts = [state(part, train) for part in parts_of(FRAME, cuts, random)]
    merged, joined, whole = merged_of(parts), join_states(parts), state(FRAME, train)
    for one in (merged, joined, read_back(merged)):
        assert rows_of(one).equals(rows_of(whole))
    assert joined.header.shards == whole.header.shards


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=15)
@given(
    st.lists(st.integers(1, 599), max_size=5),
    st.sampled_from(
        [{}, {"by": "country"}, {"weight": "weight"}, {"by": "country", "weight": "twice"}]
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_sums_of_any_split_give_the_bytes_of_the_whole(
    cuts: list[int], columns: dict[str, Any], random: Any
) -> None:
    options = VadOptions(**columns, min_rows=150)
    whole = fit_vad(*read_vad_rows(Source.from_frame(MEMBERS), options), options)
    parts = [
        read_back(vad_state(options, Source.from_frame(part)))
        for part in parts_of(MEMBERS, cuts, random)
    ]
    fitted = finish(merged_of(parts), Memory(1), 1)
    assert fitted.model.to_json() == whole.model.to_json()
    assert set(fitted.warnings) >= set(whole.warnings)
    assert finish(join_states(parts), Memory(1), 1).model.to_json() == whole.model.to_json()


def test_windows_of_sums_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    options = VadOptions(by="country", threads=3)
    whole = fit_vad(*read_vad_rows(Source.from_frame(MEMBERS), options), options)
    monkeypatch.setattr(vad_rows, "_SEGMENT_ROWS", 37)
    assert fit_vad(*read_vad_rows(Source.from_frame(MEMBERS), options), options) == whole


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
    empty, rest = FRAME[:100].with_columns(x=pl.lit(None)), FRAME[100:]
    whole = rows_of(state(pl.concat([empty.cast({"x": pl.Float64}), rest])))
    for pair in ([state(empty), state(rest)], [state(rest), state(empty)]):
        assert rows_of(merge_states(pair)).equals(whole)


def test_states_of_rows_that_do_not_go_together() -> None:
    a, b = FRAME[:100], FRAME[100:]
    for pair, said in (
        ([state(a), state(b), state(a[::-1])], "the same shard of 100 rows"),
        ([state(a), state(b, max_depth=3)], "max_depth is 3 here"),
        ([state(a), state(b, min_leaf=9)], "min_leaf is 9 here, but not given in"),
        ([state(a, min_leaf=9), state(b)], "min_leaf is not given here, but 9 in"),
        ([state(a, FRAME[:40]), state(b, FRAME[:41])], "another problem: train"),
        ([state(a), state(b.cast({"x": pl.String}))], "column 'x' is String, but Float64"),
    ):
        with pytest.raises(Exception, match=said):
            merge_states(pair)


# ---------------------------------------------------------------- damage


def read_damaged(header: Any, *blocks: pl.DataFrame) -> State:
    """Return what is read of a state file with a batch of each frame."""
    sink = pa.BufferOutputStream()
    schema = blocks[0].to_arrow().schema.with_metadata({KEY: canonical_text(header)})
    with ipc.new_file(sink, schema) as file:
        for block in blocks:
            for batch in block.rechunk().to_arrow().to_batches():
                file.write_batch(batch)
    return state_of(scratched([sink.getvalue().to_pybytes()]), "odd.state")


@cache
def stored() -> tuple[State, pl.DataFrame, pl.DataFrame]:
    """Return a state of rows, and its training rows and rows as they are in the file."""
    made = state(FRAME, FRAME[:40])
    found = ipc.open_file(pa.BufferReader(made.to_bytes()))
    train, rows = (pl.DataFrame(found.get_batch(k)) for k in range(found.num_record_batches))
    return made, train, rows


def test_damaged_states_of_rows_are_refused() -> None:
    made, train, rows = stored()
    header, options = made.header, made.header.options
    read_damaged(header, train, rows)
    read_damaged(header, train, rows.reverse())  # the order of rows says nothing
    fewer, columns, moved = "not as many rows as it says", "its columns are", "that were written"
    damages = [
        (fewer, [train, rows[1:]]),
        (fewer, [train[1:], rows]),
        (fewer, [rows]),
        (fewer, [train, rows[:100], rows[100:]]),
        (columns, [one.drop("column x") for one in (train, rows)]),
        (columns, [one.with_columns(odd=1) for one in (train, rows)]),
        (moved, [train, rows.with_columns(pl.col("column x").reverse())]),
        (moved, [train.select(pl.all().shift(1)), rows]),
    ]
    for said, blocks in damages:
        with pytest.raises(ModelError, match=said):
            read_damaged(header, *blocks)
    none: dict[str, Any] = {"hash": "0" * 16, "rows": 0, "files": []}
    some = {**none, "rows": 5}
    problem = options["problem"]
    changes: list[tuple[str, dict[str, Any]]] = [
        (fewer, {"shards": (none,)}),
        ("text", {"payload": {"text": 3}}),
        ("no column 'z'", {"options": {**options, "problem": {**problem, "features": ["x", "z"]}}}),
        ("bush", {"options": {**options, "problem": {**problem, "partition": "bush"}}}),
        (f"{fewer}|batches", {"shards": (some,)}),
        ("its shards are not in order", {"shards": (some, some)}),
        ("its shards are not in order", {"shards": (*header.shards, some)}),
    ]
    for said, change in changes:
        with pytest.raises(ModelError, match=said):
            read_damaged(msgspec.structs.replace(header, **change), train, rows)
    for cut in (10, 1000, len(made.to_bytes()) - 9):
        with pytest.raises(ModelError, match="truncated"):
            state_of(scratched([made.to_bytes()[:cut]]), "torn.state")


@given(st.integers(0, 299), st.sampled_from(["score", "label", "x", "kind"]), st.booleans())
def test_a_value_that_changed_is_found(row: int, column: str, on_train: bool) -> None:
    made, train, rows = stored()
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
        read_damaged(made.header, *pair)


def test_damaged_states_of_scores_are_refused() -> None:
    draw = np.random.default_rng(1)
    frame = pl.DataFrame({"score": draw.random(50).round(1), "label": draw.integers(0, 2, 50)})
    made = score_state(CalibrateOptions(), Source.from_frame(frame)).to_bytes()
    header = json.loads(ipc.open_file(pa.BufferReader(made)).schema.metadata[KEY.encode()])
    rows = pl.read_ipc(made)

    def read(table: pl.DataFrame, **payload: Any) -> None:
        changed = {**header, "payload": {**header["payload"], **payload}}
        state_of(scratched([arrow_file(table, {KEY: canonical_text(changed)})]), "odd.state")

    read(rows)
    room = {**header["payload"]["room"], "most": 0}
    for said, bad in (
        ("its columns are", partial(read, rows.drop("count"))),
        ("its columns are", partial(read, rows.cast({"count": pl.Int32}))),
        ("its columns are", partial(read, rows[:0])),
        ("other types than it says", partial(read, rows.cast({"score": pl.Float32}))),
        ("impossible resolution", partial(read, rows, room=room)),
        ("occur less than once", partial(read, rows.with_columns(pl.col("count") - 1))),
        ("not as many rows as it says", partial(read, rows.with_columns(pl.col("count") + 1))),
        ("something else than numbers", partial(read, rows.with_columns(score=float("nan")))),
        ("labels other than 0 and 1",
         partial(read, rows.with_columns(label=pl.lit(2, rows["label"].dtype)))),
        ("its rows are not those that were written",
         partial(read, rows.with_columns(pl.col("score") / 2))),
        ("its hashes are not those", partial(read, rows, hashes={"score": "0" * 16})),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=said):
            bad()


@pytest.mark.parametrize(
    ("section", "change"),
    [
        ("payload", {"rows": 0}),
        ("payload", {"rows": 10**6}),
        ("payload", {"twins": [True]}),
        ("payload", {"hash": "xyz"}),
        ("payload", {"remarks": None}),
        ("asked", {"link": "probit"}),
        ("asked", {"by": None}),
        ("asked", {"calibrator": {"kind": "vad"}}),
        ("options", {"names": ["score_1"]}),
        ("header", {"shards": []}),
        ("sum_0", "zz"),
        ("sum_0", "-1"),
        ("sum_1", "f" * 900),
        ("sum_5", "-1"),
        ("sum_6", "f" * 3000),
        ("sum_6", "-1"),
        ("segment", None),
    ],
)
def test_damaged_states_of_sums_are_refused(section: str, change: Any) -> None:
    made = read_back(vad_state(VadOptions(by="country"), Source.from_frame(MEMBERS)))
    header = json.loads(msgspec.json.encode(made.header))
    parts = {name: header[name] for name in ("payload", "options")}
    parts |= {"header": header, "asked": header["options"]["asked"]}
    if section in parts:
        parts[section].update(change)
        damaged = replace(made, header=msgspec.convert(header, type(made.header)))
    else:
        values = pl.Series(section, [change, *made.table[section][1:]], pl.String)
        damaged = replace(made, table=made.table.with_columns(values))
    with pytest.raises(ModelError):
        read_back(damaged)
