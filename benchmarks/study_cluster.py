"""Two workers of a cluster beside one process, and what states weigh; writes docs/evidence/cluster.md.

Two processors are used, whatever the machine has.  Shards are of random scores, nearly all distinct,
which is the hard case for a state.  The cluster runs meanwhile; commands are processes of their own.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import harness
from datasets import drawn
from harness import Run, calibkit, run
from pages import fill, paragraph, table

DATA = harness.FOLDER / "cluster"
PROCESSORS = 2
#: Rows of files that load what processes and workers need.
FEW = 20_000
BUDGETS = ("512MB", "2GB")

#: The cluster of the estimate, and how many states are merged at a time.
ALL_ROWS, SHARD_ROWS, FAN = 10**10, 10**7, 8

COMMANDS: dict[str, tuple[str, ...]] = {
    "boundary": ("boundary", "--precision", "0.6", "--method", "exact", "--folds", "0"),
    "calibrate isotonic": ("calibrate", "--method", "isotonic"),
    "evaluate": ("evaluate", "--no-intervals"),
    "vad": ("vad", "--members", "score,other"),
}
FITS = {"hetcal boosted": ("hetcal", "--features", "feature_*", "--partition", "boosted")}

#: Starts workers, says where their scheduler is, and ends them with its input.
CLUSTER = f"""
import sys
from distributed import LocalCluster
if __name__ == "__main__":
    with LocalCluster(n_workers={PROCESSORS}, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        sys.stdin.read()
"""

SETTING = """\
{shards} files of {rows:,} rows, nearly all scores distinct, and {fits} files of {features:,} rows with
eleven features, on two processors. One process has both of them; each of two workers has one, in a
cluster that runs already. Whole commands, in turn; medians of {rounds}; *same bytes*: of the two
results. The machine's load before the first run was {load:.1f}."""

STATES = """\
Files of {shard_rows:,} rows, so {tasks:,} tasks; what goes out are their names. States are measured on
{large:,} rows under the budget of a worker (`--memory`), and merged on twice as many rows; a table of
cells does not grow further. *At most*: as if no state were merged where it was made; {fan} are merged
at a time."""


def files(options: argparse.Namespace, name: str, rows: int, count: int) -> list[str]:
    """Return files of a command's rows, made once; a file that is there is whole."""
    folder, kind = ("features", "kinds") if name in FITS else ("scores", "two_scores")
    return [
        drawn(options.python, f"cluster/{folder}/{rows}/{place}.parquet", kind, rows, place)
        for place in range(count)
    ]


@contextmanager
def cluster(python: str) -> Iterator[str]:
    """Give the address of a cluster of two workers."""
    environment = {**os.environ, "PYTHONPATH": harness.FLOORS, "POLARS_MAX_THREADS": "1"}
    script = DATA / "cluster.py"
    script.write_text(CLUSTER, encoding="utf-8")
    process = subprocess.Popen(
        [python, str(script)],
        env=environment,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().strip()
    finally:
        process.stdin.close()
        process.wait()


def measured(python: str, words: Sequence[str], inputs: Sequence[str], *more: str) -> Run:
    """Run a command; what it writes is in `DATA`."""
    command, *rest = words
    return run(calibkit(python, command, *inputs, *rest, *more, "-q", "-o", str(DATA / "out.json")))


def engines(options: argparse.Namespace, address: str, *, whole: bool) -> str:
    """Return the table of commands in one process and on two workers."""
    lines = []
    for name, words in {**COMMANDS, **FITS}.items():
        rows, count = (options.features, 2) if name in FITS else (options.rows, options.shards)
        inputs = (
            files(options, name, rows * count, 1) if whole else files(options, name, rows, count)
        )
        few = files(options, name, FEW, PROCESSORS)
        runs: dict[tuple[str, ...], list[Run]] = {(): [], ("--dask", address): []}
        results = set()
        for how in runs:
            measured(options.python, words, few, *how)
        for _ in range(options.rounds):
            for how, own in runs.items():
                own.append(measured(options.python, words, inputs, *how))
                results.add((DATA / "out.json").read_bytes())
        one, two = (statistics.median(map(harness.wall_of, own)) for own in runs.values())
        same = "yes" if len(results) == 1 else "**no**"
        lines.append([name, f"{one:.2f} s", f"{two:.2f} s", f"{two / one:.2f}", same])
        print(*lines[-1], file=sys.stderr)
    return table("command|one process|two workers|ratio|same bytes", lines)


def sizes(options: argparse.Namespace) -> str:
    """Return the table of what a shard's state weighs, and what all of them do on their way."""
    lines = []
    tasks = ALL_ROWS // SHARD_ROWS
    merges, left = 0, tasks
    while left > 1:
        left = -(-left // FAN)
        merges += left
    for name, words in COMMANDS.items():
        inputs = files(options, name, options.large, 2)
        for budget in BUDGETS:
            states = [str(DATA / f"{place}.state") for place in range(2)]
            for path, state in zip(inputs, states, strict=True):
                command, *rest = words
                line = (command, path, *rest, "--memory", budget, "--partial", "-q", "-o", state)
                run(calibkit(options.python, *line))
            both = str(DATA / "both.state")
            run(calibkit(options.python, "merge", *states, "--memory", budget, "-q", "-o", both))
            own, merged = (Path(path).stat().st_size for path in (states[0], both))
            cells = [own, merged, own * tasks + merged * merges, merged * FAN]
            lines.append([name, budget, *map(megabytes, cells)])
    return table(
        f"command|budget|state of {options.large:,} rows|merged|over the network, at most|"
        "held by a worker",
        lines,
    )


def megabytes(size: int) -> str:
    """Return a size in words."""
    if size >= 10**9:
        return f"{size / 1e9:.1f} GB"
    return f"{size / 1e6:.1f} MB" if size >= 10**5 else f"{size / 1e3:.1f} KB"


def read_options() -> argparse.Namespace:
    """Return what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--python", default=sys.executable, help="one that has distributed")
    parser.add_argument("--rows", type=int, default=2_000_000, help="rows of a file (%(default)s)")
    parser.add_argument("--shards", type=int, default=10, help="files (%(default)s)")
    parser.add_argument("--features", type=int, default=500_000, help="rows of a file of features")
    parser.add_argument(
        "--large", type=int, default=SHARD_ROWS, help="rows that states are measured on"
    )
    parser.add_argument("--rounds", type=int, default=3, help="of each command on each side")
    return parser.parse_args()


def main() -> None:
    """Run all commands here and on a cluster, and write the page."""
    options = read_options()
    DATA.mkdir(parents=True, exist_ok=True)
    load = os.getloadavg()[0]
    if hasattr(os, "sched_setaffinity"):  # processes that are started inherit it
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:PROCESSORS])
    with cluster(options.python) as address:
        several, one = (engines(options, address, whole=whole) for whole in (False, True))
    setting = SETTING.format(
        shards=options.shards,
        rows=options.rows,
        fits=2,
        features=options.features,
        rounds=options.rounds,
        load=load,
    )
    tasks = ALL_ROWS // SHARD_ROWS
    states = STATES.format(shard_rows=SHARD_ROWS, tasks=tasks, large=options.large, fan=FAN)
    fill(
        "cluster",
        setting=paragraph(setting),
        several=several,
        one=one,
        states=paragraph(states),
        sizes=sizes(options),
    )


if __name__ == "__main__":
    main()
