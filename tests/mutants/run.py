"""Change kernels one place at a time and see whether their tests notice.

python -m tests.mutants.run [--count 250] [--jobs 2] [-o docs/evidence/mutants.md]

The tests run interpreted, on copies.  What survives is looked up in ``examined.py``.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

from tests.mutants.examined import EQUIVALENT
from tests.mutants.mutate import Mutant, sample, size

ROOT = Path(__file__).parent.parent.parent
KERNELS = Path("kernels/calibkit_kernels")
TESTS = Path("tests/kernels")
FOLDERS = ("kernels", "calibkit", "cli", "tests/kernels", "tests/naive")
FILES = ("pyproject.toml", "tests/conftest.py", "tests/warm.py", "tests/__init__.py")


def tests_of(name: str) -> list[str]:
    """Return the test files that import a kernel file by name."""
    word = re.compile(rf"from calibkit_kernels\b.*\b{name}\b")
    found = [
        str(TESTS / path.name)
        for path in sorted((ROOT / TESTS).glob("test_*.py"))
        if path.name != "test_jit.py"
        and any(word.search(line) for line in path.read_text(encoding="utf-8").splitlines())
    ]
    return sorted(found, key=lambda path: path != f"tests/kernels/test_{name}.py")


def copied(folder: Path) -> Path:
    """Copy what the tests of kernels need."""
    for part in FOLDERS:
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(ROOT / part, folder / part, ignore=ignored)
    for part in FILES:
        shutil.copy(ROOT / part, folder / part)
    return folder


def passes(folder: Path, files: list[str], timeout: float) -> bool:
    """Run test files interpreted; a run that does not end has noticed the change."""
    line = [sys.executable, "-B", "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *files]
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1", "CI": "1", "PYTHONPATH": ""}
    run = subprocess.Popen(
        line, cwd=folder, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        return run.wait(timeout) == 0
    except subprocess.TimeoutExpired:
        run.kill()
        run.wait()
        return False


def judge(mutants: list[Mutant], jobs: int) -> list[Mutant]:
    """Return the mutants that no test notices."""
    with tempfile.TemporaryDirectory() as place:
        free: SimpleQueue[Path] = SimpleQueue()
        for job in range(jobs):
            free.put(copied(Path(place) / str(job)))
        took: dict[str, float] = {}

        def unharmed(name: str) -> None:
            folder, start = free.get(), time.monotonic()
            if not passes(folder, tests_of(Path(name).stem), 600):
                raise SystemExit(f"The tests of {name} fail without any change.")
            took[name] = time.monotonic() - start
            free.put(folder)

        def survives(mutant: Mutant) -> bool:
            folder = free.get()
            path = folder / KERNELS / mutant.file
            good = path.read_bytes()
            path.write_text(mutant.text, encoding="utf-8")
            try:
                files = tests_of(path.stem)
                survived = passes(folder, files, 30 + 4 * took[mutant.file])
            finally:
                path.write_bytes(good)
                free.put(folder)
            if survived:
                print(mutant.key, flush=True)
            return survived

        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(unharmed, sorted({mutant.file for mutant in mutants})))
            kept = list(pool.map(survives, mutants))
    return [mutant for mutant, survived in zip(mutants, kept, strict=True) if survived]


def page(mutants: list[Mutant], survivors: list[Mutant], count: int) -> str:
    """Return the results as a page."""
    tried = Counter(mutant.file for mutant in mutants)
    left = Counter(mutant.file for mutant in survivors)
    known = Counter(mutant.file for mutant in survivors if mutant.key in EQUIVALENT)
    rows = [
        f"| `{name}` | {tried[name]} | {tried[name] - left[name]} | {known[name]} "
        f"| {left[name] - known[name]} |"
        for name in sorted(tried)
    ]
    noticed = len(mutants) - len(survivors)
    listed = [
        f"| `{mutant.file}` `{mutant.function}` | {_code(mutant.before)} | {_code(mutant.after)} "
        f"| {EQUIVALENT.get(mutant.key, 'not examined')} |"
        for mutant in survivors
    ]
    return f"""# Do the tests of the kernels notice a change?

<!-- Written by `make mutants`: python -m tests.mutants.run --count {count} -->

{len(mutants)} changes of one place each, drawn at random from all kernel files: a comparison, a sign
or an operator, a number, a condition, a statement left out. After each the file's own tests in
`tests/kernels` ran, interpreted. They noticed {noticed}; {sum(known.values())} change nothing that
a result could show, for the reason given below; {len(survivors) - sum(known.values())} went unnoticed.

| kernel file | changes | noticed | without effect | unnoticed |
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
    parser.add_argument("--count", type=int, default=250)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", nargs="*", default=[], help="kernel files, without .py")
    parser.add_argument("-o", "--output", type=Path)
    options = parser.parse_args()
    paths = [
        path
        for path in sorted((ROOT / KERNELS).glob("*.py"))
        if not path.name.startswith("_") and path.stem in (options.only or [path.stem])
    ]
    every = sum(map(size, paths))
    mutants = [
        mutant
        for path in paths
        for mutant in sample(path, max(3, round(options.count * size(path) / every)))
    ]
    survivors = judge(mutants, options.jobs)
    print(f"{len(mutants)} tried, {len(survivors)} survived")
    if options.output:
        options.output.write_text(page(mutants, survivors, options.count), encoding="utf-8")
    return int(any(mutant.key not in EQUIVALENT for mutant in survivors))


if __name__ == "__main__":
    sys.exit(main())
