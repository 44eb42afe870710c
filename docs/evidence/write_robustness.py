"""Fill in robustness.md: damaged inputs and disturbed runs, counted."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pages import ROOT, arguments, fill


def table(module: str, *options: str) -> tuple[str, str]:
    """Run a study; return its table, and the last line that it prints."""
    with tempfile.NamedTemporaryFile(suffix=".md") as file:
        line = [sys.executable, "-m", module, *options, "-o", file.name]
        ended = subprocess.run(line, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
        return Path(file.name).read_text().strip(), ended.stdout.strip().splitlines()[-1]


def main() -> None:
    """Run both studies and write the page."""
    options = arguments(__doc__, count=100_000, times=3, processes=os.cpu_count() or 1)
    both = ("--processes", str(options.processes))
    damaged, last = table("tests.fuzz.run", "--count", str(options.count), *both)
    disturbed, _ = table("tests.faults.run", "--times", str(options.times), *both)
    fill("robustness", inputs=last, damaged=damaged, disturbed=disturbed)


if __name__ == "__main__":
    main()
