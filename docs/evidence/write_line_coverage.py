"""Which lines the tests reach: docs/evidence/coverage_lines.md, from what coverage measured.

python docs/evidence/write_line_coverage.py build/coverage/lines.json
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from pathlib import Path

HERE = Path(__file__).parent

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
    for name, measured in files.items():
        lines = measured["summary"]["num_statements"]
        reached = measured["summary"]["covered_lines"]
        package = next(folder for folder in PACKAGES if name.startswith(folder + "/"))
        if lines:
            found[package].append((name, lines, reached))
    rows, shares = [], []
    for package, what in PACKAGES.items():
        lines, reached = (sum(file[k] for file in found[package]) for k in (1, 2))
        shares.append(percent(reached, lines))
        rows.append(
            f"| {what} | {len(found[package])} | {lines:,} | {reached:,} | {shares[-1]} % |"
        )
    low = sorted(
        (percent(reached, lines), name, lines, lines - reached)
        for package in found.values()
        for name, lines, reached in package
        if 100 * reached < LISTED * lines
    )
    listed = "\n".join(
        f"| `{name}` | {lines} | {missed} | {share} % |" for share, name, lines, missed in low
    )
    page = f"""# How many lines the tests reach

<!-- Written by `make line-coverage`: python docs/evidence/write_line_coverage.py {sys.argv[1]} -->

Statements that ran at least once under the tests of `make line-coverage`. Those of the library and
the command line run as users run it, with compiled kernels, whose lines cannot be seen then; those
of the kernels run interpreted. Processes that tests start with a cleared environment are not
measured: what happens at signals, broken pipes and on terminals is tested there.

| part | files | statements | reached | share |
| --- | --: | --: | --: | --: |
{chr(10).join(rows)}

Files below {LISTED} %:

| file | statements | not reached | share |
| --- | --: | --: | --: |
{listed}
"""
    (HERE / "coverage_lines.md").write_text(page, encoding="utf-8")
    print(*rows, sep="\n")
    return int(min(shares) < LEAST)


if __name__ == "__main__":
    sys.exit(main())
