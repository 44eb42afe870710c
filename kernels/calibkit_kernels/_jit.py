"""The decorators of the ground floor: how every kernel is compiled, cached and called.

A compiled kernel is a file, named by the kernel, its signature and the processor, in a folder named by
a digest of *all* kernel sources, numba's version and Python's.  Where the sources lie, and how old
their files are, does not matter: two environments with the same sources share what one of them
compiled.  An edit opens a new folder, also one of a helper that kernels of other files inline.

Looked at first is the folder beside the sources, which an installation may bring along and nobody
writes to: it is for every processor of its kind.  Then comes the user's cache, for the processor at
hand.  Files are written under another name and moved into place, so any number of processes may
compile the same kernel at once.  Where no folder can be written the kernels run without a cache; a
cache must never make a command fail.

numba is imported by a process that compiles, and by no other: `calibkit_kernels._machine`.
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
from importlib.metadata import version
from pathlib import Path
from threading import RLock
from typing import Any, Generic, TypeVar, TypeVarTuple
from uuid import uuid4

import numpy as np

import calibkit_kernels

from ._machine import Code, load, processor

Ts = TypeVarTuple("Ts")
R = TypeVar("R")

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
    return f"{source_digest()}-numba{version('numba')}-python{python}"


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
INTERPRETED = os.environ.get("NUMBA_DISABLE_JIT", "0") not in ("", "0")

#: Where kernels are kept that this process compiles.
FOLDER = None if INTERPRETED else cache_folder()

#: More numbers than Python ever gives a kernel.
NEVER = sys.maxsize

#: Counts the kernels that this process had to compile.
_COUNT = itertools.count()
_PREPARING = RLock()

#: What an installation may bring along; never written to.
_SHIPPED = Path(__file__).parent / "compiled" / folder_name()


def line_of(name: str, signature: Iterable[object]) -> str:
    """Return the line of a kernel, named ``module.function``, and the types it is called with."""
    return f"{name}: {'; '.join(map(str, signature))}"


def kernel(function: Callable[[*Ts], R]) -> Callable[[*Ts], R]:
    """Compile a kernel on first call, from the cache where that is possible.

    The kernel releases the interpreter's lock, so that threads of one process share the work.
    Divisions follow IEEE rules: a kernel checks its divisors itself.  With ``NUMBA_DISABLE_JIT=1``
    the plain Python function runs instead, with integers that wrap around as the compiled ones do.
    """
    if not INTERPRETED:
        return Kernel(function)

    @functools.wraps(function)
    def interpreted(*args: *Ts) -> R:
        with np.errstate(all="ignore"):
            return function(*args)

    return interpreted


def brief(numbers: int = NEVER) -> Callable[[Callable[[*Ts], R]], Callable[[*Ts], R]]:
    """Return what compiles a kernel over few numbers for others to call; Python runs it as it is.

    Compiling takes longer than most of its runs.  Python takes what is compiled where that is kept from
    before, or once it has given it so many `numbers`: each time those of the largest array.
    """

    def wrapped(function: Callable[[*Ts], R]) -> Callable[[*Ts], R]:
        return kernel(function) if INTERPRETED else Brief(function, numbers)

    return wrapped


class Kernel(Generic[*Ts, R]):
    """A kernel, compiled for each combination of types that it is called with.

    Attributes
    ----------
    name
        As ``module.function``.
    entries
        What runs the kernel, by the types of the arguments as numba writes them.
    """

    def __init__(self, function: Callable[[*Ts], R]) -> None:
        functools.update_wrapper(self, function)
        self.function = function
        self.name = f"{function.__module__.rpartition('.')[2]}.{function.__qualname__}"
        self.entries: dict[tuple[str, ...], Callable[..., R]] = {}
        self._known: dict[tuple[object, ...], Callable[..., R]] = {}

    def __call__(self, *args: *Ts) -> R:
        """Run the kernel."""
        key = tuple(
            [
                (one.dtype, one.ndim, one.flags.num) if isinstance(one, np.ndarray) else type(one)
                for one in args
            ]
        )
        run = self._known.get(key)
        if run is None:
            run = self._known[key] = self.prepared(tuple(map(type_name, args)))
        return run(*args)

    def prepared(self, types: tuple[str, ...]) -> Callable[..., R]:
        """Return what runs the kernel on arguments of these types: loaded, or else compiled."""
        with _PREPARING:
            if types not in self.entries:
                self.entries[types] = self._loaded(types) or self._compiled(types)
            return self.entries[types]

    def kept(self, types: tuple[str, ...]) -> bool:
        """Return whether what is compiled for these types lies in one of the folders."""
        return any(place.exists() for place in self._places(types))

    @functools.cached_property
    def compiler(self) -> Any:
        """What compiles this kernel, for each combination of types."""
        return self._compiler()

    @functools.cached_property
    def _called(self) -> Any:
        """What compiles it for another kernel to call: without what Python would call."""
        return self._compiler(no_cpython_wrapper=True)

    @property
    def _numba_type_(self) -> object:
        """What numba takes a kernel for that another calls."""
        from ._ahead import NUMBA

        return NUMBA.typeof(self._called)

    def _compiler(self, **how: bool) -> Any:
        from ._ahead import NUMBA

        rules = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
        return NUMBA.njit(**rules, **how)(self.function)

    def _loaded(self, types: tuple[str, ...]) -> Callable[..., R] | None:
        for place in self._places(types):
            with contextlib.suppress(Exception):  # whatever damage raises, compiling is the answer
                return load(pickle.loads(place.read_bytes()), self.name)
        return None

    def _compiled(self, types: tuple[str, ...]) -> Callable[..., R]:
        if calibkit_kernels.before_compiling is not None:
            calibkit_kernels.before_compiling(next(_COUNT), line_of(self.name, types))
        from . import _ahead  # which imports numba

        code, run = _ahead.compiled(self.compiler, types)
        if FOLDER is not None and code is not None:
            with contextlib.suppress(Exception):
                _keep(Path(FOLDER, self._file(types, *processor())), code)
        return run

    def _places(self, types: tuple[str, ...]) -> Iterator[Path]:
        triple, *own = processor()
        yield _SHIPPED / self._file(types, triple, *_ANY_PROCESSOR)
        if FOLDER is not None:
            yield Path(FOLDER, self._file(types, triple, *own))

    def _file(self, *key: object) -> str:
        return f"{self.name}-{hashlib.sha256(repr(key).encode()).hexdigest()[:16]}.kernel"


class Brief(Kernel[*Ts, R]):
    """A kernel that Python runs as it is; see `brief`.  `left`: the numbers until it is compiled."""

    def __init__(self, function: Callable[[*Ts], R], numbers: int) -> None:
        super().__init__(function)
        self.numbers = self.left = numbers

    def __call__(self, *args: *Ts) -> R:
        """Run the kernel."""
        if self.left == self.numbers < NEVER and self.kept(tuple(map(type_name, args))):
            self.left = 0
        self.left -= max((one.size for one in args if isinstance(one, np.ndarray)), default=1)
        if self.left < 0:
            return super().__call__(*args)
        with np.errstate(all="ignore"):
            return self.function(*args)


def type_name(value: object) -> str:
    """Return how numba writes the type of an argument."""
    if isinstance(value, np.ndarray):
        flags = value.flags
        order = "C" if flags.c_contiguous else "F" if flags.f_contiguous else "A"
        looks = ("" if flags.aligned else "unaligned ") + ("" if flags.writeable else "readonly ")
        return f"{looks}array({value.dtype}, {value.ndim}d, {order})"
    if isinstance(value, np.generic):
        return str(value.dtype)
    for kind, name in ((bool, "bool"), (int, "int64"), (float, "float64")):
        if isinstance(value, kind):
            return name
    raise TypeError(f"a kernel takes arrays and numbers, not {value!r}")


def _keep(place: Path, code: Code) -> None:
    spare = place.with_suffix(f".{uuid4().hex}")
    try:
        spare.write_bytes(pickle.dumps(code))
        spare.replace(place)
    finally:
        spare.unlink(missing_ok=True)
