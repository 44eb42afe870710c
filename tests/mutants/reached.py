"""A plugin of pytest that names the test in what coverage notes, and keeps how long tests took.

python -m coverage run -m pytest -p tests.mutants.reached ...
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import pytest
from coverage import Coverage

ROOT = Path(__file__).parent.parent.parent
#: Seconds of each test that passed.
SECONDS = ROOT / "build/coverage/seconds.json"

_took: dict[str, float] = defaultdict(float)
_others: set[str] = set()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    running = Coverage.current()
    if running is not None:
        running.switch_context(item.nodeid)
    return (yield)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    _took[report.nodeid] += report.duration
    if not report.passed:
        _others.add(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not hasattr(session.config, "workerinput"):
        before = json.loads(SECONDS.read_text()) if SECONDS.exists() else {}
        SECONDS.parent.mkdir(parents=True, exist_ok=True)
        passed = {name: took for name, took in _took.items() if name not in _others}
        SECONDS.write_text(json.dumps(before | passed))
