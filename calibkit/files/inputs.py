"""What a user names as input, as a list of files."""

from __future__ import annotations

import glob
import os
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from calibkit.errors import DataError, MissingFileError, UsageError, nearest
from calibkit.files.explain import reading

#: The name of standard input among the inputs.
STDIN: Final = "-"

#: What addresses that polars reads begin with.
SCHEMES: Final = ("s3", "gs", "gcs", "az", "abfs", "abfss", "https", "http")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


@dataclass(frozen=True)
class Part:
    """One file of the inputs."""

    path: str  # ``-`` is standard input
    format: str  # one of `calibkit.files.formats.FORMATS`
    relative: str = ""  # the path within the folder that was named; of a file the name alone
    #: The ``key=value`` folders between the folder that was named and the file.
    keys: Mapping[str, str | None] = field(default_factory=dict)


class Named(str):
    """The path of a file that messages and models call by another name, and its `Part.relative`."""

    known_as: str
    relative: str

    def __new__(cls, path: str, known_as: str, relative: str = "") -> Named:
        """Return a path with a name."""
        made = super().__new__(cls, path)
        made.known_as, made.relative = known_as, relative
        return made

    def __reduce__(self) -> tuple[type[Named], tuple[str, str, str]]:
        """Travel with the name."""
        return Named, (str(self), self.known_as, self.relative)


def find_files(inputs: Sequence[str]) -> list[tuple[str, str]]:
    """Return the files that the inputs of a command name, each with its path within its folder.

    A folder is searched recursively, without names that begin with ``.`` or ``_``; its files, and
    those of a glob, come sorted by name.  ``-`` and addresses stay as they are.

    Raises `UsageError` where there is no such file, or none that may be read.
    """
    if not inputs:
        raise UsageError("no input; name a file, a glob, a folder or - for standard input")
    found: list[tuple[str, str]] = []
    for name in inputs:
        with reading(name):
            found += _expanded(name)
    for path, _ in found:
        if not path.isprintable() and any("\ud800" <= sign <= "\udfff" for sign in path):
            raise UsageError.of(
                path,
                "the name is not UTF-8, which the readers need; rename the file, or read it "
                "by < on standard input",
            )
    if sum(path == STDIN for path, _ in found) > 1:
        raise UsageError("standard input (-) can be read once only; name it once")
    return found


def is_remote(name: str) -> bool:
    """Tell whether an input is an address; `UsageError` for one of a kind that polars does not read."""
    found = _ADDRESS.match(name)
    if found is None:
        return False
    if found[1].lower() not in SCHEMES:
        raise UsageError.of(
            name,
            f"addresses of {found[1]}:// are not read; those of "
            f"{', '.join(f'{one}://' for one in SCHEMES)} are",
        )
    return True


def _expanded(name: str) -> Iterator[tuple[str, str]]:
    """Yield the files that an input names, each with its path within the named folder."""
    path = Path(name)
    if isinstance(name, Named) and name.relative:
        yield name, name.relative
    elif name == STDIN or is_remote(name):
        yield name, name.rpartition("/")[2]
    elif path.is_dir():
        yield from _walk(path)
    elif path.exists() or not glob.has_magic(name):
        if not path.exists():
            known = os.listdir(path.parent) if path.parent.is_dir() else []  # noqa: PTH208 (names)
            raise MissingFileError.of(
                name, f"no such file{nearest(path.name, known)}; check the path"
            )
        yield name, path.name
    else:
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (keeps the path as typed)
        if not matches:
            raise MissingFileError.of(name, "no file matches this pattern; check the path")
        for match in matches:
            *folders, last = Path(match).parts
            if any(folder.startswith("_") and folder not in path.parts for folder in folders):
                continue
            if not Path(match).is_dir():
                yield match, last
            elif "**" not in name:
                yield from _walk(Path(match))


def _walk(folder: Path) -> Iterator[tuple[str, str]]:
    found = []

    def stop(error: OSError) -> None:
        raise UsageError(
            f"{error.filename}: cannot be read ({error.strerror}); check its permissions",
            file=str(error.filename),
        ) from error

    for root, folders, names in os.walk(folder, onerror=stop, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        found += [Path(root) / name for name in names if not name.startswith((".", "_"))]
    if not found:
        raise UsageError(f"{folder}: no file in this folder; check the path", file=str(folder))
    for path in sorted(found):
        yield str(path), str(path.relative_to(folder))


def check_rows(path: str, rows: int, expected: int) -> None:
    """Raise a `DataError` where a file gave another number of rows than it had."""
    if rows != expected:
        raise DataError.of(
            path,
            f"{rows} rows instead of {expected}: the file changed while it was read; "
            "run again when it is complete",
        )


def read_bytes(path: str) -> bytes:
    """Return all bytes of a file, ``-`` is standard input; errors as of `reading`."""
    with reading(path):
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
