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
from tests.cli.score_files import changed, write
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
def rows(frame: pl.DataFrame) -> Path:
    path = Path("rows.parquet")
    frame.write_parquet(path)
    return path


def level_of(uncertainty: pl.Series, levels: int) -> list[int]:
    """Return the level of each row: the number of edges, which are order statistics, at or below."""
    ranked = uncertainty.sort()
    edges = [ranked[j * ranked.len() // levels] for j in range(1, levels)]
    return np.searchsorted(edges, uncertainty, side="right").tolist()


@pytest.fixture
def gaps(frame: pl.DataFrame) -> Path:
    """Return rows of which the first three have no uncertainty."""
    return write(changed(frame, uncertainty=dict.fromkeys((1, 2, 3))), "gaps.parquet")


def applied(invoke: Invoke, model: Path, rows: Path, out: Path, *more: object) -> pl.DataFrame:
    found: pl.DataFrame = invoke("apply", model, rows, "--add-level -q -o", out, *more).result()
    return found


@pytest.mark.parametrize("bound", ["--precision 0.5", "--recall 0.6"])
def test_probabilities_are_the_isotonic_regression_of_each_level(
    invoke: Invoke, rows: Path, frame: pl.DataFrame, bound: str
) -> None:
    model, out = Path("mist.json"), Path("out.csv")
    invoke("boundary", rows, bound, "--method mist -q -o", model).succeeded()
    found = applied(invoke, model, rows, out)
    assert found.columns == [*frame.columns, "decision", "margin", "level", "probability"]
    assert found["level"].to_list() == level_of(frame["uncertainty"], 3)
    for own in range(3):
        part = found.filter(pl.col("level") == own)
        score, label = part["score"].to_numpy(), part["label"].to_numpy()
        expected = IsotonicRegression().fit(score, label).predict(score)
        assert part["probability"].to_numpy() == pytest.approx(expected, abs=1e-12)
    # One cut on the probability is the boundary.
    chosen = found.filter(pl.col("decision") == 1)["probability"]
    assert chosen.min() > found.filter(pl.col("decision") == 0)["probability"].max()  # type: ignore[operator]
    plain = invoke("apply", model, rows, "-q", "-o", out).result()
    assert plain.columns == [*frame.columns, "decision", "margin"]


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
    invoke: Invoke, rows: Path, options: list[str]
) -> None:
    model, out = Path("mist.json"), Path("out.parquet")
    line = ["--recall", "0.5", "--method", "mist", "--folds", "0", *options]
    assert invoke("boundary", rows, *line, "-q", "-o", model).code == 0
    found = applied(invoke, model, rows, out)
    keys = ["level", "segment"] if "--by" in options else ["level"]
    blocks = found.group_by(*keys, "probability").agg(pl.col("label").mean(), pl.len())
    assert blocks["probability"].to_numpy() == pytest.approx(blocks["label"].to_numpy())
    for _, part in found.sort("score").group_by(keys):
        assert part["probability"].is_sorted()


def test_levels_of_other_boundaries(
    invoke: Invoke, rows: Path, gaps: Path, frame: pl.DataFrame
) -> None:
    model, out = Path("m.json"), Path("out.csv")
    fit = ["boundary", rows, "--fpr 0.2 --uncertainty-bins 4 -q -o", model, "--method"]
    assert invoke(*fit, "exact").code == 0
    found = applied(invoke, model, rows, out, "--keep", "id")
    assert found.columns == ["id", "decision", "margin", "level"]
    assert found["level"].to_list() == level_of(frame["uncertainty"], 4)
    assert invoke(*fit, "stochastic").code == 0
    found = applied(invoke, model, rows, out, "--key", "id", "--keep", "id")
    assert found.columns == ["id", "decision", "margin", "decision_probability", "level"]
    found = applied(invoke, model, gaps, out, "--key", "id", "--on-missing", "null")
    assert found["level"].null_count() == 3
    assert invoke("boundary", rows, "--fpr 0.2 --method st -q -o", model).code == 0
    assert applied(invoke, model, rows, out)["level"].unique().to_list() == [0]


def test_what_has_no_levels(invoke: Invoke, rows: Path, gaps: Path, frame: pl.DataFrame) -> None:
    model, platt, out = (Path(name) for name in ("m.json", "platt.json", "out.csv"))
    assert invoke("calibrate", rows, "--method platt -q -o", platt).code == 0
    assert invoke("boundary", rows, "--fpr 0.2 --method st -q -o", model).code == 0
    taken = write(frame.with_columns(level=1), "taken.parquet")
    for line, code, said in (
        (("apply", platt, rows, "-o", out), 2, "no uncertainty levels"),
        (("apply", model, taken, "-o", out), 2, "'level' already"),
        (("bin", taken, "-o", out), 2, "'level' already"),
        (("bin", gaps, "-o", out), 3, "uncertainty"),
        (("bin", rows, "--partial", "-o a.state"), 2, "which a state has not"),
    ):
        invoke(*line, "--add-level").refused(code, said)


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
@pytest.mark.parametrize("budget", ["", "--memory 200MB --threads 1"])
def test_bin_writes_the_level_of_each_row(
    invoke: Invoke, frame: pl.DataFrame, suffix: str, budget: str
) -> None:
    source = write(frame, f"in.{suffix}")
    bins = ["bin", source, "--uncertainty-bins 4", *budget.split()]
    said = invoke(*bins, "--add-level --json -o out.parquet")
    assert json.loads(said.stdout)["columns_added"] == ["level"]
    found = said.result()
    assert found.drop("level").to_dict(as_series=False) == frame.to_dict(as_series=False)
    assert found["level"].to_list() == level_of(frame["uncertainty"], 4)
    counts = invoke(*bins, "--score-bins 1 -o out.parquet").result()["count"].to_list()
    assert found.group_by("level").len().sort("level")["len"].to_list() == counts


def test_levels_within_score_bins(invoke: Invoke, rows: Path, frame: pl.DataFrame) -> None:
    bins = [
        "bin",
        rows,
        "--uncertainty-bins 2 --score-bins 5 --order score-uncertainty -q -o out.csv",
    ]
    grid, found = invoke(*bins).result(), invoke(*bins, "--add-level").result()["level"]
    column = pl.Series(level_of(frame["score"], 5))
    for cell in grid.iter_rows(named=True):
        inside = (found == cell["uncertainty_bin"]) & (column == cell["score_bin"])
        assert inside.sum() == cell["count"]


def test_rows_without_uncertainties(invoke: Invoke, gaps: Path, frame: pl.DataFrame) -> None:
    rows = write(frame.drop("uncertainty"), "rows.csv")
    dropped = invoke("bin", gaps, "--add-level --on-missing drop -o out.csv")
    dropped.succeeded("3 of 600 rows")
    assert dropped.result()["level"].null_count() == 3
    alone = invoke("bin", rows, "--add-level", "-o out.csv")
    alone.succeeded("no column 'uncertainty'")
    assert alone.result()["level"].unique().to_list() == [0]
    assert ck.bin(frame, add_level=True)["level"].max() == 2


def test_levels_by_the_edges_of_a_boundary_on_tied_uncertainties(invoke: Invoke) -> None:
    tied = {"score": range(20), "uncertainty": [1.0] * 15 + [2.0] * 5, "label": [0, 1] * 10}
    rows = write(pl.DataFrame(tied).with_columns(pl.col("score") / 20), "rows.csv")
    fit = "--recall 0.5 --method exact --uncertainty-bins 3 --folds 0 -o"
    assert invoke("boundary", rows, fit, "m.json").result()["uncertainty_edges"] == [1.0, 1.0]
    given = ["bin", rows, "--add-level -o out.csv", "--uncertainty-edges"]
    assert invoke(*given, "m.json").result()["level"].to_list() == [2] * 20
    for text in ("[2, 1]", "[]", '["a"]', "[1e999]"):
        Path("edges.json").write_text(text)
        invoke(*given, "edges.json").refused(2, "edges of uncertainty levels")
