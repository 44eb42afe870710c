"""Rows in one order, whatever the order they came in and the memory there is."""

from __future__ import annotations

import errno
import gc
import os
import sys
import tempfile
import threading
import time
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from calibkit.errors import ResourceError
from calibkit.numerics.hashes import folds_of_keys, poisson_of_keys
from calibkit.runtime.memory import Memory
from calibkit.summaries import row_store
from calibkit.summaries.row_store import (
    Arrays,
    ColumnSummaries,
    RowStore,
    category_names,
    count_categories,
)
from calibkit_kernels import draws as kernels

LITTLE = Memory(1)


def rows_of(seed: int, count: int, scores: int) -> dict[str, NDArray[np.generic]]:
    """Return rows with few scores, of which some are the same."""
    random = np.random.default_rng(seed)
    score = random.integers(0, scores, count) / scores
    codes = random.integers(0, 3, (count, 2)).astype(np.uint8)
    words = np.stack([score.view(np.uint64), *codes.T.astype(np.uint64)])
    hashes = np.zeros(count, np.uint64)
    for own in words:
        kernels.absorb(hashes, own, np.uint64(1))
    return {"score": score, "codes": codes, "hash": hashes}


def stored(
    rows: dict[str, NDArray[np.generic]],
    windows: list[NDArray[np.int64]],
    memory: Memory | None,
    *,
    score: bool = True,
    ranges: int = 4,
) -> dict[str, NDArray[np.generic]]:
    fields: dict[str, Any] = {"score": np.float64, "codes": (np.uint8, 2)}
    summary = ColumnSummaries(1) if score else None
    for own in windows if summary else ():
        summary.add(rows["score"][own][None], rows["hash"][own])
    if not score:
        fields["number"] = fields.pop("score")
        rows = {**rows, "number": rows["score"]}
    with patch("calibkit.summaries.row_store._buckets", lambda *_: ranges):
        store = RowStore(fields, rows["hash"].size, Arrays(memory), summary)
    for own in windows:
        store.add({name: values[own] for name, values in rows.items()})
    return store.finish()


@given(
    st.integers(0, 1000),
    st.integers(1, 60),
    st.sampled_from([1, 2, 30]),
    st.lists(st.integers(0, 60), max_size=4),
    st.booleans(),
    st.integers(1, 9),
)
def test_order_and_memory_change_nothing(
    seed: int, count: int, scores: int, cuts: list[int], score: bool, ranges: int
) -> None:
    rows = rows_of(seed, count, scores)
    plain = stored(rows, [np.arange(count)], None, score=score)
    shuffled = np.random.default_rng(seed + 1).permutation(count)
    windows = np.split(shuffled, sorted(min(cut, count) for cut in cuts))
    for memory in (None, LITTLE):
        other = stored(rows, windows, memory, score=score, ranges=ranges)
        assert other.keys() == plain.keys()
        for name, values in plain.items():
            assert other[name].dtype == values.dtype
            np.testing.assert_array_equal(other[name], values)


def test_rows_are_in_the_order_of_score_and_hash_and_have_keys_of_their_own() -> None:
    rows = rows_of(3, 500, 5)
    found = stored(rows, [np.arange(500)], LITTLE)
    order = np.lexsort((rows["hash"], rows["score"]))
    np.testing.assert_array_equal(found["score"], rows["score"][order])
    np.testing.assert_array_equal(found["codes"], rows["codes"][order])
    assert np.unique(found["key"]).size == 500


def test_a_score_that_most_rows_have_fills_several_ranges() -> None:
    rows = rows_of(4, 400, 1)
    rows["hash"] = np.random.default_rng(0).integers(0, 2**64, 400, np.uint64)
    plain = stored(rows, [np.arange(400)], None)
    np.testing.assert_array_equal(stored(rows, [np.arange(400)], LITTLE)["key"], plain["key"])


@given(st.integers(0, 100), st.integers(1, 80), st.integers(1, 7))
def test_column_summaries_are_a_function_of_the_set(seed: int, count: int, parts: int) -> None:
    random = np.random.default_rng(seed)
    values = np.stack([random.integers(0, 9, count) / 4.0, random.normal(size=count)])
    values[0, random.random(count) < 0.2] = np.nan
    hashes = random.integers(0, 40, count).astype(np.uint64) * np.uint64(2**57)
    _, firsts, numbers = np.unique(hashes, return_index=True, return_inverse=True)
    values = values[:, firsts[numbers]]  # equal hashes are equal rows
    whole, split = ColumnSummaries(2, 20), ColumnSummaries(2, 20)
    whole.add(values, hashes)
    for own in np.array_split(random.permutation(count), parts):
        split.add(values[:, own], hashes[own])
    for column in (0, 1):
        present = np.unique(values[column][~np.isnan(values[column])]).tolist()
        for own in (whole.distinct[column], split.distinct[column]):
            assert (None if own is None else own.tolist()) == (
                present if len(present) <= 20 else None
            )
        for a, b in zip(whole.sample(column), split.sample(column), strict=True):
            np.testing.assert_array_equal(a, b)
        np.testing.assert_array_equal(whole.borders(column, 5), split.borders(column, 5))


def test_of_many_rows_those_of_the_smallest_hashes_are_the_sample(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_store, "SAMPLE_ROWS", 50)
    random = np.random.default_rng(1)
    values, hashes = random.normal(size=(1, 400)), random.integers(0, 2**64, 400, np.uint64)
    hashes[200:300], values[:, 200:300] = hashes[:100], values[:, :100]
    summary = ColumnSummaries(1)
    kept = np.unique(hashes)[:50]
    again = np.flatnonzero(hashes == kept[-1])  # the last row that is kept
    windows = [*np.array_split(random.permutation(400), 7), again]
    for own in windows:
        summary.add(values[:, own], hashes[own])
    found, counts = summary.sample(0)
    every = np.concatenate(windows)
    expected = np.sort(values[0, every[np.isin(hashes[every], kept)]])
    np.testing.assert_array_equal(np.repeat(found, counts), expected)


def test_a_sample_takes_no_more_memory_the_more_rows_there_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(row_store, "SAMPLE_ROWS", 1000)
    summary, values = ColumnSummaries(1, 10), np.zeros((1, 1000))
    draw = np.random.default_rng(1)
    for _ in range(3):  # what is loaded at the first use is none of it
        summary.add(values, draw.integers(0, 2**64, 1000, np.uint64))
    tracemalloc.start()
    for window in range(200):  # ever smaller hashes, which are all kept at first
        summary.add(values, draw.integers(0, 2**64 >> window // 10, 1000, np.uint64))
    size, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert size < 10 * 1000 * 24


def test_categories_are_counted_over_all_rows() -> None:
    counts = Counter[str]()
    for part in (["b", "a", None], ["", "b", "ä"]):
        counts.update(count_categories(pl.Series(part, dtype=pl.String)))
    assert category_names(counts) == ("a", "b", "ä")


def test_draws_of_a_bootstrap_are_poisson_and_apart() -> None:
    key = np.random.default_rng(2).integers(0, 2**64, 20_000, np.uint64)
    drawn, other = (poisson_of_keys(key, 7, tree).astype(float) for tree in (3, 4))
    assert abs(drawn.mean() - 1.0) < 4 / np.sqrt(20_000)
    assert abs(drawn.var() - 1.0) < 4 * np.sqrt(3 / 20_000)
    assert abs(np.corrcoef(drawn, other)[0, 1]) < 4 / np.sqrt(20_000)
    folds = np.bincount(folds_of_keys(key, 5, 7), minlength=5)
    assert abs(folds - 4000).max() < 4 * np.sqrt(20_000 * 0.16)


def test_a_full_disk_is_told_before_anything_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(row_store.os, "posix_fallocate", full)
    with pytest.raises(ResourceError, match=r"8,000 bytes are needed.*TMPDIR"):
        Arrays(LITTLE).empty(1000, np.float64)


def test_a_full_folder_is_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", seen.append)
    full = lambda: Path("/dev/full").open("w+b")  # noqa: E731, SIM115
    monkeypatch.setattr(row_store, "unnamed_file", full)
    store = RowStore({"label": np.int8}, 10, Arrays(LITTLE))
    store.add({"label": np.zeros(4, np.int8), "hash": np.arange(4, dtype=np.uint64)})
    del store
    gc.collect()
    assert not seen


def test_maps_keep_their_numbers_when_they_are_let_go_of(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_store, "_BASE", 0)
    array = Arrays(LITTLE).empty((1000, 300), np.float64)
    watching = [own.daemon for own in threading.enumerate() if own.name == "calibkit-maps"]
    for row in range(1000):
        array[row] = row
    (made,) = [one for one in row_store._WATCH._maps if one.size == array.nbytes]
    made.let_go()
    np.testing.assert_array_equal(array[:, 17], np.arange(1000))
    del array, made
    assert all(watching)  # a process ends though it holds maps


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="nothing tells what is open")
def test_arrays_and_ranges_keep_few_files_open(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    watch = row_store._Watch()
    watch._running = True  # its thread would hold arrays a little longer
    monkeypatch.setattr(row_store, "_WATCH", watch)

    def in_use() -> tuple[int, int]:
        opened = [one.resolve() for one in Path("/proc/self/fd").iterdir()]
        maps = Path("/proc/self/maps").read_text()
        return sum(tmp_path in one.parents for one in opened), maps.count(str(tmp_path))

    arrays = [Arrays(LITTLE).empty((100, 3), np.int32) for _ in range(50)]
    assert in_use() == (0, 50)
    del arrays
    assert in_use() == (0, 0)
    with patch("calibkit.summaries.row_store._buckets", lambda *_: 100):
        store = RowStore({"label": np.int8}, 10, Arrays(LITTLE))
    assert in_use() == (1, 0)
    store.finish()
    assert in_use() == (0, 0)


def test_a_look_that_finds_no_descriptor_is_followed_by_another(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    let_go, statm = threading.Event(), tmp_path / "statm"
    statm.symlink_to(tmp_path)  # which is there, but cannot be read
    monkeypatch.setattr(row_store, "_STATM", statm)
    monkeypatch.setattr(row_store, "_WATCH", row_store._Watch())
    monkeypatch.setattr(row_store._Map, "let_go", lambda _: let_go.set())
    array = Arrays(LITTLE).empty(1000, np.float64)
    assert not let_go.wait(5 * row_store._INTERVAL)
    (tmp_path / "other").write_text(f"0 {2**40}")
    (tmp_path / "other").replace(statm)
    assert let_go.wait(30)
    del array


def test_arrays_of_a_system_that_has_other_maps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(row_store.mmap, "MAP_SHARED")
    array = Arrays(LITTLE).empty((100, 3), np.int32)
    array[:] = 7
    assert array.sum() == 2100


def test_what_cannot_be_mapped_is_an_error_of_the_system() -> None:
    with pytest.raises(OSError, match="Bad file descriptor"):
        row_store._Map(-1, 4096)


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
def test_too_many_open_files_are_told_with_what_to_do(
    code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused() -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(row_store, "unnamed_file", refused)
    with pytest.raises(ResourceError, match=r"open files.*ulimit -n"):
        Arrays(LITTLE).empty(1000, np.float64)


def test_a_scratch_folder_in_memory_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", "/dev/shm")
    assert "TMPDIR" in " ".join(Arrays(LITTLE).warnings)
    assert not Arrays().warnings
    monkeypatch.setattr(row_store, "_in_memory", lambda folder: False)
    assert not Arrays(LITTLE).warnings


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="nothing tells what is mapped")
def test_arrays_are_unmapped_while_others_are_there(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setattr(row_store, "_WATCH", row_store._Watch())

    def mapped() -> int:
        return Path("/proc/self/maps").read_text().count(str(tmp_path))

    kept = Arrays(LITTLE).empty(1000, np.float64)
    for _ in range(3):
        more = [Arrays(LITTLE).empty(1000, np.float64) for _ in range(5)]
        threading.Event().wait(3 * row_store._INTERVAL)  # the watch has seen them
        del more
        until = time.monotonic() + 30
        while mapped() > 1 and time.monotonic() < until:
            threading.Event().wait(row_store._INTERVAL)
        assert mapped() == 1
    assert kept.size == 1000
