from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import knapsack
from tests.naive.boundaries import naive_gains

Levels = tuple[list[list[int]], list[list[int]]]
SCALES = (1, 7, 2**50)


@st.composite
def levels(draw: st.DrawFn, signs: tuple[int, ...] = (1, -1)) -> Levels:
    """Choices of some levels: gains (all rising or all falling) and costs, both from 0."""
    bins = draw(st.integers(1, 4))
    count = draw(st.integers(1, 3))
    step = st.lists(st.integers(0, 4), min_size=bins, max_size=bins)
    sign, scale = draw(st.sampled_from(signs)), draw(st.sampled_from(SCALES))
    gains = [np.cumsum([0, *draw(step)]) * sign * scale for _ in range(count)]
    costs = [np.cumsum([0, *draw(step)]) for _ in range(count)]
    return [g.tolist() for g in gains], [c.tolist() for c in costs]


def table_of(best: dict[int, int], size: int) -> list[int | None]:
    return [best.get(cost) for cost in range(size)]


def reached(values: np.ndarray, scale: int = 1) -> list[int | None]:
    return [int(v) if v > knapsack.UNREACHABLE // 2 else None for v in values]


@given(levels())
def test_tables_hold_the_largest_gain_of_every_cost(problem: Levels) -> None:
    gains, costs = problem
    values = [np.zeros(1, np.int64)]
    for gain, cost in zip(gains, costs, strict=True):
        values.append(knapsack.add_level(values[-1], np.array(gain), np.array(cost)))
    best = naive_gains(gains, costs)
    assert reached(values[-1]) == table_of(best, values[-1].size)

    targets = np.array(sorted(best))
    left, rest = targets.copy(), values[-1][targets]
    for level in range(len(gains) - 1, -1, -1):
        gain, cost = np.array(gains[level]), np.array(costs[level])
        chosen = knapsack.trace_level(values[level], gain, cost, left, rest)
        assert chosen.min() >= 0
        left, rest = left - cost[chosen], rest - gain[chosen]
    assert not left.any() and not rest.any()


def test_a_table_longer_than_a_block_is_the_convolution_of_its_levels() -> None:
    rng = np.random.default_rng(5)
    first = np.cumsum(rng.integers(0, 9, 5000))
    gains, costs = np.cumsum(rng.integers(0, 9, 4)), np.array([0, 3, 3, 4000])
    best = knapsack.add_level(first, gains, costs)
    by_choice = np.full((4, 9000), np.iinfo(np.int64).min)
    for t in range(4):
        by_choice[t, costs[t] : costs[t] + 5000] = first + gains[t]
    assert np.array_equal(best, by_choice.max(axis=0))


def test_a_cost_nothing_attains_is_not_traced() -> None:
    one = np.zeros(1, np.int64)
    chosen = knapsack.trace_level(
        one, np.array([0, 5]), np.array([0, 2]), np.array([1]), np.array([3])
    )
    assert chosen.tolist() == [-1]


@given(levels(signs=(1,)), st.data())
def test_nested_levels_never_rise(problem: Levels, data: st.DataObject) -> None:
    gains, costs = problem
    reach = sum(cost[-1] for cost in costs)
    limit = data.draw(st.integers(0, reach))
    lowest = data.draw(st.integers(0, len(gains[0]) - 1))
    best = naive_gains(
        [level[lowest:] for level in gains], [level[lowest:] for level in costs], mono=True
    )
    values, last = knapsack.nested_levels(np.array(gains), np.array(costs), limit, lowest)
    assert reached(values) == table_of(best, limit + 1)
    assert (last >= lowest) == (limit in best)
    if last >= 0 and len(gains) > 1:  # the levels before can make up the rest
        others = naive_gains(
            [level[last:] for level in gains[:-1]],
            [level[last:] for level in costs[:-1]],
            mono=True,
        )
        assert others[limit - costs[-1][last]] + gains[-1][last] == best[limit]
