"""Tallies: the distinct (score, level) pairs with their rows and positive rows, by falling score.

Every array of a tally runs over *entries*, sorted by score from high to low, then by level:

``score``     float32 or float64
``level``     uint16, the uncertainty level (0 = least uncertain)
``count``     uint8, int32 or int64, rows (or units of weight) of the entry
``positive``  the same type, how many of them are positive
``part``      uint8, the part of a split the entry was dealt to; an empty array where nothing was
              dealt.  Entries of one (score, level) in several parts stand side by side.

Counts are integers; a caller with fractional weights scales them first.
"""

from __future__ import annotations

import math

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int16s, Int64s, Numbers, UInt8s, UInt16s, UInt32s, UInt64s
from .elementary import FEW
from .maps import knots_reached
from .sorting import falling_key


@kernel
def assign_levels(values: Numbers, minimum: float, edges: Floats, out: Numbers) -> None:
    """Write the bin of each value: how many rising edges are at most ``max(value, minimum)``.

    A search by halves, of so many values at a time that none waits for its own branches.
    """
    half = np.uint32(1)
    while half <= edges.size:
        half *= np.uint32(2)
    padded = np.empty(half)
    for k in range(padded.size):  # a slice takes seconds to compile
        padded[k] = edges[k] if k < edges.size else math.inf
    own, found = np.empty(FEW), np.empty(FEW, np.uint32)
    for start in range(0, values.size, FEW):
        count = min(FEW, values.size - start)
        for k in range(count):
            own[k] = max(np.float64(values[start + k]), minimum)
            found[k] = 0
        step = half >> np.uint32(1)
        while step > 0:
            for k in range(count):
                beyond = padded[found[k] + step - np.uint32(1)] <= own[k]
                found[k] += step if beyond else np.uint32(0)
            step >>= np.uint32(1)
        for k in range(count):
            out[start + k] = min(found[k], edges.size)  # infinity reaches what pads the edges


@kernel
def group_words(
    words: UInt64s,
    tags: UInt32s,
    tag_bits: np.uint64,
    smallest: np.uint64,
    bits: Numbers,
    level: UInt16s,
    count: Numbers,
    positive: Numbers,
) -> int:
    """Group sorted words ``key << tag_bits | level << 1 | label`` into entries; return how many.

    Where `tag_bits` is 0, the tags (``level << 1 | label``) are an array of their own, sorted with the
    keys; else it is empty.  `smallest` was subtracted from the falling-order keys.  `bits` (uint32 or
    uint64) gets the bit patterns of the scores.  Returned is -1 where a count does not fit its type.
    """
    one = np.uint64(1)
    mask = (one << tag_bits) - one
    sign = one << np.uint64(8 * bits.itemsize - 1)
    # Sums are kept here and written once: unsigned small counts would wrap around unseen.
    entries, rows, hits = -1, np.int64(0), np.int64(0)
    most = 255 if count.itemsize == 1 else 2**31 - 1
    last, last_tag = np.uint64(0), np.uint64(0)
    for i in range(words.size):
        key = words[i] >> tag_bits
        tag = np.uint64(tags[i]) if tags.size else words[i] & mask
        if entries < 0 or key != last or tag >> one != last_tag:
            if entries >= 0:
                if rows > most and count.itemsize < 8:
                    return -1
                count[entries] = rows
                positive[entries] = hits
            entries += 1
            last, last_tag = key, tag >> one
            bits[entries] = falling_key(key + smallest, sign)
            level[entries] = tag >> one
            rows, hits = np.int64(0), np.int64(0)
        rows += 1
        hits += np.int64(tag & one)
    if rows > most and count.itemsize < 8:
        return -1
    count[entries] = rows
    positive[entries] = hits
    return entries + 1


@kernel
def join_entries(
    score: Numbers,
    level: UInt16s,
    count: Numbers,
    positive: Numbers,
    score_out: Numbers,
    level_out: UInt16s,
    count_out: Numbers,
    positive_out: Numbers,
) -> int:
    """Write entries, those of one score and level side by side as one; return how many.

    Returned is -1 where a count does not fit the type of `count_out`.
    """
    entries, rows, hits = -1, np.int64(0), np.int64(0)
    most = 255 if count_out.itemsize == 1 else 2**31 - 1
    for i in range(score.size):
        if entries < 0 or score[i] != score[i - 1] or level[i] != level[i - 1]:
            entries += 1
            score_out[entries], level_out[entries] = score[i], level[i]
            rows, hits = np.int64(0), np.int64(0)
        rows += np.int64(count[i])
        hits += np.int64(positive[i])
        if rows > most and count_out.itemsize < 8:
            return -1
        count_out[entries], positive_out[entries] = rows, hits
    return entries + 1


@kernel
def group_weighted(
    order: UInt32s,
    score: Numbers,
    level: UInt16s,
    label: UInt8s,
    weight: Int64s,
    part: UInt8s,
    amounts: Int64s,
) -> tuple[Numbers, UInt16s, Int64s, Int64s, UInt8s, Int64s]:
    """Group rows, visited in `order` (falling score, then level, then part), into entries.

    `part` may be empty.  Rows of weight 0 are left out: they are not there.  Besides the arrays of the
    entries their sums of `amounts` are returned, both with a row an amount, maybe none.
    """
    scores, levels = np.empty_like(score), np.empty_like(level)
    parts = np.empty(part.size, np.uint8)
    count, positive = np.empty(score.size, np.int64), np.empty(score.size, np.int64)
    sums = np.zeros_like(amounts)
    entries = -1
    for i in range(order.size):
        row = order[i]
        if weight[row] == 0:
            continue
        new = entries < 0 or score[row] != scores[entries] or level[row] != levels[entries]
        if not new and part.size:
            new = part[row] != parts[entries]
        if new:
            entries += 1
            scores[entries], levels[entries] = score[row], level[row]
            count[entries] = positive[entries] = 0
            if part.size:
                parts[entries] = part[row]
        count[entries] += weight[row]
        if label[row]:
            positive[entries] += weight[row]
        for k in range(amounts.shape[0]):
            sums[k, entries] += amounts[k, row]
    size = entries + 1
    counts = count[:size], positive[:size]
    return scores[:size], levels[:size], counts[0], counts[1], parts[:size], sums[:, :size]


@kernel
def level_totals(level: UInt16s | UInt8s, count: Numbers, positive: Numbers, levels: int) -> Int64s:
    """Return an array of shape (levels, 3): entries that hold a positive, rows, positive rows.

    Parts of a dealt tally are added up as levels are.
    """
    totals = np.zeros((levels, 3), np.int64)
    for i in range(level.size):
        row = totals[level[i]]
        row[0] += positive[i] > 0
        row[1] += count[i]
        row[2] += positive[i]
    return totals


@kernel
def prefix_points(
    score: Numbers,
    level: UInt16s,
    count: Numbers,
    positive: Numbers,
    part: UInt8s,
    gain: Int64s,
    excluded: int,
    offsets: Int64s,
) -> tuple[Int64s, Int64s, Int64s, Int64s, Int64s]:
    """Return the prefixes of each level that end in a score with a positive row.

    A prefix is the set of a level's rows at or above one of its scores; one that ends in a score
    without a positive row selects more rows than the prefix before it and no more positives, so no
    boundary needs it.

    Entries of part `excluded` are passed over (-1: none); `gain` is what the rows of each entry are
    worth, signed; it may be empty.  `offsets` say where each level's points begin in the output, with
    the total at the end; upper bounds suffice.  One level only (two offsets): all levels are taken
    together.  With room for all entries, prefixes that end in a score of negative rows are returned
    too.

    Returned are rows and positive rows of each prefix, the entry of its lowest score, what its rows are
    worth (empty without gains), and where each level's points end.
    """
    levels = offsets.size - 1
    every = offsets[levels] == score.size
    selected = np.empty(offsets[levels], np.int64)
    true_positives = np.empty(offsets[levels], np.int64)
    entry = np.empty(offsets[levels], np.int64)
    worth = np.zeros(offsets[levels] if gain.size else 0, np.int64)
    ends = offsets[:levels].copy()
    rows, hits, gained = np.zeros((3, levels), np.int64)
    last = np.full(levels, np.nan, score.dtype)  # the score of each level's last point
    for i in range(score.size):
        if part.size and part[i] == excluded:
            continue
        own = level[i] if levels > 1 else 0
        rows[own] += count[i]
        hits[own] += positive[i]
        if gain.size:
            gained[own] += gain[i]
        if last[own] != score[i]:
            if positive[i] == 0 and (not every or rows[own] == 0):
                continue
            entry[ends[own]] = i
            ends[own] += 1
            last[own] = score[i]
        point = ends[own] - 1
        selected[point] = rows[own]
        true_positives[point] = hits[own]
        if gain.size:
            worth[point] = gained[own]
    return selected, true_positives, entry, worth, ends


@kernel
def count_selected(
    score: Numbers,
    level: UInt16s,
    count: Numbers,
    positive: Numbers,
    part: UInt8s,
    wanted: int,
    thresholds: Floats,
) -> tuple[np.int64, np.int64]:
    """Return rows and positive rows at or above the threshold of their level.

    A NaN threshold selects nothing.  Only entries of part `wanted` count (-1: all).
    """
    rows, hits = np.int64(0), np.int64(0)
    for i in range(score.size):
        if wanted >= 0 and part[i] != wanted:
            continue
        if score[i] >= thresholds[level[i]]:
            rows += count[i]
            hits += positive[i]
    return rows, hits


@kernel
def margin_bins(
    score: Numbers,
    regressor: Floats,
    level: UInt16s,
    part: UInt8s,
    count: Numbers,
    positive: Numbers,
    cuts: Floats,
    reach: int,
) -> tuple[Int16s, Int64s]:
    """Return how far entries lie above the threshold of their part and level, in bins.

    `cuts`, shape (3, parts, levels), are the thresholds on the score, those on the regressor, and how
    many bins a unit of that has.  Bins go from ``-reach`` to ``reach - 1``; what is selected has one
    from 0 on, all else one below.  Where the threshold is NaN no cut selects anything: the bin is
    ``-reach - 1``.  Besides the bins of the entries, rows and positive rows of each part and bin are
    returned, shape (2, parts, 2 reach + 1).
    """
    bins = np.empty(score.size, np.int16)
    held = np.zeros((2, cuts.shape[1], 2 * reach + 1), np.int64)
    for i in range(score.size):
        own, at = part[i], level[i]
        limit, start, steps = cuts[0, own, at], cuts[1, own, at], cuts[2, own, at]
        bin_ = -reach - 1
        if not math.isnan(limit):
            margin = (regressor[i] - start) * steps
            if math.isnan(margin):
                margin = 0.0
            bin_ = math.floor(min(max(margin, float(-reach)), float(reach - 1)))
            bin_ = max(bin_, 0) if score[i] >= limit else min(bin_, -1)
        bins[i] = bin_
        held[0, own, bin_ + reach + 1] += count[i]
        held[1, own, bin_ + reach + 1] += positive[i]
    return bins, held


@kernel
def fill_grid(
    score: Numbers, level: UInt16s, count: Numbers, positive: Numbers, edges: Floats
) -> tuple[Int64s, Int64s, Floats]:
    """Return rows, positive rows and the sum of scores of each cell (level, score bin).

    `edges` has the inner edges of each level, shape (levels, bins - 1).  Scores fall along the
    tally, so each level's bin only falls; sums run in score order.
    """
    levels, bins = edges.shape[0], edges.shape[1] + 1
    total = np.zeros((levels, bins), np.int64)
    hits = np.zeros((levels, bins), np.int64)
    sums = np.zeros((levels, bins), np.float64)
    current = np.full(levels, bins - 1, np.int64)
    for i in range(score.size):
        own = level[i]
        column = current[own]
        while column > 0 and score[i] < edges[own, column - 1]:
            column -= 1
        current[own] = column
        total[own, column] += count[i]
        hits[own, column] += positive[i]
        sums[own, column] += np.float64(score[i]) * float(count[i])
    return total, hits, sums


@kernel
def sum_few(values: Numbers, units: Int64s, distinct: Numbers, sums: Int64s) -> bool:
    """Add up the units of each of few distinct values, which rise; False where another value comes.

    `sums` begins with zeros.
    """
    place = 0
    for i in range(values.size):
        if values[i] != distinct[place]:  # neighbours are often equal
            place = max(knots_reached(values[i], distinct, 0, distinct.size) - 1, 0)
            if distinct[place] != values[i]:
                return False
        sums[place] += units[i]
    return True


@kernel
def count_cells(
    keys: UInt64s,
    kind: Numbers,
    times: Numbers,
    units: Numbers,
    starts: Numbers,
    drops: UInt64s,
    rows: Numbers,
    sums: Numbers,
) -> None:
    """Add rows to the counts of the cells that their keys lie in.

    Keys are bit patterns of float64 values, made to rise: 52 bits behind a power of two.  `kind` is
    what else tells rows apart, a column of `rows`; `times` how many rows each stands for (empty: one),
    `units` what they weigh together.  `starts` and `drops` are the first cell of each power of two, and
    how many of its 52 bits are cut.  Without weights `sums` and `units` are empty.
    """
    behind = np.uint64((1 << 52) - 1)
    for i in range(keys.size):
        power = keys[i] >> np.uint64(52)
        cell = starts[power] + np.int64((keys[i] & behind) >> drops[power])
        rows[cell, kind[i]] += times[i] if times.size > 0 else np.int64(1)
        if sums.size > 0:
            sums[cell, kind[i]] += units[i]
