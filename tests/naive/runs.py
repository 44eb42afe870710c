"""Slow, obvious twins of words with counts."""

from __future__ import annotations

from collections import Counter


def count_runs(words: list[int]) -> list[tuple[int, int]]:
    """Return the distinct words of a sorted list and how often each occurs."""
    return sorted(Counter(words).items())


def gather_runs(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the distinct words of sorted pairs with the sums of their counts."""
    return sorted({word: sum(c for w, c in pairs if w == word) for word, _ in pairs}.items())


def merge_runs(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs of both lists, equal words together."""
    return gather_runs([*one, *two])
