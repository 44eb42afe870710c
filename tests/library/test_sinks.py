"""Outputs appear whole or not at all, in every format, and fail with the right exit code."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import IO

import polars as pl
import pytest

from calibkit.errors import ResourceError, UsageError
from calibkit.files import paths as outputs
from calibkit.files.paths import (
    Part,
    check_output,
    directory_outputs,
    is_stream,
)
from calibkit.files.sinks import Transaction, write_bytes, write_frames
from calibkit.files.sources import open_source

FRAME = pl.DataFrame({"score": [0.1, None, 1.0], "name": ["a,b", "", None]})


def leftovers(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.name.endswith(".tmp")]


def test_standard_output_needs_a_format() -> None:
    with pytest.raises(UsageError, match="--output-format"):
        write_frames([FRAME], "-")


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, ValueError, MemoryError])
def test_exceptions_leave_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[BaseException]
) -> None:
    def stop(descriptor: int) -> None:
        raise error

    monkeypatch.setattr(os, "fsync", stop)
    expected = ResourceError if error is MemoryError else error
    with pytest.raises(expected):
        write_bytes(b"new", str(tmp_path / "x.json"))
    assert list(tmp_path.iterdir()) == []


def test_permissions_follow_the_umask_and_the_file_replaced(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        write_bytes(b"1", str(tmp_path / "new.json"))
    finally:
        os.umask(before)
    assert (tmp_path / "new.json").stat().st_mode & 0o777 == 0o640
    (tmp_path / "new.json").chmod(0o600)
    write_bytes(b"2", str(tmp_path / "new.json"))
    assert (tmp_path / "new.json").stat().st_mode & 0o777 == 0o600


def test_what_is_being_written_is_no_more_open_than_what_it_replaces(tmp_path: Path) -> None:
    path = tmp_path / "secret.json"
    path.write_bytes(b"1")
    path.chmod(0o600)
    seen = []

    def write(file: IO[bytes]) -> None:
        seen.append(os.fstat(file.fileno()).st_mode & 0o777)
        file.write(b"2")

    with Transaction() as outputs:
        outputs.write(write, str(path))
    assert (seen, path.read_bytes()) == ([0o600], b"2")


def test_stale_temporaries_of_dead_processes_are_removed(tmp_path: Path) -> None:
    dead = subprocess.run(
        [sys.executable, "-c", "import os; print(os.getpid())"], capture_output=True, check=True
    )
    host = outputs.fresh_path(tmp_path / "x.json").name.split("-")[1]
    stale = f".x.json.calibkit-{host}-{int(dead.stdout)}-0a.tmp"
    others = [
        f".x.json.calibkit-{host}-{os.getpid()}-0a.tmp",
        f".y.json.calibkit-{host}-{int(dead.stdout)}-0a.tmp",
        f".x.json.calibkit-ffffffff0-{int(dead.stdout)}-0a.tmp",
    ]
    for name in [stale, *others]:
        (tmp_path / name).touch()
    write_bytes(b"1", str(tmp_path / "x.json"))
    assert sorted(leftovers(tmp_path)) == sorted(others)


def test_a_folder_that_may_not_be_listed_takes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "scandir", refuse)
    write_bytes(b"1", str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_bytes() == b"1"


def test_symbolic_links_are_written_through(tmp_path: Path) -> None:
    target = tmp_path / "sub" / "target.json"
    target.parent.mkdir()
    link = tmp_path / "link.json"
    link.symlink_to(target)
    for content in (b"1", b"2"):
        write_bytes(content, str(link))
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert not leftovers(tmp_path)


def test_special_files_are_written_directly(tmp_path: Path) -> None:
    write_bytes(b"1", "/dev/null")
    assert is_stream("/dev/null")
    pipe, read = tmp_path / "pipe", []
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_bytes()))
    reader.start()
    write_frames([FRAME], str(pipe), format="csv")
    reader.join()
    assert read == [FRAME.write_csv().encode()]
    assert [entry.name for entry in tmp_path.iterdir()] == ["pipe"]


def test_long_names(tmp_path: Path) -> None:
    name = "é" * 120 + ".json"
    write_bytes(b"1", str(tmp_path / name))
    assert (tmp_path / name).read_bytes() == b"1"
    with pytest.raises(UsageError, match="too long"):
        write_bytes(b"1", str(tmp_path / ("x" * 300 + ".json")))


def test_csv_cannot_hold_lists(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="Parquet or NDJSON"):
        write_frames([pl.DataFrame({"v": [[1]]})], str(tmp_path / "x.csv"))
    assert list(tmp_path.iterdir()) == []


# Several outputs


def test_several_outputs_appear_together_the_main_one_last(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []
    replace = Path.replace
    monkeypatch.setattr(
        Path, "replace", lambda self, to: (order.append(Path(to).name), replace(self, to))
    )
    with Transaction() as outputs:
        outputs.write_frames([FRAME], str(tmp_path / "f.csv"))
        outputs.write_bytes(b"model", str(tmp_path / "m.json"))
        assert len(leftovers(tmp_path)) == len(list(tmp_path.iterdir())) == 2
    assert order == ["f.csv", "m.json"]
    assert not leftovers(tmp_path)


def test_no_output_appears_if_one_fails(tmp_path: Path) -> None:
    with pytest.raises(UsageError), Transaction() as outputs:
        outputs.write_bytes(b"model", str(tmp_path / "m.json"))
        outputs.write_frames([FRAME], str(tmp_path / "none" / "f.csv"))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(ResourceError), Transaction() as outputs:
        outputs.write_bytes(b"model", str(tmp_path / "m.json"))
        outputs.write_bytes(b"x", "/dev/full")
    assert list(tmp_path.iterdir()) == []


def test_two_outputs_of_one_name(tmp_path: Path) -> None:
    (tmp_path / "link.json").symlink_to("m.json")
    with pytest.raises(UsageError, match="two outputs"), Transaction() as outputs:
        outputs.write_bytes(b"1", str(tmp_path / "m.json"))
        outputs.write_bytes(b"2", str(tmp_path / "link.json"))
    assert [entry.name for entry in tmp_path.iterdir()] == ["link.json"]


# Checks before the work


def test_check_output_accepts(tmp_path: Path) -> None:
    check_output("-", table=True)
    check_output("/dev/null", table=True)
    check_output("/dev/stdout")
    check_output(str(tmp_path / "m.json"))
    check_output(str(tmp_path / "x.csv.gz"), table=True)
    check_output(str(tmp_path / "x.txt"), table=True, format="csv")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("", "folder"),
        ("sub/", "folder"),
        ("calibraton/m.csv", "did you mean 'calibration'"),
        ("file.csv/m.csv", "no such folder"),
        ("m.txt", "--output-format"),
        ("m.parquet.gz", "--output-format"),
    ],
)
def test_check_output_refuses(tmp_path: Path, name: str, says: str) -> None:
    (tmp_path / "calibration").mkdir()
    (tmp_path / "file.csv").touch()
    with pytest.raises(UsageError, match=says):
        check_output(f"{tmp_path}/{name}", table=True)


def test_check_output_without_a_name() -> None:
    with pytest.raises(UsageError, match="no name"):
        check_output("")


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_check_output_not_writable(tmp_path: Path) -> None:
    tmp_path.chmod(0o500)
    with pytest.raises(UsageError, match="not writable"):
        check_output(str(tmp_path / "m.json"))
    tmp_path.chmod(0o700)


def test_writing_into_a_folder_or_nowhere(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="folder"):
        write_bytes(b"1", str(tmp_path))
    with pytest.raises(UsageError, match="cannot be written"):
        write_bytes(b"1", str(tmp_path / "none" / "m.json"))


# One output per input


def part(path: str, relative: str, format_name: str = "csv") -> Part:
    return Part(path, format_name, relative)


def test_directory_outputs(tmp_path: Path) -> None:
    parts = [part("in/a.csv.gz", "a.csv.gz"), part("in/d=1/b.csv", "d=1/b.csv"), part("-", "-")]
    out = str(tmp_path / "out")
    assert directory_outputs(out, parts) == [
        f"{out}/a.csv.gz",
        f"{out}/d=1/b.csv",
        f"{out}/stdin.csv",
    ]
    outputs = directory_outputs(out, parts, format="parquet")
    assert outputs == [f"{out}/a.parquet", f"{out}/d=1/b.parquet", f"{out}/stdin.parquet"]
    with pytest.raises(KeyError), Transaction() as transaction:
        transaction.make_folders(outputs)
        transaction.write_frames([FRAME], outputs[0])
        raise KeyError
    assert list(tmp_path.iterdir()) == []
    with Transaction() as transaction:
        transaction.make_folders(outputs)
        for output in outputs:
            transaction.write_frames([FRAME], output)
    for output in outputs:
        assert open_source([output]).read().equals(FRAME)


def test_directory_outputs_clash() -> None:
    with pytest.raises(UsageError, match=r"one/a\.csv and two/a\.csv"):
        directory_outputs("out", [part("one/a.csv", "a.csv"), part("two/a.csv", "a.csv")])
