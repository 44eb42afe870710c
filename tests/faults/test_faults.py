"""A fit and an application under every fault; ``make faults`` tries all commands, many times."""

from __future__ import annotations

import pytest

from tests.faults.harness import FAULTS, Bench
from tests.faults.jobs import jobs


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("faults")
    folder.chmod(0o755)
    return Bench(folder, *jobs(folder, ["boundary"]))


# How much is too little differs from machine to machine: that fault is for `make faults`.
CERTAIN = [fault for fault in FAULTS if fault != "little memory"]


@pytest.mark.parametrize(("place", "fault"), list(enumerate(CERTAIN)))
def test_the_old_output_or_the_whole_new_one(bench: Bench, place: int, fault: str) -> None:
    job = ("apply, boundary parquet", "boundary")[place % 2]
    problem = FAULTS[fault](bench.trial(job, 1))
    assert problem is None, f"{job}: {problem}"
