"""Gaps of a calibration by parts that chance does not explain."""

from __future__ import annotations

from typing import Any

import numpy as np
import polars as pl
import pytest

import calibkit as ck
from calibkit.methods.hetcal.run import cell_gaps, gap_beyond_chance

LEAVES = 5


def rows(seed: int, *, size: int = 4000, off: float = 0.0, rare: bool = False) -> tuple[Any, ...]:
    """Return calibrated probabilities, labels and leaves; in leaf 3 labels are off by so much."""
    random = np.random.default_rng(seed)
    p = random.random(size)
    if rare:
        p = 1.0 / (1.0 + np.exp(-random.normal(-4.0, 1.5, size)))
    leaf = random.integers(0, LEAVES, size).astype(np.int32)
    hit = random.random(size) < np.clip(p + off * (leaf == 3), 0.0, 1.0)
    return p, hit.astype(np.uint8), leaf


def found(p: Any, label: Any, leaf: Any, weight: Any = None, *, sampled: bool = False) -> Any:
    mass = np.ones(p.size) if weight is None else weight
    return gap_beyond_chance(cell_gaps(p, label, mass, leaf)[3], sampled=sampled)


@pytest.mark.parametrize("rare", [False, True])
def test_calibrated_rows_give_no_alarm_but_for_one_time_in_twenty(rare: bool) -> None:
    """However large the largest gap is: of rare positives it is .8 in a cell of few rows."""
    alarms, largest = 0, []
    for seed in range(200):
        p, label, leaf = rows(seed, rare=rare)
        alarms += found(p, label, leaf) is not None
        largest.append(cell_gaps(p, label, np.ones(p.size), leaf)[0])
    assert alarms <= 10
    assert np.median(largest) > (0.5 if rare else 0.1)


def test_a_cell_that_is_off_is_named_with_its_rows() -> None:
    p, label, leaf = rows(0, off=0.3)
    gap = found(p, label, leaf)
    assert gap.leaf == 3
    own = (leaf == 3) & (p >= gap.probability_from) & (p < gap.probability_to)
    assert gap.rows == own.sum()
    assert gap.positive_rate == pytest.approx(label[own].mean())
    assert gap.mean_probability == pytest.approx(p[own].mean())
    assert 0.0 < gap.beyond < gap.positive_rate - gap.mean_probability


def test_the_summary_tells_the_gap_and_what_of_it_is_beyond_chance() -> None:
    p, label, leaf = rows(0)
    frame = pl.DataFrame(
        {"score": p, "label": np.where((p > 0.5) & (p < 0.6), 1, label), "leaf": leaf}
    )
    model = ck.fit_hetcal(frame, features="leaf", max_depth=0)
    gap = model.fit.gap_beyond_chance
    assert gap
    apart = gap.positive_rate - gap.mean_probability
    assert (
        f"a gap of {apart:.4f}, {gap.beyond:.4f} of it beyond chance, in leaf 0" in model.summary()
    )


def test_rows_that_count_twice_are_two_rows_and_samples_are_not() -> None:
    p, label, leaf = rows(1, size=1500, off=0.2)
    twice = found(*(np.repeat(column, 2) for column in (p, label, leaf)))
    weighed = found(p, label, leaf, np.full(p.size, 2.0))
    assert (weighed.leaf, weighed.rows) == (twice.leaf, twice.rows)
    assert weighed.beyond == pytest.approx(twice.beyond)
    once, stands = found(p, label, leaf), found(p, label, leaf, np.full(p.size, 2.0), sampled=True)
    assert stands.beyond == pytest.approx(once.beyond)
    assert twice.beyond > once.beyond
