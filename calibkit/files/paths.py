"""What a user names as inputs and outputs, and where that leads."""

from __future__ import annotations

import glob
import os
import platform
import re
import stat
import sys
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from msgspec import Struct

from calibkit.errors import MissingFileError, UsageError, nearest
from calibkit.files.explain import reading
from calibkit.files.formats import strip_suffixes, suffix_format, unknown_suffix

#: The name of standard input among the inputs, and of standard output among the outputs.
STDIN: Final = "-"

#: Names that all mean standard output.
STDOUT_NAMES: Final = frozenset({"-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})

#: What the names of open files begin with.
_DESCRIPTORS: Final = ("/dev/fd/", "/proc/self/fd/")

#: What addresses that polars reads begin with.
SCHEMES: Final = ("s3", "gs", "gcs", "az", "abfs", "abfss", "https", "http")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)


class Part(Struct, frozen=True):
    """One file of the inputs."""

    path: str  # ``-`` is standard input
    format: str  # that of a table: ``csv``, ``parquet``, …
    relative: str = ""  # the path within the folder that was named; of a file the name alone
    #: The ``key=value`` folders between the folder that was named and the file.
    keys: Mapping[str, str | None] = {}


class Named(str):
    """The path of a file, what messages and models call it, and its `Part.relative`."""

    known_as: str
    relative: str

    def __new__(cls, path: str, relative: str, known_as: str | None = None) -> Named:
        """Return a path with a name: if none is given the one that it had, or else itself."""
        made = super().__new__(cls, path)
        made.known_as, made.relative = known_as or str(getattr(path, "known_as", path)), relative
        return made

    def __reduce__(self) -> tuple[type[Named], tuple[str, str, str]]:
        """Travel with the name."""
        return Named, (str(self), self.relative, self.known_as)

    def from_anywhere(self) -> Named:
        """Return the file by a path that leads there whatever folder a process runs in."""
        if is_remote(self):
            return self
        return Named(str(Path(self).absolute()), self.relative, self.known_as)


def find_files(inputs: Sequence[str]) -> list[Named]:
    """Return the files that the inputs of a command name.

    A folder is searched recursively, without names that begin with ``.`` or ``_``; its files, and
    those of a glob, come sorted by name.  ``-`` and addresses stay as they are.

    Raises `UsageError` where there is no such file, or none that may be read.
    """
    if not inputs:
        raise UsageError("no input; name a file, a glob, a folder or - for standard input")
    found: list[Named] = []
    for name in inputs:
        if not name:  # which would be the folder at hand
            raise UsageError("an input has an empty name; is a variable not set?")
        with reading(name):
            found += _expanded(name)
    for path in found:
        if re.search("[\ud800-\udfff]", path):
            raise UsageError.of(
                path,
                "the name is not UTF-8, which the readers need; rename the file, or read it "
                "by < on standard input",
            )
    if sum(path == STDIN for path in found) > 1:
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


def _expanded(name: str) -> Iterator[Named]:
    """Yield the files that an input names."""
    path = Path(name)
    if isinstance(name, Named):
        yield name
    elif name == STDIN or is_remote(name):
        yield Named(name, name.rpartition("/")[2])
    elif path.is_dir():
        yield from _walk(path)
    elif path.exists() or not glob.has_magic(name):
        _need_file(name)
        yield Named(name, path.name)
    else:
        matches = sorted(glob.glob(name, recursive=True))  # noqa: PTH207 (keeps the path as typed)
        if not matches:
            raise MissingFileError.of(name, "no file matches this pattern; check the path")
        for match in matches:
            *folders, last = Path(match).parts
            if any(folder.startswith("_") and folder not in path.parts for folder in folders):
                continue
            if not Path(match).is_dir():
                yield Named(match, last)
            elif "**" not in name:
                yield from _walk(Path(match))


def _walk(folder: Path) -> Iterator[Named]:
    found = []

    def stop(error: OSError) -> None:
        problem = f"cannot be read ({error.strerror}); check its permissions"
        raise UsageError.of(str(error.filename), problem) from error

    for root, folders, names in os.walk(folder, onerror=stop, followlinks=True):
        folders[:] = sorted(name for name in folders if not name.startswith((".", "_")))
        found += [Path(root) / name for name in names if not name.startswith((".", "_"))]
    if not found:
        raise UsageError.of(str(folder), "no file in this folder; check the path")
    for path in sorted(found):
        yield Named(str(path), str(path.relative_to(folder)))


def _need_file(name: str) -> None:
    path = Path(name)
    if not path.exists():
        if path.is_symlink():
            raise MissingFileError.of(
                name, f"is a symbolic link to {path.readlink()}, where no file is; mend it"
            )
        known: list[str] = []
        with suppress(OSError):  # a folder that is not there, or may not be listed
            known = os.listdir(path.parent)  # noqa: PTH208 (names)
        raise MissingFileError.of(name, f"no such file{nearest(path.name, known)}; check the path")


def read_bytes(path: str) -> bytes:
    """Return all bytes of a file, ``-`` is standard input; errors as of `reading`."""
    with reading(path):
        if path != STDIN:
            _need_file(path)
        return sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()


#: Of the final name; the temporary one has to stay within the 255 bytes of a file system.
_KEPT_NAME: Final = 180
_LONGEST_NAME: Final = 255


def check_output(
    output: str,
    *,
    table: bool = False,
    format: str | None = None,  # noqa: A002 (the word of options)
) -> None:
    """Raise before any long work if an output cannot be written.

    `table`: whether a table goes there, so that its suffix has to tell a format unless `format` does.

    Raises `UsageError`: no such folder, a folder itself, not writable, or an unknown suffix.
    """
    if not output:
        raise UsageError("the output has no name; name a file, or - for standard output")
    if output.endswith("/") or _is_folder(output):
        raise UsageError.of(output, "is a folder; name a file in it")
    stream = is_stream(output)
    if table and format is None and not stream and suffix_format(output) is None:
        raise unknown_suffix(output, "--output-format")
    if output in STDOUT_NAMES or (stream and os.access(output, os.W_OK)):
        return
    path = Path(os.path.realpath(output))
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise UsageError.of(
            output, f"the name has more than {_LONGEST_NAME} bytes; give it a shorter one"
        )
    if _ADDRESS.match(output):
        raise UsageError.of(output, "rows are read from addresses, not written there; name a file")
    if not _is_folder(path.parent):
        above = path.parent.parent
        known = [entry.name for entry in above.iterdir()] if _is_folder(above) else []
        raise UsageError.of(
            output, f"no such folder{nearest(path.parent.name, known)}; create it first"
        )
    folder_writable = os.access(path.parent, os.W_OK | os.X_OK)
    if not folder_writable or (path.exists() and not os.access(path, os.W_OK)):
        raise UsageError.of(output, "is not writable; check its permissions")


def check_folder(directory: str) -> None:
    """Raise before any long work if a folder of outputs cannot be made or written.

    Raises `UsageError` where the folder it is to stand in does not exist, or is not writable.
    """
    path = Path(directory)
    place = path if path.exists() else path.parent
    if place == path and not _is_folder(path):
        raise UsageError.of(directory, "is a file; leave the / out, or name a folder")
    if not _is_folder(place):
        raise UsageError.of(directory, f"no such folder as {place}; create it first")
    if not os.access(place, os.W_OK | os.X_OK):
        raise UsageError.of(directory, "is not writable; check its permissions")


def is_stream(output: str) -> bool:
    """Tell whether an output is written directly: standard output, a pipe, a device.

    A table that goes there without a telling suffix needs its format named.
    """
    return not _is_folder(output) and final_path(output) is None


def is_directory_output(output: str) -> bool:
    """Tell whether an output means one file per input: it ends in ``/`` or is a folder."""
    return output != "-" and (output.endswith("/") or _is_folder(output))


def directory_outputs(
    directory: str,
    parts: Sequence[Part],
    *,
    format: str | None = None,  # noqa: A002 (the word of options)
    suffix: str | None = None,
) -> list[str]:
    """Return one output per input, under the same relative name.

    Nothing is created here (see `Transaction`).  `format` is that of the outputs, None keeps each
    input's own suffix; `suffix` that of outputs that are no tables, such as ``.json``.

    Raises `UsageError` if two inputs would be written to the same file, or an output over an input.
    """
    outputs: dict[str, Part] = {}
    for part in parts:
        name = "stdin" if part.path == STDIN else part.relative or Path(part.path).name
        if suffix is not None:
            name = strip_suffixes(name) + suffix
        elif format is not None and suffix_format(name) != format:
            name = strip_suffixes(name) + f".{format}"
        elif suffix_format(name) is None:
            name += f".{part.format}"
        output = str(Path(directory) / name)
        # What may not be looked at is none; one file may have two names.
        if os.path.exists(output) and any(  # noqa: PTH110
            os.path.exists(one.path) and os.path.samefile(output, one.path)  # noqa: PTH110, PTH121
            for one in parts
        ):
            raise UsageError.of(output, "this input would be written over; name another output")
        if output in outputs:
            raise UsageError.of(
                output,
                f"{outputs[output].path} and {part.path} would both be written there; "
                "run them one at a time",
            )
        outputs[output] = part
    return list(outputs)


def final_path(output: str) -> Path | None:
    """Return the file that `output` means, symbolic links followed; None for a stream."""
    if output in STDOUT_NAMES | {"/dev/stderr"} or output.startswith(_DESCRIPTORS):
        return None
    path = Path(os.path.realpath(output))
    try:
        mode = path.stat().st_mode
    except OSError:
        return path  # not there, or not ours to see: opening it will tell
    if stat.S_ISDIR(mode):
        raise UsageError.of(output, "is a folder; name a file in it")
    return path if stat.S_ISREG(mode) else None


def fresh_path(final: Path) -> Path:
    """Return a name beside a file, for what is written until it is whole.

    Such files that killed processes of this machine have left are removed.
    """
    host = zlib.crc32(platform.node().encode())
    before = f".{os.fsdecode(os.fsencode(final.name)[:_KEPT_NAME])}.calibkit-{host:08x}-"
    stale = re.compile(rf"{re.escape(before)}(\d+)-[0-9a-f]+\.tmp")
    with suppress(OSError):  # a folder that takes files may not be listed
        for entry in os.scandir(final.parent):
            found = stale.fullmatch(entry.name)
            if found and not _alive(int(found[1])):
                Path(entry.path).unlink(missing_ok=True)
    return final.with_name(f"{before}{os.getpid()}-{os.urandom(4).hex()}.tmp")


def _alive(process: int) -> bool:
    if os.name != "posix":  # where signal 0 asks nothing: it is Ctrl-C
        return True
    try:
        os.kill(process, 0)
    except (OSError, OverflowError) as error:
        return not isinstance(error, ProcessLookupError)
    return True


def _is_folder(path: str | Path) -> bool:
    return os.path.isdir(path)  # noqa: PTH112 (what may not be looked at is none)
