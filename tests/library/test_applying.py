"""Applying in batches: the rows, the warnings and the errors of applying to all rows at once."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

from calibkit.apply import apply as applying
from calibkit.apply.apply import apply_model, plan_application
from calibkit.errors import DataError
from calibkit.files.sources import Source, open_source
from calibkit.models.model import Model
from calibkit.options.apply import ApplyOptions
from calibkit.runtime.memory import Memory
from tests.library.samples import example, fit, score_rows

TABLE = example(150, seed=11)
ROWS = score_rows(**TABLE, scale="probability")
MODEL = fit(ROWS, precision="0.7", uncertainty_bins=3, folds=0).model
RANDOM = fit(ROWS, precision="0.7", method="stochastic", folds=0).model
FRAME = pl.DataFrame({"id": [f"row {i}" for i in range(150)], **TABLE})


def in_batches(
    model: Model, source: Source, spec: ApplyOptions, threads: int = 2
) -> tuple[list[pl.DataFrame], list[str]]:
    said: list[str] = []
    plan = plan_application(model, source, spec)
    return list(plan.frames(Memory(1), threads, said.append)), said


@pytest.fixture(autouse=True)
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_MOST_ROWS", 11)
    monkeypatch.setattr(applying, "_FEWEST_ROWS", 1)


def files(folder: Path, frame: pl.DataFrame) -> Source:
    """Return the rows of a frame as three files."""
    for place, (start, end) in enumerate(pairwise((0, 40, 100, frame.height))):
        frame[start:end].write_parquet(folder / f"part-{place}.parquet")
    return open_source([str(folder)])


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (MODEL, {}),
        (MODEL, {"selected": True, "keep": ["id"]}),
        (MODEL, {"column": "block", "on_missing": "null"}),
        (RANDOM, {"key": "row-number"}),
        (RANDOM, {"key": "id", "seed": 5}),
    ],
)
def test_rows_are_those_of_all_at_once(
    tmp_path: Path, model: Model, options: dict[str, Any], threads: int
) -> None:
    source, spec = files(tmp_path, FRAME), ApplyOptions(**options)
    frames, said = in_batches(model, source, spec, threads)
    assert len(frames) >= 14 and not said
    assert pl.concat(frames).equals(apply_model(model, source, spec).frame)


def holes() -> pl.DataFrame:
    lacking = np.arange(150) % 7 == 3
    score = np.where(lacking, math.nan, TABLE["score"])
    score[20:60] = math.nan  # whole batches without a value
    return FRAME.with_columns(score=pl.Series(score))


def test_missing_values_are_counted_over_all_batches(tmp_path: Path) -> None:
    source = files(tmp_path, holes())
    for key in (None, "row-number"):
        spec = ApplyOptions(on_missing="null", key=key)
        model = MODEL if key is None else RANDOM
        whole = apply_model(model, source, spec)
        frames, said = in_batches(model, source, spec)
        assert pl.concat(frames).equals(whole.frame)
        assert tuple(said) == whole.warnings and said


@pytest.mark.parametrize("value", [math.nan, 7.0, math.inf])
def test_errors_count_the_rows_of_all_batches(tmp_path: Path, value: float) -> None:
    score = TABLE["score"].astype(float)
    score[[45, 46, 70, 99, 100, 149]] = value
    source = files(tmp_path, FRAME.with_columns(score=pl.Series(score)))
    spec = ApplyOptions()
    with pytest.raises(DataError) as whole:
        apply_model(MODEL, source, spec)
    with pytest.raises(DataError) as caught:
        in_batches(MODEL, source, spec)
    assert caught.value.as_dict() == whole.value.as_dict()
    assert caught.value.rows == 6
    assert caught.value.first_rows == [6, 7, 31, 60]


def test_rows_of_one_batch_are_judged_before_any_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_MOST_ROWS", 1000)
    source = Source.from_frame(holes())
    spec = ApplyOptions(on_missing="null")

    def stop(text: str) -> None:
        raise ValueError(text)

    plan = plan_application(MODEL, source, spec)
    with pytest.raises(ValueError, match="lack a value"):
        next(plan.frames(Memory(10**9), 2, stop))
