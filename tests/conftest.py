"""What all tests share: how commands are run, where real data is, how long Hypothesis searches."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from calibkit_cli.processors import same_numbers
from tests import warm

same_numbers()

ROOT = warm.ROOT
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") == "1"

#: Variables that change what a command prints or does.
NOISE = ("CALIBKIT_", "FORCE_COLOR", "PY_COLORS", "GITHUB_ACTIONS", "NO_COLOR", "COLUMNS", "PYTHON")

settings.register_profile(
    "calibkit",
    deadline=None,  # the first example of a test may compile a kernel
    max_examples=20 if INTERPRETED or os.environ.get("CI") else 60,
    derandomize=bool(os.environ.get("CI")),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
settings.load_profile("calibkit")


def pytest_collection_finish() -> None:
    """Leave what thousands of tests consist of out of every later collection of garbage."""
    gc.collect()
    gc.freeze()


def pytest_sessionfinish() -> None:
    """Let go of the types of DuckDB, which it would report as lost on hundreds of lines at the end.

    polars remembers the type of each frame that it has been given.
    """
    gc.unfreeze()
    if "duckdb" in sys.modules:
        for one in gc.get_objects():
            if isinstance(one, _lru_cache_wrapper):
                one.cache_clear()


@dataclass(frozen=True)
class Outcome:
    """What a command run within the test's process left."""

    code: int
    stdout: bytes
    stderr: str


#: What the fixture `invoke` is.
Invoke = Callable[..., Outcome]


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what would change a command's behaviour."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(NOISE)}
    return {**kept, "PYTHONPATH": warm.FLOORS}


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(NOISE):
            monkeypatch.delenv(name)


@pytest.fixture
def invoke(capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    """Run a command line in this process: ``invoke("bin", path, "-o", output)``."""
    from calibkit_cli.main import run

    def call(*arguments: object) -> Outcome:
        capfdbinary.readouterr()
        code = run([str(argument) for argument in arguments])
        captured = capfdbinary.readouterr()
        return Outcome(code, captured.out, captured.err.decode())

    return call


@pytest.fixture
def command() -> Callable[..., subprocess.CompletedProcess[bytes]]:
    """Run a command line as a process of its own; keywords go to `subprocess.run`.

    With an environment of its own it is started as a user's, without one forked; see `tests.warm`.
    """

    def call(*arguments: object, **keywords: object) -> subprocess.CompletedProcess[bytes]:
        own = keywords.pop("env", None)
        start = [warm.program()] if own is None else [sys.executable, "-m", "calibkit_cli.main"]
        settings = {"capture_output": True, "timeout": 120, **keywords}
        return subprocess.run(
            [*start, *map(str, arguments)],
            env={**clean_environment(), **(own or {})},
            check=False,
            **settings,
        )

    return call


@pytest.fixture
def real_data() -> Callable[[str], Path]:
    """Return a folder of real score files by name; skip the test where they are not at hand."""

    def find(name: str) -> Path:
        folder = ROOT.parent / "shared" / "data" / name
        if not folder.is_dir():
            pytest.skip(f"real data {name} is not at {folder}")
        return folder

    return find
