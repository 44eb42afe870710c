"""``evaluate --threshold``: the decisions of a threshold, judged as a column of decisions is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from tests.budgets import little_memory
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke

NAMES = {"threshold:0.50": 0.5, "threshold:.25": 0.25}


def rows(size: int = 900) -> pl.DataFrame:
    """Return rows with a score of 32 bits, and with what each threshold decides."""
    frame = simulate(size).with_columns(
        pl.col("score").cast(pl.Float32), shop=pl.Series(["a", "b", "b"] * (size // 3))
    )
    flags = {name: (pl.col("score") >= value).cast(pl.Int8) for name, value in NAMES.items()}
    return frame.with_columns(**flags)


@pytest.mark.parametrize(
    "options",
    [[], ["--weight", "weight"], ["--by", "shop", "--top", "0.2"], ["--prevalence", "0.1"]],
    ids=["plain", "weighted", "slices", "prevalence"],
)
def test_a_threshold_is_a_column_of_decisions(options: list[str], invoke: Invoke) -> None:
    line = ["evaluate", write(rows(), "rows.parquet"), *options]
    line += ["-q -o", Path("m.json")]
    found = invoke(*line, "--threshold 0.50 --threshold .25").result()
    assert set(found["metrics"]) == {"score", *NAMES}
    for name in NAMES:
        column = invoke(*line, "--decision", name).result()
        for part in ("metrics", "intervals"):
            assert found[part][name] == column[part][name]


def test_counts_by_hand_gates_and_the_table(invoke: Invoke) -> None:
    frame, out, page = rows(), Path("m.json"), Path("r.html")
    path = write(frame, "rows.csv")
    line = ["evaluate", path, "--threshold", "0.50,.25", "-o", out]
    found = invoke(*line, "-q --report", page).result()["metrics"]
    label = frame["label"].to_numpy() == 1
    for name, value in NAMES.items():
        taken = frame["score"].to_numpy() >= np.float32(value)
        own = found[name]["all"]
        assert (own["tp"], own["fp"]) == ((taken & label).sum(), (taken & ~label).sum())
        assert own["precision"] == pytest.approx((taken & label).sum() / taken.sum())
    assert "threshold:0.50" in page.read_text()
    bound = found["threshold:0.50"]["all"]["precision"] + 1e-9
    assert invoke(*line, f"--fail-if threshold:0.50/precision<{bound}").code == 1
    assert invoke("gate", out, f"--fail-if threshold:0.50/all/precision<{bound}").code == 1
    assert invoke("gate", out, f"--fail-if threshold:0.50/precision>{bound}").code == 0


def test_the_same_from_states_little_memory_and_python(invoke: Invoke) -> None:
    frame, merged = rows(1200), Path("merged.json")
    line = ["evaluate", write(frame, "rows.parquet"), "--threshold 0.50,.25 -q"]
    whole = invoke(*line, "-o m.json").result()
    states = [Path(f"{number}.state") for number in range(3)]
    for state, part in zip(states, frame.iter_slices(500), strict=True):
        shard = write(part, "shard.parquet")
        assert invoke("evaluate", shard, line[2], "--partial -o", state).code == 0
    assert invoke("merge", *states, "-q -o", merged).result() == whole
    assert merged.read_bytes() == Path("m.json").read_bytes()
    metrics: Any = ck.evaluate(frame, threshold=["0.50", ".25"])
    assert metrics.as_dict() == whole
    assert "threshold:0.25" in ck.evaluate(frame, threshold=0.25).metrics
    with little_memory(300) as budget:
        small = invoke(*line, *budget, "-o", merged).result()
    assert small["metrics"]["threshold:0.50"] == whole["metrics"]["threshold:0.50"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--threshold high", "--threshold is 'high'; expected a number"),
        ("--threshold nan", "--threshold is 'nan'; expected a number"),
        ("--threshold 0.5 --probs p_*", "--threshold goes with a score"),
    ],
)
def test_what_is_no_threshold_is_refused(options: str, said: str, invoke: Invoke) -> None:
    path = write(rows(), "rows.parquet")
    invoke("evaluate", path, options).refused(2, said)
