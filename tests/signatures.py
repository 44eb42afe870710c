"""What `calibkit warmup` compiles: the kernels, with their types, that a fit of every kind calls.

``python -m tests.signatures`` adds what fits call to ``signatures.txt``, whose other lines stay:
of more rows, threads and options than are tried here.  ``tests/cli/test_warmup.py`` holds that none
is missing.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path

import polars as pl
import polars.selectors as cs

from calibkit_kernels import _ahead
from tests.compat.fits import FITS, MODELS, ROWS, rows, words
from tests.fuzz.harness import run_quietly
from tests.warm import _loaded

LIST = Path(_ahead.__file__).with_name("signatures.txt")

#: Nobody calls these from Python: kernels that call them know a number, or pass several at once.
_INNER = ("Literal", "Tuple")


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
                if FITS[fit][0] not in ("evaluate", "drift"):
                    added = folder / "added.parquet"
                    _run("apply", folder / "out.json", folder / file, "-o", added, may_fail=True)
    found = {
        _ahead.line_of(kernel, signature)
        for kernel, signature in (
            (getattr(sys.modules[module], own), types) for module, own, types in _loaded()
        )
    }
    return {line for line in found if not any(word in line for word in _INNER)}


def _run(*line: object, may_fail: bool = False) -> None:
    code, said = run_quietly([*map(str, line), "-q"])
    if code and not may_fail:
        raise RuntimeError(f"{line}: {said}")


if __name__ == "__main__":
    lines = sorted(called() | set(LIST.read_text("utf-8").splitlines()))
    LIST.write_text("\n".join(lines) + "\n", "utf-8")
    print(len(lines), "lines")
