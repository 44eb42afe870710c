"""One damaged input through one command: what must hold whatever the damage."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import polars as pl

from tests.fuzz.corpus import Case
from tests.fuzz.mutations import mutate

#: Refused, or done; 1 is a gate's answer.
EXITS = (0, 1, 2, 3, 4)


@dataclass(frozen=True)
class Finding:
    """Something that must not happen, and the input that makes it happen."""

    case: Case
    problem: str
    data: bytes


def try_one(case: Case, good: bytes, seed: int, folder: Path) -> tuple[int, Finding | None]:
    """Run a case on damaged input; return its exit code and what was wrong, if anything."""
    data = mutate(good, random.Random(seed))
    file = folder / f"input{Path(case.file).suffix}"
    file.write_bytes(data)
    out = folder / f"out{case.output}"
    out.unlink(missing_ok=True)
    words = [{"FILE": str(file), "OUT": str(out)}.get(word, word) for word in case.words]
    code, said = run_quietly([*words, "-q"] if case.output else words)
    problem = _problem(case, code, said, out, file)
    return code, None if problem is None else Finding(case, problem, data)


def _problem(case: Case, code: int, said: str, out: Path, file: Path) -> str | None:
    if code not in EXITS:
        return f"exit {code}: {said[-400:]}"
    if "Traceback" in said:
        return f"noise: {said[-400:]}"
    if "panicked" in said and code != 3:  # what polars' threads say before the error is raised
        return f"a panic, but exit {code}: {said[-400:]}"
    if code in (2, 3, 4) and "Error: " not in said:
        return f"exit {code} without a reason: {said[-200:]}"
    left = [path.name for path in out.parent.iterdir() if path not in (file, out)]
    if left or (case.output and (code == 0) != out.exists()):
        return f"exit {code}, but {'left ' + str(left) if left else 'output wrong'}"
    if code == 0 and case.output == ".json":
        return _not_finite(json.loads(out.read_bytes(), parse_constant=_refuse_constant))
    if code == 0 and file.suffix == ".csv":
        return _misread(file, out)
    return None


def _refuse_constant(word: str) -> float:
    return math.nan


def _not_finite(found: object) -> str | None:
    """Return what is NaN or infinite in a result, which never should be."""
    if isinstance(found, float) and not math.isfinite(found):
        return "a number that is not finite"
    inside = found.values() if isinstance(found, dict) else found if isinstance(found, list) else ()
    return next((word for word in map(_not_finite, inside) if word), None)


def _misread(file: Path, out: Path) -> str | None:
    """Compare the rows kept with what Python's own parser reads in the damaged CSV file."""
    data = file.read_bytes()
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = data.decode("windows-1252", "replace")
    text = text.replace("\r\n", "\n").replace("\r", " ")  # alone it ends no line
    rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
    kept = pl.read_csv(out, infer_schema=False)
    if "id" not in kept.columns or "id" not in rows[0]:
        return None
    ids = [row[rows[0].index("id")].strip() for row in rows[1:]]
    seen = [(value or "").strip() for value in kept["id"].to_list()]
    numbers = [_number(value) for value in ids], [_number(value) for value in seen]
    return None if numbers[0] == numbers[1] else "rows were misread"


def _number(text: str) -> float | str:
    """Return a number as one, and what is none, or equals nothing, as text."""
    try:
        number = float(text)
    except ValueError:
        return text.lower()
    return "nan" if math.isnan(number) else number


def run_quietly(words: list[str]) -> tuple[int, str]:
    """Run a command line in this process; return its code and all it said, native code too."""
    from calibkit_cli import main

    with tempfile.TemporaryFile() as said, _redirected(said.fileno()):
        code = main.run(words)
        said.seek(0)
        return code, said.read().decode("utf-8", "replace")


@contextlib.contextmanager
def _redirected(target: int) -> Iterator[None]:
    """Send standard output and error, Python's and native code's, to a file."""
    saved = [os.dup(number) for number in (1, 2)]
    try:
        for number in (1, 2):
            os.dup2(target, number)
        with (
            os.fdopen(os.dup(target), "w") as out,
            os.fdopen(os.dup(target), "w") as err,
            contextlib.redirect_stdout(out),
            contextlib.redirect_stderr(err),
        ):
            yield
    finally:
        for number, old in zip((1, 2), saved, strict=True):
            os.dup2(old, number)
            os.close(old)
