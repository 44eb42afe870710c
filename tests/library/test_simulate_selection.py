"""Simulated selections: the same for the same seed, in any length, and as the theory says."""

from __future__ import annotations

from typing import Literal

import numpy as np
import polars as pl
import pytest
from sklearn.linear_model import LogisticRegression

from calibkit import simulate_selection
from calibkit.errors import UsageError
from calibkit.numerics.hashes import stream
from calibkit.options.simulate import SelectionOptions
from calibkit.simulate import BLOCK_ROWS, models_of

PARTS: tuple[Literal["test", "validation", "train"], ...] = ("test", "validation", "train")


def test_the_first_rows_of_a_longer_simulation_are_the_shorter_one() -> None:
    long = simulate_selection(BLOCK_ROWS + 9, seed=3, inputs=2, train_rows=200)
    for rows in (1, 500, BLOCK_ROWS + 1):
        short = simulate_selection(rows, seed=3, inputs=2, train_rows=200)
        assert long.head(rows).equals(short)
    assert long["id"].to_list() == list(range(1, BLOCK_ROWS + 10))


def test_parts_are_other_rows_scored_by_the_same_models() -> None:
    frames = {part: simulate_selection(4000, part=part, seed=5) for part in PARTS}
    assert "label" not in frames["validation"].columns
    firsts = {float(frame["true_probability"][0]) for frame in frames.values()}
    assert len(firsts) == 3
    rates = {part: frame["true_probability"].mean() for part, frame in frames.items()}
    assert rates["train"] == pytest.approx(0.723, abs=0.02)
    assert rates["test"] == pytest.approx(0.277, abs=0.02)
    assert rates["validation"] == pytest.approx(0.277, abs=0.02)


def test_models_are_logistic_regressions_without_penalty() -> None:
    simulation = SelectionOptions(1, refits=2, train_rows=1500, inputs=4, seed=7)
    x = stream(7, 0, 0).normal(0.05, 0.1, (1500, 4))
    truth = 1.0 / (1.0 + np.exp(-x.sum(axis=1)))
    label = stream(7, 1, 0).random(1500) < truth
    models = models_of(simulation)
    for place, weights in enumerate(models):
        rows = np.arange(1500)
        if place:
            rows = stream(7, 2, place - 1).integers(0, 1500, 1500)
        peer = LogisticRegression(C=np.inf, tol=1e-12, max_iter=10_000).fit(x[rows], label[rows])
        assert weights[0] == pytest.approx(peer.intercept_[0], abs=1e-5)
        assert np.allclose(weights[1:], peer.coef_[0], atol=1e-4)


def test_selected_scores_are_too_high_though_all_scores_are_not() -> None:
    frames = [simulate_selection(20_000, seed=seed) for seed in range(10)]
    own = [frame.filter(pl.col("score_1") >= frame["score_1"].quantile(0.95)) for frame in frames]
    picked = pl.concat(own)
    error = picked["score_1"].sum() / picked["label"].sum() - 1
    assert 0.03 < error < 0.13


def test_rows_that_a_model_separates_are_refused() -> None:
    with pytest.raises(UsageError, match="25 training rows are too few: a model of 20 inputs"):
        simulate_selection(10, train_rows=25)


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"refits": 0}, "refits is 0"),
        ({"inputs": 0}, "inputs is 0"),
        ({"train_rows": 1}, "train_rows is 1"),
        ({"shift": float("nan")}, "shift is nan"),
        ({"part": "other"}, "part='other' is not known"),
        ({"seed": -1}, "seed is -1"),
        ({"keep": ["nothing"]}, "no column 'nothing'"),
    ],
)
def test_parameters_out_of_range_are_refused(changed: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        simulate_selection(10, **changed)  # type: ignore[arg-type]
