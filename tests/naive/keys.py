"""Keys of rows and what is drawn for them, with integers of unlimited size."""

from __future__ import annotations

from collections.abc import Sequence

from tests.naive.boundaries import WORD, mix


def number_rows(hashes: Sequence[int]) -> list[int]:
    """Return the key of each row of sorted hashes."""
    return [
        mix((own + mix(sum(other == own for other in hashes[:place]))) % WORD)
        for place, own in enumerate(hashes)
    ]


def keyed_words(keys: Sequence[int], salt: int) -> list[int]:
    """Return the random word of each key."""
    return [mix(key ^ salt) for key in keys]


def keyed_folds(keys: Sequence[int], salt: int, folds: int) -> list[int]:
    """Return the fold of each key: the upper half of its word, as a share of all folds."""
    return [(word // 2**32) * folds // 2**32 for word in keyed_words(keys, salt)]


def keyed_counts(keys: Sequence[int], salt: int, steps: Sequence[int]) -> list[int]:
    """Return how many steps the word of each key reaches."""
    return [sum(word >= step for step in steps) for word in keyed_words(keys, salt)]
