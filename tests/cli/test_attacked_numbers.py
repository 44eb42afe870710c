"""Numbers that once gave a wrong result, or exit code 70."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from tests.cli.score_files import write
from tests.conftest import Invoke


def fit(invoke: Invoke, path: Path, *options: object) -> dict[str, Any]:
    """Fit a boundary and return its model."""
    return invoke("boundary", path, *options, "--folds", "0", "-q").result()


@pytest.mark.parametrize("method", ["exact", "st", "stochastic"])
@pytest.mark.parametrize("bound", ["--capacity 10", "--capacity 3", "--fpr 1", "--precision 0"])
def test_a_bound_that_cannot_bind_lets_all_float_weights_in(
    bound: str, method: str, invoke: Invoke
) -> None:
    rows = pl.DataFrame({"score": [0.9, 0.5, 0.1], "label": [1, 0, 1], "w": [0.3, 0.1, 0.7]})
    path = write(rows, "rows.parquet")
    model = fit(invoke, path, bound, "--method", method, "--weight", "w")
    assert model["fit"]["in_sample"]["recall"] == 1.0
    assert model["fit"]["upper_bound"] == 1.0
    every = fit(invoke, path, "--recall", "1", "--method", method, "--weight", "w")
    assert every["fit"]["in_sample"]["recall"] == 1.0
    least = fit(invoke, path, "--capacity 0.999999999 --method exact --weight w")  # which binds
    assert least["fit"]["in_sample"]["recall"] == pytest.approx(0.3)


@pytest.mark.parametrize("measure", ["mcc", "gmean"])
def test_measures_of_float_weights_whose_sums_are_rounded(measure: str, invoke: Invoke) -> None:
    rows = pl.DataFrame(
        {
            "score": [0.5, 0.6, 0.6, 0.5],
            "label": [0, 0, 0, 1],
            "w": [0.925614088271161, 0.488741569461408, 0.23008952114516357, 0.3546801225823851],
        }
    )
    path = write(rows, "rows.parquet")
    options = ("--method", "exact", "--uncertainty-bins", "1", "--weight", "w")
    model = fit(invoke, path, "--maximize", measure, *options)
    # Of the reachable boundaries none is better than chance, so nothing is selected.
    assert model["fit"]["in_sample"]["objective_value"] == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize(
    ("column", "kind", "value"),
    [
        *((column, pl.UInt64, 2**53 + 1) for column in ("score", "uncertainty", "weight")),
        *((column, pl.Int64, -(2**53) - 1) for column in ("score", "uncertainty")),
    ],
)
def test_integers_that_floats_cannot_hold(
    column: str, kind: type[pl.DataType], value: int, invoke: Invoke
) -> None:
    values = {name: [1, 1, 2, 3] for name in ("score", "uncertainty", "weight")}
    values[column] = [1, value, 2, 3]
    rows = pl.DataFrame(values, schema=dict.fromkeys(values, kind))
    path = write(rows.with_columns(label=pl.Series([1, 0, 1, 0])), "rows.parquet")
    ended = invoke("boundary", path, "--scale raw --weight weight --precision 0.5 --folds 0")
    ended.refused(3, "beyond 2^53", f"column '{column}'", str(value))


@pytest.fixture
def ranked() -> pl.DataFrame:
    """Return rows whose label follows the score."""
    drawn = random.Random(3)
    score = [round(drawn.random(), 2) for _ in range(60)]
    return pl.DataFrame(
        {
            "score": score,
            "label": [int(drawn.random() < value) for value in score],
            "uncertainty": [drawn.random() for _ in score],
        }
    )


@pytest.mark.parametrize("factor", [1e-250, 1e-120, 1e100, 1e160, 1e300, 1.7e308])
@pytest.mark.parametrize("scale", ["raw", "logit"])
def test_a_logistic_surface_of_enormous_scores(
    scale: str, factor: float, ranked: pl.DataFrame, invoke: Invoke
) -> None:
    options = ("--method", "logistic", "--recall", "0.5", "--scale", "raw")
    plain = fit(invoke, write(ranked, "plain.parquet"), *options)
    large = ranked.with_columns(pl.col("score") * factor)
    options = (*options[:-1], scale)
    model = fit(invoke, write(large, "large.parquet"), *options)
    for name in ("precision", "recall"):
        assert model["fit"]["in_sample"][name] == plain["fit"]["in_sample"][name]


def test_scores_whose_differences_are_no_numbers(ranked: pl.DataFrame, invoke: Invoke) -> None:
    wide = ranked.with_columns((pl.col("score") - 0.5) * 2.0 * 1.7e308)
    path = write(wide, "wide.parquet")
    ended = invoke("boundary", path, "--method", "logistic", "--recall", "0.5", "--scale", "raw")
    ended.refused(3, "scale the scores")
