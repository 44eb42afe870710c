"""The memory that a command takes without being asked: half of the machine, or of its container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

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


def test_a_group_and_those_around_it_are_limits(tmp_path: Path) -> None:
    limits = {"job__memory_max": "700", "job__step__memory_max": "900", "memory_max": "max"}
    assert sorted(groups(tmp_path, "0::/job/step\n", **limits)) == [700, 900]


def test_a_container_sees_its_own_limit_at_the_top(tmp_path: Path) -> None:
    assert groups(tmp_path, "0::/hidden/outside\n", memory_max="800") == [800]


def test_groups_of_version_1(tmp_path: Path) -> None:
    folder = tmp_path / "sys/fs/cgroup/memory/docker"
    folder.mkdir(parents=True)
    (folder / "memory.limit_in_bytes").write_text("600\n")
    assert groups(tmp_path, "5:cpu,cpuacct:/\n4:memory:/docker\n0::/\n") == [600]


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
