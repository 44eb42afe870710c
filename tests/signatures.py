"""What `calibkit warmup` compiles: the kernels, with their types, that a fit of every kind calls.

``python -m tests.signatures`` adds what fits call to ``signatures.txt``, whose other lines stay:
of more rows, threads and options than are tried here.  ``tests/cli/test_warmup.py`` holds that none
is missing.  It also writes ``first_use.txt``: what common commands call when they are run first.
"""

from __future__ import annotations

import inspect
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path

import polars as pl
import polars.selectors as cs

from calibkit_kernels import _ahead
from calibkit_kernels._jit import line_of
from tests.compat.fits import FITS, MODELS, ROWS, rows, words
from tests.conftest import ROOT
from tests.fuzz.harness import run_quietly
from tests.warm import _loaded

LIST = Path(_ahead.__file__).with_name("signatures.txt")

#: What is run first: commands and their options.
FIRST_USES = {
    "boundary": ("--precision", "0.8"),
    "evaluate": (),
    "calibrate": (),
    "hetcal": ("--features", "uncertainty"),
}


def called(names: Iterable[str] = FITS) -> set[str]:
    """Return the lines of what fits, and the application of their models, call in this process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        frame = rows(600)
        frame.write_csv(folder / ROWS)
        frame.write_parquet(folder / "rows.parquet")
        frame.with_columns(cs.float().cast(pl.Float32)).write_parquet(folder / "narrow.parquet")
        for model, fit in MODELS.items():
            _run(*words(FITS[fit], folder, folder / ROWS), "-o", folder / model)
        for fit in names:
            for file in ("rows.parquet", "narrow.parquet"):
                _run(*words(FITS[fit], folder, folder / file), "-o", folder / "out.json")
                if FITS[fit].split()[0] not in ("evaluate", "drift"):
                    added = folder / "added.parquet"
                    _run("apply", folder / "out.json", folder / file, "-o", added, may_fail=True)
    return {
        line_of(f"{module.rpartition('.')[2]}.{own}", types) for module, own, types in _loaded()
    }


def first_calls(words: Sequence[str], file: str) -> str:
    """Return the section of ``first_use.txt`` of a command whose kernels are nowhere yet."""
    script = (
        "import calibkit_kernels\nfrom calibkit_cli.main import run\n"
        "calibkit_kernels.before_compiling = lambda _, line: print(line)\n"
        f"run({[words[0], file, *words[1:], '-q', '-o', os.devnull]})"
    )
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "XDG_CACHE_HOME": cache}
        done = subprocess.run(
            [sys.executable, "-c", script],
            env=environment,
            check=True,
            capture_output=True,
            text=True,
        )
    return f"# {words[0]}\n{done.stdout}"


def _there(line: str) -> bool:
    """Tell whether the kernel of a line is still there, with so many arguments."""
    try:
        kernel, types = _ahead._of(line)
    except AttributeError:
        return False
    return len(inspect.signature(kernel).parameters) == len(types)


def _run(*line: object, may_fail: bool = False) -> None:
    code, said = run_quietly([*map(str, line), "-q"])
    if code and not may_fail:
        raise RuntimeError(f"{line}: {said}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as name:
        sample, wide = ROOT / "sample_data" / "calib.parquet", Path(name, "wide.parquet")
        pl.read_parquet(sample).with_columns(cs.float().cast(pl.Float64)).write_parquet(wide)
        uses = [
            first_calls((command, *more), str(file))
            for command, more in FIRST_USES.items()
            for file in (sample, wide)
        ]
    LIST.with_name("first_use.txt").write_text("".join(uses), "utf-8")
    firsts = {line for use in uses for line in use.splitlines()[1:]}
    before = set(filter(_there, LIST.read_text("utf-8").splitlines()))
    lines = sorted(called() | firsts | before)
    LIST.write_text("\n".join(lines) + "\n", "utf-8")
    print(len(lines), "lines")
