"""``vad`` on states and in windows: the bytes of the fit on all rows; damaged states are refused."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.files.streams import scratched
from calibkit.methods.vad import moments as vad_rows
from calibkit.methods.vad.moments import read_vad_rows
from calibkit.methods.vad.run import finish, fit_vad
from calibkit.methods.vad.run import state as vad_state
from calibkit.options.vad import VadOptions
from calibkit.registry.states import read_state, state_of
from calibkit.runtime.memory import Memory
from calibkit.summaries.states import State, join_states, merge_states
from tests.conftest import Invoke


def members(rows: int = 600, seed: int = 1) -> pl.DataFrame:
    random = np.random.default_rng(seed)
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


FRAME = members()


@settings(suppress_health_check=[HealthCheck.too_slow], max_examples=15)
@given(
    st.lists(st.integers(1, 599), max_size=5),
    st.sampled_from(
        [{}, {"by": "country"}, {"weight": "weight"}, {"by": "country", "weight": "twice"}]
    ),
    st.randoms(use_true_random=False),
)  # fmt: skip
def test_any_split_gives_the_bytes_of_the_whole(
    cuts: list[int], columns: dict[str, Any], random: Any
) -> None:
    options = VadOptions(**columns, min_rows=150)
    whole = fit_vad(*read_vad_rows(Source.from_frame(FRAME), options), options)
    edges = sorted({0, *cuts, FRAME.height})
    parts = [FRAME[start:end] for start, end in pairwise(edges)]
    random.shuffle(parts)
    states = [vad_state(options, Source.from_frame(part)) for part in parts]
    read = [state_of(scratched([state.to_bytes()]), "part.state") for state in states]
    merged = merge_states(read, expect=len(parts))
    fitted = finish(merged, Memory(1), 1)
    assert fitted.model.to_json() == whole.model.to_json()
    assert set(fitted.warnings) >= set(whole.warnings)
    assert finish(join_states(read), Memory(1), 1).model.to_json() == whole.model.to_json()
    half = len(read) // 2
    if half:
        grouped = merge_states([merge_states(read[half:]), merge_states(read[:half])])
        assert grouped.to_bytes() == merged.to_bytes()


def test_windows_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    options = VadOptions(by="country", threads=3)
    whole = fit_vad(*read_vad_rows(Source.from_frame(FRAME), options), options)
    monkeypatch.setattr(vad_rows, "_SEGMENT_ROWS", 37)
    again = fit_vad(*read_vad_rows(Source.from_frame(FRAME), options), options)
    assert again == whole


def test_rows_without_a_value_are_counted_over_all_windows(
    tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vad_rows, "_ROWS", 50)
    holes = FRAME.with_columns(
        score_2=pl.when(pl.int_range(pl.len()) % 9 == 0).then(None).otherwise(pl.col("score_2")),
        score_1=pl.when(pl.int_range(pl.len()).is_between(100, 199)).then(None)
        .otherwise(pl.col("score_1")),
    )  # fmt: skip
    path, output = tmp_path / "rows.parquet", tmp_path / "vad.json"
    holes.write_parquet(path)
    done = invoke("vad", path, "-o", output)
    done.refused(3, "column 'score_1': no value (null) in 100 rows (first: rows 101, 102")
    done = invoke("vad", path, "--on-missing", "drop", "-o", output)
    done.succeeded("column 'score_1': 100 rows without a value dropped")
    kept = holes.drop_nulls()
    assert json.loads(output.read_bytes())["fit"]["rows"] == kept.height
    kept.write_parquet(tmp_path / "kept.parquet")
    other = tmp_path / "other.json"
    assert invoke("vad", tmp_path / "kept.parquet", "-q", "-o", other).code == 0
    mine, yours = (json.loads(path.read_bytes()) for path in (output, other))
    assert mine["lambda"] == yours["lambda"]
    assert mine["provenance"]["data_hash"] == yours["provenance"]["data_hash"]


def test_a_shard_without_weight_is_refused_only_alone(tmp_path: Path, invoke: Invoke) -> None:
    shards = [FRAME[:300].with_columns(weight=pl.lit(0.0)), FRAME[300:]]
    for place, shard in enumerate(shards):
        shard.write_parquet(tmp_path / f"p{place}.parquet")
        state = tmp_path / f"p{place}.state"
        made = invoke("vad", tmp_path / f"p{place}.parquet", "--weight weight --partial -o", state)
        assert made.code == 0, made.stderr
    whole, merged = tmp_path / "whole.json", tmp_path / "merged.json"
    files = [tmp_path / "p0.parquet", tmp_path / "p1.parquet"]
    assert invoke("vad", *files, "--weight", "weight", "-q", "-o", whole).code == 0
    states = [tmp_path / "p0.state", tmp_path / "p1.state"]
    assert invoke("merge", *states, "-q", "-o", merged).code == 0
    assert merged.read_bytes() == whole.read_bytes()
    for refused in (invoke("vad", files[0], "--weight", "weight"), invoke("merge", states[0])):
        assert refused.code == 3
        assert "column 'weight': weight 0 in all 300 rows" in refused.stderr


def read_back(state: State) -> State:
    return state_of(scratched([state.to_bytes()]), "part.state")


def damaged(change: Callable[[dict[str, Any]], None]) -> bytes:
    state = read_back(vad_state(VadOptions(by="country"), Source.from_frame(FRAME)))
    header = msgspec.to_builtins(state.header)
    change(header)
    return replace(state, header=msgspec.convert(header, type(state.header))).to_bytes()


@pytest.mark.parametrize(
    "change",
    [
        lambda header: header["payload"].update(rows=0),
        lambda header: header["payload"].update(rows=10**6),
        lambda header: header["payload"].update(twins=[True]),
        lambda header: header["payload"].update(hash="xyz"),
        lambda header: header["payload"].pop("remarks"),
        lambda header: header["options"]["asked"].update(link="probit"),
        lambda header: header["options"].update(names=["score_1"]),
        lambda header: header["options"]["asked"].update(by=None),
        lambda header: header["options"]["asked"].update(calibrator={"kind": "vad"}),
        lambda header: header.update(shards=[]),
    ],
)
def test_damaged_headers_are_refused(change: Callable[[dict[str, Any]], None]) -> None:
    with pytest.raises(ModelError):
        state_of(scratched([damaged(change)]), "x.state")


@pytest.mark.parametrize(
    ("column", "text"),
    [("sum_0", "zz"), ("sum_0", "-1"), ("sum_1", "f" * 900), ("sum_5", "-1"),
     ("sum_6", "f" * 3000), ("sum_6", "-1"), ("segment", None)],
)  # fmt: skip
def test_damaged_sums_are_refused(tmp_path: Path, column: str, text: str | None) -> None:
    state = read_back(vad_state(VadOptions(by="country"), Source.from_frame(FRAME)))
    values = [text, *state.table[column][1:]]
    table = state.table.with_columns(pl.Series(column, values, pl.String))
    path = tmp_path / "x.state"
    path.write_bytes(replace(state, table=table).to_bytes())
    with pytest.raises(ModelError):
        read_state(str(path))
