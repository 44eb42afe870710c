"""A fit and an application under every fault; ``make faults`` tries all commands, many times."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import clean_environment
from tests.faults.harness import FAULTS, Bench
from tests.faults.jobs import jobs


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("faults")
    folder.chmod(0o755)
    return Bench(folder, *jobs(folder, ["boundary"]))


# How much is too little differs from machine to machine: that fault is for `make faults`.
CERTAIN = [fault for fault in FAULTS if fault != "little memory"]


@pytest.mark.few(6)
@pytest.mark.parametrize(
    ("place", "fault"),
    [
        # Without a cache all kernels are compiled for it.
        pytest.param(*one, marks=[pytest.mark.more] * ("no cache" in one[1]))
        for one in enumerate(CERTAIN)
    ],
)
def test_the_old_output_or_the_whole_new_one(bench: Bench, place: int, fault: str) -> None:
    job = ("apply, boundary parquet", "boundary")[place // 2 % 2]
    problem = FAULTS[fault](bench.trial(job, 1))
    assert problem is None, f"{job}: {problem}"


@pytest.mark.few(3)
@pytest.mark.parametrize("place", ["settle", "need_addresses", "end_lines"])
@pytest.mark.parametrize("fault", [("SIGINT", 130, "Interrupted"), ("SIGTERM", 143, "Terminated")])
def test_a_signal_ends_a_run_wherever_it_arrives(
    fault: tuple[str, int, str], place: str, tmp_path: Path
) -> None:
    name, code, word = fault
    does = {"need_addresses": "inside_a_callback", "settle": "Half"}.get(place, "arrive")
    program = (
        "import os, signal, sys, time, weakref\n"
        "from calibkit_cli import main\n"
        "def arrive(*_):\n"
        f"    os.kill(os.getpid(), signal.{name})\n"
        "class Half:\n"  # its constructor is interrupted
        "    def __init__(self): arrive(); self.own = 1\n"
        "    def __del__(self): self.own\n"
        "def inside_a_callback():\n"  # where Python drops what a handler raises
        "    held = set()\n"
        "    told = weakref.ref(held, arrive)\n"
        "    del held\n"
        "    time.sleep(60)\n"
        f"main.{place} = {does}\n"
        "sys.argv = ['calibkit', 'validate', 'none.csv']\n"
        "main.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=clean_environment(),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert done.returncode == code
    said = f"{word}; nothing half written is left.\n"
    assert done.stderr.endswith(said)
    assert "Traceback" not in done.stderr
