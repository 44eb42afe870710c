"""Folds by the command line: --groups and --time."""

from __future__ import annotations

import json
from pathlib import Path

from .conftest import Invoke
from .score_files import simulate, write


def test_a_column_of_folds_that_cannot_be(tmp_path: Path, invoke: Invoke) -> None:
    path = write(simulate().with_row_index("row"), tmp_path / "a.csv")
    missing = invoke("boundary", path, "--precision", "0.75", "--time", "rwo")
    assert missing.code == 2 and "did you mean 'row'" in missing.stderr
    both = invoke("boundary", path, "--precision", "0.75", "--time", "row", "--groups", "row")
    assert both.code == 2
    grid = tmp_path / "grid.parquet"
    assert invoke("bin", path, "--score-bins", "5", "-o", grid).code == 0
    lost = invoke("boundary", grid, "--precision", "0.75", "--time", "row")
    assert lost.code == 2 and "need the rows" in lost.stderr


def test_cross_validation_chooses_the_levels(tmp_path: Path, invoke: Invoke) -> None:
    path, out = write(simulate(), tmp_path / "a.parquet"), tmp_path / "b.json"
    goal = ("--precision", "0.75", "--method", "exact")
    line = ("boundary", path, *goal, "--uncertainty-bins")
    done = invoke(*line, "auto", "-o", out)
    assert done.code == 0 and "chosen by cross-validation" in done.stderr
    levels = json.loads(out.read_text())["provenance"]["options"]["uncertainty_bins"]
    fixed = tmp_path / "fixed.json"
    assert invoke(*line, str(levels), "-o", fixed).code == 0
    assert fixed.read_bytes() == out.read_bytes()
    plan = invoke(*line, "auto", "--dry-run")
    assert plan.code == 0 and b"1, 2, 3, 5, 7, 11" in plan.stdout
    plan = invoke(*line, "2", "--dry-run")
    assert plan.code == 0 and b"1, 2, 3, 5, 7, 11" not in plan.stdout
    for more in (("--folds", "0"), ("--compare",)):
        assert invoke(*line, "auto", *more).code == 2
    for wrong in ("0", "-1", "1.5", "many"):
        refused = invoke(*line, wrong)
        assert refused.code == 2 and "whole number" in refused.stderr
