"""Commands as whole processes: time, processor time and peak memory, two commands in turn.

Only the standard library is imported here, on purpose: a child's peak memory starts at what its
parent held when it was forked, so the parent must stay small.  Data are made, and polars, numpy and
scikit-learn are loaded, in processes of their own.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "build" / "bench"
sys.path.append(str(ROOT / "docs" / "evidence"))  # what writes pages
RESULTS = FOLDER / "results"
PEERS = Path(__file__).resolve().parent / "peers"
FLOORS = os.pathsep.join(str(ROOT / floor) for floor in (".", "kernels", "cli"))

#: Above so many processors taken by other work wall times say little.
QUIET_LOAD = 0.5
SIDES = ("ours", "peer", "start_ours", "start_peer", "floor")
MILLION = 1_000_000


@dataclass(frozen=True)
class Run:
    """One process: seconds on the clock and of the processors, peak bytes, what it said."""

    wall: float
    user: float
    system: float
    peak: int
    said: str = field(default="", repr=False)

    @property
    def cpu(self) -> float:
        """Seconds of all processors together."""
        return self.user + self.system


#: Of a run: its wall time, its processor time, its peak memory.
wall_of, cpu_of, peak_of = map(attrgetter, ("wall", "cpu", "peak"))


@dataclass(frozen=True)
class Spread:
    """A median and the range around it."""

    median: float
    low: float
    high: float

    @classmethod
    def of(cls, values: Sequence[float]) -> Spread:
        """Return the spread of some values."""
        return cls(statistics.median(values), min(values), max(values))


@dataclass(frozen=True)
class Pair:
    """Two commands that were run in turn.

    Attributes
    ----------
    name
        What is compared.
    ours, peer
        The runs, in the order of the rounds.
    limit, memory_limit
        The ratios of wall time and of peak memory aimed at, at most; None where none is.
    load
        How many processors other work took meanwhile; see `Watch`.
    facts
        What the page needs besides.
    start_ours, start_peer
        Runs of both sides on next to no data, in the same rounds and so under the same load; empty
        where start-up is not taken off.
    floor
        Runs of what any process with polars has to do: import it and read the columns.  Empty where
        it was not measured.
    """

    name: str
    ours: list[Run]
    peer: list[Run]
    limit: float | None
    memory_limit: float | None
    load: float
    facts: dict[str, Any]
    start_ours: list[Run]
    start_peer: list[Run]
    floor: list[Run]

    def net(self, of: Callable[[Run], float]) -> float | None:
        """Return the ratio of medians less start-up; None where noise may be as large.

        The peer's time must exceed its start-up by twice the range of its start-ups.
        """
        if len(self.start_ours) < 2:
            return None
        ours, peer, first, other = (
            [of(run) for run in runs]
            for runs in (self.ours, self.peer, self.start_ours, self.start_peer)
        )
        left = statistics.median(peer) - statistics.median(other)
        if left < 2 * (max(other) - min(other)):
            return None
        return (statistics.median(ours) - statistics.median(first)) / left

    def ratio(self, of: Callable[[Run], float]) -> Spread:
        """Return the ratio of ours to the peer's, round by round."""
        pairs = zip(self.ours, self.peer, strict=True)
        return Spread.of([of(ours) / of(peer) for ours, peer in pairs])

    @classmethod
    def from_dict(cls, content: dict[str, Any]) -> Pair:
        """Return the pair that `dataclasses.asdict` took apart."""
        runs = {side: [Run(**run) for run in content.get(side, ())] for side in SIDES}
        return cls(**{**content, **runs})


class Watch:
    """Tells how many processors other work took since it was made, on average.

    From what the system counts for all processes, less this one and the children it waited for; the
    one-minute load where the system does not tell.
    """

    def __init__(self) -> None:
        self._start, self._busy, self._own = time.perf_counter(), _busy_seconds(), _own_seconds()

    def others(self) -> float:
        """Return the processors that others took."""
        busy = _busy_seconds()
        if busy is None or self._busy is None:
            return os.getloadavg()[0]
        taken = (busy - self._busy) - (_own_seconds() - self._own)
        return max(taken, 0.0) / (time.perf_counter() - self._start)


def _own_seconds() -> float:
    used = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(one.ru_utime + one.ru_stime for one in used)


def _busy_seconds() -> float | None:
    """Return the seconds that all processors have worked, or were lent to other machines."""
    try:
        fields = Path("/proc/stat").read_text(encoding="ascii").split(maxsplit=9)[1:9]
    except OSError:
        return None
    user, nice, system, _, _, hard, soft, stolen = map(int, fields)
    return (user + nice + system + hard + soft + stolen) / os.sysconf("SC_CLK_TCK")


def run(command: Sequence[str], **more: str) -> Run:
    """Run one command to its end, with more in its environment; one that fails ends the benchmark."""
    environment = {**os.environ, "PYTHONPATH": FLOORS, **more}
    with tempfile.TemporaryFile() as said:
        start = time.perf_counter()
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=said, stderr=said
        )
        _, status, used = os.wait4(process.pid, 0)
        wall = time.perf_counter() - start
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        text = said.read().decode(errors="replace")
        if process.returncode:
            sys.exit(f"{' '.join(command)}\nended with {process.returncode}:\n{text}")
    unit = 1 if sys.platform == "darwin" else 1024
    return Run(wall, used.ru_utime, used.ru_stime, used.ru_maxrss * unit, text)


def made(name: str, command: Sequence[str]) -> str:
    """Return a file that a command writes, its name the last word; one that is there is whole."""
    path = FOLDER / name
    if not path.is_file():
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_name(f"new-{path.name}")
        run([*command, str(new)])
        new.rename(path)
    return str(path)


def repeated(command: Sequence[str], rounds: int) -> list[Run]:
    """Run a command once to warm up, and return the runs after that."""
    return [run(command) for _ in range(rounds + 1)][1:]


def answer(command: Sequence[str]) -> Any:
    """Run a script that prints JSON, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": FLOORS}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, check=True)
    return json.loads(done.stdout)


def compare(
    name: str,
    ours: Sequence[str],
    peer: Sequence[str],
    *,
    rounds: int,
    limit: float | None = None,
    memory_limit: float | None = None,
    starts: tuple[Sequence[str], Sequence[str]] | None = None,
    floor: Sequence[str] | None = None,
    judge: Callable[[Any, Any], dict[str, Any]] | None = None,
    **facts: Any,
) -> Pair:
    """Run all commands once to warm up, then in turn; `starts` are both sides without data.

    What `judge` says of the JSON that the last runs wrote, to the files that both commands name at
    their ends, joins the facts.
    """
    watch = Watch()
    # The two that are compared come last: what they wrote stays, for whoever looks at the results.
    commands = {} if starts is None else {"start_ours": starts[0], "start_peer": starts[1]}
    commands |= {"ours": ours, "peer": peer}
    if floor is not None:
        commands["floor"] = floor
    found: dict[str, list[Run]] = {side: [] for side in SIDES}
    for turn in range(rounds + 1):
        for side, command in commands.items():
            measured = run(command)
            if turn:
                found[side].append(measured)
    load = watch.others()
    if judge is not None:
        facts |= judge(*(json.loads(Path(side[-1]).read_bytes()) for side in (ours, peer)))
    pair = Pair(name=name, limit=limit, memory_limit=memory_limit, load=load, facts=facts, **found)
    print(line(pair), flush=True)
    return pair


def line(pair: Pair) -> str:
    """Return a pair on one line."""
    wall, cpu, peak = (pair.ratio(of) for of in (wall_of, cpu_of, peak_of))
    ours, peer = (statistics.median(map(wall_of, side)) for side in (pair.ours, pair.peer))
    return (
        f"{pair.name}: {ours:.2f} s against {peer:.2f} s; ratio {wall.median:.2f} "
        f"({wall.low:.2f} to {wall.high:.2f}), processors {cpu.median:.2f}, "
        f"memory {peak.median:.2f}; others {pair.load:.1f}"
    )


def million(rows: int) -> str:
    """Return a number of rows in words."""
    return f"{rows / MILLION:g} million rows"


def calibkit(python: str, *arguments: str) -> list[str]:
    """Return the command line of a calibkit command, as it is installed beside an interpreter."""
    return [str(Path(python).with_name("calibkit")), *arguments]


def to(name: str) -> tuple[str, str, str]:
    """Return the options of a command that writes one file of the benchmarks and prints nothing."""
    return "-q", "-o", str(FOLDER / name)


def peer_script(python: str, name: str, *arguments: str) -> list[str]:
    """Return the command line of a script in ``peers/``."""
    return [python, str(PEERS / name), *arguments]


def reading(python: str, path: str, *columns: str) -> list[str]:
    """Return the command that imports what calibkit needs and reads columns (all: none named)."""
    return peer_script(python, "read_columns.py", path, *columns)


def processor() -> str:
    """Return the name of the processor, as far as the system tells it."""
    try:
        text = Path("/proc/cpuinfo").read_text(encoding="utf-8")
    except OSError:
        return platform.processor() or platform.machine()
    names = [one.split(":", 1)[1] for one in text.splitlines() if one.startswith("model name")]
    return names[0].strip() if names else platform.machine()


def sources() -> str:
    """Return a digest of the library's sources: results of different code do not mix."""
    digest = hashlib.sha256()
    for floor in ("calibkit", "kernels", "cli"):
        for path in sorted((ROOT / floor).rglob("*.py")):
            digest.update(path.relative_to(ROOT).as_posix().encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def machine(python: str) -> dict[str, Any]:
    """Return what the numbers depend on, without a date."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = answer(peer_script(python, "versions.py"))
    return {
        "processor": processor(),
        "cores": cores,
        "memory": f"{memory:.0f} GB",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": versions,
        "development": answer(peer_script(sys.executable, "versions.py")),
        "sources": sources(),
    }


def save(name: str, python: str, **content: Any) -> None:
    """Keep the results of a benchmark for the page."""
    RESULTS.mkdir(parents=True, exist_ok=True)
    whole = {"machine": machine(python), **content}
    text = json.dumps(whole, indent=1, default=asdict)
    (RESULTS / f"{name}.json").write_text(text, encoding="utf-8")
