"""Calibration maps and pools of rates against their definitions, Venn-Abers against fitting again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calibkit.maps.lines import pieces
from calibkit.maps.model import ScoreMap
from calibkit.maps.steps import write_steps
from calibkit.numerics.isotonic import pool_prefixes
from calibkit_kernels import maps, rates
from tests.naive import boundaries
from tests.naive import maps as naive

probabilities = st.lists(st.floats(0, 1) | st.sampled_from([0.0, 1.0, 1e-9]), min_size=1)
logits = st.lists(st.floats(-800, 800), min_size=1)
groups = st.lists(
    st.tuples(st.integers(1, 4), st.integers(0, 4)).map(lambda g: (g[0], min(g))),
    min_size=1,
    max_size=9,
)


def filled(kernel: Any, values: list[float], *rest: Any) -> np.ndarray:
    score, out = np.array(values, np.float64), np.empty(len(values))
    kernel(score, *rest, out)
    return out


@given(probabilities, logits)
def test_log_odds_and_their_parts(score: list[float], z: list[float]) -> None:
    odds = naive.log_odds(score, maps.LEAST)
    assert filled(maps.log_odds, score) == pytest.approx(odds, rel=1e-9, abs=1e-12)
    whole = naive.log_odds(score, 0.0)
    assert [maps.logit(one) for one in score] == pytest.approx(whole, rel=1e-9, abs=1e-12)
    for values, probability in ((score, True), (z, False)):
        low, high = np.empty((2, len(values)))
        maps.log_parts(np.array(values), probability, low, high)
        wanted = np.array(naive.log_parts(values, probability, 1e-6)).T
        assert np.array([low, high]) == pytest.approx(wanted, rel=1e-9, abs=1e-12)


@given(probabilities, logits, st.floats(-3, 3), st.floats(-3, 3), st.sampled_from([0.0, 0.01]))
def test_lines(score: list[float], z: list[float], a: float, b: float, clip: float) -> None:
    for values, probability in ((score, True), (z, False)):
        found = filled(maps.line_map, values, a, b, probability, 1e-6, clip)
        wanted = naive.line_map(values, a, b, probability, 1e-6, clip)
        assert found == pytest.approx(wanted, rel=1e-8, abs=1e-12)
        line = np.array([abs(a), abs(b), a])
        found = filled(maps.beta_map, values, line, probability, clip)
        wanted = naive.beta_map(values, line.tolist(), probability, 1e-6, clip)
        assert found == pytest.approx(wanted, rel=1e-8, abs=1e-12)


@given(
    probabilities,
    logits,
    st.lists(st.integers(-9, 9), min_size=1, max_size=6, unique=True).map(sorted),
    st.data(),
)
def test_splines(score: list[float], z: list[float], knots: list[int], data: st.DataObject) -> None:
    size = len(knots)
    slopes = data.draw(st.lists(st.floats(0, 3), min_size=size, max_size=size))
    places = np.array(knots, np.float64)
    logits = np.cumsum(
        [-1.0, *(np.diff(places) * (np.array(slopes)[1:] + np.array(slopes)[:-1]) / 2)]
    ).tolist()
    one = ScoreMap(clip=0.0, logit_knots=places.tolist(), logits=logits, slopes=slopes)
    table = np.array(pieces(one)[1])
    for values, probability in ((score, True), (z, False)):
        found = filled(maps.spline_map, values, places, table, probability, 0.0)
        wanted = naive.spline_map(values, places.tolist(), logits, slopes, probability, 1e-6, 0.0)
        assert found == pytest.approx(wanted, rel=1e-8, abs=1e-12)


@given(st.lists(st.integers(-3, 3), unique=True).map(sorted), st.data())
def test_steps(knots: list[int], data: st.DataObject) -> None:
    size = len(knots) + 1
    values = data.draw(st.lists(st.floats(0, 1), min_size=size, max_size=size))
    score = [*(s / 2 for s in range(-8, 9)), -np.inf, np.inf]
    one = ScoreMap(clip=0.1, knots=[-9.0, *map(float, knots)], values=values)
    wanted = naive.step_map(score, knots, values, 0.1)
    assert filled(write_steps(one, "raw"), score).tolist() == wanted


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), unique=True).map(sorted))
def test_steps_between_knots_of_any_size(knots: list[float]) -> None:
    values = np.linspace(0, 1, len(knots) + 1).tolist()
    one = ScoreMap(clip=0.0, knots=[-np.inf, *knots], values=values)
    assert filled(write_steps(one, "raw"), knots).tolist() == values[1:]


@given(st.lists(st.floats(0, 1), min_size=1))
def test_rows_outside_a_range_are_counted(values: list[float]) -> None:
    count = np.arange(len(values))
    found = maps.mass_outside(np.array(values), count, 0.2, 0.7)
    assert found == naive.mass_outside(values, count.tolist(), 0.2, 0.7)


def test_probabilities_of_any_log_odds() -> None:
    for z in (-np.inf, -800.0, -3.0, 0.0, 3.0, 800.0, np.inf):
        assert maps.expit_of(z) == pytest.approx(naive.expit_of(z), rel=1e-12, abs=1e-300)
        assert maps.inside(maps.expit_of(z), 0.1) == naive.inside(naive.expit_of(z), 0.1)


@given(groups, st.integers(1, 3), st.sampled_from([1, 2**40]))
def test_fits_with_a_row_added(pairs: list[tuple[int, int]], weight: int, scale: int) -> None:
    count, positive = (np.array(column) * scale for column in zip(*pairs, strict=True))
    rows, hits = np.append(0, np.cumsum(count)), np.append(0, np.cumsum(positive))
    corners = np.empty(rows.size, np.int64)
    rates.next_corners(rows, hits, corners)
    assert corners.tolist() == naive.lower_hull_after(rows.tolist(), hits.tolist())
    for complement in (False, True):
        out = np.empty(count.size)
        rates.added_row_fits(rows, hits, corners, weight * scale, complement, out)
        assert out.tolist() == naive.fits_with_a_row_added(
            count.tolist(), positive.tolist(), weight * scale, complement
        )


#: Rows and positives of each score, from the highest.
steps = st.lists(
    st.tuples(st.integers(1, 6), st.integers(0, 6)).map(lambda s: (s[0], min(s))), max_size=14
)


def prefixes(groups: list[tuple[int, int]], scale: int = 1) -> tuple[np.ndarray, np.ndarray]:
    rows, hits = np.array(groups, np.int64).reshape(-1, 2).T
    return np.cumsum(rows) * scale, np.cumsum(hits) * scale


def vertices(selected: np.ndarray, hits: np.ndarray) -> list[int]:
    return (np.cumsum(pool_prefixes(selected, hits)[:, 2]) - 1).tolist()


@given(steps, st.sampled_from([1, 3, 2**45]))
def test_vertices_lie_above_every_chord(groups: list[tuple[int, int]], scale: int) -> None:
    selected, hits = prefixes(groups, scale)
    assert vertices(selected, hits) == boundaries.concave_hull(selected.tolist(), hits.tolist())


def test_slopes_that_floats_confuse_are_told_apart() -> None:
    # Chords of slope just above and just below 1/2, closer than floats of this size resolve.
    near = 2**52
    above = (np.array([2 * near, 4 * near]), np.array([near + 1, 2 * near + 1]))
    on = (np.array([2 * near, 4 * near]), np.array([near, 2 * near]))
    assert vertices(*above) == [0, 1]
    assert vertices(*on) == [1]
