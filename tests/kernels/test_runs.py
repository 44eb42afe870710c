"""Words with counts against dictionaries."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from calibkit_kernels import runs as kernels
from tests.naive import runs as naive

words = st.lists(st.integers(0, 9) | st.sampled_from([2**63, 2**64 - 1]), max_size=20).map(sorted)
Pair = tuple[int, int]
Pairs = list[Pair]


def arrays(pairs: Pairs) -> tuple[np.ndarray, np.ndarray]:
    """Return words and counts as the kernels take them."""
    return (
        np.array([word for word, _ in pairs], np.uint64),
        np.array([count for _, count in pairs], np.int64),
    )


@given(words, words, st.booleans())
@example([5], [3], False)
@example([1, 5], [0, 5, 5, 7], True)
def test_words_are_merged_into_a_list(one: list[int], more: list[int], counted: bool) -> None:
    first = naive.count_runs(one)
    second = [(word, place + 1 if counted else 1) for place, word in enumerate(more)]
    found, counts = arrays([*first, *((9, 9) for _ in more)])
    words, times = arrays(second)
    size = kernels.merge_runs(found, counts, len(first), words, times if counted else times[:0])
    expected = naive.merge_runs(first, second)
    assert list(zip(found[:size].tolist(), counts[:size].tolist(), strict=True)) == expected


@given(words)
def test_words_are_gathered_where_they_stand(values: list[int]) -> None:
    pairs = [(word, place + 1) for place, word in enumerate(values)]
    found, counts = arrays(pairs)
    size = kernels.merge_runs(found, counts, 0, found, counts)
    expected = naive.gather_runs(pairs)
    assert list(zip(found[:size].tolist(), counts[:size].tolist(), strict=True)) == expected


@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.integers(0, 29), st.integers(0, 4)), min_size=1, max_size=2
    ),
    st.lists(st.integers(0, 2**60 - 1), min_size=1, max_size=5),
)
def test_fields_are_packed_and_cut(shape: list[tuple[int, int, int]], seeds: list[int]) -> None:
    widths = [width for width, _, _ in shape]
    drops = [min(drop, width - 1) for width, drop, _ in shape]
    room = [
        width - drop + more for width, drop, (_, _, more) in zip(widths, drops, shape, strict=True)
    ]
    fields = [
        [(seed >> (30 * place)) % 2**width for place, width in enumerate(widths)] for seed in seeds
    ]
    words, expected = np.zeros(len(seeds), np.uint64), [0] * len(seeds)
    for place, width in enumerate(widths):
        column = [row[place] for row in fields]
        kernels.add_field(words, np.array(column, np.uint64), np.uint64(width), np.uint64(0))
        expected = naive.add_field(expected, column, width, 0)
    assert words.tolist() == expected
    out = np.empty_like(words)
    kernels.cut_fields(words, *(np.array(a, np.uint64) for a in (widths, drops, room)), out)
    assert out.tolist() == naive.cut_fields(fields, drops, room)


@given(
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 63)), max_size=60),
    st.integers(0, 6),
    st.integers(0, 3),
)
def test_cells_are_cut_and_stay_sorted(fields: list[Pair], rest: int, drop: int) -> None:
    rows = sorted((first << rest) + last % 2**rest for first, last in fields)
    pairs = naive.count_runs(rows)
    expected = naive.cut_cells(pairs, rest, drop)
    table = np.full(2**rest, -1, np.int64)
    found, counts = arrays(pairs)
    bits = np.uint64(rest), np.uint64(drop)
    size = kernels.cut_cells(found, counts, *bits, table, np.empty_like(table))
    assert list(zip(found[:size].tolist(), counts[:size].tolist(), strict=True)) == expected


@given(
    st.lists(
        st.tuples(st.integers(0, 9) | st.integers(0, 2**60 - 1), st.integers(0, 63)), max_size=30
    ),
    st.integers(0, 4),
)
def test_what_cuts_leave_apart_is_counted(fields: list[Pair], rest: int) -> None:
    rows = sorted((first << rest) + last % 2**rest for first, last in fields)
    counts, seen = np.zeros(65, np.int64), np.zeros(2**rest, np.bool_)
    last = np.zeros(2**rest, np.uint64)
    kernels.count_apart(np.array(rows, np.uint64), np.uint64(rest), last, seen, counts)
    counts[0] -= len(rows) - len(set(rows))  # equal words differ in no bit
    assert counts.tolist() == naive.count_apart(rows, rest)


@given(st.lists(st.tuples(st.integers(0, 99), st.integers(0, 255)), max_size=9))
def test_codes_of_bytes_are_packed(rows: list[Pair]) -> None:
    codes = [byte * 7 % 256 for byte in range(256)]
    words = np.array([word for word, _ in rows], np.uint64)
    column = [byte for _, byte in rows]
    kernels.add_codes(words, *(np.array(a, np.uint8) for a in (column, codes)), np.uint64(8))
    assert words.tolist() == naive.add_codes([word for word, _ in rows], column, codes, 8)


@given(st.lists(st.integers(0, 255), max_size=9))
def test_bytes_are_marked(values: list[int]) -> None:
    seen = np.zeros(256, np.bool_)
    kernels.mark_bytes(np.array(values, np.uint8), seen)
    assert seen.tolist() == naive.mark_bytes(values)


Row = tuple[int, ...]
tables = st.integers(1, 3).flatmap(
    lambda width: st.lists(
        st.lists(st.tuples(*[st.integers(0, 2) | st.just(2**64 - 1)] * width), max_size=9),
        min_size=1,
        max_size=4,
    ).map(lambda found: (width, found))
)


def lines(width: int, rows: list[Row]) -> np.ndarray:
    """Return rows with a line a column, as the kernels take them."""
    return np.array(rows, np.uint64).reshape(len(rows), width).T.copy()


@given(tables)
def test_rows_that_rise_are_merged(given_tables: tuple[int, list[list[Row]]]) -> None:
    width, found = given_tables
    for one in found:
        rows = lines(width, [(9,) * width, *one, (0,) * width])  # what is outside does not count
        assert kernels.rows_rise(rows, 1, len(one) + 1) == naive.rows_rise(one)
    parts = [sorted(one) for one in found]
    together = [row for part in parts for row in part]
    ends = np.cumsum([len(part) for part in parts])
    starts, order = ends - [len(part) for part in parts], np.empty(len(together), np.uint32)
    kernels.merge_rows(lines(width, together), starts, ends, order)
    assert order.tolist() == naive.merge_rows(together)
    assert starts.tolist() == ends.tolist()
