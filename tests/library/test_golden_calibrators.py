"""Golden cases of calibration maps, through the library."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.errors import DataError
from calibkit.maps.method import pooled
from calibkit.maps.methods import METHODS
from calibkit.maps.model import ScoreMap
from calibkit.methods.calibrators.run import fit_calibrator
from calibkit.options.calibrate import CalibrateOptions
from calibkit.summaries.tally import count_rows
from tests.conftest import ROOT
from tests.library.samples import golden, score_rows


def table(case: str, file: str = "rows.parquet") -> pl.DataFrame:
    return pl.read_parquet(ROOT / "tests" / "golden" / case / file)


def values(case: str, score: np.ndarray, scale: Any, **options: Any) -> np.ndarray:
    """Return what a calibrator fitted on a case's rows makes of scores."""
    frame = table(case)
    rows = score_rows(frame["score"].to_numpy(), frame["label"].to_numpy(), scale=scale)
    model = fit_calibrator(rows, CalibrateOptions(clip=0.0, scale=scale, **options)).model
    return METHODS[model.method].mapped(model.own_map, score, scale, 1)[0]


def close(case: str, found: np.ndarray, wanted: list[float]) -> None:
    allowed = golden(case)["tolerance"]
    assert found == pytest.approx(wanted, rel=allowed["rel"], abs=allowed["abs"])


@pytest.mark.parametrize("case", ["p16_platt", "p17_platt_separated"])
@pytest.mark.parametrize("targets", ["smoothed", "mle"])
def test_platt(case: str, targets: str) -> None:
    wanted = golden(case)["expected"][targets]
    score = table(case)["score"].to_numpy()
    if wanted is None:
        with pytest.raises(DataError, match="separated by a threshold"):
            values(case, score, "logit", method="platt", targets=targets)
        return
    found = values(case, score, "logit", method="platt", targets=targets)
    close(case, found, wanted["prob"])


CASE = "p18_maps"


def test_isotonic_at_its_knots() -> None:
    wanted = golden(CASE)["expected"]["isotonic"]
    at_knots = values(CASE, np.array(wanted["knots"]), "probability", method="isotonic")
    close(CASE, at_knots, wanted["values"])


def test_scaling_binning_of_three_parts() -> None:
    known = golden(CASE)
    frame = table(CASE)
    size = frame.height // 3
    cuts = [(0, size), (size, size), (2 * size, frame.height - 2 * size)]
    parts = []
    for start, length in cuts:
        part = frame.slice(start, length)
        tally = count_rows(
            part["score"].to_numpy(),
            np.zeros(length, np.uint16),
            part["label"].to_numpy().astype(np.uint8),
            1,
        )
        parts.append(pooled(tally, "probability"))
    options = CalibrateOptions(method="scaling-binning", bins=known["params"]["bins"])
    method = METHODS["scaling-binning"]
    one = ScoreMap(clip=0.0, **method.fit(parts[0], options, parts).fields)
    new = table(CASE, "new.parquet")["score"].to_numpy().clip(0, 1)
    found = method.mapped(one, new, "probability", 1)[0]
    close(CASE, found, known["expected"]["scaling_binning_split"])
