"""Edges of uncertainty levels where rows do not fit: exact, or by what share they may miss."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

from calibkit.bins.edges import quantile_edges
from calibkit.summaries.ladder import SPREAD, Role
from calibkit.summaries.uncertainties import Uncertainties

ROLES = (Role("uncertainty", SPREAD), Role("weight"))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("rows", [100, 101, 200, 201])
def test_twice_as_many_rows_without_weight_have_exact_edges(rows: int, weighted: bool) -> None:
    values = np.random.default_rng(rows).gamma(2.0, 1.0, rows)
    weight = np.full(rows, 2.0) if weighted else None
    frame = pl.DataFrame({"uncertainty": values, **({"weight": weight} if weighted else {})})
    kept = Uncertainties(ROLES[: 1 + weighted], 100)
    for part in frame.iter_slices(30):
        kept.add(part)
    found = kept.edges((4,), "equal-mass")
    assert found is not None
    low, edges = quantile_edges(values, 4, weight)
    exact = rows <= (100 if weighted else 200)
    assert (found[1] == 0.0) == exact
    assert (found[0].tolist() == [low, *edges]) == exact


def test_the_share_that_edges_may_miss_is_that_of_the_heaviest_value() -> None:
    values = np.concatenate([np.full(500, 1.5), np.random.default_rng(4).gamma(2.0, 1.0, 500)])
    kept = Uncertainties(ROLES[:1], 100)
    kept.add(pl.DataFrame({"uncertainty": values}))
    found = kept.edges((2,), "equal-mass")
    assert found is not None and 0.5 <= found[1] < 0.6
