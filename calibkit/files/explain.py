"""What went wrong with a file, as the error that tells the user: one function for all readers."""

from __future__ import annotations

import csv
import errno
import os
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from calibkit.errors import CalibkitError, DataError, MissingFileError, ResourceError, UsageError

_OS_ERROR: Final = re.compile(r"(?:os error |Errno )(\d+)")
_REPEATED: Final = re.compile(r"name '(.*)' has more than one occurrence")
#: What pyarrow says of memory that it did not get; and how far compression goes, generously.
_ALLOCATION: Final = re.compile(r"(?:malloc|realloc) of size (\d+) failed")
_MOST_EXPANSION: Final = 100_000
#: How polars begins most of what it says of a file elsewhere, and how it asks who may read it.
_STORE: Final = "object-store error: "
_WHO_MAY: Final = re.compile(r"\b40[13]\b|[Cc]redential|token request|/api/token|Account must be")

#: What seeking to an offset that a corrupt file names ends in.
_NONSENSE: Final = frozenset({errno.EINVAL, errno.EOVERFLOW})
_NOT_READABLE: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
)
_NOT_WRITABLE: Final = _NOT_READABLE | {errno.EROFS, errno.EINVAL, errno.ELOOP}


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn whatever goes wrong while `path` is read into the error that tells the user.

    Raises `UsageError` where the file is not there or may not be read; `ResourceError` where the
    machine or the network failed, or memory ran out; `DataError` for everything else: the content
    is truncated, corrupt or not of its format.
    """
    try:
        yield
    except CalibkitError:
        raise
    except (MemoryError, OSError, ValueError, csv.Error, *_of_polars()) as error:
        raise explain(path, error) from error


def _of_polars() -> tuple[type[Exception], type[BaseException]]:
    """Return what polars raises; asked for, so that it is loaded, only where something went wrong."""
    from polars.exceptions import PanicException, PolarsError

    return PolarsError, PanicException


def explain(path: str, error: BaseException) -> CalibkitError:
    """Return what the error of a reader means for the file that it read; see `reading`."""
    said = str(error)
    starved = isinstance(error, MemoryError) or "out of memory" in said.lower()
    wanted, found = _ALLOCATION.search(said), Path(path)
    if wanted and found.is_file() and int(wanted[1]) > _MOST_EXPANSION * found.stat().st_size:
        starved = False  # more than what the file holds can expand to: it is damaged
    if starved:
        return ResourceError.of(
            path, "memory ran out while it was read; read fewer columns or smaller files"
        )
    if _STORE in said or ("://" in path and isinstance(error, OSError)):
        return _of_the_network(path, error)
    repeated = _REPEATED.search(said)
    if type(error).__name__ == "DuplicateError" and repeated:
        return repeated_name([repeated[1]] * 2, path)
    system = _system_error(error)
    if system is None or system.errno in _NONSENSE:
        advice = "write it again, or name its format by --input-format"
        if "CSV malformed" in said:  # rows that polars counted, and then could not find
            advice = "close the quotation mark that is open there"
        return DataError.of(
            path,
            f"the file is truncated, corrupt or not of its format ({first_line(error)}); {advice}",
        )
    reason = (system.strerror or str(system)).splitlines()[0]
    if system.errno in _NOT_READABLE:
        kind = MissingFileError if system.errno == errno.ENOENT else UsageError
        return kind.of(path, f"cannot be read ({reason}); check the path and its permissions")
    return ResourceError.of(path, f"read error ({reason}); try again")


def first_line(error: BaseException) -> str:
    """Return the first line of what an error says, or its name where it says nothing."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def repeated_name(names: Sequence[str], path: str) -> DataError:
    """Return what is said of columns of which at least one name comes twice."""
    name = min(name for name in names if names.count(name) > 1)
    return DataError.of(
        path,
        f"the header names column {name!r} {names.count(name)} times; "
        "give every column a name of its own",
        column=name,
    )


def _of_the_network(path: str, error: BaseException) -> CalibkitError:
    said = str(error)
    reason = said.rpartition(_STORE)[2].splitlines()[0]
    kind: type[CalibkitError] = UsageError
    if isinstance(error, FileNotFoundError) or "not found" in reason:
        kind, problem = MissingFileError, "there is no such file; check the address"
    elif isinstance(error, PermissionError) or _WHO_MAY.search(said):
        kind, problem = ResourceError, f"may not be read ({reason}); check the credentials"
    elif "Range request not supported" in reason:
        problem = "its server does not serve parts of files; download it first"
    else:
        kind, problem = ResourceError, f"could not be read over the network ({reason}); try again"
    return kind.of(path, problem)


def _system_error(error: BaseException) -> OSError | None:
    """Return the operating system's error inside `error`, or None.

    Polars wraps failed system calls in errors of its own, with the number in the text.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error
    found = _OS_ERROR.search(str(error))
    if not found:
        return None
    return OSError(int(found[1]), re.sub(r"\s*\(os error \d+\)", "", str(error)))


@contextmanager
def writing(output: str) -> Iterator[None]:
    """Turn whatever goes wrong while `output` is written into the error that tells the user.

    Raises `UsageError` where the file cannot be created, or CSV is asked to hold lists;
    `ResourceError` where the disk is full or fails, or memory ran out; `BrokenPipeError` where the
    reader of a pipe has gone.
    """
    try:
        yield
    except CalibkitError:
        raise
    except MemoryError as error:
        raise ResourceError.of(output, "memory ran out while it was written") from error
    except (OSError, _of_polars()[0]) as error:
        system = _system_error(error)
        if isinstance(system, BrokenPipeError):
            raise system from error
        if system is not None:
            reason = os.strerror(system.errno or errno.EIO)
            if system.errno in _NOT_WRITABLE:
                raise UsageError.of(output, f"cannot be written ({reason})") from error
            problem = f"could not be written ({reason}); nothing of it was kept"
            raise ResourceError.of(output, problem) from error
        if odd := re.search(r"nested|datatype (.+) cannot be written to (\w+)", str(error)):
            what, kind = odd.groups("")
            what, other = (what, "") if what else ("list or struct", " or NDJSON")
            problem = f"{kind or 'CSV'} cannot hold {what} columns; write Parquet{other}"
            raise UsageError.of(output, problem) from error
        raise
