"""``bin``: golden grids, what the table says of itself, weights, ties, both orders; grids as inputs."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import polars.selectors as cs
import pyarrow.parquet as pq
import pytest

from tests.cli.score_files import simulate, write
from tests.conftest import ROOT, Invoke, Outcome

GOLDEN = ROOT / "tests" / "golden"
KINDS = {
    "equi-weight": [],
    "score-first": ["--order", "score-uncertainty"],
    "equi-span": ["--strategy", "equal-width"],
}
LIMITS = ["uncertainty_low", "uncertainty_high", "score_low", "score_high"]
SUMS = ["count", "positives", "positivity", "mean_score"]
COLUMNS = ["uncertainty_bin", "score_bin", *LIMITS, *SUMS]


@pytest.fixture
def grid(invoke: Invoke) -> Callable[..., pl.DataFrame]:
    def call(path: Path, *options: object, code: int = 0) -> pl.DataFrame:
        output = Path("grid.parquet")
        done = invoke("bin", path, *options, "-q", "-o", output)
        assert (done.code, done.stdout) == (code, b""), done.stderr
        return pl.read_parquet(output)

    return call


Grid = Callable[..., pl.DataFrame]


def matrix(table: pl.DataFrame, column: str) -> list[list[Any]]:
    """Return a column as nested lists: one list an uncertainty bin."""
    rows = table.sort("uncertainty_bin", "score_bin")
    return [part[column].to_list() for part in rows.partition_by("uncertainty_bin")]


def golden_axes(expected: dict[str, Any], cell: tuple[int, int], kind: str) -> tuple[Any, Any]:
    """Return the minimum and inner edges of both axes in a cell, None where a bin was empty."""
    outer, inner, (row, column) = expected["outer"], expected["inner"], cell
    if kind == "equi-span":
        return outer, inner
    if kind == "equi-weight":
        return outer, inner.get(str(row))
    return inner.get(str(column)), outer


@pytest.mark.parametrize(
    "case",
    [
        "p01_binning_equi_weight",
        "p02_binning_ties",
        "p03_binning_score_first",
        "p04_binning_equi_span_extremes",
    ],
)
def test_golden_grids(case: str, grid: Grid) -> None:
    golden = json.loads((GOLDEN / case / "expected.json").read_text())
    expected, kind = golden["expected"], golden["params"]["kind"]
    shape = golden["params"]["K"], golden["params"]["L"]
    bins = ["--uncertainty-bins", shape[0], "--score-bins", shape[1]]
    table = grid(GOLDEN / case / "fit.parquet", *bins, *KINDS[kind])
    assert table.columns[: len(COLUMNS)] == COLUMNS
    assert matrix(table, "positives") == expected["positives"]
    assert matrix(table, "count") == expected["total"]
    for row in table.rows(named=True):
        cell = row["uncertainty_bin"], row["score_bin"]
        axes = zip(("uncertainty", "score"), cell, golden_axes(expected, cell, kind), strict=True)
        for axis, place_of, known in axes:
            found = [row[f"{axis}_{end}"] for end in ("min", "low", "high")]
            if known is None:
                assert found == [None, None, None]
                continue
            limits = [-math.inf, *known["edges"], math.inf][place_of:][:2]
            assert found == pytest.approx([known["min"], *limits], rel=1e-12, abs=1e-12)
    new = pl.read_parquet(GOLDEN / case / "new.parquet")
    places = [place(table, *values) for values in new.select("uncertainty", "score").rows()]
    assert places == list(zip(expected["new_i"], expected["new_j"], strict=True))


def place(table: pl.DataFrame, uncertainty: float, score: float) -> tuple[int, int]:
    """Return the cell that holds a new row, as the table alone tells it."""
    inside = np.ones(table.height, bool)
    for axis, value in (("uncertainty", uncertainty), ("score", score)):
        least, low, high = (table[f"{axis}_{end}"].to_numpy() for end in ("min", "low", "high"))
        raised = np.fmax(value, least)
        inside &= (low <= raised) & (raised < high)
    (found,) = np.flatnonzero(inside)
    return table["uncertainty_bin"][int(found)], table["score_bin"][int(found)]


def test_what_the_parquet_file_says_of_itself(grid: Grid) -> None:
    path = write(simulate(), "a.parquet")
    table = grid(path, "--uncertainty-bins", 3, "--score-bins", 4)
    metadata = pq.read_metadata("grid.parquet").metadata
    for axis in ("uncertainty", "score"):
        values = json.loads(metadata[f"{axis}_min".encode()])
        values = values if isinstance(values, list) else [values]
        assert sorted(set(values)) == sorted(set(table[f"{axis}_min"].to_list()))
    assert json.loads(metadata[b"uncertainty_min"]) == [simulate()["uncertainty"].min()]


@pytest.mark.parametrize("kind", KINDS)
def test_fractional_weights_are_summed(kind: str, grid: Grid) -> None:
    frame = simulate(300, ties=True)
    bins = ["--uncertainty-bins", 3, "--score-bins", 5, *KINDS[kind], "--weight", "weight"]
    whole = grid(write(frame, "a.csv"), *bins)
    eighths = frame.with_columns(pl.col("weight") / 8)
    part = grid(write(eighths, "b.csv"), *bins)
    for column in ("count", "positives"):
        assert [8 * value for value in part[column]] == whole[column].to_list()
    same = ["uncertainty_low", "score_low", "score_min", "positivity", "mean_score"]
    assert part.select(same).equals(whole.select(same))
    tenths = frame.with_columns(pl.col("weight") / 10)
    rounded = grid(write(tenths, "c.csv"), *bins)
    assert rounded["count"].to_list() == pytest.approx((whole["count"] / 10).to_list())
    total = float(sum(Fraction(value) for value in tenths["weight"]))
    assert rounded["count"].sum() == pytest.approx(total, rel=1e-12)


def test_defaults(grid: Grid, invoke: Invoke) -> None:
    frame = simulate(40)
    table = grid(write(frame, "a.csv"))
    assert table.height == 3 * 500
    assert table["count"].sum() == 40
    assert [sum(row) for row in matrix(table, "count")] == [13, 13, 14]
    alone = write(frame.drop("uncertainty"), "b.csv")
    invoke("bin", alone, "-o c.csv").succeeded("K = 1")
    table = pl.read_csv("c.csv")
    assert (table.height, table["uncertainty_bin"].max()) == (500, 0)
    assert table["uncertainty_min"].null_count() == 500


def test_other_names_and_labels(grid: Grid) -> None:
    frame = simulate(200)
    bins = ["--uncertainty-bins", 2, "--score-bins", 3]
    plain = grid(write(frame, "a.csv"), *bins)
    renamed = frame.select(
        p="score",
        spread="uncertainty",
        outcome=pl.when(pl.col("label") == 1).then(pl.lit("spam")).otherwise(pl.lit("ham")),
        uncertainty=-pl.col("uncertainty"),
    )
    names = ["--score", "p", "--uncertainty", "spread", "--label", "outcome"]
    path = write(renamed, "b.csv")
    assert grid(path, *bins, *names, "--positive", "spam").equals(plain)
    ham = grid(path, *bins, *names, "--positive", "ham")
    assert ham["positives"].to_list() == (plain["count"] - plain["positives"]).to_list()


def test_the_summary_as_json(invoke: Invoke) -> None:
    path, out = write(simulate(40), "a.csv"), Path("g.parquet")
    done = invoke("bin", path, path, "--score-bins", "2", "-o", out, "--json")
    assert done.code == 0
    said = json.loads(done.stdout)
    assert list(said) == ["rows", "columns_added", "output", "warnings"]
    assert (said["rows"], said["output"]) == (6, str(out))
    assert said["columns_added"][: len(COLUMNS)] == COLUMNS
    (warning,) = said["warnings"]
    assert f"{path} is among the inputs more than once" in warning
    again = Path("link.csv")
    again.symlink_to(path)
    assert f"{path} = {again} is among" in invoke("bin", path, again, "-o", out).stderr
    for option in ("--uncertainty-bins", "--score-bins"):  # at least one each way
        invoke("bin", path, option, "0").refused(2, option)


@pytest.fixture
def grid_file(invoke: Invoke) -> Path:
    """Return a grid of 2 x 3 cells in a file."""
    rows = write(simulate(200, seed=2), "rows.parquet")
    out = Path("grid.parquet")
    bins = ("--uncertainty-bins", 2, "--score-bins", 3)
    assert invoke("bin", rows, *bins, "-q", "-o", out).code == 0
    return out


def fit(invoke: Invoke, path: Path, *options: object) -> Outcome:
    line = ("boundary", path, "--precision 0.5", *options)
    return invoke(*line, "-o", path.with_suffix(".json"))


@pytest.mark.parametrize("levels", [1, 2])
def test_rows_that_judge_a_grid_are_its_own(levels: int, grid_file: Path, invoke: Invoke) -> None:
    rows = grid_file.with_name("rows.parquet")
    names = ("selected", "true_positives", "precision", "recall")
    bins = ("bin", rows, "--uncertainty-bins", levels, "--score-bins 3 -q -o", grid_file)

    def judged(*options: str) -> tuple[list[Any], list[Any]]:
        assert invoke(*bins, *options).code == 0
        said = fit(invoke, grid_file, "--method", "exact", "--test", rows).result()["fit"]
        return [said["test"][name] for name in names], [said["in_sample"][name] for name in names]

    test, in_sample = judged()
    assert test == in_sample
    # Where the label is and what scores hold the grid knows.
    frame = pl.read_parquet(rows).with_columns(
        100 * pl.col("score"), y=pl.col("label").replace_strict([0, 1], ["no", "yes"])
    )
    frame.drop("label").write_parquet(rows)
    assert judged("--label y --positive yes --scale percent") == (test, in_sample)
    fit(invoke, grid_file, "--scale", "logit").refused(2, "from 'percent', not from --scale logit")


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
    changes: dict[str, Any] | list[int], said: str, grid_file: Path, invoke: Invoke
) -> None:
    path, table = grid_file.with_name("damaged.csv"), pl.read_parquet(grid_file)
    changed = table[changes] if isinstance(changes, list) else table.with_columns(**changes)
    changed.write_csv(path)
    fit(invoke, path).refused(3, said)


def test_a_grid_with_damaged_metadata_is_refused(grid_file: Path, invoke: Invoke) -> None:
    table = pq.read_table(grid_file)
    own = {
        name: text
        for name, text in pq.read_metadata(grid_file).metadata.items()
        if b":" not in name
    }
    metadata: Any = {**own, b"calibkit": b'{"columns": 3'}
    pq.write_table(table.replace_schema_metadata(metadata), grid_file)
    fit(invoke, grid_file).refused(3, "metadata entry 'calibkit' is damaged")


@pytest.mark.parametrize("suffix", [".parquet", ".csv"])
@pytest.mark.parametrize("order", ["score-uncertainty", "uncertainty-score"])
def test_a_boundary_of_a_grid_is_that_of_its_rows(order: str, suffix: str, invoke: Invoke) -> None:
    frame = simulate(400, seed=4)
    rows, grid_file = write(frame, "rows.parquet"), Path(f"grid{suffix}")
    bins = ("--uncertainty-bins", 3, "--score-bins", 5, "--order", order, "-q")
    assert invoke("bin", rows, *bins, "-o", grid_file).code == 0
    taken = []
    for source, more in ((rows, bins), (grid_file, ("-q",))):
        fit = ("boundary", source, "--precision 0.6 --method ew-dpmt --folds 0 -o model.json")
        assert invoke(*fit, *more).code == 0
        applied = invoke("apply", "model.json", rows, "-q", "-o taken.parquet").result()
        taken.append(applied["decision"].to_list())
    assert taken[0] == taken[1]
    assert 0 < sum(taken[0]) < frame.height


def test_a_table_of_narrow_scores_is_told_so(invoke: Invoke) -> None:
    """A row on a threshold is selected as in its own type: text cannot tell which that was."""
    narrow = simulate(400, seed=4).with_columns(cs.float().cast(pl.Float32))
    rows, models = write(narrow, "rows.parquet"), []
    for grid_file, more in (("grid.parquet", ()), ("grid.csv", ("--dtype", "float32"))):
        assert invoke("bin", rows, "--score-bins", 9, "-q", "-o", grid_file).code == 0
        models.append(fit(invoke, Path(grid_file), "--method", "exact", *more).result())
    first, second = (
        {role: columns[role]["dtype"] for role in ("score", "uncertainty")}
        for columns in (model["columns"] for model in models)
    )
    assert first == second == {"score": "float32", "uncertainty": "float32"}
    assert models[0]["score_thresholds"] == models[1]["score_thresholds"]


def test_a_table_of_logits_asks_for_their_scale(invoke: Invoke) -> None:
    """A Parquet table says what scale its scores are of, a CSV table cannot."""
    logits = simulate(300).with_columns(score=(pl.col("score") / (1 - pl.col("score"))).log())
    rows, grid_file = write(logits, "rows.parquet"), Path("grid.csv")
    made = invoke("bin", rows, "--scale", "logit", "--score-bins", 9, "-q", "-o", grid_file)
    assert made.code == 0
    fit(invoke, grid_file, "--method", "exact").refused(3, "--scale")
    assert fit(invoke, grid_file, "--method", "exact", "--scale", "logit").code == 0
