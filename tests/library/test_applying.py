"""Applying a boundary: every row decided as the model says, in batches as all at once."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import calibkit as ck
from calibkit.apply import apply as applying
from calibkit.apply.apply import apply_model, plan_application
from calibkit.errors import DataError
from calibkit.files.sources import Source, open_source
from calibkit.models.model import Model
from calibkit.options.apply import ApplyOptions
from calibkit.runtime.memory import Memory
from tests.library.samples import example, fit, score_rows
from tests.naive import boundaries as naive

TABLE = example(150, seed=11)
ROWS = score_rows(**TABLE, scale="probability")
MODEL = fit(ROWS, precision="0.7", uncertainty_bins=3, folds=0).model
RANDOM = fit(ROWS, precision="0.7", method="stochastic", folds=0).model
FRAME = pl.DataFrame({"id": [f"row {i}" for i in range(150)], **TABLE})


def expected(score: list[float], uncertainty: list[float]) -> tuple[list[int], list[float | None]]:
    """Return decisions and margins, read off the model."""
    levels = naive.assign_levels(uncertainty, MODEL.uncertainty_min, MODEL.uncertainty_edges)
    named = {None: math.nan, "-inf": -math.inf, "inf": math.inf}
    cuts = [named.get(t, t) for t in (MODEL.score_thresholds[level] for level in levels)]
    margins = naive.margins(score, cuts, probability=True)
    return (
        [int(s >= t) for s, t in zip(score, cuts, strict=True)],
        [None if math.isnan(margin) else margin for margin in margins],
    )


@given(
    st.lists(
        st.tuples(
            st.floats(0, 1) | st.sampled_from(TABLE["score"].tolist()),
            st.floats(-10, 10) | st.sampled_from(MODEL.uncertainty_edges),
        ),
        min_size=1,
        max_size=20,
    )
)
def test_new_rows_are_decided_by_level_and_threshold(rows: list[tuple[float, float]]) -> None:
    score, uncertainty = (list(column) for column in zip(*rows, strict=True))
    source = Source.from_frame(pl.DataFrame({"score": score, "uncertainty": uncertainty}))
    found = apply_model(MODEL, source, ApplyOptions()).frame
    decisions, margins = expected(score, uncertainty)
    assert found["decision"].to_list() == decisions
    for margin, wanted in zip(found["margin"].to_list(), margins, strict=True):
        assert margin == wanted or margin == pytest.approx(wanted, rel=1e-14)


def in_batches(
    model: Model, source: Source, spec: ApplyOptions, threads: int = 2
) -> tuple[list[pl.DataFrame], list[str]]:
    said: list[str] = []
    plan = plan_application(model, source, spec)
    return list(plan.frames(Memory(1), threads, said.append)), said


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(applying, "_MOST_ROWS", 11)
    monkeypatch.setattr(applying, "_FEWEST_ROWS", 1)


def files(folder: Path, frame: pl.DataFrame) -> Source:
    """Return the rows of a frame as three files."""
    for place, (start, end) in enumerate(pairwise((0, 40, 100, frame.height))):
        frame[start:end].write_parquet(folder / f"part-{place}.parquet")
    return open_source([str(folder)])


def holes() -> pl.DataFrame:
    lacking = np.arange(150) % 7 == 3
    score = np.where(lacking, math.nan, TABLE["score"])
    score[20:60] = math.nan  # whole batches without a value
    return FRAME.with_columns(score=pl.Series(score))


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("model", "options"),
    [
        (MODEL, {}),
        (MODEL, {"selected": True, "keep": ["id"]}),
        (MODEL, {"column": "block", "on_missing": "null"}),
        (RANDOM, {"key": "row-number", "on_missing": "null"}),
        (RANDOM, {"key": "id", "seed": 5}),
    ],
)
def test_rows_and_warnings_are_those_of_all_at_once(
    tmp_path: Path, model: Model, options: dict[str, Any], threads: int
) -> None:
    spec = ApplyOptions(**options)
    for frame in (FRAME, holes()) if "on_missing" in options else (FRAME,):
        source = files(tmp_path, frame)
        whole = apply_model(model, source, spec)
        frames, said = in_batches(model, source, spec, threads)
        assert len(frames) >= 14 and tuple(said) == whole.warnings
        assert bool(said) == (frame is not FRAME)
        assert pl.concat(frames).equals(whole.frame)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("value", [math.nan, 7.0, math.inf])
def test_errors_count_the_rows_of_all_batches(tmp_path: Path, value: float) -> None:
    score = TABLE["score"].astype(float)
    score[[45, 46, 70, 99, 100, 149]] = value
    source, spec = files(tmp_path, FRAME.with_columns(score=pl.Series(score))), ApplyOptions()
    with pytest.raises(DataError) as whole:
        apply_model(MODEL, source, spec)
    with pytest.raises(DataError) as caught:
        in_batches(MODEL, source, spec)
    assert caught.value.as_dict() == whole.value.as_dict()
    assert (caught.value.rows, caught.value.first_rows) == (6, [6, 7, 31, 60])


def test_rows_of_one_batch_are_judged_before_any_is_seen() -> None:
    def stop(text: str) -> None:
        raise ValueError(text)

    plan = plan_application(MODEL, Source.from_frame(holes()), ApplyOptions(on_missing="null"))
    with pytest.raises(ValueError, match="lack a value"):
        next(plan.frames(Memory(10**9), 2, stop))


def test_columns_that_differ_in_case_keep_their_own_names() -> None:
    model = ck.fit_calibrator({"score": [0.9, 0.2, 0.3, 0.7], "label": [1, 0, 0, 1]}, method="none")
    rows = pl.DataFrame({"Id": [1], "Score": [0.9]})
    for keep in ("Score", "S*", "score"):
        assert model.apply(rows, keep=keep).columns == ["Score", "calibrated"]
    with pytest.raises(ck.UsageError, match="has a column 'Score' already"):
        model.apply(rows, column="Score")
    assert model.apply(rows, column="Score", overwrite_columns=True).columns == ["Id", "Score"]
    assert model.apply(rows, column="score").columns == ["Id", "Score", "score"]
