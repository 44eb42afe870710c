"""``calibkit hetcal`` writes the same bytes whatever the memory."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.summaries.row_store import Arrays
from tests.budgets import little_memory

ROWS = 300

#: Rows that fit where memory is short.
FEW = 64

FEATURES = ["--features", "x,n,kind"]

SMALL = ["--max-depth", "2", "--min-leaf", "20", "--shrinkage", "30"]

Invoke = Callable[..., Any]


def rows_of(seed: int) -> pl.DataFrame:
    """Return rows whose scores miss what numbers and text say, some of them twice."""
    random = np.random.default_rng(seed)
    x, kind = random.normal(size=ROWS), random.integers(0, 4, ROWS)
    truth = random.normal(size=ROWS) + np.where(kind < 2, 1.0, -0.5) + (x > 0.3)
    label = random.random(ROWS) < 1 / (1 + np.exp(-truth))
    frame = pl.DataFrame(
        {
            "label": label.astype(np.int8),
            "score": (1 / (1 + np.exp(-3 * truth + random.normal(size=ROWS)))).round(3),
            "x": np.where(random.random(ROWS) < 0.1, np.nan, x),
            "n": random.integers(0, 9, ROWS),
            "kind": np.array(["ash", "birch", "cedar", ""])[kind],
            "g": random.integers(0, 60, ROWS),
            "w": random.integers(1, 300, ROWS),
            "s": random.uniform(0.1, 2.0, ROWS),
            "day": [date(2026, 1, 1 + int(k)) for k in random.integers(0, 28, ROWS)],
        }
    )
    return pl.concat([frame[:250], frame[100:150]])


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("memory")
    rows_of(1).write_parquet(made / "rows.parquet", row_group_size=50)
    rows_of(2).write_parquet(made / "train.parquet")
    return made


CASES = {
    "tree": [],
    "forest": ["--partition", "forest", "--trees", "3"],
    "isotonic": ["--map", "isotonic", *SMALL],
    "time": ["--time", "day"],
    "boosted in time": ["--time", "day", "--partition", "boosted", "--trees", "9"],
}


@pytest.mark.parametrize("case", CASES)
def test_what_was_in_memory_before_does_not_show(
    case: str, folder: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(self: Arrays, shape: Any, dtype: Any) -> Any:
        array = np.empty(shape, dtype)
        array.fill(np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max)
        return array

    made = tmp_path / "plain.json", tmp_path / "filled.json"
    for path in made:
        line = ["hetcal", folder / "rows.parquet", *FEATURES, *CASES[case], "-q", "-o", path]
        done = invoke(*line)
        assert done.code == 0, done.stderr
        monkeypatch.setattr(Arrays, "empty", filled)
    assert made[1].read_bytes() == made[0].read_bytes()


@pytest.mark.parametrize("partition", ["tree", "forest"])
def test_training_rows_that_do_not_fit_grow_the_same_trees(
    partition: str, folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    made = tmp_path / "plain.json", tmp_path / "little.json"
    options = [*FEATURES, "--train", folder / "train.parquet", "--partition", partition, "-q"]
    options += ["--trees", "3"] if partition == "forest" else []
    done = invoke("hetcal", folder / "rows.parquet", *options, "-o", made[0])
    assert done.code == 0, done.stderr
    with little_memory(FEW) as budget:
        done = invoke("hetcal", folder / "rows.parquet", *options, *budget, "-o", made[1])
    assert done.code == 0, done.stderr
    assert made[1].read_bytes() == made[0].read_bytes()


def test_what_all_rows_show_is_said_as_in_memory(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    frame = rows_of(1).with_columns(
        score=1.0 - pl.col("score"), label=pl.when(pl.col("n") > 7).then(None).otherwise("label")
    )
    frame.write_parquet(tmp_path / "rows.parquet")
    line = ["hetcal", tmp_path / "rows.parquet", *FEATURES, *SMALL, "--unlabelled", "drop"]
    plain = invoke(*line, "-o", tmp_path / "plain.json")
    with little_memory(FEW) as budget:
        little = invoke(*line, *budget, "-o", tmp_path / "little.json")
    told = [line for line in plain.stderr.splitlines() if line.startswith("Warning")]
    assert len(told) == 2 and "higher scores go with fewer positives" in plain.stderr
    assert "rows without a value dropped (--unlabelled drop)" in plain.stderr
    assert told == [line for line in little.stderr.splitlines() if line.startswith("Warning")]


def test_values_that_cannot_be_used_are_counted_over_all_rows(
    folder: Path, tmp_path: Path, invoke: Invoke
) -> None:
    frame = rows_of(1).with_columns(x=pl.when(pl.col("n") > 7).then(np.inf).otherwise("x"))
    frame.write_parquet(tmp_path / "rows.parquet")
    offending = frame.filter(pl.col("n") > 7).height
    with little_memory(FEW) as budget:
        done = invoke("hetcal", tmp_path / "rows.parquet", *FEATURES, *budget, "-q")
    done.refused(3, f"in {offending} rows")
    one_class = rows_of(1).filter(pl.col("label") == 0)
    one_class.write_parquet(tmp_path / "one.parquet")
    with little_memory(FEW) as budget:
        done = invoke("hetcal", tmp_path / "one.parquet", *FEATURES, *budget, "-q")
    done.refused(3, "no row is positive")
