"""How a command becomes a Python function: signature, docstring and checks come from its options.

`python_function` is a decorator.  What it decorates takes a source and options; what it returns takes
a frame, or arrays, and keywords.  A type checker takes the keywords from the class of options.
"""

from __future__ import annotations

import functools
import inspect
import os
import textwrap
import warnings
from collections.abc import Callable, Iterable
from dataclasses import fields
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, get_args, overload

from calibkit.api.words import in_python, python_words
from calibkit.errors import CalibkitWarning, UsageError, nearest
from calibkit.models.model import Model
from calibkit.options.option import COLUMNS, Option, Options, names_of, options_of
from calibkit.options.shared import TextOptions
from calibkit.summaries.states import Fitted

if TYPE_CHECKING:
    from calibkit.files.frames import Frame
    from calibkit.files.sources import Source

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Asked = TypeVar("Asked", bound=Options)
M = TypeVar("M", bound=Model)

_FRAME = "frame"

_FRAME_TEXT = """frame
    Rows: a polars frame (also lazy), a pandas frame, a pyarrow table, a DuckDB relation, columns by
    name, or the name of a file; for one of text there are `delimiter`, `decimal`, `null_values` and
    `encoding` too. Without it columns are given as arrays, in place of their names."""

_RAISES = """Raises
------
UsageError
    An option, a column or a pair of options that is impossible; it is a `ValueError`.
DataError
    Values that are missing, infinite, out of range or of the wrong type; it is a `ValueError`."""


class FrameFunction(Protocol[P, R_co]):
    """A function of a frame and options."""

    @overload
    def __call__(self, frame: Frame, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __call__(self, **columns_and_options: Any) -> R_co: ...


def python_function(
    options: Callable[P, Asked],
) -> Callable[[Callable[[Source, Asked], R]], FrameFunction[P, R]]:
    """Return a decorator for what a command does with a source and options of a class."""
    return lambda work: _made(work, options, frame=True)


def fit_function(
    options: Callable[P, Asked],
) -> Callable[[Callable[[Source, Asked], Fitted[M]]], FrameFunction[P, M]]:
    """Return a decorator for a fit: its function returns the model, after warnings."""

    def decorated(fit: Callable[[Source, Asked], Fitted[M]]) -> FrameFunction[P, M]:
        @functools.wraps(fit)
        def delivered(source: Source, own: Asked) -> M:
            from calibkit.runtime.threads import later, warm_up

            later(getattr(own, "workers", 1), warm_up)
            fitted = fit(source, own)
            tell(fitted.warnings, options)
            return fitted.model

        found: FrameFunction[P, M] = _made(delivered, options, frame=True)
        return found

    return decorated


def options_function(
    options: Callable[P, Asked],
) -> Callable[[Callable[[Asked], R]], Callable[P, R]]:
    """Return a decorator for what a command does with its options alone."""
    return lambda work: _made(work, options, frame=False)


def _made(work: Callable[..., Any], kind: Any, *, frame: bool) -> Any:
    """Return a function with the signature and the docstring that a class of options gives it."""
    name = work.__name__

    def function(*first: Any, **given: Any) -> Any:
        with in_python(names_of(kind)):
            if frame:
                return work(*_opened(name, kind, first, given))
            refuse_unknown(name, kind, given)
            return work(kind(*first, **given))

    found: Any = functools.wraps(work)(function)
    found.__signature__ = _signature(kind, frame=frame)
    found.__doc__ = _docstring(kind, inspect.cleandoc(work.__doc__ or ""), frame=frame)
    return found


def refuse_unknown(name: str, kind: type[Options], given: Iterable[str]) -> None:
    """Raise a `UsageError` for a keyword of a function that is no option of its class."""
    known = [option.name for option in options_of(kind)]
    for keyword in given:
        if keyword not in known:
            raise UsageError(
                f"{name}: no option {keyword!r}{nearest(keyword, known)}; help(calibkit.{name}) "
                "lists them"
            )


def _opened(
    name: str, kind: type[Asked], rows: tuple[Any, ...], given: dict[str, Any]
) -> tuple[Source, Asked]:
    """Return the rows and the options of a call; arrays become columns named after their option."""
    from calibkit.files.frames import frame_of_arrays, open_frame

    if len(rows) > 1:
        raise UsageError(
            f"{name}: takes a frame, and all else by keyword; arrays too: {name}(score=…, label=…)"
        )
    if rows and _FRAME in given:
        raise UsageError(f"{name}: got two frames; give one")
    frame = rows[0] if rows else given.pop(_FRAME, None)
    said = {one.name: given.pop(one.name) for one in options_of(TextOptions) if one.name in given}
    of_files = said.keys() - {"date_format"}
    if of_files and not isinstance(frame, str | os.PathLike):
        raise UsageError(f"{name}: {min(of_files)} is for the name of a file of text; leave it out")
    refuse_unknown(name, kind, given)
    columns = {option.name for option in options_of(kind) if option.group == COLUMNS}
    roles = {role: value for role, value in given.items() if role in columns}
    frame, called = frame_of_arrays(roles, frame)
    dialect = TextOptions(**said).dialect
    return open_frame(frame, dialect=dialect), kind(**{**given, **called})


def tell(remarks: Iterable[str], kind: Any) -> None:
    """Warn of each remark once, in Python's words, as the caller of the public function."""
    names = names_of(kind)
    for remark in dict.fromkeys(remarks):
        frame, depth = inspect.currentframe(), 1
        while frame and frame.f_globals.get("__name__", "").startswith(("calibkit", "contextlib")):
            frame, depth = frame.f_back, depth + 1
        warnings.warn(python_words(remark, names), CalibkitWarning, stacklevel=depth)


def _signature(kind: type[Options], *, frame: bool) -> inspect.Signature:
    """Return the signature of a function of a frame, if it takes one, and the options of a class."""
    plain, keyword = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
    first = [inspect.Parameter(_FRAME, plain, default=None)] if frame else []
    alone = {field.name for field in fields(kind) if field.kw_only}
    others = [
        inspect.Parameter(
            option.name,
            keyword if option.name in alone else plain,
            default=inspect.Parameter.empty if option.required else option.default,
            annotation=option.kind | None if option.optional else option.kind,
        )
        for option in options_of(kind)
    ]
    return inspect.Signature([*first, *sorted(others, key=lambda one: one.kind)])


def _docstring(kind: type[Options], written: str, *, frame: bool) -> str:
    """Return a docstring with the parameters of a class after what was written before its sections."""
    before, section, after = written.partition("\n\nReturns\n")
    if not section:
        before, section, after = written.partition("\n\nExamples\n")
    names = names_of(kind)
    lines = [_FRAME_TEXT] if frame else []
    for option in options_of(kind):
        said = option.help
        if option.default is True:  # on the command line a flag turns it off
            said = f"False: {said[0].lower()}{said[1:]}"
        text = textwrap.fill(python_words(said + _default(option), names), 92)
        lines.append(f"{option.name}\n{textwrap.indent(text, '    ')}")
    parameters = "Parameters\n----------\n" + "\n".join(lines)
    if section:
        returns, mark, examples = (section + after).partition("\n\nExamples\n")
        return f"{before}\n\n{parameters}{returns}\n\n{_RAISES}{mark}{examples}\n"
    return f"{before}\n\n{parameters}\n\n{_RAISES}\n"


def _default(option: Option) -> str:
    """Return what a docstring adds to the help of an option: its choices, and its default."""
    choices = get_args(option.kind) if option.kind not in (int, float, bool, str) else ()
    texts = [repr(one) for one in choices if isinstance(one, str)]
    chosen = f" One of {', '.join(texts)}." if texts else ""
    shown = option.shown or (repr(option.default) if option.default is not None else "")
    return f"{chosen} Default: {shown}." if shown else chosen
