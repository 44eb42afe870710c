"""Which lines and branches the tests reach: docs/evidence/coverage_lines.md.

python docs/evidence/write_line_coverage.py build/coverage/lines.json
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from datetime import date
from pathlib import Path

from pages import fill, table

#: Below this share a file is listed, in percent.
LISTED = 90
#: Below this share of a package the target fails.
LEAST = 95

#: The packages, by the folder of their files.
PACKAGES = {
    "calibkit": "the library",
    "kernels/calibkit_kernels": "kernels, without compilation",
    "cli/calibkit_cli": "the command line",
}


def percent(reached: int, lines: int) -> float:
    """Return the share of lines reached, rounded down to a tenth."""
    return reached * 1000 // lines / 10


def main() -> int:
    """Write the page; fail where a package is below what it should be."""
    files = json.loads(Path(sys.argv[1]).read_text())["files"]
    found: dict[str, list[tuple[str, int, int]]] = defaultdict(list)
    branches: dict[str, list[int]] = {package: [0, 0] for package in PACKAGES}
    for name, measured in files.items():
        lines = measured["summary"]["num_statements"]
        reached = measured["summary"]["covered_lines"]
        package = next(folder for folder in PACKAGES if name.startswith(folder + "/"))
        branches[package][0] += measured["summary"]["num_branches"]
        branches[package][1] += measured["summary"]["covered_branches"]
        if lines:
            found[package].append((name, lines, reached))
    rows, shares = [], []
    for package, what in PACKAGES.items():
        lines, reached = (sum(file[k] for file in found[package]) for k in (1, 2))
        ways, taken = branches[package]
        shares += [percent(reached, lines), percent(taken, ways)]
        rows.append(
            [
                *(what, len(found[package]), f"{lines:,}", f"{reached:,}", f"{shares[-2]} %"),
                *(f"{ways:,}", f"{taken:,}", f"{shares[-1]} %"),
            ]
        )
    low = sorted(
        (percent(reached, lines), name, lines, lines - reached)
        for package in found.values()
        for name, lines, reached in package
        if 100 * reached < LISTED * lines
    )
    listed = [[f"`{name}`", lines, missed, f"{share} %"] for share, name, lines, missed in low]
    fill(
        "coverage_lines",
        when=f"Measured on {date.today():%d %B %Y}.",
        parts=table("part|files|statements|reached|share|branches|taken|share", rows, "lr"),
        files=table("file|statements|not reached|share", listed, "lr"),
    )
    print(*rows, sep="\n")
    return int(min(shares) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
