"""``calibkit simulate``: its outputs, its errors, and the sample data that it made."""

from __future__ import annotations

import io
import json
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit import simulate_posterior
from tests.conftest import ROOT, Invoke, clean_environment

SAMPLES = ROOT / "sample_data"

NUMBERS = ("score", "uncertainty", "evidence", "entropy", "true_positivity")
POSTERIOR_COLUMNS = ("id", "label", *NUMBERS)


@pytest.mark.parametrize("suffix", ["parquet", "csv"])
def test_every_format_holds_the_rows_of_the_library(invoke: Invoke, suffix: str) -> None:
    outcome = invoke("simulate", "posterior", "--rows 30 --seed 5 -o", f"rows.{suffix}")
    assert outcome.stdout == b""
    outcome.succeeded("30 rows")
    expected = simulate_posterior(30, seed=5)
    assert outcome.result().cast(dict(expected.schema)).equals(expected)


def test_every_option_reaches_the_simulation(invoke: Invoke) -> None:
    options = (
        "--rows 40 --seed 7 --true-prior 2,6 --model-prior 1,1 --tau 2 "
        "--evidence 3,300 --dtype float32 --keep label,score --keep un* -q -o"
    )
    outcome = invoke("simulate", "posterior", options, "rows.parquet")
    assert outcome.stderr == ""
    own: dict[str, Any] = {"true_prior": (2, 6), "model_prior": (1, 1), "evidence": (3, 300)}
    keep = ["label", "score", "uncertainty"]
    expected = simulate_posterior(40, seed=7, tau=2, dtype="float32", keep=keep, **own)
    assert outcome.result().equals(expected)
    whole = simulate_posterior(40, seed=7, tau=2, dtype="float32", **own)
    assert whole.select(keep).equals(expected)


def test_a_pipe_gets_csv_unless_told_otherwise(invoke: Invoke) -> None:
    expected = simulate_posterior(20)
    for arguments in ([], ["-o", "-"]):
        outcome = invoke("simulate", "posterior", "--rows", 20, *arguments)
        assert pl.read_csv(outcome.stdout).cast(dict(expected.schema)).equals(expected)
    outcome = invoke("simulate", "posterior", "--rows", 20, "--output-format", "parquet")
    assert pl.read_parquet(io.BytesIO(outcome.stdout)).equals(expected)


def test_json_summary(invoke: Invoke) -> None:
    output = str(Path("rows.csv"))
    outcome = invoke("simulate", "posterior", "--rows", 20, "-o", output, "--json")
    columns = list(POSTERIOR_COLUMNS)
    expected = {"rows": 20, "columns_added": columns, "output": output, "warnings": []}
    assert json.loads(outcome.stdout) == expected
    assert outcome.stderr == ""


def test_one_class_only_is_worth_a_warning(invoke: Invoke) -> None:
    said = "every row has the label 0"
    invoke("simulate", "posterior", "--rows", 1, "-o rows.csv").succeeded(said)
    invoke("simulate", "posterior", "--rows 1 --warnings error -o rows.csv").refused(3, said)


def test_dry_run_shows_the_first_rows_and_writes_nothing(invoke: Invoke) -> None:
    output = Path("rows.csv")
    outcome = invoke("simulate", "posterior", "--rows", 10**9, "-o", output, "--dry-run")
    assert outcome.code == 0
    assert b"Would simulate 1,000,000,000 rows" in outcome.stdout
    outcome = invoke("simulate", "posterior", "--rows", 9, "-o", output, "--dry-run", "--json")
    plan = {"dry_run": True, "rows": 9, "columns": list(POSTERIOR_COLUMNS)}
    assert json.loads(outcome.stdout) == plan
    assert not output.exists()


def test_an_unknown_kind_names_the_nearest(invoke: Invoke) -> None:
    outcome = invoke("simulate", "posteriors", "--rows", 9)
    assert outcome.code == 2
    assert "posterior" in outcome.stderr.replace("posteriors", "")
    assert invoke("simulate").code == 2


# The sample data ---------------------------------------------------------------------------------


def test_sample_data_can_be_made_again(tmp_path: Path) -> None:
    """By the one script; row for row what is stored.

    Another version of numpy may draw some numbers otherwise: a few rows differ then.
    """
    subprocess.run(
        [sys.executable, SAMPLES / "make.py", tmp_path],
        check=True,
        capture_output=True,
        env=clean_environment(),
    )
    for path in sorted(tmp_path.iterdir()):
        read = pl.read_csv if path.suffix == ".csv" else pl.read_parquet
        made, kept = read(path), read(SAMPLES / path.name)
        assert made.schema == kept.schema
        same = sum(one == other for one, other in zip(made.rows(), kept.rows(), strict=True))
        assert same >= 0.99 * kept.height, path.name
    names = {path.name for path in tmp_path.iterdir()}
    assert names == {"calib.parquet", "test.parquet", "scores.csv"}


def test_sample_data_stays_small_and_its_page_says_how_it_was_made() -> None:
    sizes = {path.name: path.stat().st_size for path in SAMPLES.iterdir() if path.is_file()}
    assert max(sizes.values()) < 300_000
    assert sum(sizes.values()) < 1_000_000
    page = (SAMPLES / "README.md").read_text(encoding="utf-8")
    for command in runpy.run_path(str(SAMPLES / "make.py"))["COMMANDS"]:
        assert command in page
    assert all(f"`{name}`" in page for name in sizes if name != "README.md")


def test_a_boundary_beats_every_single_threshold_on_the_sample_data(invoke: Invoke) -> None:
    """Even the best threshold chosen on the test rows themselves, at the same precision there."""
    rows = pl.read_parquet(SAMPLES / "test.parquet")
    ranked = (
        rows.group_by("score")
        .agg(pl.col("label").sum().cast(pl.Int64), pl.len().cast(pl.Int64).alias("rows"))
        .sort("score", descending=True)
    )
    hits = np.cumsum(ranked["label"].to_numpy())
    selected = np.cumsum(ranked["rows"].to_numpy())
    for bound in ("0.7", "0.8"):
        model = Path(f"{bound}.json")
        line = f"boundary {SAMPLES / 'calib.parquet'} --precision {bound} --method exact --folds 0"
        line += f" --uncertainty-bins 3 --test {SAMPLES / 'test.parquet'} -q -o {model}"
        assert invoke(*line.split()).code == 0
        judged = json.loads(model.read_text(encoding="utf-8"))["fit"]["test"]
        precise = hits >= judged["precision"] * selected
        best = hits[precise].max() / hits[-1]
        assert judged["recall"] > 2 * best


def test_theory_says_what_scores_are_worth(invoke: Invoke) -> None:
    from docs.evidence.arora_theory import expected_test_positivity

    line = "simulate posterior --rows 40000 --tau 4 --true-prior 2,6 --model-prior 1,1 --theory"
    rows = invoke(*line.split(), "-o theory.parquet").result()
    assert rows.columns == [*POSTERIOR_COLUMNS, "expected_positivity", "bias"]
    priors: Any = {"true_prior": (2, 6), "model_prior": (1, 1), "tau": 4}
    expected = expected_test_positivity(rows["score"], rows["evidence"], **priors)
    np.testing.assert_allclose(rows["expected_positivity"], expected, rtol=1e-9)
    np.testing.assert_allclose(rows["bias"], rows["score"] - expected, atol=1e-9)
    error = (rows["true_positivity"] - rows["expected_positivity"]).to_numpy()
    assert abs(error.mean()) < 4 * error.std() / 200  # 4 standard errors of the mean
    assert abs(np.corrcoef(error, rows["score"])[0, 1]) < 4 / 200
