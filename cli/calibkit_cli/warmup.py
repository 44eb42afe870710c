"""``calibkit warmup``: everything compiled before it is needed."""

from __future__ import annotations

from typing import Annotated

from msgspec.structs import asdict

from calibkit.options.shared import Threaded
from calibkit.runtime.kernels import compile_all, tell_of_compiling

from . import declare
from .console import Console
from .lines import Results, Voice


class WarmupLine(Threaded):
    """Compile everything in advance, so that first uses need not wait.

    Without it each kernel is compiled when it is first called, once for each version of calibkit,
    numba and Python and each kind of processor, and kept under ~/.cache/calibkit or
    $XDG_CACHE_HOME/calibkit. Environments and copies of one version share the compiled kernels.

    Examples:
      calibkit warmup --threads 4
      calibkit warmup --json
    """

    as_json: Annotated[bool, Results] = False
    quiet: Annotated[bool, Voice] = False


@declare.command
def warmup(line: WarmupLine) -> None:
    """Compile, count."""
    console = line.part(Console)
    tell_of_compiling(None)
    done = compile_all(line.workers)
    if done.kept < done.kernels:
        console.warn(
            f"{done.folder or 'the cache'} cannot be written: {done.kernels - done.kept:,} of "
            f"{done.kernels:,} kernels will be compiled again when they are called; name a folder "
            "that can be in XDG_CACHE_HOME"
        )
    where = f"; all are in {done.folder}" if done.compiled and done.folder else ""
    console.summary(
        f"{done.kernels:,} kernels: {done.compiled:,} compiled, "
        f"{done.kernels - done.compiled:,} already cached{where}."
    )
    if line.as_json:
        console.json({**asdict(done), "warnings": console.said})
