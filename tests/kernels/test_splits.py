"""Dealt splits: exact sizes, the law of a random split, no influence but seed and entry."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from calibkit_kernels import distributions
from calibkit_kernels import draws as kernels
from tests.conftest import INTERPRETED
from tests.naive import boundaries as naive
from tests.naive.boundaries import Entry

LARGE = [10**3, 10**5, 10**7, 10**9, 10**12]
#: A right implementation fails a chi-square test at this level once in a million seed lists; the
#: list is fixed, so the tests do not flicker.
UNLIKELY = 1e-6
SEEDS = 1_500 if INTERPRETED else 8_000


@given(st.integers(0, 400) | st.sampled_from(LARGE))
def test_the_error_of_stirlings_formula(n: int) -> None:
    found = distributions.stirling_error(float(n))
    assert found == pytest.approx(float(naive.stirling_error(n)), rel=1e-12, abs=5e-14)


@given(st.sampled_from([1, 10, 1000, *LARGE]), st.floats(0.001, 2.0))
def test_deviance_without_cancellation(mean: int, ratio: float) -> None:
    x = float(round(mean * ratio))
    expected = float(naive.deviance(x, float(mean)))
    assert distributions.deviance(x, float(mean)) == pytest.approx(expected, rel=1e-11)


@pytest.mark.parametrize(
    ("good", "bad", "sample"),
    [
        (3, 4, 2),
        (1, 99, 50),
        (50, 50, 50),
        (5, 400, 40),
        (400, 5, 398),
        (1_000, 3_000, 700),
        (2, 100_000, 33_333),
        (60_000, 90_000, 40_000),
    ],
)
def test_hypergeometric_shares_of_the_unit_interval(good: int, bad: int, sample: int) -> None:
    # Each outcome owns one interval as long as its probability: of evenly spaced numbers it gets
    # that share, but for the two ends.
    count = 500 if INTERPRETED else 4_000
    draws = [kernels.hypergeometric(good, bad, sample, (i + 0.5) / count) for i in range(count)]
    law = stats.hypergeom(good + bad, good, sample)
    outcomes, seen = np.unique(draws, return_counts=True)
    assert (np.abs(seen - count * law.pmf(outcomes)) <= 1 + 1e-6 * count).all()
    missed = np.setdiff1d(np.arange(max(0, sample - bad), min(good, sample) + 1), outcomes)
    assert (law.pmf(missed) <= 1.001 / count).all()


def log_hypergeometric(good: int, bad: int, sample: int, k: int) -> float:
    def log_choose(n: int, m: int) -> object:
        return naive.log_factorial(n) - naive.log_factorial(m) - naive.log_factorial(n - m)

    ways = log_choose(good, k) + log_choose(bad, sample - k) - log_choose(good + bad, sample)
    return float(ways)


@pytest.mark.parametrize(
    ("good", "bad", "sample"),
    [
        (10**12, 10**12, 10**12),
        (10**12, 7 * 10**11, 3 * 10**10),
        (10**12, 9 * 10**12, 10**6),
        (10**6, 10**12, 10**9),
        (3, 10**12, 10**11),
        (10**12, 3, 10**12 - 10**5),
    ],
)
def test_hypergeometric_of_large_numbers(good: int, bad: int, sample: int) -> None:
    mode = (sample + 1) * (good + 1) // (good + bad + 2)
    p = math.exp(log_hypergeometric(good, bad, sample, mode))
    spread = math.sqrt(
        sample / (good + bad) * good / (good + bad) * bad * (1 - sample / (good + bad))
    )
    if spread < 1000:  # the mode owns [0, p), the value above it the interval after that
        assert kernels.hypergeometric(good, bad, sample, p * (1 - 1e-8)) == mode
        assert kernels.hypergeometric(good, bad, sample, p * (1 + 1e-8)) == mode + 1
        return
    draws = [kernels.hypergeometric(good, bad, sample, (i + 0.5) / 500) for i in range(500)]
    away = (np.array(draws) - mode) / spread
    assert stats.kstest(away, "norm").pvalue > UNLIKELY


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("good", "bad", "sample"), [(1_000, 3_000, 700), (60_000, 90_000, 40_000), (40, 7_000, 900)]
)
def test_an_outcome_by_rejection_has_its_probability(good: int, bad: int, sample: int) -> None:
    law, count = stats.hypergeom(good + bad, good, sample), 500 if INTERPRETED else 20_000
    mode = (sample + 1) * (good + 1) // (good + bad + 2)
    most = log_hypergeometric(good, bad, sample, mode)
    draws = [
        kernels.by_rejection(good, bad, sample, most, law.std(), (i + 0.5) / count)
        for i in range(count)
    ]
    ends = np.unique(law.ppf(np.linspace(0.0, 1.0, 22)[1:-1]))
    seen = np.bincount(np.searchsorted(ends, draws), minlength=ends.size + 1)
    expected = count * np.diff(law.cdf(ends), prepend=0.0, append=1.0)
    assert stats.chisquare(seen, expected).pvalue > UNLIKELY


@given(st.integers(0, 10**12), st.integers(0, 10**12), st.floats(0, 1, exclude_max=True))
def test_hypergeometric_stays_possible(good: int, bad: int, u: float) -> None:
    sample = (good + bad) // 1_000_000  # keeps the walk short
    found = kernels.hypergeometric(good, bad, sample, u)
    assert max(0, sample - bad) <= found <= min(good, sample)


def deal(
    entries: list[Entry], parts: int, seed: int, kind: type = np.int64, kept: int | None = None
) -> list[Entry]:
    score, level, _, count, positive = zip(*entries, strict=True)
    bits, *found = kernels.deal_entries(
        np.array(score, np.float64).view(np.uint64),
        np.array(level, np.uint16),
        np.array(count, kind),
        np.array(positive, kind),
        parts,
        parts if kept is None else kept,
        np.uint64(seed),
    )
    level, count, positive, part = (column.tolist() for column in found)
    scores = bits.view(np.float64).tolist()
    return list(zip(scores, level, part, count, positive, strict=True))


@st.composite
def tallies(draw: st.DrawFn) -> list[Entry]:
    size = draw(st.integers(1, 6))
    keys = [(float(-(i // 2)), i % 2) for i in range(size)]
    amounts = st.just(1) | st.integers(1, 5) | st.integers(30, 90) | st.integers(31, 33)
    counts = draw(st.lists(amounts, min_size=size, max_size=size))
    hits = [draw(st.integers(0, n) | st.sampled_from([0, n])) for n in counts]
    return [(*key, 0, n, hit) for key, n, hit in zip(keys, counts, hits, strict=True)]


@given(tallies(), st.integers(2, 5), st.integers(0, 2**64 - 1))
@pytest.mark.parametrize("kind", [np.uint8, np.int32, np.int64])
def test_entries_are_dealt_whole_to_parts_of_equal_size(
    kind: type, entries: list[Entry], parts: int, seed: int
) -> None:
    found = deal(entries, parts, seed, kind)
    assert found == naive.deal_entries(entries, parts, seed)
    assert found == sorted(found, key=lambda e: (-e[0], e[1], e[2]))
    for kept in range(1, parts):
        assert deal(entries, parts, seed, kind, kept) == [e for e in found if e[2] < kept]
    for score, level, _, count, positive in entries:
        own = [e for e in found if e[:2] == (score, level)]
        assert (sum(e[3] for e in own), sum(e[4] for e in own)) == (count, positive)
    sizes = [sum(e[3] for e in found if e[2] == part) for part in range(parts)]
    assert max(sizes) - min(sizes) <= 1 and sizes == sorted(sizes, reverse=True)


def chi_square(seen: Counter, law: dict, draws: int) -> float:
    """Return the level of agreement with a law, outcomes of less than five expected draws pooled."""
    assert set(seen) <= set(law)
    counts = np.array([(seen[outcome], float(chance) * draws) for outcome, chance in law.items()])
    rare = counts[:, 1] < 5
    pooled = np.vstack([counts[~rare], counts[rare].sum(axis=0)])
    return float(stats.chisquare(*pooled[pooled[:, 1] > 0.0].T).pvalue)


@pytest.mark.parametrize(
    ("entries", "parts"),
    [
        ([(0.9, 0, 0, 3, 2), (0.5, 0, 0, 2, 0), (0.5, 1, 0, 2, 1)], 2),
        ([(0.9, 0, 0, 2, 1), (0.5, 0, 0, 3, 3)], 3),
        ([(0.7, 0, 0, 6, 4)], 3),
    ],
)
def test_splits_have_the_law_of_random_ones(entries: list[Entry], parts: int) -> None:
    rows = sum(e[3] for e in entries)
    sizes = [rows // parts + (part < rows % parts) for part in range(parts)]
    groups = [n for e in entries for n in (e[4], e[3] - e[4])]
    law = naive.split_law(groups, sizes)
    assert sum(law.values()) == 1

    seen: Counter = Counter()
    for seed in range(SEEDS):
        table = []
        dealt = {(e[:3]): e[3:] for e in deal(entries, parts, seed)}
        for entry in entries:
            own = [dealt.get((*entry[:2], part), (0, 0)) for part in range(parts)]
            table += [tuple(y for _, y in own), tuple(n - y for n, y in own)]
        seen[tuple(table)] += 1
    assert chi_square(seen, law, SEEDS) > UNLIKELY
