"""Faults while commands write: ``python -m tests.faults.run --times 3``.

Prints a table of commands and faults: how often each was tried, and how often the old output or the
whole new one was there afterwards, with the right exit code.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.faults.harness import FAULTS, Bench
from tests.faults.jobs import jobs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--only", default="", help="jobs whose name has this in it")
    parser.add_argument("--fault", default="", help="faults whose name has this in it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("-o", "--output", type=Path, help="write the table here")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        bench = Bench(Path(name), *jobs(Path(name)))
        names = [job for job in bench.jobs if options.only in job]
        faults = [fault for fault in FAULTS if options.fault in fault]
        for job in names:
            bench.trial(job, 0)
        tasks = [(j, f, n) for j in names for f in faults for n in range(options.times)]

        def one(task: tuple[str, str, int]) -> str | None:
            job, fault, seed = task
            return FAULTS[fault](bench.trial(job, seed))

        with ThreadPoolExecutor(options.processes) as threads:
            found = dict(zip(tasks, threads.map(one, tasks), strict=True))
    for task, problem in found.items():
        if problem is not None:
            print(*task, problem, sep=": ", file=sys.stderr)
    lines = [
        f"| command | {' | '.join(faults)} |",
        f"| --- | {' | '.join('---:' for _ in faults)} |",
    ]
    for job in names:
        cells = []
        for fault in faults:
            own = [found[job, fault, n] for n in range(options.times)]
            cells.append(f"{own.count(None)} of {len(own)}")
        lines.append(f"| {job} | {' | '.join(cells)} |")
    text = "\n".join(lines)
    print(text)
    if options.output is not None:
        options.output.write_text(text + "\n")
    return 1 if any(found.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
