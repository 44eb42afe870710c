"""Slow, obvious twins of rows counted by cells."""

from __future__ import annotations

from collections import Counter


def count_cells(
    keys: list[int], kind: list[int], amounts: list[int], bits: dict[int, int]
) -> Counter[tuple[int, int, int]]:
    """Return what rows amount to by power, the first bits behind it (`bits` of a power), and kind."""
    found: Counter[tuple[int, int, int]] = Counter()
    for key, own, amount in zip(keys, kind, amounts, strict=True):
        power, behind = divmod(key, 2**52)
        found[power, behind // 2 ** (52 - bits.get(power, 0)), own] += amount
    return found
