"""Problems over grids: rows dealt one by one stay in their cells, frontiers are what they say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from calibkit.columns.columns import ScoreRows
from calibkit.columns.weights import AS_THEY_ARE
from calibkit.methods.boundary.solvers.frontier import frontier_rows
from calibkit.methods.boundary.solvers.summary import Summary, summarise
from calibkit.options.boundary import BoundaryOptions
from tests.library.samples import score_rows

ORDERS = ("uncertainty-score", "score-uncertainty")


def random_rows(size: int, seed: int, weight: bool = True) -> ScoreRows:
    random = np.random.default_rng(seed)
    score = np.round(random.random(size), 2)
    label = (random.random(size) < score).astype(np.uint8)
    # Eighths, some of them odd: exact, and still not rows that could be dealt as counts.
    weights = (1 + random.integers(0, 16, size)) / 8 if weight else None
    return score_rows(score, label, np.round(random.random(size), 1), weights)


def binned(rows: ScoreRows, bins: tuple[int, int], order: str, **options: Any) -> Summary:
    asked = {"uncertainty_bins": bins[0], "score_bins": bins[1], "order": order, "threads": 1}
    return summarise(rows, BoundaryOptions(precision="0.5", method="exact", **asked, **options))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("strategy", ["equal-mass", "equal-width"])
def test_rows_dealt_one_by_one_add_up_to_the_cells(order: str, strategy: str) -> None:
    problem = binned(random_rows(400, 1), (3, 8), order, strategy=strategy, folds=4)
    assert problem.dealt is not None
    dealt = problem.deal(AS_THEY_ARE)
    assert set(dealt.part.tolist()) == {0, 1, 2, 3}
    cells: dict[tuple[float, int], list[int]] = {}
    for score, level, count, positive in zip(
        dealt.score, dealt.level, dealt.count, dealt.positive, strict=True
    ):
        own = cells.setdefault((float(score), int(level)), [0, 0])
        own[0] += int(count)
        own[1] += int(positive)
    whole = problem.tally
    size = dealt.unit.size / whole.unit.size
    expected = {
        (float(s), int(u)): [int(n) / size, int(hits) / size]
        for s, u, n, hits in zip(whole.score, whole.level, whole.count, whole.positive, strict=True)
        if n
    }
    assert cells == expected


@pytest.mark.parametrize("order", ORDERS)
def test_every_point_of_a_frontier_is_reached_by_its_boundary(order: str) -> None:
    rows = random_rows(300, 2, weight=False)
    problem = binned(rows, (2, 6), order)
    table = frontier_rows(problem)
    assert table["recall"].is_sorted() and table.height > 3
    grid = problem.grid
    assert grid is not None
    for point in table.iter_rows(named=True):
        if order == "uncertainty-score":
            assert problem.levels is not None
            level = problem.levels.of(rows.uncertainty, rows.score.size)
            lowest = np.array(
                [
                    np.inf if point[f"threshold_{u}"] is None else point[f"threshold_{u}"]
                    for u in (0, 1)
                ]
            )
            taken = rows.score >= lowest[level]
        else:  # the highest columns of each level: counted from the cells
            count, positive = grid.total, grid.positive
            takes = [point[f"take_{u}"] for u in (0, 1)]
            columns = count.shape[1]
            inside = np.arange(columns)[None, :] >= columns - np.array(takes)[:, None]
            assert int(count[inside].sum()) == point["selected"]
            assert int(positive[inside].sum()) == point["true_positives"]
            continue
        assert int(taken.sum()) == point["selected"]
        assert int(rows.label[taken].sum()) == point["true_positives"]
