"""What all tests share: how commands are run, where real data is, how long Hypothesis searches."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import _lru_cache_wrapper
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import HealthCheck, settings

from calibkit.runtime.threads import thread_count
from calibkit_cli.main import same_numbers
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


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many processes ``-n auto`` is: one more than processors took longer."""
    return thread_count(None)


def pytest_collection(session: pytest.Session) -> None:
    """Look for no garbage among modules and tests, which stay; let workers share out what is compiled.

    In a fresh clone each would otherwise compile all files, in the same order at the same time.
    """
    gc.disable()
    own = getattr(session.config, "workerinput", None)
    if own is not None:
        files = sorted(path for one in session.config.args for path in Path(one).rglob("test_*.py"))
        for path in files[int(own["workerid"].removeprefix("gw")) :: own["workercount"]]:
            with suppress(Exception):  # which collecting it tells
                import_module(".".join(path.resolve().relative_to(ROOT).with_suffix("").parts))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as `more` what `few` leaves out: before the cases to run are chosen by their marks."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few"):
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for same in cases.values():
        (count,) = same[0].get_closest_marker("few").args  # type: ignore[union-attr]
        kept = {(2 * k + 1) * len(same) // (2 * count) for k in range(count)}
        for place, item in enumerate(same):
            if place not in kept:
                item.add_marker("more")


def pytest_collection_finish() -> None:
    """Leave what thousands of tests consist of out of every later collection of garbage."""
    gc.freeze()
    gc.enable()


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
    """What a command run within the test's process left, and whether it wrote to its folder or -o."""

    code: int
    stdout: bytes
    stderr: str
    output: Path | None = None
    written: bool = False

    def result(self) -> Any:
        """Return what a command that must have succeeded wrote to its -o, or else printed as JSON."""
        assert self.code == 0, self.stderr
        if self.output is None:
            return json.loads(self.stdout)
        if self.output.suffix.lower() == ".parquet":
            return pl.read_parquet(self.output)
        if self.output.suffix == ".csv":
            return pl.read_csv(self.output)
        return json.loads(self.output.read_bytes())

    def succeeded(self, *said: str) -> None:
        """See that the command succeeded, and said so much on the way."""
        assert self.code == 0, self
        for text in said:
            assert text in self.stderr, self

    def refused(self, code: int, *said: str) -> dict[str, Any]:
        """See that the command failed with a code, says so much, and wrote nothing.

        Return the error, as ``--json`` prints it, where that was given.
        """
        assert self.code == code, self
        assert not self.written, self
        assert "Traceback" not in self.stderr
        error: dict[str, Any] = json.loads(self.stdout)["error"] if self.stdout else {"code": code}
        assert error["code"] == code
        for text in said:
            assert text in self.stderr + error.get("message", ""), self
        return error


#: What the fixture `invoke` is.
Invoke = Callable[..., Outcome]


def clean_environment() -> dict[str, str]:
    """Return this process's environment without what would change a command's behaviour."""
    kept = {name: text for name, text in os.environ.items() if not name.startswith(NOISE)}
    return {**kept, "PYTHONPATH": warm.FLOORS}


#: A line of a script that prints the packages that are loaded, on one line.
LOADED = "import sys; print(*{name.partition('.')[0] for name in sys.modules})\n"


def printed(script: str, *arguments: str, **environment: str) -> list[str]:
    """Return the lines that a script prints in a process of its own, which ends well."""
    done = subprocess.run(
        [sys.executable, "-uc", script, *arguments],
        env={**clean_environment(), **environment},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


@pytest.fixture(autouse=True)
def _quiet_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(NOISE):
            monkeypatch.delenv(name)


def words(arguments: Iterable[object]) -> list[str]:
    """Return a command line; a text that begins with a dash is parted at its blanks."""
    parts = [
        one.split() if isinstance(one, str) and one[:1] == "-" else [str(one)] for one in arguments
    ]
    return [word for part in parts for word in part]


def every_role(rows: int, seed: int) -> pl.DataFrame:
    """Return rows with what any command reads: ids, scores, labels, a group, a feature, votes."""
    random = np.random.default_rng(seed)
    score = random.uniform(0.02, 0.98, rows)
    shares = random.dirichlet([1.0, 2.0], rows)
    votes = random.binomial(3, shares[:, 0])
    return pl.DataFrame(
        {
            "id": np.arange(rows),
            "score": score,
            "uncertainty": random.gamma(2.0, 1.0, rows),
            "label": (random.random(rows) < score).astype(np.int64),
            "g": random.choice(["a", "b"], rows),
            "x": random.normal(size=rows),
            **{f"score_{k}": score ** (1 + k / 9) for k in range(3)},
            **{f"prob_{k}": shares[:, k] for k in range(2)},
            "count_0": votes,
            "count_1": 3 - votes,
        }
    )


def make(output: Path | str, *arguments: object) -> Path:
    """Run a command in this process for what many tests share: ``make(path, "bin", rows)``."""
    from calibkit_cli.main import run

    assert run([*words(arguments), "-q", "-o", str(output)]) == 0, arguments
    return Path(output)


def stamps(output: Path | None) -> dict[Path, tuple[int, int]]:
    """Return what changes as soon as an output, or a file of this folder, is written."""
    found = {}
    for place in (*Path().iterdir(), *filter(None, [output])):
        with suppress(OSError):
            seen = place.stat()
            found[place] = seen.st_ino, 0 if place.is_dir() else seen.st_mtime_ns
    return found


@pytest.fixture
def invoke(capfdbinary: pytest.CaptureFixture[bytes]) -> Invoke:
    """Run a command line in this process: ``invoke("bin", path, "--score-bins 5 -o", output)``."""
    from calibkit_cli.main import run

    def call(*arguments: object) -> Outcome:
        capfdbinary.readouterr()
        line = words(arguments)
        place = line.index("-o") + 1 if "-o" in line[:-1] else None
        output = Path(line[place]) if place and line[place] != "-" else None
        before = stamps(output)
        code = run(line)
        captured = capfdbinary.readouterr()
        written = stamps(output) != before
        return Outcome(code, captured.out, captured.err.decode(), output, written)

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
            [*start, *words(arguments)],
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
