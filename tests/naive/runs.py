"""Slow, obvious twins of words with counts."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise


def count_runs(words: list[int]) -> list[tuple[int, int]]:
    """Return the distinct words of a sorted list and how often each occurs."""
    return sorted(Counter(words).items())


def gather_runs(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the distinct words of sorted pairs with the sums of their counts."""
    return sorted({word: sum(c for w, c in pairs if w == word) for word, _ in pairs}.items())


def merge_runs(one: list[tuple[int, int]], two: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return the pairs of both lists, equal words together."""
    return gather_runs([*one, *two])


def add_field(words: list[int], column: list[int], width: int, drop: int) -> list[int]:
    """Return the words with the bits of a column behind them."""
    return [word * 2**width + value // 2**drop for word, value in zip(words, column, strict=True)]


def cut_fields(fields: list[list[int]], drops: list[int], room: list[int]) -> list[int]:
    """Return one word for each row of fields, without the last bits of each."""
    words = []
    for row in fields:
        word = 0
        for value, drop, width in zip(row, drops, room, strict=True):
            word = word * 2**width + value // 2**drop
        words.append(word)
    return words


def cut_cells(pairs: list[tuple[int, int]], rest: int, drop: int) -> list[tuple[int, int]]:
    """Return the pairs without the last bits of the first field, equal words together."""
    cut = [((word >> rest >> drop) << rest | word % 2**rest, count) for word, count in pairs]
    return gather_runs(cut)


def count_apart(words: list[int], rest: int) -> list[int]:
    """Return how many words a cut of one bit more makes equal, for each number of bits."""
    first = [len({(word >> rest >> drop, word % 2**rest) for word in words}) for drop in range(65)]
    return [*(own - more for own, more in pairwise(first)), first[64]]


def rows_rise(rows: list[tuple[int, ...]]) -> bool:
    """Tell whether rows are sorted."""
    return rows == sorted(rows)


def merge_rows(rows: list[tuple[int, ...]]) -> list[int]:
    """Return the order that sorts rows; equal ones as they come."""
    return sorted(range(len(rows)), key=lambda place: rows[place])


def add_codes(words: list[int], column: list[int], codes: list[int], width: int) -> list[int]:
    """Return the words with the codes of bytes behind them."""
    return [word * 2**width + codes[value] for word, value in zip(words, column, strict=True)]


def mark_bytes(values: list[int]) -> list[bool]:
    """Tell of all numbers that a byte holds whether they occur."""
    return [number in values for number in range(256)]
