"""Damaged inputs through every command: ``python -m tests.fuzz.run --count 100000``.

Prints a table of commands and how many inputs were refused or accepted, and writes what went wrong,
with the input that does it, into a folder.  A process is lost where native code ends it: polars does
so where a damaged Parquet file asks for more memory than there is.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path

from tests.fuzz.corpus import Case, build
from tests.fuzz.harness import Finding, try_one

#: Inputs that a process tries; and what it may allocate, in bytes.
CHUNK, MOST_MEMORY = 1000, 6 << 30
SLOW = 20.0

Counts = Counter[tuple[str, int]]


#: Exit codes, what went wrong, what took long, and the seeds that took a process down.
Tried = tuple[Counts, list[Finding], list[tuple[str, float]], list[int]]


def attempt(cases: list[Case], folder: Path, seeds: range) -> Tried:
    """Try one damaged input for each seed; cases take turns."""
    resource.setrlimit(resource.RLIMIT_AS, (MOST_MEMORY, MOST_MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    counts: Counts = Counter()
    findings, slow = [], []
    good = {case.file: (folder / case.file).read_bytes() for case in cases}
    with tempfile.TemporaryDirectory() as scratch:
        for seed in seeds:
            case = cases[seed % len(cases)]
            start = time.perf_counter()
            code, finding = try_one(case, good[case.file], seed, Path(scratch))
            counts[case.name, code] += 1
            if finding is not None:
                findings.append(finding)
            if time.perf_counter() - start > SLOW:
                slow.append((case.name, time.perf_counter() - start))
            for left in Path(scratch).iterdir():
                left.unlink()
    return counts, findings, slow, []


def apart(cases: list[Case], folder: Path, seeds: range) -> Tried:
    """Do so in a process of its own; where it is lost, find the inputs that take it down."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=_send, args=(sender, cases, folder, seeds))
    process.start()
    sender.close()
    try:
        found: Tried = receiver.recv()
        return found
    except EOFError:
        pass
    finally:
        process.join()
    if len(seeds) == 1:
        return Counter(), [], [], [seeds.start]
    middle = seeds.start + len(seeds) // 2
    one, two = (
        apart(cases, folder, range(*ends)) for ends in ((seeds.start, middle), (middle, seeds.stop))
    )
    return one[0] + two[0], one[1] + two[1], one[2] + two[2], one[3] + two[3]


def _send(sender: Connection, cases: list[Case], folder: Path, seeds: range) -> None:
    sender.send(attempt(cases, folder, seeds))
    sender.close()


def chunks(first: int, count: int) -> Iterator[range]:
    """Yield the seeds of each process."""
    for start in range(first, first + count, CHUNK):
        yield range(start, min(start + CHUNK, first + count))


def table(counts: Counts) -> str:
    """Return a Markdown table: one line a command and format."""
    codes = sorted({code for _, code in counts})
    words = {0: "accepted", 1: "gate fired", 2: "usage (2)", 3: "refused (3)", 4: "infeasible (4)"}
    lines = [
        f"| command | tried | {' | '.join(words.get(code, str(code)) for code in codes)} |",
        f"| --- | {' | '.join('---:' for _ in range(len(codes) + 1))} |",
    ]
    for name in sorted({name for name, _ in counts}):
        own = [counts[name, code] for code in codes]
        lines.append(f"| {name} | {sum(own):,} | {' | '.join(f'{n:,}' for n in own)} |")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--findings", type=Path, default=Path("build/fuzz"))
    parser.add_argument("-o", "--output", type=Path, help="write the table here")
    options = parser.parse_args()
    counts: Counts = Counter()
    findings: list[Finding] = []
    broken = 0
    with (
        tempfile.TemporaryDirectory() as name,
        ThreadPoolExecutor(options.processes) as threads,
    ):
        folder = Path(name)
        cases = [case for case in build(folder) if options.only in case.name]
        shares = chunks(options.first, options.count)
        for own, found, slow, lost in threads.map(partial(apart, cases, folder), shares):
            counts += own
            findings += found
            broken += len(lost)
            for seed in lost:
                print(f"process lost: seed {seed}", file=sys.stderr)
            for case, seconds in slow:
                print(f"slow: {case} {seconds:.0f} s", file=sys.stderr)
    options.findings.mkdir(parents=True, exist_ok=True)
    for number, finding in enumerate(findings):
        suffix = Path(finding.case.file).suffix
        (options.findings / f"{number}{suffix}").write_bytes(finding.data)
        print(number, " ".join(finding.case.words), "\n   ", finding.problem, file=sys.stderr)
    text = table(counts)
    print(text)
    print(f"\n{sum(counts.values()):,} inputs; wrong: {len(findings)}; processes lost: {broken}.")
    if options.output is not None:
        options.output.write_text(text + "\n")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
