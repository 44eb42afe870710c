"""Row hashes against integers of unlimited size."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from calibkit_kernels import hashes as kernels
from tests.naive import boundaries as naive

word = st.integers(0, 2**64 - 1) | st.sampled_from([0, 1, 2**63, 2**64 - 1])


@given(word)
def test_mixing_is_the_published_function(value: int) -> None:
    assert int(kernels.mix(np.uint64(value))) == naive.mix(value)


def test_mixing_gives_the_known_stream() -> None:
    # SplitMix64 seeded with 1234567, as published with the generator.
    state, stream = 1234567, []
    for _ in range(3):
        state = (state + naive.GOLDEN) % naive.WORD
        stream.append(int(kernels.mix(np.uint64(state))))
    assert stream == [6457827717110365317, 3203168211198807973, 9817491932198370423]


@given(st.lists(st.tuples(word, word), max_size=8), word)
def test_absorbing_and_summing(rows: list[tuple[int, int]], salt: int) -> None:
    hashes, words = np.array(rows, np.uint64).reshape(-1, 2).T.copy()
    expected = naive.absorb(hashes.tolist(), words.tolist(), salt)
    kernels.absorb(hashes, words, np.uint64(salt))
    assert hashes.tolist() == expected
    assert int(kernels.total(hashes)) == naive.total(expected)
    assert int(kernels.total(hashes[::-1].copy())) == naive.total(expected)
