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

NO_ROOT = pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
FRAME = pl.DataFrame({"score": [0.1, None, 1.0], "name": ["a,b", "", None]})


def leftovers(folder: Path) -> list[str]:
    return [entry.name for entry in folder.iterdir() if entry.name.endswith(".tmp")]


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
    path, seen = tmp_path / "new.json", []
    before = os.umask(0o027)
    try:
        write_bytes(b"1", str(path))
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o640
    path.chmod(0o600)

    def write(file: IO[bytes]) -> None:
        seen.append(os.fstat(file.fileno()).st_mode & 0o777)  # no more open meanwhile
        file.write(b"2")

    with Transaction() as outputs:
        outputs.write(write, str(path))
    assert (seen, path.read_bytes()) == ([0o600], b"2")
    assert path.stat().st_mode & 0o777 == 0o600


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


def test_systems_without_some_calls_write_files_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("uname", "O_CLOEXEC"):
        monkeypatch.delattr(os, name)
    monkeypatch.setattr(os, "kill", None)  # where it would send Ctrl-C
    other = outputs.fresh_path(tmp_path / "x.json")
    other.touch()
    with monkeypatch.context() as patch:
        patch.setattr(outputs.os, "name", "nt")
        outputs.fresh_path(tmp_path / "x.json")
    assert leftovers(tmp_path) == [other.name]
    other.unlink()
    write_bytes(b"1", str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_bytes() == b"1"


def test_a_folder_that_may_not_be_listed_takes_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(folder: Path) -> None:
        raise PermissionError(13, "Permission denied", str(folder))

    monkeypatch.setattr(os, "scandir", refuse)
    write_bytes(b"1", str(tmp_path / "x.json"))
    assert (tmp_path / "x.json").read_bytes() == b"1"


def test_symbolic_links_are_written_through(tmp_path: Path) -> None:
    target, link = tmp_path / "sub" / "target.json", tmp_path / "link.json"
    target.parent.mkdir()
    link.symlink_to(target)
    for content in (b"1", b"2"):
        write_bytes(content, str(link))
        assert link.is_symlink()
        assert target.read_bytes() == content
    assert not leftovers(tmp_path)


def test_standard_error_is_written_directly() -> None:
    end, start = os.pipe()
    kept = os.dup(2)
    os.dup2(start, 2)
    try:
        check_output("/dev/stderr")
        write_bytes(b"1", "/dev/stderr")
    finally:
        os.dup2(kept, 2)
    assert os.read(end, 9) == b"1"
    for descriptor in (kept, start, end):
        os.close(descriptor)


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


def test_outputs_that_cannot_be_written(tmp_path: Path) -> None:
    lists = [pl.DataFrame({"v": [[1]]})]
    for place, frames, said in (
        ("-", [FRAME], "--output-format"),
        (f"{tmp_path}/x.csv", lists, "Parquet or NDJSON"),
        (f"{tmp_path}/{'x' * 300}.csv", [FRAME], "too long"),
        (f"{tmp_path}/none/m.csv", [FRAME], "cannot be written"),
        (f"{tmp_path}/", [FRAME], "folder"),
    ):
        with pytest.raises(UsageError, match=said):
            write_frames(frames, place, format="csv" if place.endswith("/") else None)
    assert list(tmp_path.iterdir()) == []
    long = tmp_path / ("é" * 120 + ".json")
    write_bytes(b"1", str(long))
    assert long.read_bytes() == b"1"


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


@pytest.mark.parametrize(
    ("second", "error", "said"),
    [
        ("none/f.csv", UsageError, "cannot be written"),
        ("/dev/full", ResourceError, "No space left"),
        ("link.json", UsageError, "two outputs"),
    ],
)
def test_no_output_appears_if_one_fails(
    second: str, error: type[Exception], said: str, tmp_path: Path
) -> None:
    (tmp_path / "link.json").symlink_to("m.json")
    with pytest.raises(error, match=said), Transaction() as outputs:
        outputs.write_bytes(b"model", str(tmp_path / "m.json"))
        outputs.write_bytes(b"x", str(tmp_path / second))
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
        ("", "no name"),
        ("./", "folder"),
        ("sub/", "folder"),
        ("calibraton/m.csv", "did you mean 'calibration'"),
        ("file.csv/m.csv", "no such folder"),
        ("m.txt", "--output-format"),
        ("m.parquet.gz", "--output-format"),
        pytest.param("locked/m.csv", "not writable", marks=NO_ROOT),
    ],
)
def test_check_output_refuses(
    name: str, says: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("calibration").mkdir()
    Path("locked").mkdir(mode=0o500)
    Path("file.csv").touch()
    with pytest.raises(UsageError, match=says):
        check_output(name, table=True)


# One output per input


def test_directory_outputs(tmp_path: Path) -> None:
    names = {"in/a.csv.gz": "a.csv.gz", "in/d=1/b.csv": "d=1/b.csv", "-": "-"}
    parts = [Part(path, "csv", relative) for path, relative in names.items()]
    out = str(tmp_path / "out")
    same = [f"{out}/{name}" for name in ("a.csv.gz", "d=1/b.csv", "stdin.csv")]
    assert directory_outputs(out, parts) == same
    outputs = directory_outputs(out, parts, format="parquet")
    assert outputs == [f"{out}/{name}.parquet" for name in ("a", "d=1/b", "stdin")]
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
