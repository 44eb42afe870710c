"""``calibkit hetcal`` writes the same bytes whatever the memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.summaries.row_store import Arrays
from tests.budgets import little_memory
from tests.cli.score_files import write
from tests.compat.fits import FEATURES, FITS, rows, words
from tests.conftest import Invoke

#: Rows that fit where memory is short.
FEW = 64


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write(rows(), tmp_path_factory.mktemp("memory") / "rows.parquet")


@pytest.mark.parametrize(
    "case", ["tree chosen", "forest", "tree of isotonic", "tree in time", "boosted in time"]
)
def test_what_was_in_memory_before_does_not_show(
    case: str, file: Path, tmp_path: Path, invoke: Invoke, monkeypatch: pytest.MonkeyPatch
) -> None:
    def filled(self: Arrays, shape: Any, dtype: Any) -> Any:
        array = np.empty(shape, dtype)
        array.fill(np.nan if array.dtype.kind == "f" else np.iinfo(array.dtype).max)
        return array

    made = tmp_path / "plain.json", tmp_path / "filled.json"
    for path in made:
        assert invoke(*words(FITS[case], tmp_path, file), "-q -o", path).code == 0
        monkeypatch.setattr(Arrays, "empty", filled)
    assert made[1].read_bytes() == made[0].read_bytes()


@pytest.mark.parametrize("partition", ["tree", "forest --trees 3"])
def test_training_rows_that_do_not_fit_grow_the_same_trees(
    partition: str, file: Path, invoke: Invoke
) -> None:
    train = write(rows(350)[50:], "train.parquet")
    line = ("hetcal", file, FEATURES, "--train", train, f"--partition {partition} -q -o")
    made = Path("plain.json"), Path("little.json")
    assert invoke(*line, made[0]).code == 0
    with little_memory(FEW) as budget:
        assert invoke(*line, made[1], *budget).code == 0
    assert made[1].read_bytes() == made[0].read_bytes()


def test_what_all_rows_show_is_said_as_in_memory(invoke: Invoke) -> None:
    label = pl.when(pl.col("amount") > 40).then(None).otherwise("label")
    path = write(rows().with_columns(score=1.0 - pl.col("score"), label=label), "r.csv")
    line = ("hetcal", path, FEATURES, "--max-depth 2 --unlabelled drop -o m.json")
    plain = invoke(*line)
    with little_memory(FEW) as budget:
        little = invoke(*line, *budget)
    told, same = (
        [said for said in done.stderr.splitlines() if said.startswith("Warning")]
        for done in (plain, little)
    )
    assert len(told) == 2 and "higher scores go with fewer positives" in plain.stderr
    assert "rows without a value dropped (--unlabelled drop)" in plain.stderr
    assert told == same


def test_values_that_cannot_be_used_are_counted_over_all_rows(invoke: Invoke) -> None:
    high = pl.col("amount") > 40
    for frame, said in (
        (rows().with_columns(x=pl.when(high).then(np.inf).otherwise("x")), "in {} rows"),
        (rows().filter(pl.col("label") == 0), "no row is positive"),
    ):
        path = write(frame, "rows.parquet")
        with little_memory(FEW) as budget:
            done = invoke("hetcal", path, FEATURES, *budget, "-q")
        done.refused(3, said.format(rows().filter(high).height))
