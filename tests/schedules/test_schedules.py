"""Some of the schedules of ``make schedules``, and chains of commands that Hypothesis thinks of."""

from __future__ import annotations

import pytest

from tests.schedules.harness import Bench, one


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(tmp_path_factory.mktemp("schedules"))


@pytest.mark.more
@pytest.mark.parametrize("first", range(0, 100, 20))
def test_the_same_bytes_or_an_error(first: int, bench: Bench) -> None:
    problems = [one(bench, seed, kills=False)[1] for seed in range(first, first + 20)]
    assert [problem for problem in problems if problem is not None] == []
