"""Slow, obvious twins of the kernels, one module a subject; `every_twin` finds them by name."""

from __future__ import annotations

import importlib
import pkgutil
from types import ModuleType


def modules() -> list[ModuleType]:
    """Return the modules of twins; a module may name twins of other names in a table TWINS."""
    names = sorted(found.name for found in pkgutil.iter_modules(__path__))
    return [importlib.import_module(f"{__name__}.{name}") for name in names]


def every_twin() -> set[str]:
    """Return the names of all kernels that have a twin."""
    known: set[str] = set()
    for module in modules():
        twins: dict[str, str] = getattr(module, "TWINS", {})
        known |= set(dir(module)) | {
            kernel for kernel, twin in twins.items() if hasattr(module, twin)
        }
    return known
