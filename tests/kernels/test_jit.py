"""Compiling and caching: never stale, never a failure, and the same bits without compiling."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from calibkit_kernels import _jit
from tests.conftest import INTERPRETED, ROOT, clean_environment
from tests.kernels import bits
from tests.naive import boundaries as naive

KERNELS = ROOT / "kernels" / "calibkit_kernels"
compiled_only = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled here")

#: A kernel that inlines one of another file: `uniform` of splits calls `mix` of digest.
PROBE = """
import numpy as np
from calibkit_kernels import _jit
from calibkit_kernels import draws
print(_jit.FOLDER)
print(draws.uniform(np.uint64(3), 1).hex())
"""


def run(script: str, **environment: str) -> list[str]:
    """Return the lines that a script prints in a process of its own."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script],
        env={**clean_environment(), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a cache that holds what the probe compiles, and what this printed; it stays as it is."""
    folder = tmp_path_factory.mktemp("cache")
    return folder, run(PROBE, XDG_CACHE_HOME=str(folder))


@compiled_only
def test_compiled_and_interpreted_give_the_same_bits() -> None:
    environment = {**clean_environment(), "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-m", "tests.kernels.bits"],
        env=environment,
        cwd=ROOT,
        capture_output=True,
        check=True,
    )
    assert json.loads(done.stdout) == bits.digests()


@compiled_only
def test_the_cache_lies_where_the_system_wants_it(
    tmp_path: Path, filled: tuple[Path, list[str]]
) -> None:
    cache, (folder, _) = filled
    assert Path(folder).parent == cache / "calibkit"
    assert list(Path(folder).glob("draws.uniform-*.kernel"))

    (folder, _) = run(PROBE, XDG_CACHE_HOME="", HOME=str(tmp_path / "home"))
    assert Path(folder).parent == tmp_path / "home" / ".cache" / "calibkit"


def test_a_relative_cache_folder_is_not_followed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert Path(_jit.cache_folder() or "").is_relative_to(tmp_path / ".cache")
    assert not (tmp_path / "somewhere").exists()


@compiled_only
@pytest.mark.parametrize("what", ["a file", "nowhere", "read-only"])
def test_without_a_writable_folder_kernels_run(tmp_path: Path, what: str) -> None:
    place = tmp_path / "place"
    if what == "a file":
        place.write_text("in the way")
    elif what == "read-only":
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        place.mkdir(mode=0o500)
    else:
        place = Path("/proc/nowhere")
    expected = naive.uniform(3, 1).hex()
    home = {"XDG_CACHE_HOME": "", "HOME": str(place)}
    named = {"XDG_CACHE_HOME": str(place), "HOME": str(place)}
    assert run(PROBE, **(named if what == "a file" else home)) == ["None", expected]


@compiled_only
@pytest.mark.parametrize("damage", [b"garbage", None], ids=["garbage", "cut"])
def test_a_damaged_cache_is_passed_over(
    tmp_path: Path, damage: bytes | None, filled: tuple[Path, list[str]]
) -> None:
    cache, (folder, value) = filled
    damaged = Path(folder.replace(str(cache), str(tmp_path)))
    shutil.copytree(cache, tmp_path, dirs_exist_ok=True)
    files = list(damaged.glob("*.kernel"))
    assert files
    for path in files:
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if damage is None else damage)
    assert run(PROBE, XDG_CACHE_HOME=str(tmp_path)) == [str(damaged), value]


#: The probe's line of what was compiled instead of loaded, by a kernel and the one that it inlines.
COUNTED = (
    PROBE
    + """
print([sum(one.stats.cache_misses.values()) for one in (draws.uniform, draws.mix)])
"""
)


def copied(folder: Path) -> dict[str, str]:
    """Return the environment in which kernels come from a copy, with files of other times."""
    copy = folder / "calibkit_kernels"
    shutil.copytree(KERNELS, copy, ignore=shutil.ignore_patterns("__pycache__", "compiled"))
    for path in copy.iterdir():
        os.utime(path, (1e9, 1e9))
    return {"PYTHONPATH": str(folder)}


@compiled_only
def test_the_same_sources_elsewhere_share_what_was_compiled(
    tmp_path: Path, filled: tuple[Path, list[str]]
) -> None:
    cache, printed = filled
    elsewhere = copied(tmp_path / "elsewhere")
    assert run(COUNTED, XDG_CACHE_HOME=str(cache), **elsewhere) == [*printed, "[0, 0]"]


@compiled_only
def test_kernels_that_an_installation_brings_are_looked_at_first(tmp_path: Path) -> None:
    made = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_CPU_NAME": "generic"}
    folder, value, _ = run(COUNTED, **made)
    place = copied(tmp_path / "elsewhere")
    shutil.copytree(folder, tmp_path / "elsewhere/calibkit_kernels/compiled" / Path(folder).name)
    # On the processor at hand, and without a folder of the user's.
    nowhere = {"XDG_CACHE_HOME": "", "HOME": "/proc/nowhere"}
    assert run(COUNTED, **place, **nowhere) == ["None", value, "[0, 0]"]
    # Of other sources nothing is taken.
    with (tmp_path / "elsewhere/calibkit_kernels/sums.py").open("a") as file:
        file.write("# changed\n")
    *same, count = run(COUNTED, **place, **nowhere)
    assert (same, count == "[0, 0]") == (["None", value], False)


@compiled_only
def test_many_processes_fill_a_cache_at_once(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    with ThreadPoolExecutor(3) as pool:
        seen = list(pool.map(lambda _: run(PROBE, **cache), range(3)))
    assert seen == seen[:1] * 3
    assert not [path for path in Path(seen[0][0]).iterdir() if path.suffix != ".kernel"]
    assert run(COUNTED, **cache) == [*seen[0], "[0, 0]"]


@compiled_only
def test_a_change_in_another_file_is_never_served_stale(tmp_path: Path) -> None:
    where = {**copied(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder, first = run(PROBE, **where)
    assert run(PROBE, **where) == [folder, first]

    source = tmp_path / "calibkit_kernels/draws.py"
    stamp = source.stat()
    text = source.read_text()
    assert "0xBF58476D1CE4E5B9" in text
    source.write_text(text.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))
    os.utime(source, (stamp.st_atime, stamp.st_mtime + 10))  # Python's own cache sees it
    other_folder, second = run(PROBE, **where)
    assert other_folder != folder and second != first


def test_the_digest_is_of_every_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for path in KERNELS.glob("*.py"):
        shutil.copy(path, tmp_path)
    monkeypatch.setattr(_jit, "__file__", str(tmp_path / "_jit.py"))
    seen = {_jit.source_digest()}
    for path in sorted(tmp_path.glob("*.py")):
        path.write_text(path.read_text() + "# changed\n")
        assert _jit.source_digest() not in seen, path.name
        seen.add(_jit.source_digest())
    (tmp_path / "rates.py").rename(tmp_path / "precise.py")
    assert _jit.source_digest() not in seen


def test_interpreted_kernels_wrap_around_without_warnings() -> None:
    (folder, found) = run(PROBE, NUMBA_DISABLE_JIT="1")
    assert folder == "None"
    assert found == naive.uniform(3, 1).hex()


#: A kernel from the cache, then one that has to be compiled, then one whose types are new.
MIXED = """
import sys
import numpy as np
from calibkit_kernels import draws
assert draws.uniform(np.uint64(3), 1) >= 0
print("numba.cpython.unicode" in sys.modules)
words = np.arange(5, dtype=np.uint64)
draws.absorb(words, words.copy(), np.uint64(7))
print(words.sum())
"""


@compiled_only
def test_a_kernel_from_the_cache_loads_no_compiler_and_hinders_none(
    tmp_path: Path, filled: tuple[Path, list[str]]
) -> None:
    shutil.copytree(filled[0], tmp_path, dirs_exist_ok=True)
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    loaded, mixed = run(MIXED, **cache)  # the first is in the cache, the others are not
    assert loaded == "False"
    assert run(MIXED, **cache) == ["False", mixed]
    assert run(MIXED, XDG_CACHE_HOME=str(tmp_path / "other"))[1] == mixed


#: A kernel that makes arrays, with values of a type each.
ALLOCATING = """
import sys
import numpy as np
from calibkit_kernels import sorting
found = np.zeros((1, 2), np.int64)
for kind in {kinds}:
    count, none = np.array([3, 5], kind), np.zeros(0, np.uint16)
    sorting.quantile_places(count, none, np.array([8]), False, found)
    print(found.tolist(), "numba.np.arrayobj" in sys.modules)
"""


@pytest.fixture(scope="module")
def allocated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a cache that holds what such a kernel of one type compiles; it stays as it is."""
    folder = tmp_path_factory.mktemp("allocated")
    first, cache = ALLOCATING.format(kinds=["u1"]), {"XDG_CACHE_HOME": str(folder)}
    assert run(first, **cache) == ["[[0, 1]] True"]
    assert run(first, **cache) == ["[[0, 1]] False"]
    return folder


@compiled_only
@pytest.mark.parametrize("damaged", [False, True])
def test_what_was_compiled_is_loaded_without_the_compiler_and_goes_with_what_is_compiled(
    tmp_path: Path, damaged: bool, allocated: Path
) -> None:
    shutil.copytree(allocated, tmp_path, dirs_exist_ok=True)
    cache, both = {"XDG_CACHE_HOME": str(tmp_path)}, ALLOCATING.format(kinds=["u1", "i2"])
    (runtime,) = tmp_path.rglob("runtime-*.kernel")
    if damaged:
        runtime.write_bytes(b"garbage")
    assert run(both, **cache) == ["[[0, 1]] False", "[[0, 1]] True"]
    assert runtime.read_bytes() != b"garbage"
    assert run(both, **cache) == ["[[0, 1]] False", "[[0, 1]] False"]
