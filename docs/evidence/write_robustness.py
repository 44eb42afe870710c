"""Damaged inputs and disturbed runs, counted: docs/evidence/robustness.md.

python docs/evidence/write_robustness.py [--count 100000] [--times 3]
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent


def table(module: str, *options: str) -> tuple[str, str]:
    """Run a study; return its table, and the last line that it prints."""
    with tempfile.NamedTemporaryFile(suffix=".md") as file:
        line = [sys.executable, "-m", module, *options, "-o", file.name]
        ended = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        return Path(file.name).read_text().strip(), ended.stdout.strip().splitlines()[-1]


def main() -> int:
    """Run both studies and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1)
    options = parser.parse_args()
    both = ("--processes", str(options.processes))
    damaged, last = table("tests.fuzz.run", "--count", str(options.count), *both)
    disturbed, _ = table("tests.faults.run", "--times", str(options.times), *both)
    given = f"--count {options.count} --times {options.times}"
    page = f"""# What happens when things go wrong

<!-- Written by `make robustness`: python docs/evidence/write_robustness.py {given} -->

## Damaged inputs

Small good files, models and states with one to four random changes each (bits, bytes, fields
replaced by `nan`, `1e999`, brackets, quotes; parts cut out, repeated or swapped), put through the
commands that read them. Checked each time: an exit code of the contract with a reason; no traceback;
nothing left but the output, and that only after success; no NaN or infinity in a result; rows of CSV
files kept as Python's own parser reads them. {last}

{damaged}

## Disturbed runs

Every command that writes, over an output that exists already, while something happens to it. Counted
is how often afterwards the old output or the whole new one was there, with the right exit code and
no traceback; after `kill -9` at most one temporary file, which the next run removed. Moments are
random. *Little memory* is 1.5 GB of address space, which leaves polars one thread. With still less,
native code that gets none aborts the process (exit code 134), which would count as not survived here
though the old output is untouched.

{disturbed}
"""
    (HERE / "robustness.md").write_text(page, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
