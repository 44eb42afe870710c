"""Compiling and caching: never stale, never a failure, and arithmetic without compiling."""

from __future__ import annotations

import os
import shutil
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

from calibkit_kernels import _jit, draws, tally
from tests.conftest import INTERPRETED, ROOT, printed
from tests.naive import boundaries as naive

KERNELS = ROOT / "kernels" / "calibkit_kernels"
compiled_only = pytest.mark.skipif(INTERPRETED, reason="nothing is compiled here")

#: A kernel that inlines one of another file: `uniform` of splits calls `mix` of digest.
#: It prints the cache, a number, and how many kernels were compiled instead of loaded.
PROBE = """
import calibkit_kernels
compiled = []
calibkit_kernels.before_compiling = lambda _, line: compiled.append(line)
import numpy as np
from calibkit_kernels import _jit
from calibkit_kernels import draws
print(_jit.FOLDER)
print(draws.uniform(np.uint64(3), 1).hex())
print(len(compiled))
"""

#: Where no folder of the user's can be made.
NOWHERE = {"XDG_CACHE_HOME": "", "HOME": "/proc/nowhere"}


def run(script: str, **environment: str) -> list[str]:
    """Return the lines that a script prints in a process of its own; a warning is an error."""
    return printed(script, PYTHONWARNINGS="error", **environment)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str, str]:
    """Return a cache with what the probe compiles, its folder and the number; it stays as it is."""
    cache = tmp_path_factory.mktemp("cache")
    folder, value, _ = run(PROBE, XDG_CACHE_HOME=str(cache))
    return cache, folder, value


def test_interpreted_kernels_wrap_around_without_warnings() -> None:
    assert run(PROBE, NUMBA_DISABLE_JIT="1") == ["None", naive.uniform(3, 1).hex(), "0"]


@compiled_only
def test_the_cache_lies_where_the_system_wants_it(
    tmp_path: Path, filled: tuple[Path, str, str]
) -> None:
    cache, named, _ = filled
    assert Path(named).parent == cache / "calibkit"
    assert list(Path(named).glob("draws.uniform-*.kernel"))
    folder, *_ = run(PROBE, XDG_CACHE_HOME="", HOME=str(tmp_path / "home"))
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
    where = {"XDG_CACHE_HOME": "", "HOME": str(place)}
    if what == "a file":
        place.write_text("in the way")
        where["XDG_CACHE_HOME"] = str(place)
    elif what == "read-only":
        if os.geteuid() == 0:
            pytest.skip("root may write everywhere")
        place.mkdir(mode=0o500)
    else:
        where = NOWHERE
    assert run(PROBE, **where) == ["None", naive.uniform(3, 1).hex(), "1"]


@compiled_only
@pytest.mark.parametrize("damage", [b"garbage", None], ids=["garbage", "cut"])
def test_a_damaged_cache_is_passed_over(
    tmp_path: Path, damage: bytes | None, filled: tuple[Path, str, str]
) -> None:
    cache, folder, value = filled
    damaged = Path(folder.replace(str(cache), str(tmp_path)))
    shutil.copytree(cache, tmp_path, dirs_exist_ok=True)
    for path in damaged.glob("*.kernel"):
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if damage is None else damage)
    where = {"XDG_CACHE_HOME": str(tmp_path)}
    assert run(PROBE, **where) == [str(damaged), value, "1"]
    assert run(PROBE, **where) == [str(damaged), value, "0"]


def copied(folder: Path) -> dict[str, str]:
    """Return the environment in which kernels come from a copy, with files of other times."""
    copy = folder / "calibkit_kernels"
    shutil.copytree(KERNELS, copy, ignore=shutil.ignore_patterns("__pycache__", "compiled"))
    for path in copy.iterdir():
        os.utime(path, (1e9, 1e9))
    return {"PYTHONPATH": str(folder)}


@compiled_only
def test_the_same_sources_elsewhere_share_what_was_compiled(
    tmp_path: Path, filled: tuple[Path, str, str]
) -> None:
    cache, folder, value = filled
    elsewhere = copied(tmp_path / "elsewhere")
    assert run(PROBE, XDG_CACHE_HOME=str(cache), **elsewhere) == [folder, value, "0"]


@compiled_only
def test_kernels_that_an_installation_brings_are_looked_at_first(tmp_path: Path) -> None:
    made = {"XDG_CACHE_HOME": str(tmp_path / "cache"), "NUMBA_CPU_NAME": "generic"}
    folder, value, _ = run(PROBE, **made)
    place = copied(tmp_path / "elsewhere")
    shutil.copytree(folder, tmp_path / "elsewhere/calibkit_kernels/compiled" / Path(folder).name)
    # On the processor at hand, and without a folder of the user's.
    assert run(PROBE, **place, **NOWHERE) == ["None", value, "0"]
    # Of other sources nothing is taken.
    with (tmp_path / "elsewhere/calibkit_kernels/sums.py").open("a") as file:
        file.write("# changed\n")
    assert run(PROBE, **place, **NOWHERE) == ["None", value, "1"]


@compiled_only
def test_many_processes_fill_a_cache_at_once(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    with ThreadPoolExecutor(3) as pool:
        seen = list(pool.map(lambda _: run(PROBE, **cache), range(3)))
    folder, value, _ = seen[0]
    assert [one[:2] for one in seen] == [[folder, value]] * 3
    assert not [path for path in Path(folder).iterdir() if path.suffix != ".kernel"]
    assert run(PROBE, **cache) == [folder, value, "0"]


@compiled_only
def test_a_change_in_another_file_is_never_served_stale(tmp_path: Path) -> None:
    where = {**copied(tmp_path), "XDG_CACHE_HOME": str(tmp_path / "cache")}
    folder, first, _ = run(PROBE, **where)
    assert run(PROBE, **where) == [folder, first, "0"]
    source = tmp_path / "calibkit_kernels/draws.py"
    stamp = source.stat()
    text = source.read_text()
    assert "0xBF58476D1CE4E5B9" in text
    source.write_text(text.replace("0xBF58476D1CE4E5B9", "0xBF58476D1CE4E5BB"))
    os.utime(source, (stamp.st_atime, stamp.st_mtime + 10))  # Python's own cache sees it
    other_folder, second, _ = run(PROBE, **where)
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


#: Kernels that allocate, and that return an array, with values of a type each.
ALLOCATING = """
import sys
import numpy as np
from calibkit_kernels import sorting, tally
found = np.zeros((1, 2), np.int64)
for kind in {kinds}:
    count, none = np.array([3, 5], kind), np.zeros(0, np.uint16)
    sorting.quantile_places(count, none, np.array([8]), False, found)
    level, ones = np.array([0, 2], np.uint16), np.ones(2, np.int32)
    totals = tally.level_totals(level, ones, ones, 3)
    print(found.tolist(), totals.tolist(), "numba" in sys.modules)
"""


@compiled_only
@pytest.mark.more
def test_what_was_compiled_is_run_without_numba_and_goes_with_what_is_compiled(
    tmp_path: Path,
) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    first, both = (ALLOCATING.format(kinds=kinds) for kinds in (["u1"], ["u1", "i2"]))
    arrays = "[[0, 1]] [[1, 1, 1], [0, 0, 0], [1, 1, 1]]"
    assert run(first, **cache) == [f"{arrays} True"]
    assert run(first, **cache) == [f"{arrays} False"]
    assert run(both, **cache) == [f"{arrays} False", f"{arrays} True"]
    assert run(both, **cache) == [f"{arrays} False", f"{arrays} False"]
    # A program that uses numba itself, before or after.
    own = "import numba\nprint(numba.njit(lambda n: np.zeros(n).sum() + n)(3))"
    assert run(f"{first}{own}", **cache) == [f"{arrays} False", "3.0"]
    assert run(f"import numpy as np\n{own}{first}", **cache) == ["3.0", f"{arrays} True"]


@compiled_only
def test_each_kind_of_argument_has_code_of_its_own(tmp_path: Path) -> None:
    """Code takes every array for one of the type, the order and the place that it was made for."""
    words = np.arange(12, dtype=np.uint64)
    words.tofile(tmp_path / "words")
    stored = np.memmap(tmp_path / "words", np.uint64, mode="r")
    narrow = np.memmap(tmp_path / "words", np.uint32, mode="r")[::2]
    odd = np.zeros(97, np.uint8)[1:].view(np.uint64)
    odd[:] = words
    for given in (words, words[:], stored, narrow, odd, np.repeat(words, 2)[::2]):
        hashes = np.zeros(12, np.uint64)
        draws.absorb(hashes, given, np.uint64(7))
        expected = np.zeros(12, np.uint64)
        draws.absorb(expected, words, np.uint64(7))
        np.testing.assert_array_equal(hashes, expected)
    assert [_jit.type_name(one) for one in (stored, narrow, odd, words.reshape(3, 4).T)] == [
        "readonly array(uint64, 1d, C)",
        "readonly array(uint32, 1d, A)",
        "unaligned array(uint64, 1d, C)",
        "array(uint64, 2d, F)",
    ]
    assert _jit.type_name(True) == _jit.type_name(np.True_) == "bool"
    assert _jit.type_name(np.float32(1)) == "float32"
    assert _jit.type_name(np.float64(1)) == _jit.type_name(1.5) == "float64"
    with pytest.raises(TypeError, match="arrays and numbers"):
        _jit.type_name([1.0])


def memory_in_use() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@compiled_only
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux says how much is in use")
def test_what_a_kernel_returns_is_let_go_of() -> None:
    level, ones = np.zeros(100_000, np.uint16), np.ones(100_000, np.int32)
    kept = [tally.level_totals(level[:9], ones[:9], ones[:9], 65_000) for _ in range(3)]
    before = memory_in_use()
    for _ in range(400):  # 600 MB
        tally.level_totals(level[:9], ones[:9], ones[:9], 65_000)
    assert memory_in_use() < before + 100_000_000
    assert [one[0].tolist() for one in kept] == [[9, 9, 9]] * 3


#: A kernel of code that holds the address of a function in this process.
BOUND = """
import ctypes
from calibkit_kernels import _jit
fabs = ctypes.CDLL(None).fabs
fabs.restype, fabs.argtypes = ctypes.c_double, [ctypes.c_double]
@_jit.kernel
def size(x):
    return fabs(x)
print(size(-2.0), size.kept(("float64",)))
"""


@compiled_only
@pytest.mark.skipif(sys.platform == "win32", reason="libraries are found by name there")
def test_code_that_only_this_process_can_run_is_not_kept(tmp_path: Path) -> None:
    cache = {"XDG_CACHE_HOME": str(tmp_path)}
    assert run(BOUND, **cache) == run(BOUND, **cache) == ["2.0 False"]


@compiled_only
def test_where_code_cannot_be_loaded_it_is_compiled(filled: tuple[Path, str, str]) -> None:
    cache, folder, value = filled
    for broken in ("_extension", "_engine"):  # by another numba, say
        spoilt = f"from calibkit_kernels import _machine\n_machine.{broken} = None\n{PROBE}"
        assert run(spoilt, XDG_CACHE_HOME=str(cache)) == [folder, value, "1"]
