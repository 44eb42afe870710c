"""Isotonic regression: the pools of rows by falling score whose rates fall strictly."""

from __future__ import annotations

import numpy as np

from calibkit.arrays import Int64s, Numbers
from calibkit.numerics.sums import cut
from calibkit_kernels.rates import pool_rates

#: Pools x 3: rows, positive rows and entries of each, by falling score.
Pools = Int64s

_ONE_EACH = np.empty(0, np.int64)


def pool_block(count: Numbers, positive: Numbers, entries: Numbers = _ONE_EACH) -> Pools:
    """Return the pools of rows and positive rows by falling score, pooled exactly.

    `entries` says how many each stands for; empty: one.
    """
    out = np.empty((count.size, 3), np.int64)
    return out[: pool_rates(count, positive, entries, True, out)].copy()


def pool(parts: list[Pools]) -> Pools:
    """Return the pools of several stretches, by falling score, from the pools of each."""
    whole = np.concatenate([np.empty((0, 3), np.int64), *parts])
    return pool_block(*np.ascontiguousarray(whole.T))


def pool_prefixes(selected: Numbers, true_positives: Numbers) -> Pools:
    """Return the pools between prefixes, from the rows and positive rows of each; see `pool`.

    Their ends, ``cumsum(entries) - 1``, are the vertices of the concave hull of the prefixes.
    """
    parts = []
    for own in cut(0, selected.size):
        counts = (
            np.diff(column[own], prepend=column[own.start - 1] if own.start else 0)
            for column in (selected, true_positives)
        )
        parts.append(pool_block(*counts))
    return parts[0] if len(parts) == 1 else pool(parts)
