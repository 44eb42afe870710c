"""Commands that write, run while something goes wrong: the old output or the whole new one.

Each fault starts a command over an output that exists already and lets something happen to it.
Whatever that is, the exit code says so, nothing is half written and no traceback is shown.
"""

from __future__ import annotations

import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from tests.conftest import clean_environment

OLD = b"what was there before\n"

#: A line of a traceback that says that the command had begun.
_BEGUN = re.compile(rb'calibkit_cli.*", line \d+, in main')

#: What a process may use before it runs out of memory, in bytes: enough to start, not for much more.
LITTLE_MEMORY = 3 << 29


@dataclass(frozen=True)
class Job:
    """A command that writes one file, called `output`.

    In its command line ``OUT`` is the output, ``ROWS`` the input that faults happen to.
    """

    name: str
    words: tuple[str, ...]
    output: str

    def line(self, rows: Path, out: Path | str) -> list[str]:
        """Return the command line of a process."""
        given = {"OUT": str(out), "ROWS": str(rows)}
        words = [given.get(word, word) for word in self.words]
        return [sys.executable, "-m", "calibkit_cli", *words]


@dataclass(frozen=True)
class Trial:
    """One job about to be disturbed: its input is a copy of its own, its output holds `OLD`.

    `whole` is what it writes when nothing goes wrong, within `takes` seconds; `rng` decides when
    things happen.
    """

    job: Job
    rows: Path
    out: Path
    whole: bytes
    takes: float
    rng: random.Random

    def start(self, limit: str = "", **keywords: object) -> subprocess.Popen[bytes]:
        """Start the job, under a limit of `prlimit` if one is given."""
        line = self.job.line(self.rows, keywords.pop("out", self.out))  # type: ignore[arg-type]
        if limit:
            line = ["prlimit", limit, *line]
        environment = {**clean_environment(), **keywords.pop("env", {})}  # type: ignore[dict-item]
        streams = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **keywords}
        return subprocess.Popen(line, env=environment, **streams)  # type: ignore[call-overload,no-any-return]

    def wait_a_moment(self) -> None:
        """Wait for any moment of the run."""
        time.sleep(self.rng.uniform(0.0, 1.2) * self.takes)

    def finish(self, process: subprocess.Popen[bytes], *codes: int) -> str | None:
        """Wait for the end; return what was wrong with it."""
        try:
            _, noise = process.communicate(timeout=120)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            return "still running after two minutes"
        text = noise.decode("utf-8", "replace")
        if "Traceback" in text:
            return f"noise: {text[-300:]}"
        if process.returncode not in codes:
            return f"exit {process.returncode}, not one of {codes}: {text[-300:]}"
        return self.left(whole_wanted=process.returncode == 0)

    def left(self, *, whole_wanted: bool = False, temporary: int = 0) -> str | None:
        """Return what is wrong with the files that are there now."""
        found = self.out.read_bytes()
        if found not in ((self.whole,) if whole_wanted else (self.whole, OLD)):
            return f"{len(found)} bytes are neither the old output nor the new one"
        names = [path.name for path in self.out.parent.iterdir() if path != self.out]
        if len(names) > temporary or not all(name.endswith(".tmp") for name in names):
            return f"left behind: {names}"
        return None


def killed(trial: Trial) -> str | None:
    """Kill -9 at a random moment; the next run removes what it left."""
    process = trial.start()
    trial.wait_a_moment()
    process.kill()
    process.communicate()
    return trial.left(temporary=1) or trial.finish(trial.start(), 0)


def interrupted(trial: Trial) -> str | None:
    """Press Ctrl-C at a random moment."""
    return _signalled(trial, signal.SIGINT, 130)


def terminated(trial: Trial) -> str | None:
    """Terminate at a random moment."""
    return _signalled(trial, signal.SIGTERM, 143)


def _signalled(trial: Trial, number: signal.Signals, code: int) -> str | None:
    process = trial.start()
    trial.wait_a_moment()
    early = process.poll() is None
    process.send_signal(number)
    _, noise = process.communicate(timeout=120)
    if early and process.returncode == -number and b"Traceback" not in noise:
        return trial.left()  # the interpreter was still starting: nothing of ours ran yet
    if _BEGUN.search(noise) is None and b"KeyboardInterrupt" in noise:
        return trial.left()  # so too: Python's own traceback, of its start or of our first imports
    if process.returncode not in (0, code):
        return f"exit {process.returncode}: {noise.decode('utf-8', 'replace')[-300:]}"
    if b"Traceback" in noise:
        return f"noise: {noise.decode('utf-8', 'replace')[-300:]}"
    return trial.left(whole_wanted=process.returncode == 0)


def full_disk(trial: Trial) -> str | None:
    """Write beyond the largest file that is allowed: fails as a full disk does."""
    least = min(len(trial.whole) - 1, 100)
    # A kernel's compiled code is no output: the limit would stop that too.
    return trial.finish(trial.start(f"--fsize={least}", env={"NUMBA_CACHE_DIR": "/dev/null"}), 5)


def small_tmpfs(trial: Trial) -> str | None:
    """Write to a disk of one page that the old output fills."""
    with _mounted("size=4096") as place:
        if place is None:
            return full_disk(trial)
        out = place / trial.out.name
        with suppress(OSError):
            out.write_bytes(OLD.ljust(4096, b"."))
        problem = trial.finish(trial.start(out=out), 5)
        kept = out.read_bytes() == OLD.ljust(4096, b".")
        names = [path.name for path in place.iterdir()]
        return problem or (None if kept and names == [out.name] else f"left {names}")


@contextmanager
def _mounted(options: str) -> Iterator[Path | None]:
    """Yield a file system in memory, None where there is no right to mount one."""
    with tempfile.TemporaryDirectory() as name:
        mount = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", name]
        if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
            yield None
            return
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", name], check=True)


def read_only_folder(trial: Trial) -> str | None:
    """Write into a folder that may not be written."""
    with _mounted("size=1m") as place:
        if place is None:  # without rights to mount there are none to write everywhere either
            trial.out.parent.chmod(0o555)
            try:
                return trial.finish(trial.start(), 2)
            finally:
                trial.out.parent.chmod(0o755)
        out = place / trial.out.name
        out.write_bytes(OLD)
        subprocess.run(["mount", "-o", "remount,ro", str(place)], check=True)
        problem = trial.finish(trial.start(out=out), 2)
        return problem or (None if out.read_bytes() == OLD else "the old output changed")


def input_shrinks(trial: Trial) -> str | None:
    """Cut the input off while it is read, or before."""
    size = trial.rows.stat().st_size
    process = trial.start()
    trial.wait_a_moment()
    os.truncate(trial.rows, trial.rng.randrange(size))
    return trial.finish(process, 0, 3, 5)


def input_grows(trial: Trial) -> str | None:
    """Append to the input while it is read, or before."""
    process = trial.start()
    trial.wait_a_moment()
    with trial.rows.open("ab") as file:
        file.write(trial.rows.read_bytes()[:1000])
    return trial.finish(process, 0, 2, 3, 5)


def broken_pipe(trial: Trial) -> str | None:
    """Write to a pipe whose reader goes away."""
    process = trial.start(out="-")
    assert process.stdout is not None
    process.stdout.read(trial.rng.randrange(2))
    process.stdout.close()
    assert process.stderr is not None
    noise = process.stderr.read().decode("utf-8", "replace")
    process.stderr.close()
    code = process.wait(timeout=120)
    # A small result fits into the pipe before anyone has gone.
    if code not in (0, 141) or (code == 141 and noise.strip()) or "Traceback" in noise:
        return f"exit {code}: {noise[-300:]}"
    return trial.left()


def no_home(trial: Trial) -> str | None:
    """Run without a home folder, nor a cache that can be written."""
    nowhere = {
        "HOME": "/nonexistent",
        "XDG_CACHE_HOME": "/dev/null",
        "NUMBA_CACHE_DIR": "/dev/null",
    }
    return trial.finish(trial.start(env=nowhere), 0)


def out_of_memory(trial: Trial) -> str | None:
    """Run in little memory: done, or a word about memory."""
    return trial.finish(trial.start(f"--as={LITTLE_MEMORY}"), 0, 5)


def two_at_once(trial: Trial) -> str | None:
    """Run twice at once on the same output: the last to end wins, both are whole."""
    first = trial.start()
    trial.wait_a_moment()
    second = trial.start()
    ended = [
        process.communicate(timeout=120)[1].decode("utf-8", "replace")
        for process in (first, second)
    ]
    codes = [first.returncode, second.returncode]
    return f"exits {codes}: {ended}" if any(codes) else trial.left(whole_wanted=True)


FAULTS: dict[str, Callable[[Trial], str | None]] = {
    "kill -9": killed,
    "Ctrl-C": interrupted,
    "SIGTERM": terminated,
    "file too large": full_disk,
    "disk full": small_tmpfs,
    "read-only folder": read_only_folder,
    "input shrinks": input_shrinks,
    "input grows": input_grows,
    "broken pipe": broken_pipe,
    "no home, no cache": no_home,
    "little memory": out_of_memory,
    "two at once": two_at_once,
}


class Bench:
    """Good rows, jobs and what each writes; makes trials."""

    def __init__(self, folder: Path, jobs: list[Job], rows: Path) -> None:
        self.folder, self.rows = folder, rows
        self.reference: dict[str, tuple[bytes, float]] = {}
        self.jobs = {job.name: job for job in jobs}

    def trial(self, name: str, seed: int) -> Trial:
        """Return a trial of a job, in a folder of its own."""
        job = self.jobs[name]
        whole, takes = self._reference(job)
        place = Path(tempfile.mkdtemp(dir=self.folder))
        place.chmod(0o755)
        (place / "out").mkdir()
        rows, out = place / self.rows.name, place / "out" / job.output
        shutil.copy(self.rows, rows)
        out.write_bytes(OLD)
        return Trial(job, rows, out, whole, takes, random.Random(f"{name} {seed}"))

    def _reference(self, job: Job) -> tuple[bytes, float]:
        if job.name not in self.reference:
            # The same name each time: some results say what they were made from.
            out = self.folder / f"reference-{len(self.reference)}-{job.output}"
            takes = 0.0
            for _ in range(2):  # the first may compile
                start = time.perf_counter()
                subprocess.run(
                    job.line(self.rows, out),
                    env=clean_environment(),
                    check=True,
                    capture_output=True,
                )
                takes = time.perf_counter() - start
            self.reference[job.name] = out.read_bytes(), takes
        return self.reference[job.name]
