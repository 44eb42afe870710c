"""Change the product one place at a time and see whether its tests notice.

python -m tests.mutants.run [--count 1000] [--jobs 2] [--seconds 60] [--only calibkit/files] [-o PAGE]

Changes are drawn at random from all functions of the library, the kernels and the command line.  After
each some of the tests run that reach its line, as `tests.mutants.reached` noted (`make line-coverage`
comes first): the fastest, those that look at whole texts, others drawn at random.  After changes of
kernels their own tests run, interpreted.  Verdicts are kept in build/mutants.jsonl: a run that was
stopped goes on where it was.  What notices a change is run without it at the end.  What survives is
looked up in ``examined.py``; once its verdict is taken out of the log it is judged again, by more tests
if ``--seconds`` says so.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from datetime import date
from functools import cache
from pathlib import Path
from queue import SimpleQueue

from coverage import CoverageData

from tests.mutants.examined import EQUIVALENT
from tests.mutants.mutate import Mutant, mutant, size
from tests.mutants.reached import ROOT, SECONDS

PACKAGES = ("calibkit", "kernels/calibkit_kernels", "cli/calibkit_cli")
LOG = ROOT / "build/mutants.jsonl"
#: A file that matters to no test, and its text.
UNCHANGED = "tests/mutants/__init__.py", ""
#: Tests that run after a change: so many of the fastest, and others for so many seconds.
FASTEST, MORE_SECONDS = 20, 60.0
#: Tests that look at all that is said or drawn: each that reaches a change runs.
WHOLE = "tests/cli/test_seen.py"
PASSED, UNREACHED = "passed", "no test reaches it"


@cache
def coverage() -> CoverageData:
    data = CoverageData(str(SECONDS.parent / "data"))
    data.read()
    return data


@cache
def reaching(file: str) -> dict[int, list[str]]:
    """Return the tests that reach each line of a file."""
    name = next((one for one in coverage().measured_files() if one.endswith("/" + file)), file)
    return coverage().contexts_by_lineno(name)


@cache
def seconds() -> dict[str, float]:
    found: dict[str, float] = json.loads(SECONDS.read_text())
    return found


def tests_of(change: Mutant, more: float = MORE_SECONDS) -> list[str]:
    """Return tests that reach a change, or else its function, the fastest first."""
    line, first, last = change.lines
    kernel = change.file.startswith("kernels/")

    def known(lines: Iterable[int]) -> list[str]:
        names = {name for line in lines for name in reaching(change.file).get(line, ())}
        own = [name for name in names if not kernel or name.startswith("tests/kernels/")]
        return sorted(set(own) & set(seconds()), key=lambda name: (seconds()[name], name))

    found = known([line]) or known(range(first, last + 1))
    chosen = [*found[:FASTEST], *(one for one in found[FASTEST:] if one.startswith(WHOLE))]
    rest, spent = [one for one in found if one not in set(chosen)], 0.0
    random.Random(change.file).shuffle(rest)
    for name in rest:
        spent += seconds()[name]
        if spent < more:
            chosen.append(name)
    return sorted(chosen, key=lambda name: seconds()[name])


class Copy:
    """A copy of the project, with processes that run its tests compiled and interpreted."""

    def __init__(self, folder: Path) -> None:
        ignored = shutil.ignore_patterns(".*", "build", "dist", "__pycache__")
        self.folder = shutil.copytree(ROOT, folder, ignore=ignored)
        self.servers: dict[bool, subprocess.Popen[str]] = {}

    def outcome(self, interpreted: bool, file: str, text: str, tests: list[str]) -> str:
        """Return what becomes of tests where a file has a text."""
        if interpreted not in self.servers:
            self.servers[interpreted] = self._server(interpreted)
            if (said := self.outcome(interpreted, *UNCHANGED, tests)) != PASSED:
                raise SystemExit(f"{said}: fails without any change.")
        server = self.servers[interpreted]
        assert server.stdin is not None
        assert server.stdout is not None
        limit = 60.0 + 4.0 * sum(seconds()[name] for name in tests)
        asked = {"file": file, "text": text, "tests": tests, "seconds": limit}
        print(json.dumps(asked), file=server.stdin, flush=True)
        found: str = json.loads(server.stdout.readline())
        return found

    def _server(self, interpreted: bool) -> subprocess.Popen[str]:
        floors = (self.folder / part for part in (".", "kernels", "cli"))
        environment = {**os.environ, "CI": "1", "PYTHONPATH": os.pathsep.join(map(str, floors))}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        return subprocess.Popen(
            [sys.executable, "-m", "tests.mutants.server"],
            cwd=self.folder,
            env={**environment, "NUMBA_DISABLE_JIT": str(int(interpreted))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )


class Judges:
    """As many copies as may work at once."""

    def __init__(self, place: Path, jobs: int) -> None:
        self.free: SimpleQueue[Copy] = SimpleQueue()
        for job in range(jobs):
            self.free.put(Copy(place / str(job)))

    def outcome(self, interpreted: bool, file: str, text: str, tests: list[str]) -> str:
        copy = self.free.get()
        try:
            return copy.outcome(interpreted, file, text, tests)
        finally:
            self.free.put(copy)


def drawn(count: int, only: str) -> list[tuple[str, int]]:
    """Return files with the places of changes in them, the same ones each time."""
    every = [
        (str(path.relative_to(ROOT)), place)
        for package in PACKAGES
        for path in sorted((ROOT / package).rglob("*.py"))
        for place in range(size(path))
    ]
    random.Random(1).shuffle(every)
    return [one for one in every if one[0].startswith(only)][:count]


def judged() -> dict[tuple[str, ...], str]:
    """Return the verdicts that are known, by file and key of each change."""
    lines = LOG.read_text().splitlines() if LOG.exists() else ()
    return {tuple(one): verdict for one, verdict in map(json.loads, lines)}


def note(name: tuple[str, ...], verdict: str) -> None:
    LOG.parent.mkdir(exist_ok=True)
    with LOG.open("a") as log:
        print(json.dumps([name, verdict]), file=log)


def judge(
    places: list[tuple[str, int]], jobs: int, more: float = MORE_SECONDS
) -> dict[tuple[str, ...], str]:
    """Return what became of each change: the test that noticed it, or that all passed."""
    with tempfile.TemporaryDirectory() as place, ThreadPoolExecutor(jobs) as pool:
        judges, known = Judges(Path(place), jobs), judged()

        def look(where: tuple[str, int]) -> tuple[tuple[str, ...], str]:
            change = mutant(ROOT / where[0], *where)
            name, tests = (change.file, *change.key), tests_of(change, more)
            kernel = change.file.startswith("kernels/")
            if name in known:
                verdict = known[name]
            else:
                changed = (kernel, change.file, change.text, tests)
                verdict = judges.outcome(*changed) if tests else UNREACHED
                note(name, verdict)
            if verdict in (PASSED, UNREACHED):
                print(*name, verdict, sep=" | ", flush=True)
            elif "::" in verdict:
                noticing[kernel].add(verdict)
            else:  # none was named: their files do not load, or they do not end
                noticing[kernel].update(tests)
            return name, verdict

        noticing: dict[bool, set[str]] = {False: set(), True: set()}
        found = dict(pool.map(look, places))
        for kernel, own in noticing.items():  # which run in processes of their own
            if own and (said := judges.outcome(kernel, *UNCHANGED, sorted(own))) != PASSED:
                raise SystemExit(f"{said}: fails without any change.")
    return found


def page(found: dict[tuple[str, ...], str]) -> str:
    """Return the results as a page."""
    survivors = [name for name, verdict in found.items() if verdict in (PASSED, UNREACHED)]
    known = [name for name in survivors if name[1:] in EQUIVALENT]
    parts = {
        name: "/".join(Path(name[0]).parts[:2]) if name[0].startswith("calibkit/") else package
        for package in PACKAGES
        for name in found
        if name[0].startswith(package)
    }
    counts = [Counter(parts[name] for name in names) for names in (found, survivors, known)]
    rows = [
        f"| `{part}` | {every} | {every - left} | {same} | {left - same} |"
        for part in sorted(set(parts.values()))
        for every, left, same in [[count[part] for count in counts]]
    ]
    listed = [
        f"| `{name[0]}` `{name[2]}` | {_code(name[3])} | {_code(name[4])} "
        f"| {EQUIVALENT.get(name[1:], 'not examined')} |"
        for name in sorted(survivors)
    ]
    changing = len(found) - len(known)
    noticed = len(found) - len(survivors)
    return f"""# Do the tests notice a change?

<!-- Written by `make mutants`: python -m tests.mutants.run -->

{len(found)} changes of one place each, drawn at random from all functions of the library, the kernels
and the command line ({date.today():%d %B %Y}): a comparison, a sign or an operator, a number, a
condition, a statement left out. After each some of the tests ran that reach its line, those of
kernels interpreted. They noticed {noticed}; {len(known)} change nothing that a result could show, for
the reason given below; {changing - noticed} went unnoticed.
Of those that change something {noticed / max(changing, 1):.1%} were noticed.
Tests were written for changes that nothing noticed at first.  Of those that were judged again since,
more are noticed than of changes drawn anew; the others stand below as they were found.

| part | changes | noticed | without effect | unnoticed |
| --- | --: | --: | --: | --: |
{chr(10).join(rows)}

## Changes that no test noticed

| where | before | after | why |
| --- | --- | --- | --- |
{chr(10).join(listed)}
"""


def _code(line: str) -> str:
    return "`" + line.replace("|", "\\|") + "`"


def main() -> int:
    """Judge a sample and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--seconds", type=float, default=MORE_SECONDS, help="of others than the fastest tests"
    )
    parser.add_argument("--only", default="", help="what the paths of files begin with")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    found = judge(drawn(options.count, options.only), options.jobs, options.seconds)
    left = [name for name, verdict in found.items() if verdict in (PASSED, UNREACHED)]
    print(f"{len(found)} tried, {len(left)} survived")
    if options.output:
        options.output.write_text(page(found), encoding="utf-8")
    return int(any(name[1:] not in EQUIVALENT for name in left))


if __name__ == "__main__":
    sys.exit(main())
