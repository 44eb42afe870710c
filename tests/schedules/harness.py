"""One schedule, drawn by a seed: the same bytes as one run on all rows, or an error that says why.

Shards are read apart and merged in any order and any groups; a state comes twice, is lost or damaged,
or its process is killed and started again.  Tasks of a cluster are done in any order, some of them
twice.  Models are applied to many files in any order, one of which is named twice, missing or damaged.
"""

from __future__ import annotations

import random
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

from calibkit.engines.dask import R, T
from calibkit.engines.work import ShardOpening, StateTask, shards_of, state_of_all
from calibkit.methods.calibrators import run as calibrators
from calibkit.methods.vad import run as vad
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.vad import VadOptions
from calibkit.runtime.memory import Memory
from tests.cli.score_files import write
from tests.compat.fits import FITS, rows, words
from tests.conftest import clean_environment
from tests.fuzz.harness import run_quietly
from tests.local_engine import LocalEngine

#: Fits of every kind of state, quickly made.
KINDS = ("exact", "isotonic", "vad by", "evaluate", "tree", "votes, vector", "alpha of features")
PARTS = 6
REFUSED = 3

#: Work on a cluster.
TASKS = {
    "isotonic": partial(calibrators.state, CalibrateOptions(method="isotonic")),
    "vad": partial(vad.state, VadOptions(by="segment", members="score_?")),
}


class Disorderly(LocalEngine):
    """Does the tasks in any order, and some of them again, as a cluster does that loses workers."""

    def __init__(self, rng: random.Random) -> None:
        super().__init__(at_once=2)
        self._rng = rng

    def map(self, function: Callable[[T], R], parts: Sequence[T]) -> Iterator[R]:
        """Yield the results in the order of the parts."""
        places = [*range(len(parts)), *self._rng.choices(range(len(parts)), k=2)]
        self._rng.shuffle(places)
        found = {place: function(parts[place]) for place in places}
        yield from (found[place] for place in range(len(parts)))


class Bench:
    """A folder with rows in parts, and what one run makes of all of them."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        frame = rows(240)
        edges = [0, *(round(frame.height * ((k + 1) / PARTS) ** 1.5) for k in range(PARTS))]
        self.parts = [
            write(frame[low:high], folder / f"part-{k}.{('csv', 'parquet')[k % 2]}")
            for k, (low, high) in enumerate(pairwise(edges))
        ]
        self.whole = cache(self._whole)
        self.state = cache(self._state)
        self.applied = cache(self._applied)
        self.model = folder / "model.json"
        self._run(words(FITS["exact"], folder, *self.parts), self.model)
        self._made = 0

    def fresh(self, suffix: str = "") -> Path:
        """Return a name that no file has."""
        self._made += 1
        return self.folder / f"made-{self._made}{suffix}"

    def _run(self, line: Sequence[object], out: Path) -> Path:
        code, said = run_quietly([*map(str, line), "-q", "-o", str(out)])
        assert code == 0, said
        return out

    def _whole(self, kind: str) -> bytes:
        """Return what a fit makes of all rows."""
        return self._run(
            words(FITS[kind], self.folder, *self.parts), self.fresh(".json")
        ).read_bytes()

    def _state(self, kind: str, part: int) -> Path:
        line = words(FITS[kind], self.folder, self.parts[part])
        return self._run([*line, "--partial"], self.fresh(".state"))

    def _applied(self, part: int) -> bytes:
        path = self.parts[part]
        line = ("apply", self.model, path)
        return self._run(line, self.fresh(path.suffix)).read_bytes()


def damaged(path: Path, bench: Bench, rng: random.Random) -> Path:
    """Return a copy of a file that is cut off, or has a byte of another value."""
    data = bytearray(path.read_bytes())
    if rng.random() < 0.5:
        del data[rng.randrange(len(data)) :]
    else:
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
    made = bench.fresh(path.suffix)
    made.write_bytes(data)
    return made


def merging(bench: Bench, rng: random.Random, *, kill: bool = False) -> str | None:
    """Merge the states of all parts; return what went wrong."""
    kind = rng.choice(KINDS)
    states = [bench.state(kind, part) for part in range(PARTS)]
    if kill:
        place = rng.randrange(PARTS)
        states[place] = _after_a_kill(bench, kind, place, rng)
    states = _grouped(bench, states, rng)
    event = rng.choice(["nothing", "nothing", "twice", "lost", "damaged"])
    place = rng.randrange(len(states))
    if event == "twice":
        states.insert(rng.randrange(len(states)), states[place])
    elif event == "lost":
        del states[place]
    elif event == "damaged":
        states[place] = damaged(states[place], bench, rng)
    rng.shuffle(states)
    out = bench.fresh(".json")
    line = ["merge", *map(str, states), "--expect", str(PARTS), "-q", "-o", str(out)]
    code, said = run_quietly(line)
    codes = {"nothing": (0,), "damaged": (0, REFUSED)}.get(event, (2, REFUSED))
    return _wrong(f"merge {kind}, {event}", code, said, codes, out, bench.whole(kind))


def _grouped(bench: Bench, states: list[Path], rng: random.Random) -> list[Path]:
    """Merge some of the states into others first."""
    states = rng.sample(states, len(states))
    while len(states) > 2 and rng.random() < 0.5:
        count = rng.randrange(2, len(states))
        out = bench.fresh(".state")
        code, said = run_quietly(["merge", *map(str, states[:count]), "-q", "-o", str(out)])
        assert code == 0, said
        states = [*states[count:], out]
    return states


def _after_a_kill(bench: Bench, kind: str, part: int, rng: random.Random) -> Path:
    """Return the state of a part whose process was killed at any moment, and started again."""
    out = bench.fresh(".state")
    line = [*words(FITS[kind], bench.folder, bench.parts[part]), "--partial", "-q", "-o", str(out)]
    start = [sys.executable, "-m", "calibkit_cli", *line]
    process = subprocess.Popen(start, env=clean_environment(), stderr=subprocess.DEVNULL)
    time.sleep(rng.uniform(0.0, 1.5))
    process.kill()
    process.wait()
    if out.exists():  # whole, since it has its name
        return out
    code, said = run_quietly(line)
    assert code == 0, said
    left = [path.name for path in out.parent.iterdir() if path.name.endswith(".tmp")]
    assert not left, left
    return out


def applying(bench: Bench, rng: random.Random) -> str | None:
    """Apply a model to many files at once; return what went wrong."""
    inputs = rng.sample(bench.parts, rng.randrange(1, PARTS + 1))
    event = rng.choice(["nothing", "nothing", "twice", "lost", "damaged"])
    place = rng.randrange(len(inputs))
    if event == "twice":
        inputs.append(inputs[place])
    elif event == "lost":
        inputs[place] = bench.fresh(".csv")
    elif event == "damaged":
        inputs[place] = damaged(inputs[place], bench, rng)
    folder = bench.fresh()
    folder.mkdir()
    line = ["apply", str(bench.model), *map(str, inputs), "-q", "-o", f"{folder}/"]
    code, said = run_quietly(line)
    codes = {"nothing": (0,), "damaged": (0, REFUSED)}.get(event, (2,))
    problem = _refused(f"apply, {event}", code, said, codes)
    left = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    if problem is not None or code:
        return problem or (f"apply, {event}: exit {code}, but {list(left)}" if left else None)
    known = {
        path.name: bench.applied(part) for part, path in enumerate(bench.parts) if path in inputs
    }
    return None if known.items() <= left.items() else f"apply, {event}: other bytes"


def tasks(bench: Bench, rng: random.Random) -> str | None:
    """Make a state by tasks in disorder; return what went wrong."""
    name = rng.choice(list(TASKS))
    task = StateTask(TASKS[name], ShardOpening(Memory(1)))
    shards = shards_of([str(path) for path in rng.sample(bench.parts, PARTS)])
    found: Any = state_of_all(Disorderly(rng), task, shards)
    known: Any = state_of_all(LocalEngine(), task, shards_of([str(path) for path in bench.parts]))
    return None if found.to_bytes() == known.to_bytes() else f"tasks of {name}: other bytes"


def _refused(what: str, code: int, said: str, codes: tuple[int, ...]) -> str | None:
    if code not in codes or "Traceback" in said or (code and "Error: " not in said):
        return f"{what}: exit {code}, not one of {codes}: {said[-300:]}"
    return None


def _wrong(
    what: str, code: int, said: str, codes: tuple[int, ...], out: Path, whole: bytes
) -> str | None:
    problem = _refused(what, code, said, codes)
    if problem is None and out.exists() != (code == 0):
        return f"{what}: exit {code}, but an output"
    if problem is None and code == 0 and out.read_bytes() != whole:
        return f"{what}: other bytes"
    return problem


SCHEDULES: dict[str, Callable[[Bench, random.Random], str | None]] = {
    "merge": merging,
    "merge after a kill": partial(merging, kill=True),
    "apply": applying,
    "tasks": tasks,
}


def one(bench: Bench, seed: int, *, kills: bool = True) -> tuple[str, str | None]:
    """Run the schedule of a seed; return its kind, and what went wrong.

    One in fifty kills a process, if that is wanted: starting one takes longer than all others.
    """
    rng = random.Random(seed)
    kind = rng.choice(["merge", "merge", "merge", "apply", "apply", "tasks"])
    if kind == "merge" and rng.random() < 0.04 and kills:
        kind = "merge after a kill"
    problem = SCHEDULES[kind](bench, rng)
    for path in bench.folder.glob("made-*.json"):
        path.unlink()
    return kind, problem
