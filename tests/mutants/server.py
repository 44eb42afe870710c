"""Run tests again and again, each time in a fork of a process that has loaded what they need.

Started in a copy of the project, of which a line of standard input says which file gets which text;
a line of standard output says what became of the tests.
"""

from __future__ import annotations

import json
import os
import resource
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import Phase, settings

from calibkit_cli.main import same_numbers
from tests.warm import load

#: What takes long to load and starts no thread.
LOADED = (
    "hypothesis.strategies",
    "matplotlib.figure",
    "numba",
    "rich.console",
    "scipy.stats",
    "typer",
)
#: What the kernels are loaded by: each run loads it anew, of the text that a file has then.
ANEW = ("calibkit", "calibkit_cli")
#: Seconds after which a run that waits for something has ended.
LONGEST = 900


class First:
    """A plugin of pytest that keeps the name of the first test that failed."""

    name = ""

    def pytest_configure(self) -> None:
        """Have properties that fail say so at once, without a search for the least example."""
        settings.register_profile("at once", settings(phases=[Phase.explicit, Phase.generate]))
        settings.load_profile("at once")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self.name = self.name or (report.nodeid if report.failed else "")


def run(tests: Sequence[str], seconds: float) -> str:
    """Return the test that failed first, "passed", or in words how the run ended."""
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(write, _outcome(tests, int(seconds)).encode())
        finally:
            os._exit(0)
    os.close(write)
    _, status = os.waitpid(child, 0)
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)  # what it has started
    with os.fdopen(read) as pipe:
        return pipe.read() or f"ended with status {status}"


def _outcome(tests: Sequence[str], seconds: int) -> str:
    os.setpgid(0, 0)
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 5))
    signal.alarm(LONGEST)
    quiet = os.open(os.devnull, os.O_RDWR)
    for stream in range(3):
        os.dup2(quiet, stream)
    for name in [name for name in sys.modules if name.partition(".")[0] in ANEW]:
        del sys.modules[name]
    first = First()
    line = [
        "-x",
        "-p",
        "no:cacheprovider",
        "-W",
        "ignore::pytest.PytestAssertRewriteWarning",
        *tests,
    ]
    code = pytest.main(line, plugins=[first])
    return first.name or ("passed" if code == 0 else f"pytest: {code!r}")


def main() -> None:
    same_numbers()
    for name in LOADED:
        import_module(name)
    if os.environ.get("NUMBA_DISABLE_JIT") != "1":
        load()
    for age, line in enumerate(sys.stdin):
        asked = json.loads(line)
        path = Path(asked["file"])
        good, times = path.read_bytes(), path.stat()
        try:
            path.write_text(asked["text"], encoding="utf-8")
            os.utime(path, (age, age))  # what was compiled of another text is too old
            outcome = run(asked["tests"], asked["seconds"])
        finally:
            path.write_bytes(good)
            os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        print(json.dumps(outcome), flush=True)


if __name__ == "__main__":
    main()
