"""Grids as inputs of a boundary: what is no whole grid, and options that a grid cannot follow."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pyarrow.parquet as pq
import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, Outcome


@pytest.fixture
def grid(tmp_path: Path, invoke: Invoke) -> Path:
    """Return a grid of 2 x 3 cells in a file."""
    rows = write(simulate(200, seed=2), tmp_path / "rows.parquet")
    out = tmp_path / "grid.parquet"
    bins = ("--uncertainty-bins", 2, "--score-bins", 3)
    assert invoke("bin", rows, *bins, "-q", "-o", out).code == 0
    return out


def fit(invoke: Invoke, path: Path, *options: object) -> Outcome:
    bound = () if {"--fpr", "--by"} & set(options) else ("--precision", "0.5")
    return invoke("boundary", path, *bound, *options, "-o", path.with_suffix(".json"))


@pytest.mark.parametrize("levels", [1, 2])
def test_rows_that_judge_a_grid_are_its_own(levels: int, grid: Path, invoke: Invoke) -> None:
    rows = grid.with_name("rows.parquet")
    bins = ("--uncertainty-bins", levels, "--score-bins", 3)
    assert invoke("bin", rows, *bins, "-q", "-o", grid).code == 0
    said = fit(invoke, grid, "--method", "exact", "--test", rows).result()["fit"]
    names = ("selected", "true_positives", "precision", "recall")
    assert [said["test"][name] for name in names] == [said["in_sample"][name] for name in names]


def test_rows_that_judge_a_grid_are_read_as_its_own_were(grid: Path, invoke: Invoke) -> None:
    """Where the label is and what scores hold the grid knows."""
    rows = grid.with_name("rows.parquet")
    frame = pl.read_parquet(rows).with_columns(
        pl.col("label").replace_strict([0, 1], ["no", "yes"])
    )
    frame.with_columns(100 * pl.col("score")).rename({"label": "y"}).write_parquet(rows)
    named = ("--label", "y", "--positive", "yes", "--scale", "percent", "--score-bins", 3)
    assert invoke("bin", rows, *named, "-q", "-o", grid).code == 0
    said = fit(invoke, grid, "--method", "exact", "--test", rows).result()["fit"]
    assert said["test"]["selected"] == said["in_sample"]["selected"]


first = pl.int_range(pl.len()) == 0


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda table: table.with_columns(count=pl.lit(0), positives=pl.lit(0)),
            "all cells are empty",
        ),
        (
            lambda table: table.with_columns(positives=pl.col("count") + 1),
            "more positives than rows",
        ),
        (lambda table: table.slice(1), "need a row each"),
        (lambda table: pl.concat([table, table.head(1)]), "need a row each"),
        (lambda table: pl.concat([table.slice(1), table.slice(1, 1)]), "need a row each"),
        (
            lambda table: table.with_columns(
                uncertainty_bin=pl.lit(None, pl.Int64), score_bin=pl.lit(None, pl.Int64)
            ),
            "a bin has no number",
        ),
        (
            lambda table: table.with_columns(count=pl.when(first).then(-1).otherwise("count")),
            "not in [0, inf)",
        ),
        (
            lambda table: table.with_columns(uncertainty_bin=pl.lit("x")),
            "column 'uncertainty_bin' holds text",
        ),
        (
            lambda table: table.with_columns(score_high=pl.lit("high")),
            "column 'score_high' holds text",
        ),
    ],
    ids=["empty", "positives", "missing", "more", "twice", "null", "negative", "bin", "limit"],
)
def test_a_table_that_is_no_whole_grid_is_refused(
    change: Callable[[pl.DataFrame], pl.DataFrame], said: str, grid: Path, invoke: Invoke
) -> None:
    path = grid.with_name("damaged.csv")
    change(pl.read_parquet(grid)).write_csv(path)
    done = fit(invoke, path)
    assert (done.code, said in done.stderr) == (3, True), done.stderr
    assert not path.with_suffix(".json").exists()


def test_a_grid_with_damaged_metadata_is_refused(grid: Path, invoke: Invoke) -> None:
    table = pq.read_table(grid)
    own = {name: text for name, text in pq.read_metadata(grid).metadata.items() if b":" not in name}
    metadata: Any = {**own, b"calibkit": b'{"columns": 3'}
    pq.write_table(table.replace_schema_metadata(metadata), grid)
    done = fit(invoke, grid)
    assert done.code == 3
    assert "metadata entry 'calibkit' is damaged" in done.stderr


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--weight", "w"), "weighted already"),
        (("--score", "other"), "was made from"),
        (("--score-bins", "7"), "the grid has 3"),
        (("--uncertainty-bins", "5"), "the grid has 2"),
        (("--uncertainty-bins", "auto", "--method", "exact"), "leave --uncertainty-bins auto out"),
        (("--by", "segment", "--recall", "0.5"), "lost its rows"),
        (("--strategy", "equal-width"), "--strategy"),
        (("--order", "score-uncertainty"), "--order"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else None,
)
def test_options_that_a_grid_cannot_follow(
    options: tuple[str, ...], said: str, grid: Path, invoke: Invoke
) -> None:
    done = fit(invoke, grid, *options)
    assert (done.code, said in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("order", ["score-uncertainty", "uncertainty-score"])
def test_a_boundary_of_a_grid_is_that_of_its_rows(
    order: str, suffix: str, tmp_path: Path, invoke: Invoke
) -> None:
    frame = simulate(400, seed=4)
    rows, grid = write(frame, tmp_path / "rows.parquet"), tmp_path / f"grid{suffix}"
    bins = ("--uncertainty-bins", 3, "--score-bins", 5, "--order", order, "-q")
    assert invoke("bin", rows, *bins, "-o", grid).code == 0
    taken = []
    for source, more in ((rows, bins), (grid, ("-q",))):
        model = tmp_path / "model.json"
        fit = ("boundary", source, "--precision 0.6 --method ew-dpmt --folds 0 -o", model)
        assert invoke(*fit, *more).code == 0
        applied = invoke("apply", model, rows, "-q", "-o", tmp_path / "taken.parquet").result()
        taken.append(applied["decision"].to_list())
    assert taken[0] == taken[1]
    assert 0 < sum(taken[0]) < frame.height


def test_a_table_of_logits_asks_for_their_scale(invoke: Invoke, tmp_path: Path) -> None:
    """A Parquet table says what scale its scores are of, a CSV table cannot."""
    logits = simulate(300).with_columns(score=(pl.col("score") / (1 - pl.col("score"))).log())
    rows, grid = write(logits, tmp_path / "rows.parquet"), tmp_path / "grid.csv"
    made = invoke("bin", rows, "--scale", "logit", "--score-bins", 9, "-q", "-o", grid)
    assert made.code == 0
    fit(invoke, grid, "--method", "exact").refused(3, "--scale")
    assert fit(invoke, grid, "--method", "exact", "--scale", "logit").code == 0
