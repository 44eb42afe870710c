"""Option values that already are what was declared, taken without loading a validator.

typer hands every value to pydantic, defaults too.  Loading that takes longer than importing this
program's own modules, and a text that is declared to be text needs no check.  Values that do need one
(a number out of bounds, a choice that does not exist) still go typer's way and get its messages.
"""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any, Literal, get_args, get_origin

from typer import core

WHOLE, NUMBER = re.compile(r"-?[0-9]{1,15}"), re.compile(r"-?[0-9]{1,15}(\.[0-9]{1,15})?")

#: The value has to go typer's way; None is a value.
NOT_PLAIN = object()


def plain(value: Any, annotation: Any, info: Any) -> Any:
    """Return a value as its annotation declares it, `NOT_PLAIN` where that needs a check."""
    if getattr(info, "parser", None) is not None:
        return NOT_PLAIN
    if annotation in (int, float):
        return _number(value, annotation, info)
    if get_origin(annotation) is Literal:
        known = type(value) is str and value in get_args(annotation)
    elif get_origin(annotation) is list:
        known = get_args(annotation) == (str,) and isinstance(value, list | tuple)
        known = known and all(type(one) is str for one in value)
        value = list(value) if known else value
    else:
        known = annotation is str and type(value) is str
    return value if known else NOT_PLAIN


def _number(value: Any, kind: type[int] | type[float], info: Any) -> Any:
    """Return a number within its bounds, `NOT_PLAIN` for anything else."""
    if type(value) is str and (WHOLE if kind is int else NUMBER).fullmatch(value):
        value = kind(value)
    if type(value) is not kind:
        return NOT_PLAIN
    low = info.min is None or value >= info.min
    return value if low and (info.max is None or value <= info.max) else NOT_PLAIN


#: typer's own module, by what it does not export: where it does not have it, nothing is changed.
_TYPER: Any = core


def _coerce(value: Any, param: Any, ctx: Any) -> Any:
    """Return the value of a parameter, converted plainly or as typer does."""
    if value is None:
        return () if param.multiple or param.nargs == -1 else None
    kind = param.type_descriptor
    found = plain(value, kind.annotation, kind.parameter_info)
    if found is not NOT_PLAIN:
        return found
    return _TYPER.build_runtime_param(kind).coerce(value, param=param, ctx=ctx)


def prefer_plain_values() -> None:
    """Put the short way before typer's, where this version of typer has the place for it."""
    parameter: Any = getattr(_TYPER, "_TyperParameter", None)
    if hasattr(parameter, "get_runtime_param") and hasattr(_TYPER, "build_runtime_param"):
        parameter.get_runtime_param = lambda self: SimpleNamespace(coerce=_coerce)
