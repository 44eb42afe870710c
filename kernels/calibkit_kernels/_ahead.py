"""How kernels are compiled, also before they are called: what commands call is ``signatures.txt``.

A line is a kernel and the types that it is called with; types that only other kernels use when they
call it are compiled with those.  ``first_use.txt`` has those that the first use of a command waits
for, in the order of the calls, under lines ``# command``; ``tests/signatures.py`` writes both.
"""

from __future__ import annotations

import gc
import os
import re
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

import numba
from numba.core import types

from ._machine import Code

NUMBA: Any = numba  # of which a type checker does not see enough

#: How numba writes the type of an array.
_ARRAY = re.compile(r"(unaligned )?(readonly )?array\((\w+), (\d)d, ([CFA])\)")


def listed() -> list[str]:
    """Return the lines of all that commands call."""
    return Path(__file__).with_name("signatures.txt").read_text("utf-8").splitlines()


def first_used(command: str, seen: Iterable[str]) -> list[str]:
    """Return what any first use of a command calls that has called these lines; nothing if unknown."""
    text = Path(__file__).with_name("first_use.txt").read_text("utf-8")
    uses = (use.splitlines() for use in text.split("# ")[1:])
    called = set(seen)
    first, *others = [own for name, *own in uses if name == command and called <= set(own)] or [[]]
    return [line for line in first if all(line in other for other in others)]


def compiled(own: Any, names: Iterable[str]) -> tuple[Code | None, Callable[..., Any]]:
    """Return what a kernel is compiled to for arguments of these types, and what runs it.

    None stands for code that holds addresses of this process, which no other can run.
    """
    signature = tuple(map(type_of, names))
    # What looks for unused objects would look again and again through what numba builds.
    collects = gc.isenabled()
    gc.disable()
    try:
        own.compile(signature)
    finally:
        if collects:
            gc.enable()
    found = own.overloads[signature]
    if found.library.has_dynamic_globals:
        return None, found.entry_point
    _, _, (binary, _) = found.library.serialize_using_object_code()
    environments = [found.environment, *found._find_referenced_environments()]
    variables = [(one.env_name, list(one.consts)) for one in environments]
    return Code(binary, found.fndesc.llvm_cpython_wrapper_name, variables), found.entry_point


def compile_line(line: str) -> tuple[bool, bool]:
    """Compile or load what a line says; return whether it was kept before, and whether it is now."""
    kernel, names = _of(line)
    before = kernel.kept(names)
    kernel.prepared(names)
    return before, kernel.kept(names)


def compile_for(parent: int, lines: Iterable[str]) -> None:
    """Compile what lines say and no cache has, as long as the process lives that wants them."""
    for line in lines:
        if os.getppid() != parent:
            return
        kernel, names = _of(line)
        if not kernel.kept(names):
            kernel.prepared(names)


def _of(line: str) -> tuple[Any, tuple[str, ...]]:
    name, _, texts = line.partition(": ")
    module, _, own = name.partition(".")
    return getattr(import_module(f"calibkit_kernels.{module}"), own), tuple(texts.split("; "))


def type_of(text: str) -> Any:
    """Return the type that numba writes as this text."""
    found = _ARRAY.fullmatch(text)
    if found is None:
        return getattr(types, "boolean" if text == "bool" else text)
    unaligned, readonly, element, dimensions, layout = found.groups()
    looks: Any = {"readonly": bool(readonly), "aligned": not unaligned}
    order: Any = layout
    return types.Array(type_of(element), int(dimensions), order, **looks)


if __name__ == "__main__":
    with suppress(AttributeError, OSError):  # not on this system, or not allowed
        os.nice(10)
    gc.disable()  # it ends soon, and what numba builds is all in use
    compile_for(int(sys.argv[1]), map(str.strip, sys.stdin))
