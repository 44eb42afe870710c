"""``evaluate --threshold``: the decisions of a threshold, judged as a column of decisions is."""

from __future__ import annotations

import json
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
def test_a_threshold_is_a_column_of_decisions(
    options: list[str], tmp_path: Path, invoke: Invoke
) -> None:
    path, out = write(rows(), tmp_path / "rows.parquet"), tmp_path / "m.json"
    line = ["evaluate", path, *options, "-q", "-o", out]
    thresholds = ["--threshold", "0.50", "--threshold", ".25"]
    assert invoke(*line, *thresholds).code == 0
    found = json.loads(out.read_text())
    assert set(found["metrics"]) == {"score", *NAMES}
    for name in NAMES:
        assert invoke(*line, "--decision", name).code == 0
        column = json.loads(out.read_text())
        for part in ("metrics", "intervals"):
            assert found[part][name] == column[part][name]


def test_counts_by_hand_gates_and_the_table(tmp_path: Path, invoke: Invoke) -> None:
    frame = rows()
    path, out = write(frame, tmp_path / "rows.csv"), tmp_path / "m.json"
    line = ["evaluate", path, "--threshold", "0.50,.25", "-o", out]
    assert invoke(*line, "-q").code == 0
    found = json.loads(out.read_text())["metrics"]
    label = frame["label"].to_numpy() == 1
    for name, value in NAMES.items():
        taken = frame["score"].to_numpy() >= np.float32(value)
        own = found[name]["all"]
        assert (own["tp"], own["fp"]) == ((taken & label).sum(), (taken & ~label).sum())
        assert own["precision"] == pytest.approx((taken & label).sum() / taken.sum())
    bound = found["threshold:0.50"]["all"]["precision"] + 1e-9
    failed = invoke(*line, "--fail-if", f"threshold:0.50/precision<{bound}")
    assert failed.code == 1
    assert invoke("gate", out, "--fail-if", f"threshold:0.50/all/precision<{bound}").code == 1
    assert invoke("gate", out, "--fail-if", f"threshold:0.50/precision>{bound}").code == 0
    page = tmp_path / "r.html"
    assert invoke(*line, "-q", "--report", page).code == 0
    assert "threshold:0.50" in page.read_text()


def test_the_same_from_states_little_memory_and_python(tmp_path: Path, invoke: Invoke) -> None:
    frame = rows(1200)
    path, out = write(frame, tmp_path / "rows.parquet"), tmp_path / "m.json"
    options = ["--threshold", "0.50,.25"]
    whole = invoke("evaluate", path, *options, "-q", "-o", out).result()
    states = []
    for number, part in enumerate(frame.iter_slices(500)):
        shard = write(part, tmp_path / f"{number}.parquet")
        states.append(tmp_path / f"{number}.state")
        line = ["evaluate", shard, *options, "--partial", "-q", "-o", states[-1]]
        assert invoke(*line).code == 0
    merged = tmp_path / "merged.json"
    assert invoke("merge", *states, "-q", "-o", merged).code == 0
    assert merged.read_bytes() == out.read_bytes()
    metrics: Any = ck.evaluate(frame, threshold=["0.50", ".25"])
    assert metrics.as_dict() == whole
    assert "threshold:0.25" in ck.evaluate(frame, threshold=0.25).metrics
    with little_memory(300) as budget:
        assert invoke("evaluate", path, *options, *budget, "-q", "-o", merged).code == 0
    assert (
        json.loads(merged.read_text())["metrics"]["threshold:0.50"]
        == (whole["metrics"]["threshold:0.50"])
    )


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--threshold", "high"], "--threshold is 'high'; expected a number"),
        (["--threshold", "nan"], "--threshold is 'nan'; expected a number"),
        (["--threshold", "0.5", "--probs", "p_*"], "--threshold goes with a score"),
    ],
)
def test_what_is_no_threshold(
    options: list[str], said: str, tmp_path: Path, invoke: Invoke
) -> None:
    invoke("evaluate", write(rows(), tmp_path / "rows.parquet"), *options).refused(2, said)
