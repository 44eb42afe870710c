"""Simulated rows and selections: the same for the same seed, in any length, and as the theory says."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from calibkit import simulate_posterior, simulate_selection
from calibkit.errors import UsageError
from calibkit.numerics.hashes import stream
from calibkit.numerics.positivity import beta_entropy, expected_true_positivity
from calibkit.options.simulate import SelectionOptions
from calibkit.simulate import BLOCK_ROWS, models_of
from docs.evidence.arora_theory import train_score


@given(st.integers(0, 2**64 - 1), st.integers(1, 300), st.integers(1, 300))
def test_the_first_rows_of_a_longer_simulation_are_the_shorter_one(
    seed: int, rows: int, more: int
) -> None:
    short = simulate_posterior(rows, seed=seed)
    assert simulate_posterior(rows + more, seed=seed).head(rows).equals(short)


def test_blocks_follow_one_another() -> None:
    rows = 2 * BLOCK_ROWS + 5
    whole = simulate_posterior(rows, seed=4)
    assert simulate_posterior(BLOCK_ROWS + 7, seed=4).equals(whole.head(BLOCK_ROWS + 7))
    assert whole["id"].to_list() == list(range(1, rows + 1))
    first, second = whole["score"].head(BLOCK_ROWS), whole["score"].slice(BLOCK_ROWS, BLOCK_ROWS)
    assert not first.equals(second)
    scores = {tuple(simulate_posterior(50, seed=seed)["score"]) for seed in (0, 1, 2**64 - 1)}
    assert len(scores) == 3


def test_columns_hold_what_they_say() -> None:
    frame = simulate_posterior(5_000, seed=2, model_prior=(0.2, 0.6), evidence=(3, 40))
    assert frame.schema == {
        "id": pl.Int64,
        "label": pl.Int8,
        "score": pl.Float64,
        "uncertainty": pl.Float64,
        "evidence": pl.Int32,
        "entropy": pl.Float64,
        "true_positivity": pl.Float64,
    }
    numbers = ["score", "uncertainty", "evidence", "entropy", "true_positivity"]
    assert frame.columns == ["id", "label", *numbers]
    assert frame.null_count().sum_horizontal().item() == 0
    score, evidence = frame["score"].to_numpy(), frame["evidence"].to_numpy()
    assert set(frame["label"]) == {0, 1}
    assert (evidence.min(), evidence.max()) == (3, 40)
    np.testing.assert_array_equal(frame["uncertainty"].to_numpy(), -(evidence + 0.8))
    positives = evidence * train_score(score, evidence, model_prior=(0.2, 0.6))
    np.testing.assert_allclose(positives, np.round(positives), atol=1e-11)
    strength = evidence + 0.8
    np.testing.assert_allclose(
        frame["entropy"].to_numpy(), beta_entropy(score * strength, (1 - score) * strength),
        rtol=1e-8,
    )  # fmt: skip


def test_float32_rounds_the_same_rows() -> None:
    double, single = (simulate_posterior(500, seed=9, dtype=one) for one in ("float64", "float32"))
    assert double.cast({pl.Float64: pl.Float32}).equals(single)
    assert single.schema["score"] == pl.Float32
    assert single["score"].is_between(0, 1).all()


def test_evidence_is_log_uniform_and_may_be_constant() -> None:
    rows, smallest, largest = 200_000, 2, 9
    counts = simulate_posterior(rows, seed=1, evidence=(smallest, largest), keep=["evidence"])
    drawn = np.bincount(counts["evidence"].to_numpy(), minlength=largest + 1)[smallest:]
    values = np.arange(smallest, largest + 1)
    share = np.log((values + 1) / values) / np.log((largest + 1) / smallest)
    deviation = np.sqrt(rows * share * (1 - share))
    assert np.abs((drawn - rows * share) / deviation).max() < 4
    assert set(simulate_posterior(50, evidence=(7, 7))["evidence"]) == {7}


@pytest.mark.parametrize("tau", [0.5, 1.0, 3.0])
def test_labels_and_truth_agree_with_the_theory_cell_by_cell(tau: float) -> None:
    """E[label | score, evidence] is the theory's mean wherever many rows share score and evidence."""
    prior, model_prior = (2.0, 6.0), (1.0, 1.0)
    frame = simulate_posterior(
        400_000, seed=6, true_prior=prior, model_prior=model_prior, tau=tau, evidence=(1, 12)
    )
    cells = (
        frame.group_by("evidence", "score")
        .agg(
            pl.len().alias("rows"),
            pl.col("label").mean().alias("share"),
            pl.col("true_positivity").mean().alias("mean"),
            pl.col("true_positivity").std().alias("deviation"),
        )
        .filter(pl.col("rows") > 1_000)
    )
    rows = cells["rows"].to_numpy()
    theory = expected_true_positivity(
        train_score(cells["score"], cells["evidence"], model_prior=model_prior),
        cells["evidence"],
        true_prior=prior,
        tau=tau,
    )
    assert cells.height > 40
    of_labels = (cells["share"].to_numpy() - theory) * np.sqrt(rows / (theory * (1 - theory)))
    of_truth = (cells["mean"].to_numpy() - theory) * np.sqrt(rows) / cells["deviation"].to_numpy()
    assert np.abs(of_labels).max() < 4
    assert np.abs(of_truth).max() < 4


def test_uncertainty_helps_with_the_defaults() -> None:
    """Among high scores the certain rows are much more often positive than the uncertain ones."""
    frame = simulate_posterior(100_000, seed=8).filter(pl.col("score") > 0.9)
    middle = frame["uncertainty"].median()
    certain = frame.filter(pl.col("uncertainty") < middle)["label"].mean()
    uncertain = frame.filter(pl.col("uncertainty") >= middle)["label"].mean()
    assert certain > uncertain + 0.15


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"rows": 0}, "rows is 0; expected a whole number, at least 1"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": 2**64}, "seed is"),
        ({"true_prior": (0.0, 1.0)}, "the true prior is 0,1; expected two positive numbers"),
        ({"model_prior": (1.0, float("nan"))}, "the model prior is 1,nan"),
        ({"tau": 0.0}, "tau is 0"),
        ({"evidence": (0, 5)}, "the evidence is 0,5"),
        ({"evidence": (5, 4)}, "the evidence is 5,4"),
        ({"evidence": (1, 10**10)}, "the evidence is"),
        ({"dtype": "float16"}, "dtype='float16' is not known"),
        ({"keep": []}, "no column is kept"),
        ({"refits": 0}, "refits is 0"),
        ({"inputs": 0}, "inputs is 0"),
        ({"train_rows": 1}, "train_rows is 1"),
        ({"train_rows": 25}, "25 training rows are too few: a model of 20 inputs"),
        ({"shift": float("nan")}, "shift is nan"),
        ({"part": "other"}, "part='other' is not known"),
        ({"seed": -1, "refits": 2}, "seed is -1"),
        ({"refits": 2, "keep": ["scores"]}, "no column 'scores'"),
    ],
)
def test_bad_parameters_are_refused(changed: dict[str, Any], message: str) -> None:
    of_selection = {"refits", "inputs", "train_rows", "shift", "part"} & set(changed)
    simulate: Any = simulate_selection if of_selection else simulate_posterior
    with pytest.raises(UsageError, match=message):
        simulate(**{"rows": 10, **changed})


# Selections --------------------------------------------------------------------------------------


def test_the_first_rows_of_a_longer_selection_are_the_shorter_one() -> None:
    long = simulate_selection(BLOCK_ROWS + 9, seed=3, inputs=2, train_rows=200)
    for rows in (1, 500, BLOCK_ROWS + 1):
        short = simulate_selection(rows, seed=3, inputs=2, train_rows=200)
        assert long.head(rows).equals(short)
    assert long["id"].to_list() == list(range(1, BLOCK_ROWS + 10))


def test_parts_are_other_rows_scored_by_the_same_models() -> None:
    parts: tuple[Any, ...] = ("test", "validation", "train")
    frames = [simulate_selection(4000, part=part, seed=5) for part in parts]
    assert "label" not in frames[1].columns
    assert len({frame["true_probability"][0] for frame in frames}) == 3
    rates = [frame["true_probability"].mean() for frame in frames]
    assert rates == pytest.approx([0.277, 0.277, 0.723], abs=0.02)


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
