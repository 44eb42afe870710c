"""The uncertainty level of each row, and the isotonic probability of MIST within it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import polars as pl
import pytest
from sklearn.isotonic import IsotonicRegression

import calibkit as ck
from calibkit import simulate_posterior
from tests.conftest import Invoke


@pytest.fixture(scope="module")
def frame() -> pl.DataFrame:
    rows = simulate_posterior(600, seed=3)
    return rows.with_columns(
        score=pl.col("score").round(2).clip(0.01, 0.99),
        segment=pl.Series(["a", "b"] * 300),
        id=pl.int_range(600),
    )


@pytest.fixture
def rows(tmp_path: Path, frame: pl.DataFrame) -> Path:
    path = tmp_path / "rows.parquet"
    frame.write_parquet(path)
    return path


def level_of(uncertainty: np.ndarray, levels: int) -> np.ndarray:
    """Return the level of each row: the number of edges, which are order statistics, at or below."""
    ranked = np.sort(uncertainty)
    edges = [ranked[j * ranked.size // levels] for j in range(1, levels)]
    return np.searchsorted(edges, uncertainty, side="right")


def applied(invoke: Invoke, model: Path, rows: Path, out: Path, *more: object) -> pl.DataFrame:
    said = invoke("apply", model, rows, "--add-level", "-q", "-o", out, *more)
    assert said.code == 0, said
    return pl.read_csv(out) if out.suffix == ".csv" else pl.read_parquet(out)


@pytest.mark.parametrize("bound", [("--precision", "0.5"), ("--recall", "0.6")], ids=str)
def test_probabilities_are_the_isotonic_regression_of_each_level(
    invoke: Invoke, rows: Path, frame: pl.DataFrame, tmp_path: Path, bound: tuple[str, str]
) -> None:
    model, out = tmp_path / "mist.json", tmp_path / "out.csv"
    said = invoke("boundary", rows, *bound, "--method", "mist", "-q", "-o", model)
    assert said.code == 0, said
    found = applied(invoke, model, rows, out)
    assert found.columns == [*frame.columns, "decision", "margin", "level", "probability"]
    level = level_of(frame["uncertainty"].to_numpy(), 3)
    assert found["level"].to_list() == level.tolist()
    for own in range(3):
        part = found.filter(pl.col("level") == own)
        score, label = part["score"].to_numpy(), part["label"].to_numpy()
        expected = IsotonicRegression().fit(score, label).predict(score)
        assert part["probability"].to_numpy() == pytest.approx(expected, abs=1e-12)
    # One cut on the probability is the boundary.
    chosen = found.filter(pl.col("decision") == 1)["probability"]
    assert chosen.min() > found.filter(pl.col("decision") == 0)["probability"].max()  # type: ignore[operator]
    plain = invoke("apply", model, rows, "-q", "-o", out)
    assert plain.code == 0
    assert pl.read_csv(out).columns == [*frame.columns, "decision", "margin"]


@pytest.mark.parametrize(
    "options",
    [
        ["--score-bins", "9"],
        ["--score-bins", "9", "--order", "score-uncertainty"],
        ["--by", "segment"],
        ["--by", "segment", "--bound", "each"],
        ["--uncertainty-bins", "1"],
    ],
    ids=str,
)
def test_probabilities_are_shares_of_positive_rows(
    invoke: Invoke, rows: Path, tmp_path: Path, options: list[str]
) -> None:
    model, out = tmp_path / "mist.json", tmp_path / "out.parquet"
    line = ["--recall", "0.5", "--method", "mist", "--folds", "0", *options]
    assert invoke("boundary", rows, *line, "-q", "-o", model).code == 0
    found = applied(invoke, model, rows, out)
    keys = ["level", "segment"] if "--by" in options else ["level"]
    blocks = found.group_by(*keys, "probability").agg(pl.col("label").mean(), pl.len())
    assert blocks["probability"].to_numpy() == pytest.approx(blocks["label"].to_numpy())
    for _, part in found.sort("score").group_by(keys):
        assert part["probability"].is_sorted()


def test_levels_of_other_boundaries(
    invoke: Invoke, rows: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    model, out = tmp_path / "m.json", tmp_path / "out.csv"
    level = level_of(frame["uncertainty"].to_numpy(), 4)
    options = ["--uncertainty-bins", "4", "-q", "-o", model]
    assert invoke("boundary", rows, "--fpr", "0.2", "--method", "exact", *options).code == 0
    found = applied(invoke, model, rows, out, "--keep", "id")
    assert found.columns == ["id", "decision", "margin", "level"]
    assert found["level"].to_list() == level.tolist()
    assert invoke("boundary", rows, "--fpr", "0.2", "--method", "stochastic", *options).code == 0
    found = applied(invoke, model, rows, out, "--key", "id", "--keep", "id")
    assert found.columns == ["id", "decision", "margin", "decision_probability", "level"]
    gaps = tmp_path / "gaps.parquet"
    some = pl.when(pl.col("id") < 3).then(None).otherwise("uncertainty").alias("uncertainty")
    frame.with_columns(some).write_parquet(gaps)
    found = applied(invoke, model, gaps, out, "--key", "id", "--on-missing", "null")
    assert found["level"].null_count() == 3


def test_what_has_no_levels(invoke: Invoke, rows: Path, tmp_path: Path) -> None:
    model, out = tmp_path / "m.json", tmp_path / "out.csv"
    assert invoke("calibrate", rows, "--method", "platt", "-q", "-o", model).code == 0
    said = invoke("apply", model, rows, "--add-level", "-o", out)
    assert said.code == 2 and "no uncertainty levels" in said.stderr
    assert invoke("boundary", rows, "--fpr", "0.2", "--method", "st", "-q", "-o", model).code == 0
    assert applied(invoke, model, rows, out)["level"].unique().to_list() == [0]
    frame = pl.read_parquet(rows).with_columns(level=1)
    frame.write_parquet(rows)
    said = invoke("apply", model, rows, "--add-level", "-o", out)
    assert said.code == 2 and "'level' already" in said.stderr


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("budget", [[], ["--memory", "200MB", "--threads", "1"]], ids=str)
def test_bin_writes_the_level_of_each_row(
    invoke: Invoke,
    rows: Path,
    frame: pl.DataFrame,
    tmp_path: Path,
    suffix: str,
    budget: list[str],
) -> None:
    source, out = tmp_path / f"in.{suffix}", tmp_path / "out.parquet"
    frame.write_csv(source) if suffix == "csv" else frame.write_parquet(source)
    said = invoke(
        "bin", source, "--uncertainty-bins", "4", "--add-level", "-o", out, "--json", *budget
    )
    assert said.code == 0, said
    assert json.loads(said.stdout)["columns_added"] == ["level"]
    found = pl.read_parquet(out)
    assert found.drop("level").to_dict(as_series=False) == frame.to_dict(as_series=False)
    assert found["level"].to_list() == level_of(frame["uncertainty"].to_numpy(), 4).tolist()
    grid = invoke("bin", source, "--uncertainty-bins", "4", "--score-bins", "1", "-o", "-")
    counts = pl.read_csv(grid.stdout) if suffix == "csv" else pl.read_parquet(grid.stdout)
    assert found.group_by("level").len().sort("level")["len"].to_list() == counts["count"].to_list()


def test_levels_within_score_bins(
    invoke: Invoke, rows: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    out = tmp_path / "out.csv"
    options = ["--uncertainty-bins", "2", "--score-bins", "5", "--order", "score-uncertainty"]
    assert invoke("bin", rows, *options, "--add-level", "-q", "-o", out).code == 0
    grid = pl.read_csv(invoke("bin", rows, *options, "-o", "-", "--output-format", "csv").stdout)
    found = pl.read_csv(out)["level"]
    column = level_of(frame["score"].to_numpy(), 5)
    for cell in grid.iter_rows(named=True):
        inside = (found == cell["uncertainty_bin"]) & pl.Series(column == cell["score_bin"])
        assert inside.sum() == cell["count"]


def test_rows_without_a_value_have_no_level_and_states_no_rows(
    invoke: Invoke, rows: Path, frame: pl.DataFrame, tmp_path: Path
) -> None:
    out, gaps = tmp_path / "out.csv", tmp_path / "gaps.parquet"
    some = pl.when(pl.col("id") < 3).then(None).otherwise("uncertainty").alias("uncertainty")
    frame.with_columns(some).write_parquet(gaps)
    assert invoke("bin", gaps, "--add-level", "-o", out).code == 3
    said = invoke("bin", gaps, "--add-level", "--on-missing", "drop", "-o", out)
    assert said.code == 0 and "3 of 600 rows" in said.stderr
    assert pl.read_csv(out)["level"].null_count() == 3
    assert invoke("bin", rows, "--add-level", "--partial", "-o", tmp_path / "a.state").code == 2
    frame.with_columns(level=1).write_parquet(gaps)
    said = invoke("bin", gaps, "--add-level", "-o", out)
    assert said.code == 2 and "'level' already" in said.stderr
    assert ck.bin(frame, add_level=True)["level"].max() == 2


def test_rows_without_uncertainties_are_of_one_level(
    invoke: Invoke, frame: pl.DataFrame, tmp_path: Path
) -> None:
    out, rows = tmp_path / "out.csv", tmp_path / "rows.csv"
    frame.drop("uncertainty").write_csv(rows)
    said = invoke("bin", rows, "--add-level", "-o", out)
    assert said.code == 0 and "no column 'uncertainty'" in said.stderr
    assert pl.read_csv(out)["level"].unique().to_list() == [0]
