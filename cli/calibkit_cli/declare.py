"""Commands made of classes of options: what they take, and their help, is what the classes say.

typer hands every value to pydantic, defaults too.  Loading that takes longer than importing this
program's own modules, and options check their values anyway: see `let_options_check`.
What prints its help loads a parser of Markdown, which no help here is written in: see `load_printer`.
"""

from __future__ import annotations

import inspect
import os
import re
import stat
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Annotated, Any, Literal, get_origin, get_type_hints

import typer
from typer import core

from calibkit.errors import CalibkitError, UsageError
from calibkit.options.option import Option, Options, options_of
from calibkit.options.shared import OUTPUT
from calibkit.runtime.threads import thread_count

from .console import Console

#: Adds a command to an application under a name.
Register = Callable[[typer.Typer, str], None]

#: An example among those of a help, which is a paragraph of its own where it is printed.
_EXAMPLE = re.compile(r"\n(?=  \S)")


def command(run: Callable[..., None]) -> Register:
    """Return what adds a command; `run` gets an object of each class that its annotations name."""
    return lambda app, name: add(app, name, run, *_annotated(run))


def several(kinds: Mapping[str, type[Options]]) -> Callable[[Callable[..., None]], Register]:
    """Return a decorator for a command with a sub-command a kind.

    The function gets options of the kind and a line; the help of all kinds is that of the class that
    the options are annotated with.
    """

    def decorated(run: Callable[..., None]) -> Register:
        every, line = _annotated(run)

        def register(app: typer.Typer, name: str) -> None:
            own = typer.Typer(cls=Listing, no_args_is_help=True, rich_markup_mode="rich")
            for called, kind in kinds.items():
                add(own, called, run, kind, line)
            app.add_typer(own, name=name, help=_help(every))

        return register

    return decorated


def add(app: typer.Typer, name: str, run: Callable[..., None], *kinds: type[Options]) -> None:
    """Add a command; `run` gets an object of each class of options, the first of which has its help."""
    known = [option for kind in kinds for option in options_of(kind) if option.typed]

    def typer_command(**typed: Any) -> None:
        threads = typed.get("threads")  # so many polars starts, which is loaded later
        if threads is not None:
            most = thread_count(threads)
            os.environ["POLARS_MAX_THREADS"] = str(most)
            if most < threads:
                Console(warnings=typed.get("warnings", "show")).warn(
                    f"--threads {threads} is more than this machine's processors: {most} are used"
                )
        _refuse_broken_text(known, typed)
        _refuse_clashes(known, typed)
        run(*(_made(kind, typed) for kind in kinds))

    params = [_parameter(option) for option in known]
    signature: Any = typer_command
    signature.__signature__ = inspect.Signature(params)
    signature.__annotations__ = {param.name: param.annotation for param in params}
    app.command(name, help=_help(kinds[0]))(typer_command)


def _annotated(run: Callable[..., None]) -> list[type[Options]]:
    return [kind for name, kind in get_type_hints(run).items() if name != "return"]


def _help(kind: type[Options]) -> str:
    return _EXAMPLE.sub("\n\n", str(inspect.getdoc(kind)))


def _made(kind: type[Options], typed: dict[str, Any]) -> Options:
    """Return the options of a class among all that were typed: the rest has its defaults."""
    own = {}
    for option in options_of(kind):
        value: Any = typed.get(option.name)
        if value is None or (isinstance(value, list) and not value and not option.required):
            continue
        if option.default is True:  # what is on by default has a flag that turns it off
            value = not value
        own[option.name] = ",".join(value) if option.many == "commas" else value
    return kind(**own)


def _parameter(option: Option) -> inspect.Parameter:
    """Return the parameter that typer reads: text, unless its type says how to read it."""
    plain = option.kind in (int, float, bool, str) or get_origin(option.kind) is Literal
    kind = option.kind if plain and option.read is None else str
    if option.many is not None:
        kind = list[str]
    default = option.default if option.shown is None and kind is option.kind else None
    if default is True:  # see `_made`
        default = False
    if option.required:
        default = inspect.Parameter.empty
    elif default is None and kind is not bool:
        kind = kind | None
    about: dict[str, Any] = {
        "metavar": option.metavar,
        "help": option.help,
        "show_default": True if option.shown is None else option.shown,
        "hidden": option.hidden,
        "autocompletion": option.completes,
        "envvar": option.env,
    }
    info: Any
    if option.argument:
        info = typer.Argument(**(about | {"show_default": option.shown or False}))
    else:
        flags = option.flags or (option.flag,)
        about |= {"min": option.least, "max": option.most} if kind in (int, int | None) else {}
        info = typer.Option(*flags, rich_help_panel=option.group, **about)
    info.option = option
    keyword = inspect.Parameter.KEYWORD_ONLY
    return inspect.Parameter(
        option.name, keyword, default=default, annotation=Annotated[kind, info]
    )


# Text that is none, and an output that is one of the inputs, are refused before anything is read ---

#: What stands in the help for a file that is read, and for one that is written if its group says so.
_NAMED = "[NAME=]MODEL"
_READ = ("INPUT", "MODEL", _NAMED, "STATE...", "A.json", "B.json", "FILE")
_WRITTEN = ("OUTPUT", "FILE", "FILE.html")

#: The option of commands whose result is a table.
_FORMAT = "output_format"

#: A file, whatever it is called: device and number on it.
Identity = tuple[int, int]


def _refuse_broken_text(options: Sequence[Option], typed: Mapping[str, Any]) -> None:
    """Raise a `UsageError` where a text was typed in bytes that Python could not read.

    Names of files may have any bytes; no model, table or message can hold others.
    """
    for option in options:
        if option.path or option.metavar in _READ + _WRITTEN:
            continue
        value = typed.get(option.name)
        for text in value if isinstance(value, list) else [value]:
            if isinstance(text, str) and re.search("[\ud800-\udfff]", text):
                raise UsageError(
                    f"{option.flag} {text!r} is not UTF-8, or PYTHONUTF8=0 keeps it from being read "
                    "as that; give it in UTF-8."
                )


def _refuse_clashes(options: Sequence[Option], typed: Mapping[str, Any]) -> None:
    """Raise a `UsageError` where an output is one of the inputs: by any name, link or redirection.

    And where two inputs are standard input.
    """
    known = [(option, typed.get(option.name)) for option in options if typed.get(option.name)]
    read = [
        (option.metavar, name)
        for option, value in known
        if (option.path or option.metavar in _READ) and option.group != OUTPUT
        for name in ([value] if isinstance(value, str) else value or [])
    ]
    if sum(name == "-" or (kind == _NAMED and name.endswith("=-")) for kind, name in read) > 1:
        raise UsageError("standard input (-) can be read once only; name it once.")
    outputs = [
        str(value)
        for option, value in known
        if option.metavar in _WRITTEN and option.group == OUTPUT and value != "-"
    ]
    written = {_identity(output): output for output in outputs} | {_identity(1): "standard output"}
    written.pop(None, None)  # folders, and what is no file yet
    folders = [output for output in outputs if os.path.isdir(output)]  # noqa: PTH112
    if not written and not folders:
        return
    for _, name in read:
        for path in _files(name):
            output = written.get(_identity(path))
            if output is not None:
                _refuse(output, path)
    suffixes = ("json", "state")  # of what is no table
    if any(option.name == _FORMAT for option in options):
        suffixes = tuple(filter(None, [typed.get(_FORMAT)]))
    for folder in folders:
        _refuse_in(folder, read, suffixes)


def _refuse_in(folder: str, read: list[tuple[str | None, str]], suffixes: tuple[str, ...]) -> None:
    """Refuse a file besides the rows, such as the model, where an output of each input would be."""
    from calibkit.files.formats import strip_suffixes
    from calibkit.files.paths import Named, find_files

    others = [name for kind, name in read if kind != "INPUT"]
    beside = {_identity(path): path for name in others for path in _files(name)}
    rows = [name for kind, name in read if kind == "INPUT"]
    found: list[Named] = []
    with suppress(CalibkitError):  # what is not there is told by who opens it
        found = find_files(rows)
    for row in found:
        stem = strip_suffixes(row.relative)
        for name in (row.relative, *(f"{stem}.{suffix}" for suffix in suffixes)):
            path = str(Path(folder) / name)
            same = _identity(path)
            if same is not None and same in beside:
                _refuse(path, beside[same])


def _refuse(output: str, path: str) -> None:
    same = output in (path, f"./{path}")
    what = "this input" if same else f"the input {path}"
    raise UsageError(f"{output}: {what} would be written over; name another output", file=output)


def _files(name: str) -> Iterator[str]:
    """Yield the files that an input names; none where there are none."""
    yield name
    named, path = split_name(name)
    if named is not None:
        yield path
    if os.path.isfile(name) or "://" in name or name == "-":  # noqa: PTH113
        return
    from calibkit.files.paths import find_files

    with suppress(CalibkitError):
        yield from find_files([name])


def split_name(text: str) -> tuple[str | None, str]:
    """Return name and path of ``NAME=FILE``; the folder of a path tells it from a name: ./k=3.json."""
    name, sign, path = text.partition("=")
    return (name, path) if sign and not {"/", "."} & set(name) else (None, text)


def _identity(name: str | int) -> Identity | None:
    """Return which file a name or a number leads to; None where it is none, a device or a pipe."""
    try:
        found = os.stat(0 if name == "-" else name)  # noqa: PTH116
    except (OSError, ValueError):  # not there, or closed
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None


# What typer loads and nobody needs ---------------------------------------------------------------

#: What help in Markdown, and the traceback of a crash, would be printed with: neither is.
_UNUSED = {"rich.markdown": "Markdown", "rich.traceback": "Traceback"}


class Listing(core.TyperGroup):
    """A list of commands, printed without `_UNUSED`."""

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Print the help."""
        load_printer()
        super().format_help(ctx, formatter)


def load_printer() -> None:
    """Import what prints help, with names in place of what it will not use: a quarter of the time."""
    named = [name for name in _UNUSED if name not in sys.modules]
    for name in named:
        sys.modules[name] = ModuleType(name)
        setattr(sys.modules[name], _UNUSED[name], None)
    try:
        import_module("typer.rich_utils")
    finally:
        for name in named:
            del sys.modules[name]


# Values that options check -----------------------------------------------------------------------

#: typer's own module, by what it does not export: where it does not have it, nothing is changed.
_TYPER: Any = core


def let_options_check() -> None:
    """Let options check their values as they do in Python, in place of typer's validator."""
    parameter: Any = getattr(_TYPER, "_TyperParameter", None)
    if hasattr(parameter, "get_runtime_param") and hasattr(_TYPER, "build_runtime_param"):
        parameter.get_runtime_param = lambda self: SimpleNamespace(coerce=_coerce)


def _coerce(value: Any, param: Any, ctx: Any) -> Any:
    """Return the value of a parameter as its option takes it.

    Text that an option reads in a way of its own is read when all of them are there.
    """
    if param.multiple or param.nargs == -1:
        return list(value or ())
    kind = param.type_descriptor
    if value is None or kind.annotation is str:
        return value
    option = getattr(kind.parameter_info, "option", None)
    if option is None or kind.annotation is bool:  # of the environment, or an option of typer's own
        return _TYPER.build_runtime_param(kind).coerce(value, param=param, ctx=ctx)
    try:
        return option.take(number_of(value, kind.annotation))
    except UsageError as error:  # the parser knows where the value comes from
        raise typer.BadParameter(error.message, ctx=ctx, param=param) from error


def number_of(value: Any, kind: Any) -> Any:
    """Return the number of a kind that a text is; any other value as it is."""
    if kind not in (int, float) or not isinstance(value, str):
        return value
    try:
        # 5.0 is a whole number too.
        return kind(re.sub(r"\.0+$", "", value) if kind is int else value)
    except ValueError:
        return value
