"""The one decorator of the ground floor: how every kernel is compiled and cached.

Numba stamps a cached kernel with the time and size of the kernel's *own* file, so a kernel that
inlines a helper of another file would go on running yesterday's helper.  The cache therefore lives
in a folder named by a digest of *all* kernel sources: any edit opens a new folder.  Where no folder
can be written the kernels run without a cache; a cache must never make a command fail.
"""

from __future__ import annotations

import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import config as numba_config
from numba.core.runtime.nrt import rtsys

P = ParamSpec("P")
R = TypeVar("R")

#: numba fills this module at run time, out of sight of a type checker.
_CONFIG: Any = numba_config


def source_digest() -> str:
    """Return a digest of every source file of this package, in name order."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def cache_folder() -> str | None:
    """Return a writable folder for compiled kernels, or None where there is none."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(root) if Path(root).is_absolute() else Path.home() / ".cache"
        folder = base / "calibkit" / source_digest()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except (OSError, RuntimeError):
        return None


_FOLDER = None if _CONFIG.DISABLE_JIT else cache_folder()


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel on first call, from the cache where that is possible.

    The kernel releases the interpreter's lock, so that threads of one process share the work.
    Divisions follow IEEE rules: a kernel checks its divisors itself.  With ``NUMBA_DISABLE_JIT=1``
    the plain Python function runs instead, with integers that wrap around as the compiled ones do.
    """
    if _CONFIG.DISABLE_JIT:

        @functools.wraps(function)
        def interpreted(*args: P.args, **kwargs: P.kwargs) -> R:
            with np.errstate(all="ignore"):
                return function(*args, **kwargs)

        return interpreted
    compile_ = functools.partial(numba.njit, nogil=True, error_model="numpy")
    if _FOLDER is None:
        return cast(Callable[P, R], compile_()(function))
    # numba reads the folder from its global configuration, and only while it decorates.
    before, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, _FOLDER
    try:
        compiled = compile_(cache=True)(function)
    finally:
        _CONFIG.CACHE_DIR = before
    _forgive_cache_faults(compiled)
    return cast(Callable[P, R], compiled)


def _forgive_cache_faults(compiled: object) -> None:
    """Go on without the cache where it cannot be read or written (a full disk, a damaged file)."""
    cache = compiled._cache  # type: ignore[attr-defined]  # numba has no public way

    def guarded(method: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(method)
        def call(*args: object) -> object:
            try:
                return method(*args)
            except Exception:  # whatever a damaged cache raises, compiling is the answer
                return None

        return call

    cache.load_overload = guarded(_loader(cache))
    cache.save_overload = guarded(cache.save_overload)


def _loader(cache: Any) -> Callable[..., object]:
    """Return what looks a kernel up in numba's cache, without loading the whole compiler first.

    numba reads its registries of typing and lowering rules before every look-up: a third of a
    second in each process, which machine code has no use for.  The compiler reads them itself where
    it is needed after all.  What compiled code does need is the runtime that allocates arrays.
    """
    look_up = getattr(cache, "_load_overload", None)
    if look_up is None:  # another version of numba: the public way, slower
        return cast(Callable[..., object], cache.load_overload)

    def load(signature: object, target: object) -> object:
        rtsys.initialize(target)
        return look_up(signature, target)

    return load
