"""The one decorator of the ground floor: how every kernel is compiled and cached.

A compiled kernel is a file, named by the kernel, its signature and the processor, in a folder named by
a digest of *all* kernel sources, numba's version and Python's.  Where the sources lie, and how old
their files are, does not matter: two environments with the same sources share what one of them
compiled.  An edit opens a new folder, also one of a helper that kernels of other files inline.

Looked at first is the folder beside the sources, which an installation may bring along and nobody
writes to: it is for every processor of its kind.  Then comes the user's cache, for the processor at
hand.  Files are written under another name and moved into place, so any number of processes may
compile the same kernel at once.  Where no folder can be written the kernels run without a cache; a
cache must never make a command fail.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import itertools
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, ParamSpec, TypeVar, cast
from uuid import uuid4

import numba
import numpy as np
from numba.core import config as numba_config
from numba.core import serialize
from numba.core.compiler import CompileResult
from numba.core.environment import Environment
from numba.core.runtime import nrtdynmod
from numba.core.runtime.nrt import rtsys

import calibkit_kernels

P = ParamSpec("P")
R = TypeVar("R")

#: What a type checker does not see enough of.
_CONFIG: Any = numba_config
_COMPILED: Any = CompileResult
_SERIALIZE: Any = serialize
_NJIT: Any = numba.njit
_RUNTIME: Any = nrtdynmod

#: The processor, and its instructions, that any other of its kind can stand in for.
_ANY_PROCESSOR = ("generic", "")


def source_digest() -> str:
    """Return a digest of every source file of this package, in name order."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()[:16]


def folder_name() -> str:
    """Return the name of folders with what these sources, this numba and this Python can run."""
    python = f"{sys.version_info.major}.{sys.version_info.minor}{sys.abiflags}"
    return f"{source_digest()}-numba{numba.__version__}-python{python}"


def cache_folder() -> str | None:
    """Return a writable folder for compiled kernels, or None where there is none."""
    root = os.environ.get("XDG_CACHE_HOME", "")
    try:
        base = Path(root) if Path(root).is_absolute() else Path.home() / ".cache"
        folder = base / "calibkit" / folder_name()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return str(folder)
    except (OSError, RuntimeError):
        return None


#: Whether kernels are plain Python functions in this process.
INTERPRETED = bool(_CONFIG.DISABLE_JIT)

#: Where kernels are kept that this process compiles.
FOLDER = None if INTERPRETED else cache_folder()

#: Counts the kernels that this process had to compile.
_COUNT = itertools.count()

#: What an installation may bring along; never written to.
_SHIPPED = Path(__file__).parent / "compiled" / folder_name()


def line_of(name: str, signature: Iterable[object]) -> str:
    """Return the line of a kernel, named ``module.function``, and the types it is called with."""
    return f"{name}: {'; '.join(map(str, signature))}"


def kernel(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a kernel on first call, from the cache where that is possible.

    The kernel releases the interpreter's lock, so that threads of one process share the work.
    Divisions follow IEEE rules: a kernel checks its divisors itself.  With ``NUMBA_DISABLE_JIT=1``
    the plain Python function runs instead, with integers that wrap around as the compiled ones do.
    """
    if INTERPRETED:

        @functools.wraps(function)
        def interpreted(*args: P.args, **kwargs: P.kwargs) -> R:
            with np.errstate(all="ignore"):
                return function(*args, **kwargs)

        return interpreted
    compiled = _NJIT(nogil=True, error_model="numpy", no_cfunc_wrapper=True)(function)
    compiled._cache = _Cache(function)  # numba has no public way
    return cast(Callable[P, R], compiled)


class _Cache:
    """The cache of one kernel, looked at when the kernel is called first, and forgiving.

    numba's own keeps an index for each kernel, which two processes may write over one another, and
    is good for one place of the sources only.  Where the cache cannot be read or written (a full
    disk, a damaged file) the kernel runs without it.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self.cache_path = FOLDER

    def kept(self, signature: object, target: object) -> bool:
        """Return whether what is compiled for a signature lies in one of the folders."""
        return any(place.exists() for place in _places(self._name, signature, target))

    def load_overload(self, signature: Iterable[object], target: object) -> object:
        """Return what was compiled for a signature, without loading the whole compiler first.

        numba reads its registries of typing and lowering rules before every look-up: a third of a
        second in each process, which machine code has no use for.  The compiler reads them itself
        where it is needed after all.  What compiled code does need is the runtime that allocates
        arrays.
        """
        for place in _places(self._name, signature, target):
            with contextlib.suppress(Exception):  # whatever damage raises, compiling is the answer
                content = place.read_bytes()
                _start_runtime(target)
                return _COMPILED._rebuild(target, *pickle.loads(content))
        if calibkit_kernels.before_compiling is not None:
            calibkit_kernels.before_compiling(next(_COUNT), line_of(self._name, signature))
        return None

    def save_overload(self, signature: object, compiled: Any) -> None:
        """Keep what was compiled for a signature."""
        if compiled.lifted or compiled.library.has_dynamic_globals:
            return
        with contextlib.suppress(Exception):
            parts = list(compiled._reduce())
            parts[6] = ""  # the source with its types, which nobody reads
            parts[8] = tuple(map(_at_home, parts[8]))
            _keep(self._name, signature, compiled.codegen, parts)

    def flush(self) -> None:
        """Forget what the user's cache keeps: numba's `recompile` asks for that."""
        for file in Path(FOLDER or os.devnull).glob(f"{self._name}-*"):
            with contextlib.suppress(OSError):
                file.unlink()


def _file(name: str, signature: object, triple: str, *processor: str) -> str:
    key = repr((signature, triple, *processor))
    return f"{name}-{hashlib.sha256(key.encode()).hexdigest()[:16]}.kernel"


def _places(name: str, signature: object, target: Any) -> Iterator[Path]:
    triple, *processor = target.codegen().magic_tuple()
    yield _SHIPPED / _file(name, signature, triple, *_ANY_PROCESSOR)
    if FOLDER is not None:
        yield Path(FOLDER, _file(name, signature, triple, *processor))


def _keep(name: str, signature: object, codegen: Any, content: object) -> None:
    if FOLDER is None:
        return
    place = Path(FOLDER, _file(name, signature, *codegen.magic_tuple()))
    spare = place.with_suffix(f".{uuid4().hex}")
    try:
        spare.write_bytes(_SERIALIZE.dumps(content))
        spare.replace(place)
    finally:
        spare.unlink(missing_ok=True)


def _at_home(environment: Any) -> Any:
    """Return what compiled code sees of a module as if that were this package.

    A function of numba that it calls has one too.  Machine code looks up nothing in it, but loading
    it would load that module, and with it what numba knows of arrays.
    """
    if environment.consts:
        return environment
    own: Any = Environment(vars(calibkit_kernels))
    own.env_name = environment.env_name
    return own


def _start_runtime(target: object) -> None:
    """Start the runtime that allocates arrays; what of it is to be compiled is kept as kernels are."""
    compiling = _RUNTIME.compile_nrt_functions
    _RUNTIME.compile_nrt_functions = _runtime
    try:
        rtsys.initialize(target)
    finally:
        _RUNTIME.compile_nrt_functions = compiling


def _runtime(target: Any) -> object:
    for place in _places("runtime", (), target):
        with contextlib.suppress(Exception):
            return target.codegen().unserialize_library(pickle.loads(place.read_bytes()))
    module, library = _RUNTIME.create_nrt_module(target)
    library.enable_object_caching()
    library.add_ir_module(module)
    library.finalize()
    with contextlib.suppress(Exception):
        _keep("runtime", (), target.codegen(), library.serialize_using_object_code())
    return library
