"""Nights in any order: ``python -m tests.schedules.run --count 10000``.

Prints how many schedules of each kind were run, and those that ended otherwise than they should.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.schedules.harness import Bench, one

CHUNK = 250


def several(seeds: range) -> tuple[Counter[str], list[str]]:
    """Run the schedules of some seeds in a folder of their own."""
    counts: Counter[str] = Counter()
    problems = []
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Path(folder))
        for seed in seeds:
            kind, problem = one(bench, seed)
            counts[kind] += 1
            if problem is not None:
                problems.append(f"seed {seed}: {problem}")
    return counts, problems


def main() -> int:
    """Run them, and return 1 if one went wrong."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--processes", type=int, default=2)
    options = parser.parse_args()
    end = options.first + options.count
    chunks = [range(low, min(low + CHUNK, end)) for low in range(options.first, end, CHUNK)]
    counts: Counter[str] = Counter()
    problems = 0
    with ProcessPoolExecutor(options.processes, max_tasks_per_child=1) as pool:
        for own, found in pool.map(several, chunks):
            counts += own
            problems += len(found)
            for problem in found:
                print(problem, file=sys.stderr)
    for kind, count in sorted(counts.items()):
        print(f"{kind}: {count:,}")
    print(f"{sum(counts.values()):,} schedules; wrong: {problems}.")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
