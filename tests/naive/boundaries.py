"""Slow, obvious twins of the kernels: by definition, by enumeration, in plain Python."""

from __future__ import annotations

import hashlib
import itertools
import math
import struct
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable
from decimal import Decimal, localcontext
from fractions import Fraction
from typing import Any

import numpy as np

# ---------------------------------------------------------------- boundaries on a grid


def naive_quantile_bins(fit: list[float], bins: int, values: list[float]) -> list[int]:
    """Return the quantile bin of each value; a bin is everything from its edge up."""
    ordered = sorted(fit)
    edges = [ordered[j * len(ordered) // bins] for j in range(1, bins)]
    return [sum(edge <= max(value, ordered[0]) for edge in edges) for value in values]


def naive_equi_weight_grid(
    score: list[float], uncertainty: list[float], label: list[int], levels: int, bins: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return positives and totals of quantile score bins within quantile uncertainty levels."""
    positives, totals = np.zeros((2, levels, bins), np.int64)
    level = naive_quantile_bins(uncertainty, levels, uncertainty)
    for i in range(levels):
        rows = [row for row in range(len(score)) if level[row] == i]
        if rows:
            own = [score[row] for row in rows]
            for row, j in zip(rows, naive_quantile_bins(own, bins, own), strict=True):
                totals[i, j] += 1
                positives[i, j] += label[row]
    return positives, totals


def naive_boundaries(
    positives: np.ndarray, totals: np.ndarray
) -> list[tuple[tuple[int, ...], int, int]]:
    """Return every boundary on a grid with its true positives and selected rows."""
    levels, bins = totals.shape
    return [
        (
            take,
            sum(int(positives[i, bins - t :].sum()) for i, t in enumerate(take)),
            sum(int(totals[i, bins - t :].sum()) for i, t in enumerate(take)),
        )
        for take in itertools.product(range(bins + 1), repeat=levels)
    ]


def naive_is_mono(take: tuple[int, ...]) -> bool:
    """Return whether no level takes more bins than the one before."""
    return all(a >= b for a, b in itertools.pairwise(take))


def naive_is_staircase(take: tuple[int, ...]) -> bool:
    """Return whether some levels take one number of bins and all after them one no smaller."""
    return len(set(take)) <= 2 and list(take) == sorted(take)


def naive_most_positives_by_bins(
    boundaries: list[tuple[tuple[int, ...], int, int]],
) -> list[int]:
    """Return the largest number of true positives with 0, 1, 2 … bins."""
    best: dict[int, int] = {}
    for take, hits, _ in boundaries:
        best[sum(take)] = max(best.get(sum(take), 0), hits)
    return [best[m] for m in sorted(best)]


def naive_best_bins(
    best: list[int], rows: int, bounded: str, bound: Fraction, all_hits: int
) -> tuple[int, int]:
    """Return (true positives, bins) of EW-DPMT: as if every bin had the average number of rows."""
    size = Fraction(rows, len(best) - 1)
    average = [(bins * size, hits) for bins, hits in enumerate(best)]
    selected, hits = best_totals(average, bounded, bound, all_hits)
    return hits, int(selected / (size or 1))


def naive_pareto(points: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the (true positives, rows) that no other beats, by rising true positives."""
    return sorted(
        p for p in points if not any(q[0] >= p[0] and q[1] <= p[1] and q != p for q in points)
    )


def naive_precision_frontier(points: set[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the points more precise than every point of larger or equal true positives."""
    selecting = {p for p in points if p[1] > 0 and p[0] > 0}

    def beats(q: tuple[int, int], p: tuple[int, int]) -> bool:
        return q != p and q[0] >= p[0] and Fraction(*q) >= Fraction(*p)

    return sorted(p for p in selecting if not any(beats(q, p) for q in selecting))


def naive_gains(
    gains: list[list[int]], costs: list[list[int]], *, mono: bool = False
) -> dict[int, int]:
    """Return the largest sum of gains for every sum of costs, one choice a level."""
    best: dict[int, int] = {}
    for choice in itertools.product(*(range(len(level)) for level in gains)):
        if mono and not naive_is_mono(choice):
            continue
        cost = sum(level[t] for level, t in zip(costs, choice, strict=True))
        gain = sum(level[t] for level, t in zip(gains, choice, strict=True))
        best[cost] = max(best.get(cost, gain), gain)
    return best


# ---------------------------------------------------------------- positivity theory


def naive_expected_true_positivity(
    train_score: float, evidence: float, b1: float, b0: float, tau: float
) -> float:
    """Mean of r under r^(a-1) (1-r)^(b-1) (1+(tau-1)r)^-n by brute force: a sum over a fine grid.

    In x = logit r the density is exp(a x) (1+e^x)^-(b1+b0) (1+tau e^x)^-n.  The grid is fine enough
    for b1, b0 >= 0.05.
    """
    a, b = b1 + evidence * train_score, b0 + evidence * (1 - train_score)

    def log_density(x: np.ndarray) -> np.ndarray:
        thinned = evidence * np.logaddexp(0, x + math.log(tau))
        return a * x - (b1 + b0) * np.logaddexp(0, x) - thinned

    low, high = -60 / min(a, 1) - 40, 60 / min(b, 1) + 40
    for _ in range(4):  # close in on where the density is not negligible
        x = np.linspace(low, high, 40_001)
        log_weight = log_density(x)
        seen = np.flatnonzero(log_weight > log_weight.max() - 50)
        low, high = x[max(seen[0] - 1, 0)], x[min(seen[-1] + 1, x.size - 1)]
    weight = np.exp(log_weight - log_weight.max())
    mean = math.fsum(weight * np.exp(-np.logaddexp(0, -x)))
    return mean / math.fsum(weight)


# ---------------------------------------------------------------- integers and bit patterns

WORD = 2**64
GOLDEN = 0x9E3779B97F4A7C15


def product_halves(a: int, b: int) -> tuple[int, int]:
    """Return the high and the low 64 bits of a product."""
    return divmod(a * b, WORD)


def compare_products(a: int, b: int, c: int, d: int) -> int:
    """Return the sign of ``a b - c d``."""
    return (a * b > c * d) - (a * b < c * d)


def ratio_at_least(numerators: list[int], denominators: list[int], a: int, q: int) -> list[bool]:
    """Return where numerator / denominator >= a / q; 0/0 meets it."""
    return [n * q >= a * d for n, d in zip(numerators, denominators, strict=True)]


def largest_ratio(numerators: list[int], denominators: list[int], least: int) -> int:
    """Return the first index of the largest (ratio, numerator) with numerator >= least, or -1."""
    able = [i for i, (n, d) in enumerate(zip(numerators, denominators, strict=True)) if n >= least]
    able = [i for i in able if denominators[i] > 0]
    rank = {i: (Fraction(numerators[i], denominators[i]), numerators[i]) for i in able}
    return max(able, key=lambda i: (*rank[i], -i), default=-1)


def mix(word: int) -> int:
    """Return SplitMix64's finaliser (Steele, Lea, Flood, Fast splittable random generators)."""
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9 % WORD
    word = (word ^ (word >> 27)) * 0x94D049BB133111EB % WORD
    return word ^ (word >> 31)


def absorb(hashes: list[int], words: list[int], salt: int) -> list[int]:
    """Return the hashes after one more column."""
    return [mix(h ^ mix((w + salt) % WORD)) for h, w in zip(hashes, words, strict=True)]


def falling_ranks(values: list[float]) -> list[int]:
    """Return the rank of each value from the largest down; equal values share one."""
    distinct = sorted(set(values), reverse=True)
    return [distinct.index(value) for value in values]


def pack(keys: list[int], level: list[int], label: list[int], tag_bits: int) -> list[int]:
    """Return the words ``key, level, label`` side by side."""
    rows = zip(keys, level, label, strict=True)
    return [key * 2**tag_bits + 2 * own + positive for key, own, positive in rows]


def sort_stably(words: list[int]) -> list[int]:
    """Return the places of the words in rising order, equal ones as they came."""
    return sorted(range(len(words)), key=words.__getitem__)


# ---------------------------------------------------------------- tallies

#: Score, level, part, rows, positive rows.
Entry = tuple[float, int, int, int, int]


def tally(
    score: list[float],
    level: list[int],
    label: list[int],
    weight: list[int] | None = None,
    part: list[int] | None = None,
) -> list[Entry]:
    """Return the distinct (score, level, part) with their rows and positives, by falling score."""
    counts: dict[tuple[float, int, int], list[int]] = {}
    for i in range(len(score)):
        units = 1 if weight is None else weight[i]
        if units:
            pair = counts.setdefault((score[i], level[i], 0 if part is None else part[i]), [0, 0])
            pair[0] += units
            pair[1] += units * label[i]
    ordered = sorted(counts, key=lambda key: (-key[0], key[1], key[2]))
    return [(*key, *counts[key]) for key in ordered]


def place_between(value: float, marks: list[float]) -> int:
    """Return the last quantile at or below a value; of several equal to it the first."""
    value = max(value, marks[0])
    if marks.count(value) > 1:
        return marks.index(value)
    return max(j for j, mark in enumerate(marks) if mark <= value)


def assign_levels(values: list[float], minimum: float, edges: list[float]) -> list[int]:
    """Return how many edges are at most the value, raised to the minimum."""
    return [sum(edge <= max(value, minimum) for edge in edges) for value in values]


def sum_few(values: list[float], units: list[int], distinct: list[float]) -> list[int] | None:
    """Return the units of each distinct value; None where there is another value."""
    if not set(values) <= set(distinct):
        return None
    pairs = list(zip(values, units, strict=True))
    return [sum(unit for value, unit in pairs if value == own) for own in distinct]


def level_totals(entries: list[Entry], levels: int) -> list[list[int]]:
    """Return, per level, entries with a positive, rows, positive rows."""
    return [
        [
            sum(1 for e in entries if e[1] == level and e[4]),
            sum(e[3] for e in entries if e[1] == level),
            sum(e[4] for e in entries if e[1] == level),
        ]
        for level in range(levels)
    ]


def prefix_points(
    entries: list[Entry],
    levels: int,
    excluded: int = -1,
    *,
    together: bool = False,
    every: bool = False,
) -> list[list[tuple[int, int, float]]]:
    """Return, per level, rows, positives and lowest score of what lies at or above each positive.

    `every`: at or above each score instead.
    """
    kept = [e for e in entries if e[2] != excluded]
    found = []
    for level in range(1 if together else levels):
        own = [e for e in kept if together or e[1] == level]
        cuts = sorted({e[0] for e in own if e[4] or every}, reverse=True)
        above = [[e for e in own if e[0] >= cut] for cut in cuts]
        found.append(
            [
                (sum(e[3] for e in chosen), sum(e[4] for e in chosen), cut)
                for chosen, cut in zip(above, cuts, strict=True)
            ]
        )
    return found


def count_selected(
    entries: list[Entry], thresholds: list[float], wanted: int = -1
) -> tuple[int, int]:
    """Return rows and positives at or above the threshold of their level; NaN selects nothing."""
    chosen = [e for e in entries if e[0] >= thresholds[e[1]] and wanted in (-1, e[2])]
    return sum(e[3] for e in chosen), sum(e[4] for e in chosen)


def part_totals(entries: list[Entry], parts: int) -> list[list[int]]:
    """Return rows and positives of each part."""
    own = [[e for e in entries if e[2] == part] for part in range(parts)]
    return [[sum(e[3] for e in chosen), sum(e[4] for e in chosen)] for chosen in own]


def quantile_places(entries: list[Entry], below: list[int]) -> list[float]:
    """Return the scores of some ranks, all rows written out."""
    written = sorted(e[0] for e in entries for _ in range(e[3]))
    return [written[rank] for rank in below]


def order_statistics(values: list[float], ranks: list[int]) -> list[float]:
    """Return the values of some ranks, counted from 0."""
    return [sorted(values)[rank] for rank in ranks]


def grid_edges(entries: list[Entry], levels: int, bins: int) -> list[list[float]]:
    """Return the quantile edges of each level's scores, all rows written out; NaN if empty."""
    edges = []
    for level in range(levels):
        written = sorted(e[0] for e in entries if e[1] == level for _ in range(e[3]))
        ranks = [j * len(written) // bins for j in range(1, bins)]
        edges.append([written[rank] if written else math.nan for rank in ranks])
    return edges


def fill_grid(
    entries: list[Entry], edges: list[list[float]]
) -> tuple[list[list[int]], list[list[int]], list[list[Fraction]]]:
    """Return rows, positives and exact sums of scores of each cell."""
    columns = range(len(edges[0]) + 1)

    def cells(value: Callable[[Entry], Any]) -> list[list[Any]]:
        return [
            [
                sum(value(e) for e in entries if e[1] == i and bisect_right(own, e[0]) == j)
                for j in columns
            ]
            for i, own in enumerate(edges)
        ]

    return (
        cells(lambda e: e[3]),
        cells(lambda e: e[4]),
        cells(lambda e: Fraction(e[0]) * e[3] if math.isfinite(e[0]) else Fraction(0)),
    )


# ---------------------------------------------------------------- dealing


SEED_STEP, LEVEL_STEP = 0xD1342543DE82EF95, 0xA0761D6478BD642F
POSITIVE_STEP = 0xE7037ED1A0B428DB


def uniform(key: int, draw: int) -> float:
    """Return the uniform number of a key and a draw's index: 53 bits of a scrambled counter."""
    return (mix((key + draw * GOLDEN) % WORD) >> 11) / 2**53


def log_factorial(n: int) -> Decimal:
    """Return ``log(n!)`` to some 40 digits: exactly, or by Stirling's series from far out."""
    with localcontext() as context:
        context.prec = 60
        if n < 300:
            return Decimal(math.factorial(n)).ln()
        x = Decimal(n)
        bernoulli = ["1/6", "-1/30", "1/42", "-1/30", "5/66", "-691/2730", "7/6", "-3617/510"]
        series = Decimal(0)
        for k, text in enumerate(bernoulli, start=1):
            b = Fraction(text)
            series += (
                Decimal(b.numerator) / b.denominator / (2 * k * (2 * k - 1)) / x ** (2 * k - 1)
            )
        return (x + Decimal("0.5")) * x.ln() - x + LOG_TWO_PI / 2 + series


LOG_TWO_PI = Decimal("1.8378770664093454835606594728112352797227949472755668")


def stirling_error(n: int) -> Decimal:
    """Return ``log(n!)`` minus Stirling's formula."""
    if n == 0:
        return Decimal(0)
    with localcontext() as context:
        context.prec = 60
        x = Decimal(n)
        return log_factorial(n) - ((x + Decimal("0.5")) * x.ln() - x + LOG_TWO_PI / 2)


def deviance(x: float, mean: float) -> Decimal:
    """Return ``x log(x / mean) + mean - x``."""
    with localcontext() as context:
        context.prec = 60
        a, b = Decimal(x), Decimal(mean)
        return (a * (a / b).ln() if a else Decimal(0)) + b - a


def hypergeometric(good: int, bad: int, sample: int, u: float) -> int:
    """Return the outcome whose share of [0, 1) holds u; shares lie from the mode outward."""
    low, high = max(0, sample - bad), min(good, sample)
    mode = min(max((sample + 1) * (good + 1) // (good + bad + 2), low), high)
    order = [mode]
    for step in range(1, high - low + 1):
        order += [k for k in (mode + step, mode - step) if low <= k <= high]
    rest = Fraction(u) * math.comb(good + bad, sample)
    for k in order:
        rest -= math.comb(good, k) * math.comb(bad, sample - k)
        if rest < 0:
            return k
    return mode


def take_place(place: int, room: list[int]) -> int:
    """Return the part that owns a place; `room` falls."""
    part = [part for part, free in enumerate(room) for _ in range(free)][place]
    room[part] -= 1
    return part


def deal_rows(rows: int, key: int, room: list[int]) -> list[int]:
    """Return how many rows each part gets; `room` falls.  Few rows draw tickets, many draw shares."""
    dealt = [0] * len(room)
    if rows <= 32:
        for draw in range(rows):
            dealt[take_place(int(uniform(key, draw) * sum(room)), room)] += 1
        return dealt
    for part, free in enumerate(room):
        dealt[part] = hypergeometric(free, sum(room[part + 1 :]), rows, uniform(key, part))
        rows -= dealt[part]
    for part, taken in enumerate(dealt):
        room[part] -= taken
    return dealt


def deal_entries(entries: list[Entry], parts: int, seed: int) -> list[Entry]:
    """Return the entries dealt to parts of equal size, the first ones one row larger."""
    rows = sum(e[3] for e in entries)
    room = [rows // parts + (part < rows % parts) for part in range(parts)]
    found = []
    for score, level, _, count, positive in entries:
        (bits,) = struct.unpack("<Q", struct.pack("<d", score))
        key = (mix((bits + seed * SEED_STEP) % WORD) + level * LEVEL_STEP) % WORD
        hits = deal_rows(positive, (key + POSITIVE_STEP) % WORD, room)
        misses = deal_rows(count - positive, key, room)
        for part in range(parts):
            if hits[part] + misses[part]:
                found.append((score, level, part, hits[part] + misses[part], hits[part]))
    return found


def split_law(groups: list[int], parts: list[int]) -> dict[tuple[tuple[int, ...], ...], Fraction]:
    """Return the probability of every way in which a random split deals groups to parts."""
    law: dict[tuple[tuple[int, ...], ...], Fraction] = {(): Fraction(1)}
    for size in groups:
        longer: dict[tuple[tuple[int, ...], ...], Fraction] = {}
        for table, chance in law.items():
            room = [parts[p] - sum(row[p] for row in table) for p in range(len(parts))]
            ways = math.comb(sum(room), size)
            for row in itertools.product(*(range(min(free, size) + 1) for free in room)):
                if sum(row) == size:
                    count = math.prod(math.comb(f, k) for f, k in zip(room, row, strict=True))
                    longer[(*table, row)] = chance * Fraction(count, ways)
        law = longer
    return law


# ---------------------------------------------------------------- hulls and knapsacks


def concave_hull(selected: list[int], true_positives: list[int]) -> list[int]:
    """Return the points strictly above every chord of two others (or the origin), and the last."""
    points = [(0, 0), *zip(selected, true_positives, strict=True)]

    def is_vertex(i: int) -> bool:
        x, y = points[i]
        return all(
            (y - ay) * (bx - ax) > (by - ay) * (x - ax)
            for ax, ay in points[:i]
            for bx, by in points[i + 1 :]
        )

    return [i - 1 for i in range(1, len(points)) if is_vertex(i)]


#: The points (rows, positives) of one level.
Level = list[tuple[int, int]]


def best_values(levels: list[Level], slope: float) -> list[float]:
    """Return the largest ``positives - slope * rows`` of each level, nothing selected included."""
    return [max(t - slope * m for m, t in [(0, 0), *level]) for level in levels]


def near_points(level: Level, slope: float, budget: float) -> list[tuple[int, float]]:
    """Return the points (-1: none) that lose at most the budget, with their losses."""
    (best,) = best_values([level], slope)
    every = [(i - 1, best - (t - slope * m)) for i, (m, t) in enumerate([(0, 0), *level])]
    return [(i, loss) for i, loss in every if loss <= budget]


#: Loss and value of a state or a point.
Measures = tuple[float, float]


def combine(
    states: list[Measures], points: list[Measures], budget: float, low: float, high: float
) -> list[tuple[int, int, float, float]]:
    """Return the pairs (state, point, loss, value) within the budget and the range of values."""
    every = [
        (s, p, states[s][0] + points[p][0], states[s][1] + points[p][1])
        for s, p in itertools.product(range(len(states)), range(len(points)))
    ]
    return [pair for pair in every if pair[2] <= budget and low <= pair[3] <= high]


def undominated(totals: list[tuple[int, int]]) -> set[tuple[int, int]]:
    """Return the totals (rows, positives) of which no other has as few rows and as many positives."""
    return {
        (m, t)
        for m, t in totals
        if not any(a <= m and b >= t and (a, b) != (m, t) for a, b in totals)
    }


def every_choice(levels: list[Level]) -> dict[tuple[int, ...], tuple[int, int]]:
    """Return every choice of one point a level (-1: none) with its rows and positives."""
    found = {}
    for choice in itertools.product(*(range(-1, len(level)) for level in levels)):
        taken = [level[i] for level, i in zip(levels, choice, strict=True) if i >= 0]
        found[choice] = (sum(m for m, _ in taken), sum(t for _, t in taken))
    return found


def best_totals(
    totals: Iterable[tuple[Any, int]], bounded: str, bound: Fraction, positives: int
) -> tuple[Any, int]:
    """Return rows and positives of the canonical optimum; (0, 0) where nothing meets the bound."""
    able = [(m, t) for m, t in totals if m > 0 and t > 0]
    if bounded == "precision":
        able = [(m, t) for m, t in able if Fraction(t) >= bound * m]
        return max(able, key=lambda p: (p[1], -p[0]), default=(0, 0))
    able = [(m, t) for m, t in able if t >= bound * positives]
    return max(able, key=lambda p: (Fraction(p[1]) / Fraction(p[0]), p[1]), default=(0, 0))


def best_threshold(
    prefixes: list[tuple[int, int, float]], bounded: str, bound: Fraction, positives: int
) -> float:
    """Return the lowest score of the best of (rows, positives, lowest score); NaN for none."""
    best = best_totals([(m, t) for m, t, _ in prefixes], bounded, bound, positives)
    return next((cut for m, t, cut in prefixes if (m, t) == best), math.nan)


# ---------------------------------------------------------------- margins


def logit(p: float) -> float:
    """Return the log odds."""
    return math.log(p / (1 - p)) if 0 < p < 1 else math.copysign(math.inf, p - 0.5)


def margins(score: list[float], threshold: list[float], *, probability: bool) -> list[float]:
    """Return score minus threshold, or of their logits; NaN for a threshold of never or always."""
    out = []
    for s, t in zip(score, threshold, strict=True):
        if math.isnan(t) or t == -math.inf:
            out.append(math.nan)
        elif s == t:
            out.append(0.0)
        else:
            # Between neighbours the difference of logits vanishes; its first order does not.
            out.append((logit(s) - logit(t) or (s - t) / (t * (1 - t))) if probability else s - t)
    return out


def margin_bins(
    entries: list[Entry],
    regressor: list[float],
    limits: list[list[float]],
    starts: list[list[float]],
    steps: list[list[float]],
    reach: int,
) -> tuple[list[int], list[list[Counter[int]]]]:
    """Return the bin of each entry's margin, and rows and positive rows of each part by bin."""
    bins = []
    held: list[list[Counter[int]]] = [[Counter() for _ in limits] for _ in range(2)]
    for (score, level, part, rows, hits), x in zip(entries, regressor, strict=True):
        limit, away = limits[part][level], (x - starts[part][level]) * steps[part][level]
        if math.isnan(limit):
            place = -reach - 1
        elif score >= limit:
            place = max(place_of(away, reach), 0)
        else:
            place = min(place_of(away, reach), -1)
        bins.append(place)
        held[0][part][place] += rows
        held[1][part][place] += hits
    return bins, held


def place_of(away: float, reach: int) -> int:
    """Return the whole number below a margin, one of 2 `reach` around 0; 0 where it is undefined."""
    if math.isnan(away):
        return 0
    return next((k for k in range(-reach, reach) if away < k + 1), reach - 1)


#: The twins of kernels whose name they do not bear.
TWINS = {
    "log_hypergeometric": "hypergeometric",
    "by_rejection": "hypergeometric",
    "falling_key": "falling_ranks",
    "falling_keys": "falling_ranks",
    "head": "order_statistics",
    "count_heads": "order_statistics",
    "gather_heads": "order_statistics",
    "count_digits": "sort_stably",
    "scatter_pairs": "sort_stably",
    "sort_buckets": "sort_stably",
    "group_words": "tally",
    "group_weighted": "tally",
    "join_entries": "tally",
    "near_pairs": "combine",
    "add_level": "naive_gains",
    "trace_level": "naive_gains",
    "nested_levels": "naive_gains",
}


# ---------------------------------------------------------------- measures


def measure(text: str, rows: float, hits: float, all_rows: int, positives: int) -> float:
    """Return a measure of a confusion matrix from its textbook formula; 0/0 counts as 0.

    Counts may be expected ones, which may round below 0.
    """
    name, _, rest = text.partition(":")
    given = [float(part) for part in rest.split(",")] if rest else []
    tp, fp, fn = hits, max(rows - hits, 0), max(positives - hits, 0)
    tn = max(all_rows - rows - fn, 0)

    def over(a: float, b: float) -> float:
        return a / b if b else 0.0

    tpr, tnr, precision = over(tp, tp + fn), over(tn, tn + fp), over(tp, tp + fp)
    accuracy = over(tp + tn, all_rows)
    beta = {"f1": 1.0}.get(name, given[0] if given else 0.0)
    expected = over((tp + fp) * (tp + fn) + (tn + fn) * (tn + fp), all_rows**2)
    mcc_root = math.sqrt((tp + fp) * (tp + fn)) * math.sqrt((tn + fp) * (tn + fn))
    f_measure = over((1 + beta**2) * tp, (1 + beta**2) * tp + fp + beta**2 * fn)
    if name in ("weighted-accuracy", "utility", "cost"):
        worth = {
            "weighted-accuracy": lambda w: (1 - w) * tp + w * tn,
            "utility": lambda a, b, c, d: a * tp + b * fp + c * fn + d * tn,
            "cost": lambda a, b: a * fp + b * fn,
        }[name]
        return over(worth(*given), all_rows)
    return {
        "accuracy": accuracy,
        "balanced-accuracy": (tpr + tnr) / 2,
        "precision": precision,
        "f1": f_measure,
        "fbeta": f_measure,
        "jaccard": over(tp, tp + fp + fn),
        "mcc": over(tp * tn - fp * fn, mcc_root),
        "kappa": over(accuracy - expected, 1 - expected),
        "gmean": math.sqrt(tpr * tnr),
        "fowlkes-mallows": math.sqrt(precision * tpr),
        "youden": tpr + tnr - 1,
        "lift": over(precision, over(positives, all_rows)),
    }[name]


# ---------------------------------------------------------------- randomised boundaries

#: Positives and negatives at one score.
Group = tuple[int, int]

#: A figure of (expected) rows and positives that is linear in both; the bound holds where it is >= 0.
Slack = Callable[[Fraction, Fraction], Fraction]


def slack_of(option: str, bound: Fraction, rows: int, positives: int) -> Slack:
    """Return by how much a bound is over-fulfilled."""
    limit = bound if bound >= 1 else bound * rows
    return {
        "precision": lambda m, t: t - bound * m,
        "recall": lambda m, t: t - bound * positives,
        "fpr": lambda m, t: bound * (rows - positives) - (m - t),
        "capacity": lambda m, t: limit - m,
    }[option]


def mixed(groups: list[Group], k: int, p: Fraction) -> tuple[Fraction, Fraction]:
    """Return expected rows and positives: all groups before k, and group k with probability p."""
    whole = groups[:k]
    t = sum(a for a, _ in whole) + p * groups[k][0]
    return sum(b for _, b in whole) + t + p * groups[k][1], Fraction(t)


def random_ties(groups: list[Group], slack: Slack) -> list[tuple[Fraction, Fraction]]:
    """Return the expected (rows, positives) between which the optimum of a bounded goal lies.

    Within a group the slack is linear in the probability, so the probabilities that meet the bound
    are an interval; recall and precision are monotone there, so one of its ends is best.
    """
    found = []
    for k in range(len(groups)):
        at_none, at_all = (slack(*mixed(groups, k, Fraction(p))) for p in (0, 1))
        ends = {Fraction(p) for p, s in ((0, at_none), (1, at_all)) if s >= 0}
        if at_none * at_all < 0:
            ends.add(at_none / (at_none - at_all))
        found += [mixed(groups, k, p) for p in ends]
    return found


def upper_hull(points: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the vertices of the least concave function above all points, by rising rows."""
    highest: dict[int, int] = {}
    for m, t in points:
        highest[m] = max(t, highest.get(m, t))
    hull: list[tuple[int, int]] = []
    for m, t in sorted(highest.items()):
        while len(hull) > 1 and (hull[-1][1] - hull[-2][1]) * (m - hull[-2][0]) <= (
            t - hull[-2][1]
        ) * (hull[-1][0] - hull[-2][0]):
            hull.pop()
        hull.append((m, t))
    return hull


def chance(key: object, seed: int) -> float:
    """Return the number in [0, 1) that decides a row of a stochastic boundary."""
    digits = hashlib.md5(f"{seed}:{key}".encode()).hexdigest()[:13]
    return int(digits, 16) / 16**13
