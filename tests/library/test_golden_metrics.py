"""Golden cases of metrics, through the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from calibkit.bins.binning import fit_grid, grid_frame, grid_metadata
from calibkit.evaluation.evaluate import evaluate
from calibkit.files.sinks import write_frames
from calibkit.files.sources import open_source
from calibkit.options.evaluate import EvaluateOptions
from tests.conftest import ROOT
from tests.library.samples import golden_rows

GOLDEN = ROOT / "tests" / "golden"
STRATEGIES = {"equal-width": "unit", "range": "range", "equal-mass": "mass"}


def known(case: str) -> Any:
    return json.loads((GOLDEN / case / "expected.json").read_text(encoding="utf-8"))


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_metrics_of_the_top_keep_ties_at_the_cut(strategy: str) -> None:
    case = known("p13_top_alpha_ties_at_cut")
    options = EvaluateOptions(
        scores=("pred", "pred2"),
        bins=case["params"]["bins"],
        bin_strategy=strategy,  # type: ignore[arg-type]  # a parameter of the test
        top=case["params"]["alphas"],
        top_by="pred",
        intervals=False,
    )
    source = open_source([str(GOLDEN / "p13_top_alpha_ties_at_cut" / "rows.parquet")])
    found = evaluate(options, source).metrics.metrics
    bins = STRATEGIES[strategy]
    for share, expected in case["expected"].items():
        own, other = found["pred"][f"top:{share}"], found["pred2"][f"top:{share}"]
        values = [own[name] for name in ("count", "calibration_bias", "log_loss", "ece", "mce")]
        wanted = ("n", "calibration_error", "log_loss", f"ece_{bins}", f"mce_{bins}")
        assert values == pytest.approx([expected[name] for name in wanted], rel=1e-12, abs=1e-12)
        reduction = other["log_loss_reduction"]
        assert reduction == pytest.approx(expected["log_loss_reduction"], rel=1e-10, abs=1e-12)


def test_calibration_error_over_the_cells_of_a_grid(tmp_path: Path) -> None:
    case = known("p12_ece_at_j")
    params, expected = case["params"], case["expected"]
    rows = golden_rows("p12_ece_at_j", "rows.parquet")
    grid, table = fit_grid(rows, params["K"], params["L"]), str(tmp_path / "grid.parquet")
    metadata = grid_metadata(grid, rows, "equal-mass")
    write_frames([grid_frame(grid)], table, metadata=metadata)
    options = EvaluateOptions(scores="prob", grid=table, grid_score="score")
    source = open_source([str(GOLDEN / "p12_ece_at_j" / "rows.parquet")])
    found = evaluate(options, source).metrics.metrics["prob"]["all"]
    for name, wanted in (("ece_at", "ece_at_j"), ("cumulative_ece_at", "cumulative")):
        values = [found[f"{name}:{j}"] for j in range(params["L"])]
        assert values == pytest.approx(expected[wanted], rel=1e-10, abs=1e-10)
