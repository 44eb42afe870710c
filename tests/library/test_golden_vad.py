"""The golden cases of variance-adjusting debiasing, through the library."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.apply.apply import apply_model
from calibkit.files.sources import open_source
from calibkit.methods.vad.rows import read_vad_rows
from calibkit.methods.vad.run import fit_vad
from calibkit.models.model import decode
from calibkit.options.apply import ApplyOptions
from calibkit.options.vad import VadOptions
from tests.conftest import ROOT

GOLDEN = ROOT / "tests" / "golden"


def expected(case: str) -> Any:
    return json.loads((GOLDEN / case / "expected.json").read_text())["expected"]


def close(found: Any, wanted: Any) -> bool:
    return bool(np.allclose(found, wanted, rtol=1e-9, atol=1e-9))


@pytest.mark.parametrize("link", ["logit", "identity"])
@pytest.mark.parametrize("replicates", ["exchangeable", "bootstrap"])
def test_three_members(link: str, replicates: str) -> None:
    folder, wanted = GOLDEN / "p14_vad_lambda_s3", expected("p14_vad_lambda_s3")
    own = wanted[f"{link}/{replicates}"]
    options = VadOptions(link=link, replicates=replicates, members=("f*",))
    rows = read_vad_rows(open_source([str(folder / "validation.parquet")]), options)
    model = fit_vad(*rows, options).model
    assert close(model.lambda_, own["lam"])
    assert close(model.mean, own["mean1"])
    assert close(model.fit.variance, own["var_y"])
    assert close(model.fit.conditional_variance, own["var_f"])
    applied = apply_model(
        decode(model.to_json()),
        open_source([str(folder / "test.parquet")]),
        ApplyOptions(score="pred"),
    )
    assert close(applied.frame["calibrated"], own["applied"])


@pytest.mark.parametrize("link", ["logit", "identity"])
def test_in_tandem(link: str) -> None:
    folder: Path = GOLDEN / "p15_vad_plus"
    own = expected("p15_vad_plus")[link]
    test, train = (str(folder / f"val_{name}.parquet") for name in ("test", "train"))
    options = VadOptions(link=link, members=("f*",), calibrated="calibrated", train_input=train)
    model = fit_vad(*read_vad_rows(open_source([test]), options), options).model
    assert close(model.lambda_, own["lam"])
    frame = pl.read_parquet(folder / "test.parquet")
    assert frame.columns == ["calibrated"]
    applied = apply_model(
        model, open_source([str(folder / "test.parquet")]), ApplyOptions(column="debiased")
    )
    assert close(applied.frame["debiased"], own["applied"])
