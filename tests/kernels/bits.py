"""What the kernels with floats compute on fixed data, bit for bit.

``python -m tests.kernels.bits`` prints digests, to compare compiled with interpreted kernels.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator

import numpy as np

from calibkit.numerics import knapsack as core
from calibkit.numerics.logistic import fit_logistic
from calibkit.numerics.sums import NO_FACTORS
from calibkit.summaries.edges import level_edges
from calibkit_kernels import bootstrap, distributions, draws, logistic, maps, metrics, rates, sums
from calibkit_kernels import tally as kernels


def _fixed_tally() -> tuple[np.ndarray, ...]:
    rng = np.random.default_rng(1)
    score = np.sort(rng.choice(rng.random(150), 200))[::-1].copy()
    level = rng.integers(0, 3, 200).astype(np.uint16)
    count = rng.integers(1, 50, 200)
    return score, level, count, rng.binomial(count, score)


def tallies() -> Iterator[object]:
    score, level, count, positive = _fixed_tally()
    totals = kernels.level_totals(level, count, positive, 3)
    edges = level_edges(score, level, count, totals[:, 1], 7)
    yield edges
    yield from kernels.fill_grid(score, level, count, positive, edges)
    out = np.empty(score.size, np.uint16)
    kernels.assign_levels(score, 0.1, edges[0], out)
    yield out
    bits = score.view(np.uint64)
    yield from draws.deal_entries(bits, level, count, positive, 3, 3, np.uint64(5))
    large = count * 10**7
    yield from draws.deal_entries(bits, level, large, large // 3, 2, 1, np.uint64(6))


def numbers() -> Iterator[object]:
    for n in (0.0, 1.0, 15.0, 16.0, 1e3, 1e9):
        yield distributions.stirling_error(n)
        yield distributions.deviance(n, 1.05 * n + 1)
        yield distributions.deviance(n, 3 * n + 1)
        yield distributions.log_probability(float(n // 3), n, 0.3, 0.7) if n else 0.0
    for i in range(50):
        yield draws.uniform(np.uint64(i), i)
        yield draws.hypergeometric(400, 700, 300, i / 50)


def tails() -> Iterator[object]:
    successes, trials = np.array([0, 3, 7, 50, 10**6]), np.array([7, 7, 7, 90, 10**9])
    for level, upper in ((0.05, True), (1e-9, False)):
        found = np.empty(successes.size)
        distributions.bounds(successes, trials, level, upper, found)
        yield found


def searches() -> Iterator[object]:
    rng = np.random.default_rng(2)
    step = rng.integers(1, 9, 60)
    selected = np.concatenate([np.cumsum(step[:30]), np.cumsum(step[30:])])
    gain = np.minimum(step, rng.integers(1, 9, 60))
    hits = np.concatenate([np.cumsum(gain[:30]), np.cumsum(gain[30:])])
    offsets, ends = np.array([0, 30, 60]), np.array([30, 60])
    out = np.empty((30, 3), np.int64)
    size = rates.pool_rates(step[:30], gain[:30], np.empty(0, np.int64), True, out)
    yield out[:size]
    relaxed = core.Relaxation((selected, hits, offsets, ends), 0.37)
    window = core.Window(-0.37, 1.0, 0.0, 1e3)
    band = core.pareto_band(relaxed, 6.25, window)
    assert band is not None
    yield from (band.selected, band.true_positives, band.choices)


def margins() -> Iterator[object]:
    score, *_ = _fixed_tally()
    threshold = np.resize([0.3, np.nan, -np.inf, 0.77], score.size)
    level = np.arange(score.size, dtype=np.uint16)
    yield maps.margins(score, level, threshold, True)
    yield maps.margins(score.astype(np.float32), level, threshold, False)


def normals() -> Iterator[object]:
    for z in np.linspace(-38, 38, 153).tolist():
        yield distributions.normal_cdf(z)
        yield distributions.normal_density(z)


def of_tallies() -> Iterator[object]:
    score, _, count, positive = _fixed_tally()
    yield metrics.ranking_sums(count, positive, 7, 3)
    yield metrics.loss_sums(score, count, positive)
    yield metrics.range_sums(score, count, positive)[2]
    logits, cosines = np.empty(score.size), np.zeros(20)
    metrics.expit(score * 40 - 20, logits)
    yield logits
    moments = np.zeros((80, 10))
    metrics.residual_moments(score, count, positive, moments)
    metrics.cosine_sums((np.arange(80) + 0.5) / 80, moments, cosines)
    value, integral = cosines - 0.1, cosines.cumsum()
    yield from (moments, cosines, metrics.absolute_integral(value, integral))


def calibrations() -> Iterator[object]:
    score, _, count, positive = _fixed_tally()
    ones, zeros = positive.astype(float), (count - positive).astype(float)
    low, high, out = np.empty(score.size), np.empty(score.size), np.empty(score.size)
    maps.log_parts(score, True, low, high)
    yield from (low, high)
    line = fit_logistic((low + high,), ones, zeros)
    beta = fit_logistic((low, high), ones, zeros, rising=True)
    for found in (line, beta):
        yield from (found.slopes, found.intercept, found.ended.value)
    maps.line_map(score, line.slopes[0], line.intercept, True, 1e-6, 0.0, out)
    yield out.copy()
    maps.beta_map(score, np.array([*beta.slopes, beta.intercept]), True, 0.0, out)
    yield out.copy()
    pieces = np.array([[-1.0, -1.0, 1.0], [-2.0, -2.0, 0.5], [0.7, 0.7, 1.8], [0.0, 0.3, 0.0]])
    maps.spline_map(score, np.array([-1.0, 1.0]), pieces, True, 0.0, out)
    yield out.copy()
    rows, hits = np.append(0, np.cumsum(count)), np.append(0, np.cumsum(count - positive))
    corners = np.empty(rows.size, np.int64)
    rates.next_corners(rows, hits, corners)
    rates.added_row_fits(rows, hits, corners, 1, True, out)
    yield out


def replicates() -> Iterator[object]:
    random = np.random.default_rng(9)
    values = random.random((3, 150))
    values[0, :3] = (0.0, 1.0, 1e-7)
    links, bins = np.empty_like(values), np.zeros((4200, 2), np.int64)
    for own, column in zip(links, values, strict=True):
        maps.log_odds(column, own)
        for factors in (NO_FACTORS, column.view(np.int64)):
            sums.add_columns(own.view(np.int64), factors, sums.NO_CODES, -2148, bins[None])
    square, rest = np.empty((2, 150))
    sums.split_squares(links[0], square, rest)
    spread = np.empty(150)
    sums.squares_about_mean(links, spread)
    yield from (links, bins, square, rest, spread)
    label, times = (values[2] > 0.5).astype(float), random.integers(0, 3, 150).astype(float)
    gradient, hessian = np.zeros(3), np.zeros((3, 3))
    inputs = np.ascontiguousarray(links.T)
    yield logistic.newton_sums(inputs, label, times, np.ones(3), gradient, hessian)
    yield from (gradient, np.tril(hessian))


def resampling() -> Iterator[object]:
    rng = np.random.default_rng(6)
    count = rng.integers(1, 9, 40)
    positive = rng.binomial(count, 0.4)
    score = np.linspace(0.97, 0.02, 40)
    plus, minus, out = np.empty(40), np.empty(40), np.empty(4)
    metrics.delong_shares(count, positive, 0, 0, 100, 90, plus, minus)
    yield from (plus.copy(), minus.copy())
    metrics.precision_shares(count, positive, 300, 120, 0.1, 0.05, plus, minus)
    yield from (plus.copy(), minus.copy())
    metrics.log_losses(score, count, positive, plus, minus)
    yield metrics.sum_of_squares(count, positive, plus, minus)
    table = np.empty(80)
    bootstrap.draw_numbers(np.geomspace(0.1, 1e5, 80), np.uint64(3), table)
    drawn = table.reshape(-1, 2)
    bootstrap.gap_statistics(drawn, score, np.array([5, 20, 40]), np.full(3, 0.7), out)
    yield out.copy()
    bootstrap.corp_statistics(drawn, score, np.empty_like(drawn), out)
    yield out


def digests() -> dict[str, str]:
    """Return a digest of the bits of each group's results."""
    found = {}
    for group in (
        tallies,
        numbers,
        tails,
        searches,
        margins,
        normals,
        of_tallies,
        calibrations,
        replicates,
        resampling,
    ):
        digest = hashlib.sha256()
        for result in group():
            array = np.asarray(result)
            kind = "f" if array.dtype.kind == "f" else "i"
            digest.update(np.ascontiguousarray(array.astype(f"{kind}8")).tobytes())
        found[group.__name__] = digest.hexdigest()
    return found


if __name__ == "__main__":
    print(json.dumps(digests()))
