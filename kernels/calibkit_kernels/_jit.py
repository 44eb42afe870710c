"""The one decorator of the ground floor: how every kernel is compiled and cached.

Numba stamps a cached kernel with the time and size of the kernel's *own* file, so a kernel that
inlines a helper of another file would go on running yesterday's helper.  The cache therefore lives
in a folder named by a digest of *all* kernel sources: any edit opens a new folder.  Where no folder
can be written the kernels run without a cache; a cache must never make a command fail.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast

import numba
import numpy as np
from numba.core import caching
from numba.core import config as numba_config
from numba.core.runtime.nrt import rtsys

P = ParamSpec("P")
R = TypeVar("R")

#: Modules of which a type checker does not see enough: numba fills the first at run time.
_CONFIG: Any = numba_config
_CACHING: Any = caching


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
    compiled: Any = numba.njit(nogil=True, error_model="numpy")(function)
    if _FOLDER is not None:
        compiled._cache = _Cache(function, _FOLDER)  # numba has no public way
    return cast(Callable[P, R], compiled)


class _Cache:
    """The cache of one kernel, opened when the kernel is called first, and forgiving.

    numba would look for every kernel's place on the disk when the module is imported, and try each
    time whether it can be written; of a hundred kernels that a command imports it calls ten.  Where the
    cache cannot be read or written (a full disk, a damaged file) the kernel runs without it.
    """

    def __init__(self, function: Callable[..., object], folder: str) -> None:
        self._function = function
        self.cache_path = folder

    @functools.cached_property
    def _opened(self) -> Any:
        # numba reads the folder from its global configuration; its compiler's lock is held here.
        before, _CONFIG.CACHE_DIR = _CONFIG.CACHE_DIR, self.cache_path
        try:
            return _CACHING.FunctionCache(self._function)
        finally:
            _CONFIG.CACHE_DIR = before

    def load_overload(self, signature: object, target: object) -> object:
        """Return what was compiled for a signature, without loading the whole compiler first.

        numba reads its registries of typing and lowering rules before every look-up: a third of a
        second in each process, which machine code has no use for.  The compiler reads them itself
        where it is needed after all.  What compiled code does need is the runtime that allocates
        arrays.
        """
        try:
            look_up = getattr(self._opened, "_load_overload", None)
            if look_up is None:  # another version of numba: the public way, slower
                look_up = self._opened.load_overload
            rtsys.initialize(target)
            return look_up(signature, target)
        except Exception:  # whatever a damaged cache raises, compiling is the answer
            return None

    def save_overload(self, signature: object, compiled: object) -> None:
        """Keep what was compiled for a signature."""
        with contextlib.suppress(Exception):
            self._opened.save_overload(signature, compiled)

    def flush(self) -> None:
        """Forget what is kept: numba's `recompile` asks for that."""
        with contextlib.suppress(Exception):
            self._opened.flush()
