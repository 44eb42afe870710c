"""Tables written frame by frame: the bytes of the whole, whatever the frames; errors pass."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow.parquet as pq
import pytest

from calibkit.errors import ResourceError
from calibkit.files import sinks
from calibkit.files.sinks import group_size, row_bytes, write_frames, write_groups

ROWS = 2000
NUMBERS = np.random.default_rng(1).random(ROWS)
TABLE = pl.DataFrame(
    {
        "id": np.arange(ROWS),
        "score": NUMBERS,
        "name": pl.Series([None if i % 7 == 0 else f"n{i % 11}" for i in range(ROWS)]),
        "odd": pl.Series([None] * ROWS, dtype=pl.Float64),
        "small": pl.Series([None if i % 5 == 0 else i % 100 for i in range(ROWS)], dtype=pl.Int8),
        "yes": pl.Series([None if i % 3 == 0 else i % 2 == 0 for i in range(ROWS)]),
    }
)
CUTS = ([], [0, 0, 1], [499, 500, 501], [500, 1000, 1500], list(range(0, ROWS, 37)))


def cut(frame: pl.DataFrame, places: list[int]) -> Iterator[pl.DataFrame]:
    edges = [0, *places, frame.height]
    for start, end in pairwise(edges):
        yield frame.slice(start, end - start)


@pytest.mark.parametrize(
    "name", ["x.parquet", "x.arrow", "x.csv", "x.csv.gz", "x.tsv.zst", "x.ndjson", "x.jsonl.gz"]
)
def test_the_bytes_do_not_depend_on_the_frames(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(sinks, "_GROUP_ROWS", 500)
    path = tmp_path / name
    write_frames([TABLE], str(path))
    whole = path.read_bytes()
    for places in CUTS:
        write_frames(cut(TABLE, places), str(path))
        assert path.read_bytes() == whole
    if name == "x.parquet":
        read = pq.ParquetFile(path).metadata
        assert [read.row_group(place).num_rows for place in range(4)] == [500] * 4
    assert [entry.name for entry in tmp_path.iterdir()] == [name]


def test_a_frame_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def frames(error: type[BaseException]) -> Iterator[pl.DataFrame]:
        yield from cut(pl.concat([TABLE] * 200), [150_000, 300_000])
        raise error("no more")

    for error in (KeyboardInterrupt, ValueError, MemoryError):
        expected = ResourceError if error is MemoryError else error
        with pytest.raises(expected):
            write_frames(frames(error), str(tmp_path / "x.parquet"))
        assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("where", ["submit", "put", "end"])
def test_a_signal_within_any_call_ends_the_writing(
    monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Even where what was called has not done its work, or has done it and not said so."""

    class Pool(sinks.ThreadPoolExecutor):
        def submit(self, *args: Any, **kwargs: Any) -> Any:
            begun = super().submit(*args, **kwargs)
            if where == "submit":
                raise KeyboardInterrupt
            return begun

    class Stopping(sinks.Queue):  # type: ignore[type-arg]
        def put(self, item: Any, *args: Any, **kwargs: Any) -> None:
            if where == ("end" if item is None else "put"):
                raise KeyboardInterrupt
            super().put(item, *args, **kwargs)

    monkeypatch.setattr(sinks, "ThreadPoolExecutor", Pool)
    monkeypatch.setattr(sinks, "Queue", Stopping)
    seen: list[BaseException] = []

    def sink(rows: pl.LazyFrame, out: Any, _: int) -> None:
        rows.sink_parquet(out)

    def write() -> None:
        try:
            write_groups(cut(TABLE, [500]), 500, io.BytesIO(), sink, copied=True)
        except KeyboardInterrupt as error:
            seen.append(error)

    writer = threading.Thread(target=write, daemon=True)  # which ends with the process if it hangs
    writer.start()
    writer.join(30)
    assert len(seen) == 1


def test_a_signal_reaches_the_maker_of_frames(tmp_path: Path) -> None:
    class Told(BaseException):
        pass

    def tell(*_: object) -> None:
        raise Told

    def frames() -> Iterator[pl.DataFrame]:
        for place in range(100):
            if place == 3:
                os.kill(os.getpid(), signal.SIGTERM)
            assert place < 10, "the signal was not seen"
            yield pl.concat([TABLE] * 100)

    before = signal.signal(signal.SIGTERM, tell)
    try:
        with pytest.raises(Told):
            write_frames(frames(), str(tmp_path / "x.csv"))
    finally:
        signal.signal(signal.SIGTERM, before)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("format_name", ["csv", "parquet", "arrow", "ndjson"])
def test_no_frame_is_made_once_the_reader_has_gone(
    monkeypatch: pytest.MonkeyPatch, format_name: str
) -> None:
    made = 0

    def frames() -> Iterator[pl.DataFrame]:
        nonlocal made
        for made in range(1000):  # noqa: B007 (the number of frames is what counts)
            yield TABLE

    monkeypatch.setattr(sinks, "_GROUP_ROWS", 500)
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "wb", buffering=0) as raw:
        stdout = io.TextIOWrapper(raw, write_through=True)
        monkeypatch.setattr(sys, "stdout", stdout)
        with pytest.raises(BrokenPipeError):
            write_frames(frames(), "-", format=format_name)
        stdout.detach()
    assert made < 20
    with pytest.raises(ResourceError, match="No space left"):
        write_frames(frames(), "/dev/full", format=format_name)


def test_wide_rows_make_smaller_groups() -> None:
    narrow = {"a": pl.Float64(), "b": pl.String()}
    wide = {f"c{place}": pl.Float64() for place in range(1000)}
    assert group_size(narrow, 2**17) == 2**17
    assert group_size(wide, 2**17) == 2**12
    assert group_size(wide, 500) == 500
    # Up to 32 MiB a group.
    assert group_size({f"c{place}": pl.Float64() for place in range(32)}, 2**17) == 2**17
    assert group_size({f"c{place}": pl.Float64() for place in range(33)}, 2**17) == 2**16
    assert row_bytes({**narrow, "c": pl.Date(), "d": pl.List(pl.Int8())}) == 8 + 32 + 8 + 128
