"""An output that is one of the inputs: refused before anything is read."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from calibkit.errors import CalibkitError, UsageError
from calibkit.options.option import Option
from calibkit.options.shared import OUTPUT

#: What stands in the help for a file that is read, and for one that is written if its group says so.
_READ = ("INPUT", "MODEL", "[NAME=]MODEL", "STATE...", "A.json", "B.json", "FILE")
_WRITTEN = ("OUTPUT", "FILE", "FILE.html")

#: The option of commands whose result is a table.
_FORMAT = "output_format"

#: A file, whatever it is called: device and number on it.
Identity = tuple[int, int]


def refuse_clashes(options: Sequence[Option], typed: Mapping[str, Any]) -> None:
    """Raise a `UsageError` where an output is one of the inputs: by any name, link or redirection."""
    known = [(option, typed.get(option.name)) for option in options if typed.get(option.name)]
    outputs = [
        str(value)
        for option, value in known
        if option.metavar in _WRITTEN and option.group == OUTPUT and value != "-"
    ]
    written = {_identity(output): output for output in outputs if not os.path.isdir(output)}  # noqa: PTH112
    written |= {_identity(1): "standard output"}
    written.pop(None, None)
    folders = [output for output in outputs if os.path.isdir(output)]  # noqa: PTH112
    if not written and not folders:
        return
    read = [
        (option.metavar, name)
        for option, value in known
        if (option.path or option.metavar in _READ) and option.group != OUTPUT
        for name in ([value] if isinstance(value, str) else value or [])
    ]
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
    from calibkit.files.paths import find_files

    others = [name for kind, name in read if kind != "INPUT"]
    beside = {_identity(path): path for name in others for path in _files(name)}
    rows = [name for kind, name in read if kind == "INPUT"]
    found: list[tuple[str, str]] = []
    with suppress(CalibkitError):  # what is not there is told by who opens it
        found = find_files(rows)
    for _, relative in found:
        stem = strip_suffixes(relative)
        for name in (relative, *(f"{stem}.{suffix}" for suffix in suffixes)):
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
    named, equals, path = name.partition("=")
    if equals and not {"/", "."} & set(named):
        yield path
    if os.path.isfile(name) or "://" in name or name == "-":  # noqa: PTH113
        return
    from calibkit.files.paths import find_files

    with suppress(CalibkitError):
        yield from (path for path, _ in find_files([name]))


def _identity(name: str | int) -> Identity | None:
    """Return which file a name or a number leads to; None where it is none, a device or a pipe."""
    try:
        found = os.stat(0 if name == "-" else name)  # noqa: PTH116
    except (OSError, ValueError):  # not there, or closed
        return None
    return (found.st_dev, found.st_ino) if stat.S_ISREG(found.st_mode) else None
