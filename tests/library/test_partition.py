"""Calibration by parts: lines of cells, leaves of like cells, and what theory says of them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize

from calibkit.measures.metrics import compute
from calibkit.measures.views import Sample, view_of
from calibkit.methods.boundary.problem.goals import tally_totals
from calibkit.methods.boundary.solvers.cells import cross_fitted, leaves_of
from calibkit.methods.boundary.solvers.methods import goal_of
from calibkit.numerics.logistic import ridge_lines
from calibkit.options.metrics import Settings
from calibkit.options.objective import read_target
from calibkit.summaries.tally import Tally, count_rows


def test_lines_are_the_modes_of_their_posteriors() -> None:
    random = np.random.default_rng(1)
    x = np.linspace(-4.0, 3.0, 20)
    rows = random.integers(0, 40, (6, 20)).astype(np.float64)
    rows[3] = 0.0  # nothing is known of a cell: the line of all
    hits = np.floor(rows * random.random((6, 20)))
    hits[4] = rows[4]  # positive throughout: the priors hold it
    spread = (1.0, 0.5)
    found = ridge_lines(x, hits, rows, spread)
    assert found[3] == pytest.approx([0.0, 0.0])
    for own, n, k in zip(found, rows, hits, strict=True):

        def loss(line: np.ndarray, n: np.ndarray = n, k: np.ndarray = k) -> float:
            z = line[0] + (1.0 + line[1]) * x
            return float(
                np.sum(n * np.logaddexp(0.0, z) - k * z) + np.sum((line / spread) ** 2) / 2
            )

        assert own == pytest.approx(minimize(loss, [0.0, 0.0], tol=1e-10).x, abs=2e-4)


def tally_of(wanted: list[float], rows: int = 40_000) -> Tally:
    """Return rows in cells whose log-odds lie so much above those of the score."""
    random = np.random.default_rng(2)
    cell = random.integers(0, len(wanted), rows)
    z = random.normal(-0.5, 1.5, rows)
    rate = 1.0 / (1.0 + np.exp(-z - np.array(wanted)[cell]))
    label = (random.random(rows) < rate).astype(np.uint8)
    return count_rows(1.0 / (1.0 + np.exp(-z)), cell.astype(np.uint16), label, len(wanted))


@pytest.mark.parametrize("objective", [{"precision": "0.7"}, {"recall": "0.4"}, {"maximize": "f1"}])
def test_cells_alike_share_a_leaf(objective: dict[str, str]) -> None:
    tally = tally_of([0.8, -0.9, 0.8, -0.9, -0.9, 0.8])
    goal = goal_of(read_target(objective), tally_totals(tally))
    leaves = leaves_of(tally, goal, 2).tolist()
    assert leaves == [0, 1, 0, 1, 1, 0]


def test_a_fold_says_nothing_of_its_own_leaves() -> None:
    """Labels of the fold that is left out may be anything."""
    tally = tally_of([0.8, -0.9, 0.3, -0.2], 4000).deal(4, 0)
    goal = goal_of(read_target({"precision": "0.7"}), tally_totals(tally))
    turned = tally.where(np.ones(tally.count.size, np.bool_))
    turned.positive[:] = np.where(tally.part == 1, 0, tally.positive)
    one, other = (cross_fitted(own, goal, 3, excluded=1) for own in (tally, turned))
    assert (one[0] == other[0]).all()
    kept = tally.part != 1
    assert (one[1].level[kept] == other[1].level[kept]).all()


def test_leaves_for_thresholds_are_made_without_the_rows() -> None:
    """Where cells differ by chance alone, they look no better to the rows that were left out."""
    tally = tally_of([0.0] * 60, 6000)
    goal = goal_of(read_target({"precision": "0.7"}), tally_totals(tally))
    rates = []
    for level in (leaves_of(tally, goal, 2)[tally.level], cross_fitted(tally, goal, 2)[1].level):
        best = level == 0
        rates.append(tally.positive[best].sum() / tally.count[best].sum())
    everywhere = tally.positive.sum() / tally.count.sum()
    assert rates[0] > everywhere + 0.02
    assert rates[1] == pytest.approx(everywhere, abs=0.02)


#: Negative and positive rows of each pair of a part and a score, and what else may be said of these.
cells = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.integers(0, 6)), min_size=2, max_size=9
).filter(lambda found: sum(n for n, _, _ in found) and sum(p for _, p, _ in found))


def metrics(cells: list[tuple[int, int, int]], scores: list[float]) -> dict[str, float]:
    """Return AUC and area under precision and recall where every cell has a score."""
    score = np.repeat(scores, [n + p for n, p, _ in cells])
    label = np.concatenate([np.repeat([0, 1], [n, p]) for n, p, _ in cells]).astype(np.uint8)
    view = view_of(Sample(score, label), "score", "all", Settings())
    return {name: float(value or 0) for name, value in compute(view, ["auc", "pr_auc"]).items()}


@given(cells)
def test_no_other_score_of_the_cells_ranks_better(found: list[tuple[int, int, int]]) -> None:
    """Lemmas 4.1 and 4.3 of Durfee, Gupta and Basu, and the same of precision and recall."""
    rates = [p / (n + p) if n + p else 0.0 for n, p, _ in found]
    best, other = metrics(found, rates), metrics(found, [t / 6 for _, _, t in found])
    assert best["auc"] >= other["auc"] - 1e-12
    assert best["pr_auc"] >= other["pr_auc"] - 1e-12
