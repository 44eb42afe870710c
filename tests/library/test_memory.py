"""The memory that a command takes without being asked, and rows that are too long for it."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calibkit.errors import ResourceError
from calibkit.files import streams
from calibkit.runtime import memory

MIB = 2**20


def groups(root: Path, lines: str, **limits: str) -> list[int]:
    """Return what a process may take in a system with these groups: of ``a/b`` as ``a__b``."""
    (root / "proc/self").mkdir(parents=True)
    (root / "proc/self/cgroup").write_text(lines)
    for place, limit in limits.items():
        path = root / "sys/fs/cgroup" / place.replace("__", "/").replace("_max", ".max")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(limit + "\n")
    return list(memory._allowed(root))


def test_groups_are_limits(tmp_path: Path) -> None:
    limits = {"job__memory_max": "700", "job__step__memory_max": "900", "memory_max": "max"}
    assert sorted(groups(tmp_path / "one", "0::/job/step\n", **limits)) == [700, 900]
    # A container sees its own limit at the top.
    assert groups(tmp_path / "two", "0::/hidden/outside\n", memory_max="800") == [800]
    folder = tmp_path / "three/sys/fs/cgroup/memory/docker"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("600\n")
    version_1 = "5:cpu,cpuacct:/\n4:memory:/docker\n0::/\n"
    assert groups(tmp_path / "three", version_1) == [600]


@pytest.mark.parametrize("lines", ["", "nonsense\n", "0::/\n"])
def test_without_groups_there_is_no_limit(tmp_path: Path, lines: str) -> None:
    assert groups(tmp_path, lines) == []
    assert list(memory._allowed(tmp_path / "elsewhere")) == []


def test_the_budget_is_half_of_the_least(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sysconf", {"SC_PAGE_SIZE": 4096, "SC_PHYS_PAGES": 2**20}.__getitem__)
    monkeypatch.setattr(memory, "_allowed", lambda: iter([]))
    assert memory.memory_budget(None).bytes == 2048 * MIB
    monkeypatch.setattr(memory, "_allowed", lambda: iter([900 * MIB, 700 * MIB]))
    assert memory.memory_budget(None).bytes == 350 * MIB


texts = st.text(alphabet='ab",\n', max_size=60)


def longest_row(text: str, *, quoted: bool) -> int:
    """Return how many characters the longest row has, line feeds at its end left out."""
    longest = length = 0
    inside = False
    for sign in text:
        inside ^= quoted and sign == '"'
        length = 0 if sign == "\n" and not inside else length + 1
        longest = max(longest, length)
    return longest


@settings(max_examples=100)
@given(text=texts, chunk=st.integers(1, 9), more=st.integers(0, 9), quoted=st.booleans())
def test_a_row_is_refused_that_is_too_long(
    text: str, chunk: int, more: int, quoted: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    longest = chunk + more  # pieces are small beside any row that is refused
    path = tmp_path_factory.mktemp("rows") / "rows.csv"
    path.write_text(text)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(streams, "_LEAST", 1)
        patch.setattr(streams, "_CHUNK", chunk)
        if longest_row(text, quoted=quoted) <= longest:
            streams.refuse_endless(path, "rows.csv", longest, quoted=quoted)
            return
        with pytest.raises(ResourceError, match=re.escape(f"more than {longest:,} bytes")):
            streams.refuse_endless(path, "rows.csv", longest, quoted=quoted)
