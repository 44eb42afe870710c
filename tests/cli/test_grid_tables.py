"""Grids as inputs of a boundary: what is no whole grid, and options that a grid cannot follow."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, Outcome


@pytest.fixture
def grid(invoke: Invoke) -> Path:
    """Return a grid of 2 x 3 cells in a file."""
    rows = write(simulate(200, seed=2), "rows.parquet")
    out = Path("grid.parquet")
    bins = ("--uncertainty-bins", 2, "--score-bins", 3)
    assert invoke("bin", rows, *bins, "-q", "-o", out).code == 0
    return out


def fit(invoke: Invoke, path: Path, *options: object) -> Outcome:
    bound = () if {"--fpr", "--by"} & set(options) else ("--precision", "0.5")
    return invoke("boundary", path, *bound, *options, "-o", path.with_suffix(".json"))


@pytest.mark.parametrize("levels", [1, 2])
def test_rows_that_judge_a_grid_are_its_own(levels: int, grid: Path, invoke: Invoke) -> None:
    rows = grid.with_name("rows.parquet")
    names = ("selected", "true_positives", "precision", "recall")
    bins = ("bin", rows, "--uncertainty-bins", levels, "--score-bins 3 -q -o", grid)

    def judged(*options: str) -> tuple[list[Any], list[Any]]:
        assert invoke(*bins, *options).code == 0
        said = fit(invoke, grid, "--method", "exact", "--test", rows).result()["fit"]
        return [said["test"][name] for name in names], [said["in_sample"][name] for name in names]

    test, in_sample = judged()
    assert test == in_sample
    # Where the label is and what scores hold the grid knows.
    frame = pl.read_parquet(rows).with_columns(
        100 * pl.col("score"), y=pl.col("label").replace_strict([0, 1], ["no", "yes"])
    )
    frame.drop("label").write_parquet(rows)
    assert judged("--label y --positive yes --scale percent") == (test, in_sample)
    fit(invoke, grid, "--scale", "logit").refused(2, "from 'percent', not from --scale logit")


FIRST = pl.int_range(pl.len()) == 0
NO_NUMBER = pl.lit(None, pl.Int64)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"count": 0, "positives": 0}, "all cells are empty"),
        ({"positives": pl.col("count") + 1}, "more positives than rows"),
        ([1, 2, 3, 4, 5], "need a row each"),
        ([0, 1, 2, 3, 4, 5, 0], "need a row each"),
        ([1, 2, 3, 4, 5, 1], "need a row each"),
        ({"uncertainty_bin": NO_NUMBER, "score_bin": NO_NUMBER}, "a bin has no number"),
        ({"count": pl.when(FIRST).then(-1).otherwise("count")}, "not in [0, inf)"),
        ({"uncertainty_bin": pl.lit("x")}, "column 'uncertainty_bin' holds text"),
        ({"score_high": pl.lit("high")}, "column 'score_high' holds text"),
    ],
    ids=["empty", "positives", "missing", "more", "twice", "null", "negative", "bin", "limit"],
)
def test_a_table_that_is_no_whole_grid_is_refused(
    changes: dict[str, Any] | list[int], said: str, grid: Path, invoke: Invoke
) -> None:
    path, table = grid.with_name("damaged.csv"), pl.read_parquet(grid)
    changed = table[changes] if isinstance(changes, list) else table.with_columns(**changes)
    changed.write_csv(path)
    fit(invoke, path).refused(3, said)


def test_a_grid_with_damaged_metadata_is_refused(grid: Path, invoke: Invoke) -> None:
    table = pq.read_table(grid)
    own = {name: text for name, text in pq.read_metadata(grid).metadata.items() if b":" not in name}
    metadata: Any = {**own, b"calibkit": b'{"columns": 3'}
    pq.write_table(table.replace_schema_metadata(metadata), grid)
    fit(invoke, grid).refused(3, "metadata entry 'calibkit' is damaged")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--weight w", "weighted already"),
        ("--score other", "was made from"),
        ("--score-bins 7", "the grid has 3"),
        ("--uncertainty-bins 5", "the grid has 2"),
        ("--uncertainty-bins auto --method exact", "leave --uncertainty-bins auto out"),
        ("--by segment --recall 0.5", "lost its rows"),
        ("--strategy equal-width", "--strategy"),
        ("--order score-uncertainty", "--order"),
    ],
)
def test_options_that_a_grid_cannot_follow(
    options: str, said: str, grid: Path, invoke: Invoke
) -> None:
    fit(invoke, grid, *options.split()).refused(2, said)


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("order", ["score-uncertainty", "uncertainty-score"])
def test_a_boundary_of_a_grid_is_that_of_its_rows(order: str, suffix: str, invoke: Invoke) -> None:
    frame = simulate(400, seed=4)
    rows, grid = write(frame, "rows.parquet"), Path(f"grid{suffix}")
    bins = ("--uncertainty-bins", 3, "--score-bins", 5, "--order", order, "-q")
    assert invoke("bin", rows, *bins, "-o", grid).code == 0
    taken = []
    for source, more in ((rows, bins), (grid, ("-q",))):
        fit = ("boundary", source, "--precision 0.6 --method ew-dpmt --folds 0 -o model.json")
        assert invoke(*fit, *more).code == 0
        applied = invoke("apply", "model.json", rows, "-q", "-o taken.parquet").result()
        taken.append(applied["decision"].to_list())
    assert taken[0] == taken[1]
    assert 0 < sum(taken[0]) < frame.height


def test_a_table_of_logits_asks_for_their_scale(invoke: Invoke) -> None:
    """A Parquet table says what scale its scores are of, a CSV table cannot."""
    logits = simulate(300).with_columns(score=(pl.col("score") / (1 - pl.col("score"))).log())
    rows, grid = write(logits, "rows.parquet"), Path("grid.csv")
    made = invoke("bin", rows, "--scale", "logit", "--score-bins", 9, "-q", "-o", grid)
    assert made.code == 0
    fit(invoke, grid, "--method", "exact").refused(3, "--scale")
    assert fit(invoke, grid, "--method", "exact", "--scale", "logit").code == 0
