"""What three-way decisions and gaps are tested by, against obvious counts and exact probabilities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibkit.methods.boundary.certificate.decisions import REVIEWED, Gaps, alike, pairs
from calibkit.methods.boundary.certificate.paths import joined

_margins = st.lists(st.integers(-4, 4), min_size=1, max_size=7)


@given(st.data())
def test_pairs_are_those_of_a_search_at_every_margin(data: st.DataObject) -> None:
    precision = np.array(data.draw(_margins), np.float64)
    size = precision.size
    same = st.lists(st.integers(-4, 4), min_size=size, max_size=size)
    recall = np.array(data.draw(same), np.float64)
    room = np.sort(np.array(data.draw(same), np.float64))[::-1]
    steps = data.draw(st.lists(st.integers(1, 5), min_size=size, max_size=size))
    selected = np.cumsum(steps).astype(np.float64)
    named = {"precision": precision, "recall": recall, REVIEWED: room}
    for kept in (("precision", "recall"), ("precision", REVIEWED), ("recall", REVIEWED)):
        given_margins = {name: named[name] for name in kept}
        found = []
        for margin in sorted({m for name in kept if name != REVIEWED for m in named[name]})[::-1]:
            lax = [k for k in range(size) if precision[k] >= margin]
            full = [k for k in range(size) if recall[k] >= margin]
            spare = max((selected[k] for k in range(size) if room[k] >= margin), default=0.0)
            if ("precision" in kept and not lax) or ("recall" in kept and not full):
                continue
            if "precision" not in kept:
                reach = full[0]
                within = (k for k in range(-1, reach + 1))
                block = next(
                    k for k in within if selected[reach] - (selected[k] if k >= 0 else 0.0) <= spare
                )
            else:
                block = lax[-1]
                reach = max(k for k in range(size) if selected[k] <= selected[block] + spare)
            if "recall" in kept and "precision" in kept:
                reach = max(block, full[0])
            if not found or found[-1] != [block, reach]:
                found.append([block, reach])
            if REVIEWED not in kept and block == reach:
                break
        assert pairs(selected, given_margins).tolist() == found


@given(
    st.tuples(st.integers(1, 12), st.integers(1, 12)),
    st.floats(0.0, 1.0).map(lambda rate: round(rate, 12)),  # scipy overflows at 1e-308
    st.floats(0.0, 0.6),
    st.sampled_from([0.05, 0.2, 0.5]),
)
def test_a_gap_that_is_exceeded_is_certified_no_more_often_than_said(
    totals: tuple[int, int], rate: float, most: float, level: float
) -> None:
    rates = min(rate + most + 1e-9, 1.0), rate
    if rates[0] - rates[1] <= most:
        return
    outcomes = list(itertools.product(*(range(total + 1) for total in totals)))
    found = np.array(outcomes, np.int64)
    gaps = Gaps(most, found.astype(np.float64), found, np.array(totals), level)
    wrong = sum(
        np.prod(stats.binom.pmf(outcome, totals, rates))
        for place, outcome in enumerate(outcomes)
        if gaps.rejects(place, level)
    )
    assert wrong <= level + 1e-9


def test_what_a_gap_expects_is_what_it_finds() -> None:
    """Signals in the scale of the test: counts as expected are rejected where the margin is clear."""
    totals, places = np.array([4000, 1000, 2500]), np.linspace(0.1, 0.9, 9)
    for apart in (0.0, 0.02, 0.05, 0.08):
        counts = np.rint(np.column_stack((places, places + apart, places)) * totals)
        gaps = Gaps(0.08, counts, counts.astype(np.int64), totals, 0.1)
        margins = np.subtract(*gaps.hopes)
        for place, margin in enumerate(margins):
            if abs(margin) > 0.15:
                assert gaps.rejects(place, 0.1) == (margin > 0)
    empty = Gaps(0.5, counts, np.zeros_like(gaps.found), np.array([9, 0, 9]), 0.1)
    assert not empty.rejects(0, 0.1)


def test_segments_are_kept_together_and_near_what_is_best() -> None:
    size = np.arange(1.0, 401.0)
    chances = [0.9 * (1 - size / 500), 0.7 * (1 - size / 700), 0.5 * (1 - size / 900)]
    expected = [np.column_stack((size, np.cumsum(own))) for own in chances]
    counted = [own[:, 1] / own[-1, 1] for own in expected]
    free = joined(expected)
    for most in (0.05, 0.3, 2.0):
        totals = np.array([40_000, 50_000, 60_000])
        gaps = Gaps(most, np.zeros((0, 3)), np.zeros((0, 3), np.int64), totals, 0.1)
        table = alike(free, expected, counted, gaps)
        rates = np.column_stack(
            [np.append(0.0, own)[table[:, k] + 1] for k, own in enumerate(counted)]
        )
        assert np.ptp(rates, axis=1).max() <= most + 0.006  # steps of a path, of lowest rates
    selected, hits = (
        [
            sum(
                own[at[:, k] + 1, side] for k, own in enumerate(np.insert(expected, 0, 0.0, axis=1))
            )
            for at in (table, free)
        ]
        for side in (0, 1)
    )  # where any gap will do
    assert hits[0] == pytest.approx(np.interp(selected[0], selected[1], hits[1]), rel=0.01)
