"""Files elsewhere: what polars reads by their address, and what became of it where it fails."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NoReturn

import polars as pl

from calibkit.errors import MissingFileError, ResourceError, UsageError

#: What addresses that polars reads begin with.
SCHEMES: Final = ("s3", "gs", "gcs", "az", "abfs", "abfss", "https", "http")

_ADDRESS = re.compile(r"([a-z][a-z0-9+.-]+)://", re.IGNORECASE)

#: How polars begins what it says of a file elsewhere.
_STORE: Final = "object-store error: "


def is_remote(name: str) -> bool:
    """Tell whether an input is an address.

    Raises
    ------
    UsageError
        For an address of a kind that polars does not read.
    """
    found = _ADDRESS.match(name)
    if found is None:
        return False
    if found[1].lower() not in SCHEMES:
        raise UsageError(
            f"{name}: addresses of {found[1]}:// are not read; those of "
            f"{', '.join(f'{one}://' for one in SCHEMES)} are",
            file=name,
        )
    return True


def text_of(path: str) -> Iterator[bytes]:
    """Yield the bytes of a text file elsewhere, decompressed."""
    for lines in pl.scan_lines(path).collect_batches(maintain_order=True):
        yield "\n".join([*lines.to_series().to_list(), ""]).encode()


def explain(path: str, error: BaseException) -> None:
    """Raise what a failure to read a file elsewhere means; return where it is no such failure.

    Raises
    ------
    UsageError
        No such file, no permission, or a server that does not serve parts of files.
    ResourceError
        The network, or the server, failed.
    """
    said = str(error)
    if _STORE not in said:
        return
    reason = said.split(_STORE, 1)[1].splitlines()[0]
    if isinstance(error, FileNotFoundError) or "not found" in reason:
        problem = "there is no such file; check the address"
        raise MissingFileError(f"{path}: {problem}", file=path) from error
    if isinstance(error, PermissionError) or re.search(r"\b40[13]\b|[Cc]redential", said):
        _refuse(path, f"may not be read ({reason}); check the credentials", error)
    if "Range request not supported" in reason:
        _refuse(path, "its server does not serve parts of files; download it first", error)
    raise ResourceError(
        f"{path}: could not be read over the network ({reason}); try again", file=path
    ) from error


def _refuse(path: str, problem: str, error: BaseException) -> NoReturn:
    raise UsageError(f"{path}: {problem}", file=path) from error
