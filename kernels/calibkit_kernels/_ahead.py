"""Kernels compiled before they are called: what commands call stands in ``signatures.txt``.

A line is a kernel and the types that it is called with; types that only other kernels use when they
call it are compiled with those.  ``first_use.txt`` has those that the first use of a command waits
for, in the order of the calls, under lines ``# command``; ``tests/signatures.py`` writes both.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from numba.core import types

#: How numba writes the type of an array.
_ARRAY = re.compile(r"(readonly )?array\((\w+), (\d)d, ([CFA])\)")


def listed() -> list[str]:
    """Return the lines of all that commands call."""
    return Path(__file__).with_name("signatures.txt").read_text("utf-8").splitlines()


def first_used(command: str, seen: Iterable[str]) -> list[str]:
    """Return what the first use of a command calls that has called these lines; nothing if unknown."""
    text = Path(__file__).with_name("first_use.txt").read_text("utf-8")
    runs = (run.splitlines() for run in text.split("# ")[1:])
    called = set(seen)
    return next((own for name, *own in runs if name == command and called <= set(own)), [])


def compile_line(line: str) -> tuple[bool, bool]:
    """Compile or load what a line says; return whether it was kept before, and whether it is now."""
    kernel, signature = _of(line)
    before = kernel._cache.kept(signature, kernel.targetctx)
    kernel.compile(signature)
    return before, kernel._cache.kept(signature, kernel.targetctx)


def compile_for(parent: int, lines: Iterable[str]) -> None:
    """Compile what lines say and no cache has, as long as the process lives that wants them."""
    for line in lines:
        if os.getppid() != parent:
            return
        kernel, signature = _of(line)
        if not kernel._cache.kept(signature, kernel.targetctx):
            kernel.compile(signature)


def _of(line: str) -> tuple[Any, tuple[Any, ...]]:
    name, _, texts = line.partition(": ")
    module, _, own = name.partition(".")
    kernel: Any = getattr(import_module(f"calibkit_kernels.{module}"), own)
    return kernel, tuple(map(type_of, texts.split("; ")))


def type_of(text: str) -> Any:
    """Return the type that numba writes as this text."""
    found = _ARRAY.fullmatch(text)
    if found is None:
        return getattr(types, "boolean" if text == "bool" else text)
    readonly, element, dimensions, layout = found.groups()
    order: Any = layout
    return types.Array(type_of(element), int(dimensions), order, readonly=bool(readonly))


if __name__ == "__main__":
    with suppress(AttributeError, OSError):  # not on this system, or not allowed
        os.nice(10)
    compile_for(int(sys.argv[1]), sys.stdin.read().splitlines())
