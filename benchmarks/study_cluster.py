"""What a cluster costs: engines side by side, and what states weigh; writes docs/evidence/cluster.md.

    python benchmarks/study_cluster.py [--rows N] [--shards N] [--large N] [-o PAGE]

Two processors are used, whatever the machine has.  Shards are of random scores, nearly all distinct,
which is the hard case for a state.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

PROCESSORS = 2
if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])

import numpy as np  # noqa: E402 (libraries count processors when they are loaded)
import polars as pl  # noqa: E402

from calibkit.boundary.reading import BoundaryReader  # noqa: E402
from calibkit.boundary.spec import BoundarySpec  # noqa: E402
from calibkit.boundary.states import BoundaryProblem, boundary_state  # noqa: E402
from calibkit.boundary.target import read_target  # noqa: E402
from calibkit.calibrators.spec import CalibratorSpec  # noqa: E402
from calibkit.calibrators.states import CalibratorProblem, calibrator_state  # noqa: E402
from calibkit.engines.dask import DaskEngine  # noqa: E402
from calibkit.engines.engine import FAN, LocalEngine  # noqa: E402
from calibkit.engines.shards import (  # noqa: E402
    PACKING,
    Opening,
    StateTask,
    shards_of,
    state_of_all,
)
from calibkit.files.sources import open_source  # noqa: E402
from calibkit.memory import Memory  # noqa: E402
from calibkit.metrics.batches import evaluate_state  # noqa: E402
from calibkit.metrics.spec import EvaluateSpec  # noqa: E402
from calibkit.metrics.views import Settings  # noqa: E402
from calibkit.rows.columns import ColumnOptions  # noqa: E402
from calibkit.vad.rows import MemberOptions  # noqa: E402
from calibkit.vad.spec import VadSpec  # noqa: E402
from calibkit.vad.states import vad_state  # noqa: E402

FOLDER = Path(__file__).resolve().parent.parent / "build" / "bench"
ROUNDS = 3
#: Rows of files that are read to load what workers need.
FEW = 10_000
BUDGETS = {"512 MB": 512 * 10**6, "2 GB": 2 * 10**9}

#: The cluster of the estimate.
ALL_ROWS, WORKERS, SHARD_ROWS = 10**10, 100, 10**7

Maker = Callable[[Memory], Callable[..., Any]]


def makers() -> dict[str, Maker]:
    """Return what makes the states of each command, for a memory budget."""
    target = read_target({"precision": "0.6"})
    spec, columns = BoundarySpec(target=target), ColumnOptions(uncertainty="uncertainty")
    reader = BoundaryReader(spec=spec, columns=columns)
    scores = ColumnOptions()
    problem = CalibratorProblem(spec=CalibratorSpec(method="isotonic"))
    judged = EvaluateSpec(scores=("score",), columns=scores, settings=Settings())
    members = MemberOptions(members=("score", "other"))
    return {
        "boundary": lambda memory: partial(
            boundary_state, reader=reader, problem=BoundaryProblem(spec=spec), memory=memory
        ),
        "calibrate isotonic": lambda memory: partial(
            calibrator_state, columns=scores, problem=problem, memory=memory
        ),
        "evaluate": lambda memory: partial(evaluate_state, spec=judged, memory=memory),
        "vad": lambda memory: partial(vad_state, columns=members, spec=VadSpec(), memory=memory),
    }


def shard(rows: int, place: int) -> Path:
    """Return a file of random rows; one that is there is whole."""
    path = FOLDER / f"cluster-{rows}" / f"shard-{place}.parquet"
    if path.is_file():
        return path
    random = np.random.default_rng([7, place, rows])
    logit = random.normal(-1.0, 2.0, rows)
    score = 1 / (1 + np.exp(-logit))
    frame = pl.DataFrame(
        {
            "score": score.astype(np.float32),
            "other": (1 / (1 + np.exp(-logit - random.normal(0, 0.3, rows)))).astype(np.float32),
            "uncertainty": random.gamma(2.0, 0.5, rows).astype(np.float32),
            "label": (random.random(rows) < score).astype(np.int8),
        }
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_name(f"new-{path.name}")
    frame.write_parquet(new)
    new.rename(path)
    return path


def timed(work: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    found = work()
    return time.perf_counter() - start, found


def engines(rows: int, count: int) -> Iterator[str]:
    """Yield the table of the engines: the same states, here and by two workers of a cluster."""
    shards = shards_of([str(shard(rows, place)) for place in range(count)])
    few = shards_of([str(shard(FEW, place)) for place in range(PROCESSORS)])
    memory = Memory(BUDGETS["512 MB"])
    yield "| command | one process | two workers | ratio | cluster's start |"
    yield "| --- | --- | --- | --- | --- |"
    for name, maker in makers().items():
        task = StateTask(maker(memory), Opening(None, "float64", memory))
        state_of_all(LocalEngine(), task, few)  # loads what kernels need
        alone, there, starts, same = [], [], [], set()
        for _ in range(ROUNDS):
            spent, state = timed(partial(state_of_all, LocalEngine(), task, shards))
            alone.append(spent)
            same.add(state.to_bytes())
            engine = DaskEngine("local", PROCESSORS)
            opening, _ = timed(engine.__enter__)
            loading, _ = timed(partial(state_of_all, engine, task, few))
            starts.append(opening + loading)
            spent, state = timed(partial(state_of_all, engine, task, shards))
            there.append(spent)
            same.add(state.to_bytes())
            engine.__exit__()
        assert len(same) == 1, f"{name}: engines differ"
        one, two = statistics.median(alone), statistics.median(there)
        start = statistics.median(starts)
        yield f"| {name} | {one:.2f} s | {two:.2f} s | {two / one:.2f} | {start:.1f} s |"
        print(name, f"{one:.2f} {two:.2f} {start:.1f}", file=sys.stderr)


def sizes(sample: int) -> Iterator[str]:
    """Yield the table of what a shard's state weighs, and what all of them do on their way."""
    yield (
        f"| command | budget | state of {SHARD_ROWS // 10**6} million rows | entries "
        "| over the network, at most | to the client | held by a worker |"
    )
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    source = open_source([str(shard(sample, 0))])
    moves = ALL_ROWS // SHARD_ROWS
    states = 0
    while moves > 1:
        states += moves
        moves = -(-moves // FAN)
    states += 1
    for name, maker in makers().items():
        for said, size in BUDGETS.items():
            state = maker(Memory(size))(source)
            entries, own = state.table.height, len(state.to_bytes(PACKING))
            most = Memory(size).entries if name != "vad" else entries
            whole = own * min(most, entries * SHARD_ROWS // sample) // entries
            largest = own * most // entries  # merged states fill what there is room for
            moved = whole * (ALL_ROWS // SHARD_ROWS) + largest * (states - ALL_ROWS // SHARD_ROWS)
            yield (
                f"| {name} | {said} | {megabytes(whole)} | {entries * whole // own:,} | "
                f"{megabytes(moved)} | {megabytes(largest)} | {megabytes(largest * FAN)} |"
            )
            print(name, said, own, entries, file=sys.stderr)


def megabytes(size: int) -> str:
    if size >= 10**9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.1f} MB" if size >= 10**5 else f"{size / 1e3:.1f} KB"


def page(rows: int, count: int, sample: int) -> Iterator[str]:
    yield "# What a cluster costs"
    yield ""
    yield "<!-- Written by `make evidence-cluster`; edit benchmarks/study_cluster.py. -->"
    yield ""
    yield (
        f"{count} files of {rows:,} rows, nearly all scores distinct, two processors; the same states "
        "to the byte. One process works on one file after the other (polars on both processors); "
        "two workers on a file each, and the states are merged there. The start of a cluster and of "
        "its workers' libraries stands by itself: it does not grow with the rows. The machine's load "
        f"before the first run was {os.getloadavg()[0]:.1f}."
    )
    yield ""
    yield from engines(rows, count)
    yield ""
    yield "## One file"
    yield ""
    yield (
        f"{rows * count:,} rows in one Parquet file, of which each worker takes a part. Half of the "
        "work is not half of the time: states of the parts are packed, sent and merged, which one "
        "process spares itself."
    )
    yield ""
    yield from engines(rows * count, 1)
    yield ""
    yield "## 10 billion rows on 100 workers"
    yield ""
    yield (
        f"Files of {SHARD_ROWS:,} rows, so {ALL_ROWS // SHARD_ROWS:,} tasks; what goes out are their "
        f"names. States are measured on {sample:,} rows under the budget of a worker (`--memory`), and "
        "grow with the distinct rows until the budget is full. `at most`: as if no state were merged "
        f"where it was made; {FAN} are merged at a time."
    )
    yield ""
    yield from sizes(sample)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of a file (%(default)s)")
    parser.add_argument("--shards", type=int, default=10, help="files (%(default)s)")
    parser.add_argument(
        "--large", type=int, default=SHARD_ROWS, help="rows that states are measured on"
    )
    parser.add_argument("-o", default="docs/evidence/cluster.md")
    options = parser.parse_args()
    text = "\n".join(page(options.rows, options.shards, options.large)) + "\n"
    Path(options.o).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
