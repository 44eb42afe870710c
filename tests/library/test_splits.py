"""Folds that follow a column of groups or of times."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.columns.rows import RowFinder
from calibkit.columns.segments import group_parts, time_parts
from calibkit.errors import DataError, UsageError
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.fit import FittedBoundary, fit_boundary
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.shared import ColumnOptions
from calibkit.summaries.score_rows import read_score_rows
from tests.naive import boundaries as naive


def finder(column: pl.Series) -> RowFinder:
    return RowFinder(Source.from_frame(column.to_frame(), "scores.csv"))


@given(st.lists(st.integers(-3, 12), min_size=1, max_size=40), st.integers(2, 6), st.integers(0, 9))
def test_a_group_is_in_one_part_whatever_else_there_is(
    values: list[int], parts: int, seed: int
) -> None:
    column = pl.Series("user", values)
    found = group_parts(column, parts, seed, finder(column))
    assert ((found >= 0) & (found < parts)).all()
    for value in set(values):
        alone = pl.Series("user", [value])
        own = {int(part) for part, other in zip(found, values, strict=True) if other == value}
        assert own == {int(group_parts(alone, parts, seed, finder(alone))[0])}
    text = column.cast(pl.String)
    assert group_parts(text, parts, seed, finder(text)).tolist() == found.tolist()


def test_many_groups_make_parts_of_about_equal_size() -> None:
    column = pl.Series("user", [f"user {i}" for i in range(20_000)])
    found, other = (group_parts(column, 5, seed, finder(column)) for seed in (0, 1))
    assert (abs(np.bincount(found) - 4_000) < 5 * np.sqrt(20_000 * 0.2 * 0.8)).all()
    assert (other != found).any()


@given(st.lists(st.integers(0, 30), min_size=1, max_size=60), st.integers(2, 6))
def test_blocks_follow_each_other_in_time(times: list[int], parts: int) -> None:
    column = pl.Series("day", times)
    found = time_parts(column, parts, finder(column)).tolist()
    for time, part in zip(times, found, strict=True):
        earlier = sum(other < time for other in times)
        assert part == earlier * parts // len(times)  # ties share the block of the first of them
    dates = pl.Series("day", times).cast(pl.Date)
    assert time_parts(dates, parts, finder(dates)).tolist() == found


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 4)), min_size=1, max_size=40),
    st.integers(2, 6),
)
def test_blocks_of_time_hold_rows_as_often_as_they_weigh(
    rows: list[tuple[int, int]], parts: int
) -> None:
    times, weight = (pl.Series("day", own) for own in zip(*rows, strict=True))
    if not weight.sum():
        return
    weights = weight.cast(pl.Float64).to_numpy()
    found = time_parts(times, parts, finder(times), weights)
    written = times.repeat_by(weight).explode().drop_nulls()
    wanted = time_parts(written, parts, finder(written))
    assert np.repeat(found, weight.to_numpy()).tolist() == wanted.tolist()
    assert found.max() < parts
    # Of weights that are no numbers of rows each row that weighs something is one.
    present = weights > 0
    alone = time_parts(times.filter(present), parts, finder(times))
    parted = time_parts(times, parts, finder(times), weights * 0.3)
    assert parted[present].tolist() == alone.tolist()


@pytest.mark.parametrize("split", [group_parts, time_parts])
def test_a_row_without_a_value_is_refused(split: object) -> None:
    column = pl.Series("user", [1.0, None, float("nan")])
    arguments = (5, 0) if split is group_parts else (5,)
    with pytest.raises(DataError, match=r"2 rows \(first: rows 2, 3") as caught:
        split(column, *arguments, finder(column))  # type: ignore[operator]
    assert caught.value.column == "user"


def example() -> pl.DataFrame:
    rng = np.random.default_rng(3)
    score = rng.integers(0, 30, 400) / 30
    label = (rng.random(400) < score).astype(int)
    user, day = rng.integers(0, 40, 400), rng.integers(0, 90, 400)
    return pl.DataFrame({"score": score, "label": label, "user": user, "day": day})


def fit(frame: pl.DataFrame, *, folds: int = 5, **options: str) -> FittedBoundary:
    asked = BoundaryOptions(precision="0.7", method="st", folds=folds, **options)
    others = tuple(options.values())
    return fit_boundary(
        read_score_rows(Source.from_frame(frame), ColumnOptions(), others=others), asked
    )


def best_threshold(frame: pl.DataFrame) -> float:
    """Return the threshold of most positives, then fewest rows, at a precision of 0.7."""
    label = frame["label"].to_list()
    entries = naive.tally(frame["score"].to_list(), [0] * frame.height, label)
    (prefixes,) = naive.prefix_points(entries, 1)
    return naive.best_threshold(prefixes, "precision", Fraction(7, 10), sum(label))


@pytest.mark.parametrize(("option", "name"), [("groups", "user"), ("time", "day")])
def test_cross_validation_follows_the_column(option: str, name: str) -> None:
    frame = example()
    column = frame[name]
    if option == "groups":
        part = group_parts(column, 5, 0, finder(column))
        folds = [(part != fold, part == fold) for fold in range(5)]
    else:
        part = time_parts(column, 6, finder(column))
        folds = [(part < fold, part == fold) for fold in range(1, 6)]
    selected = hits = positives = 0
    for fitting, judged in folds:
        threshold = best_threshold(frame.filter(pl.Series(fitting)))
        held_out = frame.filter(pl.Series(judged))
        chosen = held_out.filter(pl.col("score") >= threshold)
        selected, hits = selected + chosen.height, hits + int(chosen["label"].sum())
        positives += int(held_out["label"].sum())
    model = fit(frame, **{option: name}).model
    found = model.fit.cross_validated
    assert (found.folds, found.precision, found.recall) == (5, hits / selected, hits / positives)
    shuffled = frame.sample(fraction=1.0, shuffle=True, seed=1)
    assert fit(shuffled, **{option: name}).model.as_dict() == model.as_dict()


def test_without_folds_a_column_of_groups_is_not_looked_at() -> None:
    frame = example().with_columns(user=pl.when(pl.col("user") > 0).then("user"))
    model = fit(frame, groups="user", folds=0).model
    assert model.fit.cross_validated is None
    assert model.score_thresholds == [best_threshold(frame)]


def test_too_few_values_leave_the_boundary_unjudged() -> None:
    fitted = fit(example().with_columns(user=pl.lit(1)), groups="user")
    assert fitted.model.fit.cross_validated is None
    assert "too few values" in fitted.warnings[0]


def test_folds_follow_one_column() -> None:
    with pytest.raises(UsageError, match="one of them"):
        BoundaryOptions(precision="0.7", method="exact", groups="user", time="day")
