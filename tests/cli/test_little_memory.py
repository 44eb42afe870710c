"""Where there is little memory: fewer threads, and errors that say so."""

from __future__ import annotations

import os
import resource
import tempfile
from pathlib import Path

import pytest

from calibkit.files.streams import Scratch
from calibkit_cli import failures, main
from tests.conftest import Invoke


@pytest.mark.parametrize(
    ("error", "code", "said"),
    [
        (RuntimeError("can't start new thread"), 5, "Out of memory"),
        (ImportError("libx.so: failed to map segment from shared object"), 5, "Out of memory"),
        (ImportError("libx.so: cannot be read"), 70, "ImportError"),
        (Exception("could not spawn: Resource temporarily unavailable"), 5, "Out of memory"),
        (BlockingIOError(11, "Resource temporarily unavailable"), 5, "unavailable."),
        (OSError(12, "Cannot allocate memory"), 5, "Cannot allocate memory."),
    ],
)
def test_libraries_that_find_no_memory(error: Exception, code: int, said: str) -> None:
    failure = failures.as_failure(error)
    assert (failure.code, said in failure.message) == (code, True), failure.message


@pytest.mark.parametrize(
    ("limit", "threads"),
    [(1 << 20, "1"), (3 << 29, "1"), (13 << 27, "2"), (64 << 30, None), (-1, None)],
)
def test_polars_starts_as_many_threads_as_addresses_allow(
    limit: int, threads: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    monkeypatch.setenv("POLARS_MAX_THREADS", "to be forgotten")
    monkeypatch.delenv("POLARS_MAX_THREADS")
    main.take_few_addresses()
    assert os.environ.get("POLARS_MAX_THREADS") == threads
    monkeypatch.setenv("POLARS_MAX_THREADS", "3")
    main.take_few_addresses()
    assert os.environ["POLARS_MAX_THREADS"] == "3"


@pytest.mark.parametrize(("limit", "code"), [(1 << 30, 5), (3 << 29, 2), (-1, 2)])
def test_too_few_addresses_are_said_before_a_library_looks_for_them(
    limit: int, code: int, monkeypatch: pytest.MonkeyPatch, invoke: Invoke
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, limit))
    done = invoke("apply", "none.json", "none.csv")
    assert (done.code, "ulimit -v" in done.stderr) == (code, code == 5)
    assert invoke("apply", "--help").code == invoke("--version").code == 0
    assert invoke("show", "none.json").code == 2  # which reads no rows


def test_the_end_of_a_process_removes_what_did_not_fit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ended: list[int] = []
    monkeypatch.setattr(os, "_exit", ended.append)
    held = Scratch()  # as by a thread that is still at work
    main.end(3)
    assert (ended, list(tmp_path.iterdir())) == ([3], []), held.path
