"""Rates of counts, compared exactly: bounds, the best ratio, isotonic regression, Venn-Abers tables.

``precision >= a/q`` is ``tp * q >= a * m``; with nine-digit bounds and large weights the products
pass 2^63.  Small products are compared as they are; of others a comparison in floating point decides
all but the closest calls, two 64-bit halves decide those.

Isotonic regression pools adjacent violators, exactly where rows are counted.  The pools of rows by
falling score are the slopes of the least concave majorant of the points (rows, positive rows) of the
prefixes: their ends are its vertices (Barlow, Bartholomew, Bremner, Brunk, Statistical inference under
order restrictions, 1972).  Neighbours of equal rate are pooled, so that the rates of successive pools
fall strictly.

Venn-Abers tables are the isotonic fit at every score with one positive row added there.  V. Vovk,
I. Petej and V. Fedorova, Large-scale probabilistic predictors with and without guarantees of validity
(2015), fill such tables by geometry on the cumulative sum diagram.  Here the fit with a row added at
group i is the slope at which two lower hulls have a common tangent: that of the prefixes that end
before the group, and that of the others, moved by the added row.  The slope never falls from one group
to the next, so both points of contact only move to the right, and all groups together take linear
time.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .arrays import Bools, Floats, Int64s, Numbers

_LOW = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)


@kernel
def product_halves(a: int | np.uint64, b: int) -> tuple[np.uint64, np.uint64]:
    """Return the high and the low 64 bits of the product of two non-negative 64-bit integers."""
    first, second = np.uint64(a), np.uint64(b)
    a_low, a_high = first & _LOW, first >> _HALF
    b_low, b_high = second & _LOW, second >> _HALF
    low = a_low * b_low
    middle = a_high * b_low + (low >> _HALF)
    other = a_low * b_high + (middle & _LOW)
    high = a_high * b_high + (middle >> _HALF) + (other >> _HALF)
    return high, (other << _HALF) | (low & _LOW)


@kernel
def compare_products(a: int, b: int, c: int, d: int) -> int:
    """Return the sign of ``a * b - c * d`` for non-negative 64-bit integers, exactly."""
    if (a | b | c | d) < 2**31:  # which is so of most counts
        return int(a * b > c * d) - int(a * b < c * d)
    left, right = float(a) * float(b), float(c) * float(d)
    # Six roundings at most stand between the floats and the products: 1e-14 covers them.
    if abs(left - right) > 1e-14 * (left + right):
        return 1 if left > right else -1
    ours, theirs = product_halves(a, b), product_halves(c, d)
    return int(ours > theirs) - int(ours < theirs)


@kernel
def ratio_at_least(numerators: Int64s, denominators: Int64s, a: int, q: int) -> Bools:
    """Return where ``numerator / denominator >= a / q``; an empty selection (0/0) meets it."""
    met = np.empty(numerators.size, np.bool_)
    for i in range(numerators.size):
        met[i] = compare_products(numerators[i], q, a, denominators[i]) >= 0
    return met


@kernel
def largest_ratio(numerators: Int64s, denominators: Int64s, least: int) -> int:
    """Return where the ratio is largest among entries whose numerator is at least `least`.

    The larger numerator wins a tie.  Entries with denominator 0 are passed over; -1 if none is left.
    """
    best = -1
    for i in range(numerators.size):
        if numerators[i] < least or denominators[i] <= 0:
            continue
        if best < 0:
            best = i
            continue
        sign = compare_products(
            numerators[i], denominators[best], numerators[best], denominators[i]
        )
        if sign > 0 or (sign == 0 and numerators[i] > numerators[best]):
            best = i
    return best


@kernel
def pool_rates(
    count: Numbers, positive: Numbers, entries: Int64s, exact: bool, out: Numbers
) -> int:
    """Pool neighbours until rates fall strictly; return how many pools there are.

    Rows and positive rows come by falling score; pooling pools of stretches gives the pools of all.
    `entries` says how many entries each stands for; empty: one.  Rates of integers are compared
    `exact`ly. `out` has room for as many rows as there are entries, three columns: rows, positive rows
    and entries of each pool; without the third one entries are not counted.
    """
    size, counted = 0, out.shape[1] > 2
    for i in range(count.size):
        out[size, 0], out[size, 1] = count[i], positive[i]
        rows, hits = out[size, 0], out[size, 1]
        held = entries[i] if entries.size else 1
        # The pool above is merged while its rate is not above ours.
        while size > 0:
            above_rows, above_hits = out[size - 1, 0], out[size - 1, 1]
            if exact:
                if compare_products(int(above_hits), int(rows), int(hits), int(above_rows)) > 0:
                    break
            elif above_hits * rows > hits * above_rows:
                break
            size -= 1
            rows += above_rows
            hits += above_hits
            if counted:
                held += int(out[size, 2])
        out[size, 0], out[size, 1] = rows, hits
        if counted:
            out[size, 2] = held
        size += 1
    return size


@kernel
def is_convex(rows: Int64s, hits: Int64s, first: int, middle: int, last: int) -> bool:
    """Return whether the rate of positive rows rises at the middle one of three prefixes."""
    run, rise = rows[middle] - rows[first], hits[middle] - hits[first]
    return compare_products(rise, rows[last] - rows[middle], hits[last] - hits[middle], run) < 0


@kernel
def next_corners(rows: Int64s, hits: Int64s, out: Int64s) -> None:
    """Write, for each prefix, the next corner of the lower hull of this prefix and all longer ones.

    `rows` (strictly rising) and `hits` are cumulative, from the empty prefix on; the longest prefix
    has no next corner: its own number.
    """
    last = rows.size - 1
    out[last] = last
    for i in range(last - 1, -1, -1):
        corner = i + 1
        while corner < last:
            after = out[corner]
            if is_convex(rows, hits, i, corner, after):
                break
            corner = after
        out[i] = corner


@kernel
def added_row_fits(
    rows: Int64s, hits: Int64s, corners: Int64s, weight: int, complement: bool, out: Floats
) -> None:
    """Write the isotonic (rising) fit at each group with a positive row added to it, or 1 minus it.

    `rows` and `hits` are cumulative, from 0 on: one more than there are groups; for `corners` see
    `next_corners`.  `weight` is what the added row weighs, in the units of `rows`.
    """
    groups = rows.size - 1
    stack = np.empty(groups + 1, np.int64)  # the lower hull of the prefixes before group i
    size, left, right = 0, 0, 0
    rise, run = np.int64(0), np.int64(1)  # the slope found last
    for i in range(groups):
        while size > 1:
            top, before = stack[size - 1], stack[size - 2]
            if is_convex(rows, hits, before, top, i):
                break
            size -= 1
        stack[size] = i
        size += 1
        left = min(left, size - 1)
        right = max(right, i + 1)
        while True:
            # The edges after both points of contact: the slope grows until neither is passed.
            u, v = stack[left], right
            w = corners[v]
            after_rise, after_run, on_right = np.int64(1), np.int64(0), True
            if w > v:
                after_rise, after_run = hits[w] - hits[v], rows[w] - rows[v]
            if left + 1 < size:
                top = stack[left + 1]
                up, along = hits[top] - hits[u], rows[top] - rows[u]
                if compare_products(up, int(after_run), int(after_rise), along) < 0:
                    after_rise, after_run, on_right = up, along, False
            tangent_rise = hits[v] - hits[u] + weight
            tangent_run = rows[v] - rows[u] + weight
            passed = compare_products(int(after_rise), int(run), int(rise), int(after_run)) <= 0
            if not passed:
                ends = int(after_rise), int(after_run)
                passed = compare_products(tangent_rise, ends[1], ends[0], tangent_run) > 0
            if not passed:
                break
            if on_right:
                right = w
            else:
                left += 1
        rise, run = tangent_rise, tangent_run
        out[i] = float(run - rise) / float(run) if complement else float(rise) / float(run)
