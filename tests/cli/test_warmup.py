"""Kernels compiled ahead: all of them, and what is said where they were not."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from calibkit.runtime import kernels, memory, threads
from calibkit.runtime.kernels import compile_all
from calibkit_cli.console import Console, say_it_compiles
from calibkit_kernels import _ahead, _jit
from tests.cli.score_files import simulate, write
from tests.conftest import INTERPRETED, Invoke, clean_environment, printed
from tests.signatures import FIRST_USES

compiled_only = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled here")
LINES = ["maps.logit: float64", "draws.mix: uint64"]

#: Fits that call most of what fits call; the rest is tried when the list is made.
SOME = ("auto", "beta", "tree", "alpha", "vad", "intervals", "drift")


def test_the_list_names_kernels_and_their_types() -> None:
    lines = _ahead.listed()
    assert lines == sorted(set(lines))
    for line in lines:
        name, _, texts = line.partition(": ")
        module, _, own = name.partition(".")
        kernel = getattr(import_module(f"calibkit_kernels.{module}"), own)
        types = [_ahead.type_of(text) for text in texts.split("; ")]
        assert len(types) == kernel.__wrapped__.__code__.co_argcount, line
        assert [str(one) for one in types] == texts.split("; ")


@compiled_only
def test_the_list_has_all_that_fits_call() -> None:
    script = f"from tests.signatures import called; print(*sorted(called({SOME})), sep='\\n')"
    called = set(printed(script))
    assert len(called) > 80
    assert sorted(called - set(_ahead.listed())) == [], "run python -m tests.signatures"


def ran(cache: Path, *arguments: object, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, with its own cache."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**clean_environment(), "XDG_CACHE_HOME": str(cache)},
        capture_output=True,
        text=True,
        check=True,
        **keywords,
    )


@pytest.mark.few(1)
@compiled_only
@pytest.mark.parametrize("threads", [2, 1])
def test_what_lies_there_is_not_compiled_again(tmp_path: Path, threads: int) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from calibkit.runtime.kernels import compile_all\n"
        f"if __name__ == '__main__': print(compile_all({threads}, {LINES}))"
    )
    said = [ran(tmp_path, script).stdout for _ in range(2)]
    folder = str(tmp_path / "calibkit" / _jit.folder_name())
    assert said[0] == f"Compiled(kernels=2, compiled=2, kept=2, folder={folder!r})\n"
    assert said[1] == said[0].replace("compiled=2", "compiled=0")


@compiled_only
def test_how_many_there_are_is_said(invoke: Invoke, monkeypatch: pytest.MonkeyPatch) -> None:
    compile_all(1, LINES)
    monkeypatch.setattr(_ahead, "listed", lambda: LINES)
    done = invoke("warmup", "--json", "--threads", 1)
    found: Any = {"kernels": 2, "compiled": 0, "kept": 2, "folder": _jit.FOLDER, "warnings": []}
    assert done.result() == found
    assert done.stderr == "2 kernels: 0 compiled, 2 already cached.\n"
    assert invoke("warmup", "--quiet", "--threads", 1).stderr == ""
    # Without a cache.
    monkeypatch.setattr(_jit, "FOLDER", None)
    done = invoke("warmup", "--json", "--threads", 1)
    told = done.result()
    assert (told["kernels"], told["kept"], told["folder"]) == (2, 0, None)
    assert done.stderr.startswith("Warning: the cache cannot be written: 2 of 2 kernels")


@pytest.mark.more
def test_a_first_use_says_what_it_waits_for(tmp_path: Path) -> None:
    rows = write(simulate(300), tmp_path / "rows.parquet")

    def run() -> list[str]:
        line = ("calibrate", rows, "--method", "isotonic", "--json")
        done = ran(tmp_path, "-m", "calibkit_cli", *line)
        assert json.loads(done.stdout)["kind"] == "calibrator"
        return [line for line in done.stderr.splitlines() if "ompil" in line]

    expected = ["Compiling for first use, about 15 s; `calibkit warmup` does it in advance."]
    assert run() == ([] if INTERPRETED else expected)
    assert run() == []


def test_who_wants_quiet_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernels, "_hear", say_it_compiles)
    Console()
    assert kernels._hear is say_it_compiles
    Console(quiet=True)
    assert kernels._hear is None


def test_what_first_uses_wait_for_is_listed() -> None:
    listed = set(_ahead.listed())
    for command in FIRST_USES:
        lines = _ahead.first_used(command, [])
        assert len(lines) > 10
        assert set(lines) <= listed, "run python -m tests.signatures"
        assert _ahead.first_used(command, [*lines[:3], "maps.gone: float64"]) == []


@pytest.mark.more
@compiled_only
def test_first_uses_share_what_they_compile(tmp_path: Path) -> None:
    rows = write(simulate(300), tmp_path / "rows.parquet")
    model = tmp_path / "model.json"
    script = (
        "import subprocess, sys; from calibkit.runtime import kernels, threads\n"
        "threads.thread_count = lambda _: 2; ended = kernels.stop_sharing\n"
        "def stop():\n"
        "    process, = kernels._sharing; ended()\n"
        "    print(process.wait(), process.args[2:4], flush=True)\n"
        "from calibkit_cli import main; main.stop_sharing = stop; main.main()\n"
    )
    done = ran(tmp_path, "-c", script, "calibrate", rows, "--method", "beta", "-q", "-o", model)
    assert done.stderr == ""
    assert done.stdout.split(" ", 1)[1] == "['-m', 'calibkit_kernels._ahead']\n"
    assert json.loads(model.read_bytes())["kind"] == "calibrator"


@compiled_only
@pytest.mark.parametrize(("size", "most"), [(700_000_000, 2), (256_000_000, 0)])
def test_as_many_compile_as_memory_has_room_for(
    monkeypatch: pytest.MonkeyPatch, size: int, most: int
) -> None:
    started: list[object] = []

    def refuse(*line: object, **_: object) -> None:
        started.append(line)
        raise OSError

    monkeypatch.setattr(subprocess, "Popen", refuse)
    monkeypatch.setattr(threads, "thread_count", lambda _: 8)
    monkeypatch.setattr(memory, "memory_budget", lambda _: memory.Memory(size))
    kernels._start_sharing()
    assert len(started) == most
    assert kernels._sharing == []


@compiled_only
def test_others_begin_at_the_far_end_of_what_any_types_call(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    pipes = [(tmp_path / name).open("w") for name in "ab"]
    monkeypatch.setattr(kernels, "_sharing", [SimpleNamespace(stdin=pipe) for pipe in pipes])
    told: set[str] = set()
    first, *after = _ahead.first_used("boundary", [])
    kernels._tell_sharing("boundary", [first], told)
    lines = [(tmp_path / name).read_text().splitlines() for name in "ab"]
    assert lines == [after[::-1][::2], after[::-1][1::2]]

    narrow = "sorting.falling_keys: array(uint32, 1d, C); array(uint64, 1d, C)"
    seen = [first, after[0], narrow]
    kernels._tell_sharing("boundary", seen, told)
    every = [line for name in "ab" for line in (tmp_path / name).read_text().splitlines()]
    assert sorted([first, narrow, *every]) == sorted(_ahead.first_used("boundary", seen))
    assert all(pipe.closed for pipe in pipes)


@compiled_only
def test_what_others_compile_is_kept(tmp_path: Path) -> None:
    for parent, kept in ((os.getppid(), 0), (os.getpid(), 2)):
        ran(tmp_path, "-m", "calibkit_kernels._ahead", parent, input="\n".join(LINES))
        folder = tmp_path / "calibkit" / _jit.folder_name()
        assert len(list(folder.glob("*.kernel"))) == kept
