"""Machine code of kernels, loaded and called without numba.

numba compiles, and to import it takes a third of a second.  What it compiled needs no more of it than
three extension modules, which unpack arrays, keep what code refers to and allocate: they are loaded by
themselves.  A numba that is imported later finds them as it left them.
"""

from __future__ import annotations

import builtins
import ctypes
import os
import pickle
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.machinery import EXTENSION_SUFFIXES
from importlib.util import find_spec, module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any, NamedTuple

import llvmlite.binding

_LLVM: Any = llvmlite.binding  # which has no types

#: What code refers to, by the name of its variable: as long as code, it stays.
_ENVIRONMENTS: dict[str, Any] = {}


class Code(NamedTuple):
    """A compiled kernel: an object file, its function for Python, and what the code refers to.

    The last are variables, by name, each with the Python objects that code finds there; the first is
    that of the kernel itself.
    """

    binary: bytes
    function: str
    variables: list[tuple[str, list[object]]]


@cache
def processor() -> tuple[str, str, str]:
    """Return the kind of system, the processor and its instructions that numba compiles for."""
    name = os.environ.get("NUMBA_CPU_NAME", _LLVM.get_host_cpu_name())
    features = ""
    if name != "generic":
        with suppress(RuntimeError):  # not every system tells
            features = _LLVM.get_host_cpu_features().flatten()
    features = os.environ.get("NUMBA_CPU_FEATURES", features)
    return _LLVM.get_process_triple(), name, features


def load(code: Code, name: str) -> Callable[..., Any]:
    """Return the Python function that runs a kernel, under a name; one thread loads at a time."""
    engine = _engine()
    functions = _extension("_dynfunc")
    engine.add_object_file(_LLVM.ObjectFileRef.from_data(code.binary))
    engine.finalize_object()
    for variable, objects in code.variables:
        if variable not in _ENVIRONMENTS:
            _ENVIRONMENTS[variable] = functions.Environment({})
            _ENVIRONMENTS[variable].consts[:] = objects
        place = ctypes.c_void_p.from_address(engine.get_global_value_address(variable))
        place.value = id(_ENVIRONMENTS[variable])
    own = _ENVIRONMENTS[code.variables[0][0]]
    address = engine.get_function_address(code.function)
    run: Callable[..., Any] = functions.make_function(
        sys.modules[__name__], name, "", address, own, engine
    )
    return run


@cache
def _unpickled(data: int, size: int, _: int) -> object:
    """Return an object that code brings along: the class of arrays, where it returns one."""
    return pickle.loads(ctypes.string_at(data, size))


#: The same for code to call.
_UNPICKLED = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p)(
    _unpickled
)


@cache
def _engine() -> Any:
    """Return what loads object files, with all that they may call."""
    _LLVM.initialize_native_target()
    _LLVM.initialize_native_asmprinter()
    target = _LLVM.Target.from_default_triple().create_target_machine(jit=True)
    for module, prefix in (
        ("_helperlib", "numba_"),
        ("_helperlib", ""),  # mathematical functions
        ("_dynfunc", "numba_"),
        ("core.runtime._nrt_python", "NRT_"),
    ):
        for name, address in _extension(module).c_helpers.items():
            _LLVM.add_symbol(name if name.startswith("_") else prefix + name, address)
    if "numba" not in sys.modules:  # numba's own imports numba
        _LLVM.add_symbol("numba_unpickle", ctypes.cast(_UNPICKLED, ctypes.c_void_p).value)
    _LLVM.add_symbol("_Py_NoneStruct", id(None))
    for name, one in vars(builtins).items():
        if isinstance(one, type) and issubclass(one, BaseException):
            _LLVM.add_symbol(f"PyExc_{name}", id(one))
    _extension("core.runtime._nrt_python").memsys_use_cpython_allocator()
    return _LLVM.create_mcjit_compiler(_LLVM.parse_assembly(""), target)


@cache
def _extension(name: str) -> Any:
    """Return an extension module of numba, whether or not numba was imported."""
    full = f"numba.{name}"
    if full in sys.modules:
        return sys.modules[full]
    numba = find_spec("numba")
    assert numba is not None and numba.submodule_search_locations is not None
    place = Path(numba.submodule_search_locations[0], *name.split("."))
    file = next(path for path in map(place.with_suffix, EXTENSION_SUFFIXES) if path.exists())
    spec = spec_from_file_location(full, file)
    assert spec is not None and spec.loader is not None
    module = module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules.pop(full, None)  # numba is to import it as a part of itself
    return module
