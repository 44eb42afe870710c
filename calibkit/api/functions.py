"""How a command becomes a Python function: signature, docstring and checks come from its options.

`python_function` is a decorator.  What it decorates takes a source and options; what it returns takes
a frame, or arrays, and keywords.  A type checker takes the keywords from the class of options.

A docstring is written in short: ``See `Options`.`` at its head stands for the help of that class,
``Returns TYPE: …`` for the section, and the examples stand without a heading.
"""

from __future__ import annotations

import functools
import inspect
import os
import re
import textwrap
import warnings
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, get_args, overload

from calibkit.errors import CalibkitWarning, UsageError, nearest
from calibkit.options.option import Option, Options, names_of, options_of
from calibkit.options.shared import TextOptions
from calibkit.words import in_python, python_words

if TYPE_CHECKING:
    from calibkit.files.formats import Dialect
    from calibkit.files.frames import Frame
    from calibkit.files.sources import Source

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
Asked = TypeVar("Asked", bound=Options)

_FRAME = "frame"

#: Between a public function and what warns; a caller's package may begin with these words.
_OURS = ("calibkit", "contextlib")

_FRAME_TEXT = """
frame
    Rows: a polars frame (also lazy), a pandas frame, a pyarrow table, a DuckDB relation, columns by
    name, or the name of a file; for one of text there are `delimiter`, `decimal`, `null_values` and
    `encoding` too. Without it columns are given as arrays, in place of their names."""

_RAISES = """

Raises
------
UsageError
    An option, a column or a pair of options that is impossible; it is a `ValueError`.
DataError
    Values that are missing, infinite, out of range or of the wrong type; it is a `ValueError`.
"""

#: Of a docstring as it is written: the head, what is returned, the examples.
_WRITTEN = re.compile(
    r"(?P<prose>.*?)\s*(?:Returns (?P<type>[\w.]+): (?P<returned>.*?)\s*)?(?P<examples>>>> .*)?",
    re.DOTALL,
)


class FrameFunction(Protocol[P, R_co]):
    """A function of a frame and options."""

    @overload
    def __call__(self, frame: Frame, /, *args: P.args, **kwargs: P.kwargs) -> R_co: ...

    @overload
    def __call__(self, **columns_and_options: Any) -> R_co: ...


def python_function(
    options: Callable[P, Asked],
) -> Callable[[Callable[[Source, Asked], R]], FrameFunction[P, R]]:
    """Return a decorator for what is done with a source and options of a class."""
    return lambda work: _made(work, options, frame=True)


def options_function(
    options: Callable[P, Asked],
) -> Callable[[Callable[[Asked], R]], Callable[P, R]]:
    """Return a decorator for what is done with options alone."""
    return lambda work: _made(work, options, frame=False)


def _made(work: Callable[..., Any], kind: Any, *, frame: bool) -> Any:
    """Return a function with the signature and the docstring that a class of options gives it."""

    @functools.wraps(work)
    def function(*first: Any, **given: Any) -> Any:
        with in_python(names_of(kind)):
            if frame:
                return work(*opened(work.__name__, kind, first, given))
            refuse_unknown(work.__name__, kind, given)
            return work(_asked(work.__name__, kind, *first, **given))

    found: Any = function
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


def _asked(name: str, kind: Callable[..., Asked], /, *first: Any, **given: Any) -> Asked:
    """Return options; what is missing is said of the function, not of their class."""
    try:
        inspect.signature(kind).bind(*first, **given)
    except TypeError as error:
        raise TypeError(f"{name}: {error}") from None
    return kind(*first, **given)


def opened(
    name: str, kind: type[Asked], rows: tuple[Any, ...], given: dict[str, Any]
) -> tuple[Source, Asked]:
    """Return the rows and the options of a call; arrays become columns named after their option."""
    from calibkit.files.frames import frame_of_arrays, is_array, open_frame
    from calibkit.runtime.threads import later, warm_up

    columns = {one.name for one in options_of(kind) if one.metavar in ("NAME", "PATTERN")}
    if len(rows) > 1 or (rows and is_array("score", rows[0])):
        named = [role for role in ("score", "scores", "members", "probs") if role in columns][:1]
        arrays = ", ".join(f"{role}=…" for role in [*named, *({"label"} & columns)])
        raise UsageError(
            f"{name}: takes a frame, and all else by keyword; arrays too: {name}({arrays})"
        )
    if rows and _FRAME in given:
        raise UsageError(f"{name}: got two frames; give one")
    frame = rows[0] if rows else given.pop(_FRAME, None)
    dialect = dialect_of(name, frame, given)
    refuse_unknown(name, kind, given)
    roles = {role: value for role, value in given.items() if role in columns}
    frame, called = frame_of_arrays(roles, frame)
    source = open_frame(frame, dialect=dialect)
    options = _asked(name, kind, **{**given, **called})
    later(getattr(options, "workers", 1), warm_up)
    return source, options


def dialect_of(name: str, frame: Any, given: dict[str, Any]) -> Dialect:
    """Take how files of text are read out of what is given; refuse it for what is no file."""
    said = {one.name: given.pop(one.name) for one in options_of(TextOptions) if one.name in given}
    files = frame if isinstance(frame, list | tuple) else [frame]
    of_files = said.keys() - {"date_format"}
    if of_files and not all(isinstance(one, str | os.PathLike) for one in files):
        raise UsageError(f"{name}: {min(of_files)} is for the name of a file of text; leave it out")
    return TextOptions(**said).dialect


def tell(remarks: Iterable[str], options: Options) -> None:
    """Warn of each remark once, in Python's words, as the caller of the public function."""
    names = names_of(type(options))
    for remark in dict.fromkeys(remarks):
        frame, depth = inspect.currentframe(), 1
        while frame and frame.f_globals.get("__name__", "").partition(".")[0] in _OURS:
            frame, depth = frame.f_back, depth + 1
        warnings.warn(python_words(remark, names), CalibkitWarning, stacklevel=depth)


def _signature(kind: type[Options], *, frame: bool) -> inspect.Signature:
    """Return the signature of a function of a frame, if it takes one, and the options of a class."""
    plain = inspect.Parameter.POSITIONAL_OR_KEYWORD
    first = [inspect.Parameter(_FRAME, plain, default=None)] if frame else []
    own = inspect.signature(kind).parameters
    others = [
        own[one.name].replace(annotation=one.kind | None if one.optional else one.kind)
        for one in options_of(kind)
    ]
    return inspect.Signature([*first, *sorted(others, key=lambda one: one.kind)])


def _docstring(kind: type[Options], written: str, *, frame: bool) -> str:
    """Return the docstring of a function of the options of a class; see the module for `written`."""
    found: Any = _WRITTEN.fullmatch(written)
    names = names_of(kind)
    prose: str = found["prose"]
    if prose.startswith("See `"):
        help_ = str(inspect.getdoc(kind)).partition("\n\nExamples:")[0]
        prose = python_words(help_, names) + prose.partition("`.")[2]
    text = f"{prose}\n\nParameters\n----------" + _FRAME_TEXT * frame
    for option in options_of(kind):
        said = option.help
        if option.default is True:  # on the command line a flag turns it off
            said = f"False: {said[0].lower()}{said[1:]}"
        text += f"\n{option.name}\n{_indented(python_words(said + _default(option), names))}"
    if found["type"]:
        text += f"\n\nReturns\n-------\n{found['type']}\n{_indented(found['returned'])}"
    text += _RAISES
    if found["examples"]:
        text += f"\nExamples\n--------\n>>> import calibkit as ck\n{found['examples']}\n"
    return text


def _indented(text: str) -> str:
    return textwrap.indent(textwrap.fill(text, 92, break_on_hyphens=False), "    ")


def _default(option: Option) -> str:
    """Return what a docstring adds to the help of an option: its choices, and its default."""
    choices = get_args(option.kind) if option.kind not in (int, float, bool, str) else ()
    texts = [repr(one) for one in choices if isinstance(one, str)]
    chosen = f" One of {', '.join(texts)}." if texts else ""
    shown = option.shown or (repr(option.default) if option.default is not None else "")
    return f"{chosen} Default: {shown}." if shown else chosen
