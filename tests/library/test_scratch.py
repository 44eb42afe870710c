"""Inputs that come but once, or that have no parts to be read by, where they are large."""

from __future__ import annotations

import errno
import gc
import gzip
import io
import os
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from polars.testing import assert_frame_equal

from calibkit.errors import DataError, ResourceError
from calibkit.files import streams as scratch
from calibkit.files.formats import Opening
from calibkit.files.sources import Source, open_source
from calibkit.runtime.memory import Memory
from tests.cli.score_files import encode

ROWS = 3000
FRAME = pl.DataFrame(
    {
        "score": np.random.default_rng(3).random(ROWS),
        "label": np.arange(ROWS) % 2,
        "rows": [f"a {row}" for row in range(ROWS)],
    }
)
#: Of which an eighth is less than any of the inputs here, packed or not.
LITTLE = Memory(2**15)


def written(kind: str) -> bytes:
    return encode(FRAME, {"stream": ".arrows"}.get(kind, f".{kind}"))


def zstd(data: bytes) -> bytes:
    return bytes(pa.compress(data, codec="zstd", asbytes=True))


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the folder that temporary files are made in."""
    found = tmp_path / "temporary"
    found.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(found))
    return found


def piped(monkeypatch: pytest.MonkeyPatch, data: bytes, memory: Memory | None = LITTLE) -> Source:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(data)))
    return open_source(["-"], Opening(memory=memory))


def read_twice(source: Source) -> None:
    """See that all rows are there, as often as they are read."""
    assert source.rows == ROWS
    for rows in (500, ROWS):
        windows = [window.read() for window in source.windows(rows=rows)]
        assert max(window.height for window in windows) <= rows
        assert_frame_equal(pl.concat(windows), FRAME)
    assert_frame_equal(source.read(["label"]), FRAME.select("label"))


@pytest.mark.few(6)
@pytest.mark.parametrize(
    "packed", [bytes, gzip.compress, zstd, lambda data: gzip.compress(zstd(data))]
)
@pytest.mark.parametrize("kind", ["csv", "ndjson", "parquet", "arrow", "stream"])
def test_a_large_stream_is_kept_in_a_file_as_long_as_it_is_used(
    kind: str, packed: Callable[[bytes], bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = piped(monkeypatch, packed(written(kind)))
    assert len(list(folder.iterdir())) == 1
    read_twice(source)
    part = source.stretch(2990, 10)
    del source
    gc.collect()
    assert_frame_equal(part.read(), FRAME[2990:])
    del part
    gc.collect()
    assert not list(folder.iterdir())


@pytest.mark.parametrize("memory", [None, Memory(2**24)])
def test_a_small_stream_needs_no_file(
    memory: Memory | None, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    read_twice(piped(monkeypatch, gzip.compress(written("csv")), memory))
    assert not list(folder.iterdir())


@pytest.mark.parametrize("pack", [gzip.compress, zstd])
@pytest.mark.parametrize("kind", ["csv", "ndjson"])
def test_compressed_text_is_parsed_as_it_is_read(
    kind: str, pack: Callable[[bytes], bytes], tmp_path: Path, folder: Path
) -> None:
    path = tmp_path / f"x.{kind}.{'gz' if pack is gzip.compress else 'zst'}"
    path.write_bytes(pack(written(kind)))
    source = open_source([str(path)], Opening(memory=LITTLE))
    assert isinstance(source._tables[0].frame, pl.LazyFrame)
    read_twice(source)
    assert not list(folder.iterdir())


def test_a_large_file_of_an_arrow_stream_becomes_one_of_parts(tmp_path: Path, folder: Path) -> None:
    path = tmp_path / "x.arrows"
    path.write_bytes(written("stream"))
    source = open_source([str(path)], Opening(memory=LITTLE))
    assert len(list(folder.iterdir())) == 1
    read_twice(source)


def stream_of(path: Path, *columns: pa.Array) -> str:
    """Write an Arrow stream of texts."""
    batches = [pa.record_batch({"text": column}) for column in columns]
    with pa.ipc.new_stream(path, batches[0].schema) as stream:
        for batch in batches:
            stream.write_batch(batch)
    return str(path)


def test_arrow_streams_that_no_file_can_hold(tmp_path: Path, folder: Path) -> None:
    values = ["a", "b"] * 999, ["c"] * 999  # each with a dictionary of its own
    encoded = [pa.array(own).dictionary_encode() for own in values]
    source = open_source([stream_of(tmp_path / "a.arrows", *encoded)], Opening(memory=LITTLE))
    assert source.read()["text"].cast(pl.String).to_list() == [*values[0], *values[1]]
    no_text = pa.array([b"\xff" * 99] * 999).view(pa.string())
    with pytest.raises(DataError, match=r"x.arrows: the file is truncated, corrupt"):
        open_source([stream_of(tmp_path / "x.arrows", no_text)], Opening(memory=LITTLE))
    gc.collect()
    assert not list(folder.iterdir())


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (gzip.compress(written("csv"))[:-99], "the compressed data is truncated or corrupt"),
        (zstd(written("csv"))[:9999], "the compressed data is truncated or corrupt"),
        (written("stream")[:-9999], "the file is truncated, corrupt"),
        (written("parquet")[:-9999], "the file is truncated, corrupt"),
        (b"", "the file is empty"),
    ],
    ids=["gzip", "zstd", "stream", "parquet", "nothing"],
)
def test_a_damaged_stream_is_told_as_one(
    data: bytes, said: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(DataError, match=f"^-: {said}"):
        piped(monkeypatch, data)
    gc.collect()
    assert not list(folder.iterdir())


def test_disks_that_take_nothing_are_told_with_what_to_do(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full(io.BytesIO):
        name = str(folder / "x")

        def write(self, data: object) -> int:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(scratch.tempfile, "NamedTemporaryFile", lambda **_: Full())
        with pytest.raises(ResourceError, match=r"No space left .*TMPDIR.*--memory"):
            piped(patch, written("csv"))
    monkeypatch.setattr(tempfile, "tempdir", str(folder / "none"))
    with pytest.raises(ResourceError, match="TMPDIR"):
        piped(monkeypatch, written("csv"))


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_stream_that_cannot_be_read_is_no_fault_of_the_disk(
    pack: Callable[[bytes], bytes], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Broken(io.BytesIO):
        def readinto(self, buffer: Any, /) -> int:
            if self.tell() > 2**14:
                raise OSError(errno.EIO, os.strerror(errno.EIO))
            return super().readinto(memoryview(buffer)[: 2**13])

    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(Broken(pack(written("csv")))))
    with pytest.raises(ResourceError, match="-: read error"):
        open_source(["-"], Opening(memory=LITTLE))


def test_short_rows_of_large_text_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    lines = written("csv").splitlines()
    path.write_bytes(b"\n".join([*lines[:2000], b"0.5,1", *lines[2000:]]))
    with pytest.raises(DataError, match=r"x.csv: 1 row with .* row 2000 has 2, the header 3"):
        open_source([str(path)], Opening(memory=LITTLE))


@pytest.mark.few(5)
@pytest.mark.parametrize("late", ["x", "0.5", '""', "TRUE", " 7", "12345678901234567890", ""])
@pytest.mark.parametrize("early", ["1", "true", "", '""'])
def test_large_text_is_typed_as_text_that_is_held(early: str, late: str, tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("v,w,z\n" + f"{early},2,\n" * 12_000 + f"{late},3,\n\n\n")
    large, held = open_source([str(path)], Opening(memory=LITTLE)), open_source([str(path)])
    assert isinstance(large._tables[0].frame, pl.LazyFrame)
    assert large.rows == held.rows == 12_001 and large.schema == held.schema
    windows = [window.read() for window in large.windows(rows=5000)]
    assert_frame_equal(pl.concat(windows), held.read())


def test_a_temporary_file_is_its_owners_alone_and_goes_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, link = tmp_path / "real", tmp_path / "link"
    real.mkdir()
    link.symlink_to(real)
    monkeypatch.setattr(tempfile, "tempdir", str(link))
    before = os.umask(0)
    try:
        source = piped(monkeypatch, written("csv"))
    finally:
        os.umask(before)
    (made,) = real.iterdir()
    assert made.stat().st_mode & 0o777 == 0o600
    scratch.remove_all()
    assert not list(real.iterdir())
    assert source.rows == ROWS
