"""Kernels compiled before they are called: what commands call stands in ``signatures.txt``.

A line is a kernel and the types that it is called with; types that only other kernels use when they
call it are compiled with those.  ``tests/signatures.py`` finds out and writes the list.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any

from numba.core import types

#: How numba writes the type of an array.
_ARRAY = re.compile(r"(readonly )?array\((\w+), (\d)d, ([CFA])\)")


def listed() -> list[str]:
    """Return the lines of all that commands call."""
    return Path(__file__).with_name("signatures.txt").read_text("utf-8").splitlines()


def line_of(kernel: Any, signature: Iterable[object]) -> str:
    """Return the line of a kernel and types."""
    module = kernel.py_func.__module__.rpartition(".")[2]
    return f"{module}.{kernel.py_func.__name__}: {'; '.join(map(str, signature))}"


def compile_line(line: str) -> tuple[bool, bool]:
    """Compile or load what a line says; return whether it was kept before, and whether it is now."""
    name, _, texts = line.partition(": ")
    module, _, own = name.partition(".")
    kernel: Any = getattr(import_module(f"calibkit_kernels.{module}"), own)
    signature = tuple(map(type_of, texts.split("; ")))
    before = kernel._cache.kept(signature, kernel.targetctx)
    kernel.compile(signature)
    return before, kernel._cache.kept(signature, kernel.targetctx)


def type_of(text: str) -> Any:
    """Return the type that numba writes as this text."""
    found = _ARRAY.fullmatch(text)
    if found is None:
        return getattr(types, "boolean" if text == "bool" else text)
    readonly, element, dimensions, layout = found.groups()
    order: Any = layout
    return types.Array(type_of(element), int(dimensions), order, readonly=bool(readonly))
