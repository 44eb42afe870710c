"""One input file (or stream) as a table: its schema and rows at once, its columns on demand."""

from __future__ import annotations

import csv
import errno
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from io import BytesIO
from pathlib import Path
from typing import Final, NoReturn

import polars as pl
from polars.selectors import by_name

from calibkit.errors import CalibkitError, DataError, MissingFileError, ResourceError, UsageError
from calibkit.files import arrow, remote
from calibkit.files.delimited import read_delimited, refuse_repeated, scan_delimited
from calibkit.files.formats import (
    HEAD_BYTES,
    is_arrow_stream,
    is_compressed,
    text_problem,
    without_bom,
)
from calibkit.files.scratch import Scratch

_OS_ERROR: Final = re.compile(r"(?:os error |Errno )(\d+)")
_REPEATED: Final = re.compile(r"name '(.*)' has more than one occurrence")
_NOT_READABLE: Final = frozenset(
    {errno.ENOENT, errno.EACCES, errno.EPERM, errno.EISDIR, errno.ENOTDIR, errno.ENAMETOOLONG}
)

#: What pyarrow says of memory that it did not get; and how far compression goes, generously.
_ALLOCATION: Final = re.compile(r"(?:malloc|realloc) of size (\d+) failed")
_MOST_EXPANSION: Final = 100_000

#: Compressed text is taken for so many times as large as its file: numbers seldom shrink to less.
_EXPANSION: Final = 8

#: What seeking to an offset that a corrupt file names ends in.
_NONSENSE: Final = frozenset({errno.EINVAL, errno.EOVERFLOW})

Schema = dict[str, pl.DataType]

#: Where an input is: a file, the bytes of a stream, or a file that holds these, or an address.
Where = Path | bytes | Scratch | str


def system_error(error: BaseException) -> OSError | None:
    """Return the operating system's error inside `error`, or None.

    Polars wraps failed system calls in errors of its own, with the number in the text.
    """
    if isinstance(error, OSError) and error.errno is not None:
        return error
    found = _OS_ERROR.search(str(error))
    if not found:
        return None
    number = int(found[1])
    return OSError(number, re.sub(r"\s*\(os error \d+\)", "", str(error)))


@contextmanager
def reading(path: str) -> Iterator[None]:
    """Turn whatever goes wrong while `path` is read into the error that tells the user.

    Raises
    ------
    UsageError
        The file is not there or may not be read.
    ResourceError
        The machine failed: a read error, or memory ran out.
    DataError
        Everything else: the content is truncated, corrupt or not of its format.
    """
    try:
        yield
    except MemoryError as error:
        if _is_nonsense(path, str(error)):
            _explain(path, ValueError(str(error)))
        raise ResourceError(
            f"{path}: memory ran out while it was read; read fewer columns or smaller files",
            file=path,
        ) from error
    except CalibkitError:
        raise
    except (OSError, pl.exceptions.PolarsError, ValueError, csv.Error) as error:
        _explain(path, error)
    except pl.exceptions.PanicException as error:  # derives from BaseException
        _explain(path, error)


def _is_nonsense(path: str, error: str) -> bool:
    """Whether a file asks for more memory than what it holds can expand to: it is damaged."""
    wanted = _ALLOCATION.search(error)
    found = Path(path)
    return bool(
        wanted and found.is_file() and int(wanted[1]) > _MOST_EXPANSION * found.stat().st_size
    )


def _explain(path: str, error: BaseException) -> NoReturn:
    remote.explain(path, error)
    repeated = _REPEATED.search(str(error))
    if isinstance(error, pl.exceptions.DuplicateError) and repeated:
        refuse_repeated([repeated[1]] * 2, path)
    system = system_error(error)
    if system is None or system.errno in _NONSENSE:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise DataError(
            f"{path}: the file is truncated, corrupt or not of its format ({reason}); "
            "write it again, or name its format by --input-format",
            file=path,
        ) from error
    reason = (system.strerror or str(system)).splitlines()[0]
    if system.errno in _NOT_READABLE:
        kind = MissingFileError if system.errno == errno.ENOENT else UsageError
        raise kind(
            f"{path}: cannot be read ({reason}); check the path and its permissions", file=path
        ) from error
    raise ResourceError(f"{path}: read error ({reason}); try again", file=path) from error


def exactly(names: Sequence[str]) -> list[str | pl.Expr]:
    """Return columns by their names alone: polars would take ``*`` and ``^…$`` for patterns."""
    return [
        by_name(name).as_expr() if name == "*" or name.startswith("^") else name for name in names
    ]


@dataclass(frozen=True)
class Table:
    """An input whose schema and number of rows are known.

    Parameters
    ----------
    frame
        The rows, or for Parquet and Arrow files the scan that reads them.
    schema
        Column names and types, in the order of the file.
    rows
        The number of rows.
    stored
        A Parquet file, or its bytes, for `metadata`.
    kept
        The file that is scanned, where it is the run's own.
    """

    frame: pl.DataFrame | pl.LazyFrame
    schema: Schema
    rows: int
    stored: Path | str | bytes | None = None
    kept: Scratch | None = None

    def metadata(self) -> dict[str, str]:
        """Return the keys and values of a Parquet file's footer; other formats have none."""
        if self.stored is None:
            return {}
        source = BytesIO(self.stored) if isinstance(self.stored, bytes) else self.stored
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # polars calls the function experimental
            return pl.read_parquet_metadata(source)

    def stretch(self, first: int, rows: int) -> Table:
        """Return some rows from number `first` (from 0) on; of a scan they alone are read."""
        return replace(self, frame=self.frame.slice(first, rows), rows=rows)

    def read(self, columns: Sequence[str]) -> pl.DataFrame:
        """Return `columns`, in this order, in as many chunks as the file has."""
        frame = self.frame.select(exactly(columns))
        return frame.collect() if isinstance(frame, pl.LazyFrame) else frame

    def batches(self, columns: Sequence[str], rows: int) -> Iterator[pl.DataFrame]:
        """Yield `columns`, in this order, at most so many rows at a time, in the file's order."""
        frame = self.frame.select(exactly(columns))
        if isinstance(frame, pl.DataFrame):
            yield from frame.iter_slices(rows)
        else:
            # Batches as polars reads them: to cut them to a size costs time and memory.
            yield from _gathered(frame.collect_batches(maintain_order=True), rows)


def _gathered(frames: Iterable[pl.DataFrame], rows: int) -> Iterator[pl.DataFrame]:
    """Yield the rows of frames in frames of at most `rows`: small ones together, large ones cut."""
    held: list[pl.DataFrame] = []
    count = 0
    for frame in frames:
        if held and count + frame.height > rows:
            yield pl.concat(held, rechunk=True)
            held, count = [], 0
        if frame.height > rows:
            yield from frame.iter_slices(rows)
        elif frame.height:
            held.append(frame)
            count += frame.height
    if held:
        yield pl.concat(held, rechunk=True)


def open_table(
    path: str, where: Where, format_name: str, dtype: str, large: int | None = None
) -> Table:
    """Open one input.

    Parameters
    ----------
    path
        Its name in messages.
    where
        The file, all bytes of a stream, a file that holds these, or an address.
    format_name
        One of `calibkit.files.formats.FORMATS`.
    dtype
        The type of fractional numbers in text, ``"float64"`` or ``"float32"``.
    large
        Text and Arrow streams of so many bytes are read whenever they are needed, not held; None
        holds all.

    Raises
    ------
    DataError, UsageError, ResourceError
        As `reading` says; an input without rows is a `DataError`.
    """
    with reading(path):
        if isinstance(where, str):
            return _elsewhere(where, format_name)
        head = head_of(where)
        if not head:
            raise DataError(f"{path}: the file is empty (0 bytes); write it again", file=path)
        kept = where if isinstance(where, Scratch) else None
        source = where.path if isinstance(where, Scratch) else where
        if format_name == "parquet":
            scan = pl.scan_parquet(source, glob=False, hive_partitioning=False)
            table = replace(_scanned(scan), stored=source)
        elif format_name == "arrow" and not is_arrow_stream(head):
            arrow.refuse_damage(source, path, stream=False)
            table = _scanned(pl.scan_ipc(source, glob=False, hive_partitioning=False))
        elif format_name == "arrow":
            table = _table_of_stream(source, path, large)
        else:
            table = _table_of_text(source, path, head, format_name, dtype, large)
        if kept is not None and isinstance(table.frame, pl.LazyFrame) and table.kept is None:
            table = replace(table, kept=kept)
    if not table.rows:
        raise DataError(f"{path}: the file is empty (0 rows); give a file with rows", file=path)
    return table


def _elsewhere(path: str, format_name: str) -> Table:
    """Open a file of which polars reads what is needed over the network."""
    scan_file = pl.scan_parquet if format_name == "parquet" else pl.scan_ipc
    table = _scanned(scan_file(path, glob=False, hive_partitioning=False))
    return replace(table, stored=path) if format_name == "parquet" else table


def head_of(where: Where) -> bytes:
    """Return the first bytes of an input; of an address none."""
    if isinstance(where, str):
        return b""
    if isinstance(where, bytes):
        return where[:HEAD_BYTES]
    with (where.path if isinstance(where, Scratch) else where).open("rb") as file:
        return file.read(HEAD_BYTES)


def _table_of_stream(source: Path | bytes, path: str, large: int | None) -> Table:
    """Open an Arrow stream; a large one is copied to an Arrow file, which can be read in parts."""
    if isinstance(source, Path) and large is not None and source.stat().st_size >= large:
        # What Arrow files cannot hold is read as a whole; that also says what is damaged.
        with suppress(ValueError, NotImplementedError):
            kept = arrow.as_file(source, path)
            return replace(_scanned(pl.scan_ipc(kept.path, glob=False)), kept=kept)
    arrow.refuse_damage(source, path, stream=True)
    return _loaded(pl.read_ipc_stream(source))


def _scanned(scan: pl.LazyFrame) -> Table:
    schema = dict(scan.collect_schema())
    return Table(scan, schema, int(scan.select(pl.len()).collect().item()))


def _loaded(frame: pl.DataFrame) -> Table:
    return Table(frame, dict(frame.schema), frame.height)


def _table_of_text(
    source: Path | bytes,
    path: str,
    head: bytes,
    format_name: str,
    dtype: str,
    large: int | None,
) -> Table:
    if (
        isinstance(source, Path)
        and large is not None
        and source.stat().st_size * (_EXPANSION if is_compressed(head) else 1) >= large
        and text_problem(head) is None
    ):
        if format_name == "ndjson":
            scan = _scan_ndjson(source, path, head, dtype)
            if scan is not None:
                return _scanned(scan)
        else:
            found = scan_delimited(source, path, "\t" if format_name == "tsv" else ",", dtype)
            if found is not None:
                scan, rows = found
                return Table(scan, dict(scan.collect_schema()), rows)
    return _loaded(_read_text(source, path, head, format_name, dtype))


def _read_text(
    source: Path | bytes, path: str, head: bytes, format_name: str, dtype: str
) -> pl.DataFrame:
    problem = text_problem(head)
    if problem is not None:
        raise DataError(f"{path}: {problem}", file=path)
    if not is_compressed(head) and not head.strip() and len(head) < HEAD_BYTES:
        raise DataError(f"{path}: the file is empty (nothing but white space)", file=path)
    try:
        if format_name == "ndjson":
            return _read_ndjson(source, path, dtype)
        return read_delimited(source, path, "\t" if format_name == "tsv" else ",", dtype)
    except pl.exceptions.NoDataError as error:
        raise DataError(f"{path}: the file is empty (0 rows)", file=path) from error


def _read_ndjson(source: Path | bytes, path: str, dtype: str) -> pl.DataFrame:
    """Read newline-delimited JSON; a key that a line lacks is null.

    All lines are looked at for keys and types: polars would silently leave out a key that
    first comes late.
    """
    data = without_bom(source.read_bytes() if isinstance(source, Path) else source)
    try:
        return _json_rows(data, dtype).collect()
    except pl.exceptions.PolarsError:
        _refuse_json(BytesIO(data), path)
        raise


def _scan_ndjson(file: Path, path: str, head: bytes, dtype: str) -> pl.LazyFrame | None:
    """Return a scan that parses a large file whenever it is read; None where polars cannot."""
    if without_bom(head) != head or any(sign in str(file) for sign in "*?["):  # a pattern to polars
        return None
    try:
        return _json_rows(file, dtype)
    except pl.exceptions.PolarsError:
        with file.open("rb") as lines:
            _refuse_json(lines, path)
        raise


def _json_rows(source: Path | bytes, dtype: str) -> pl.LazyFrame:
    scan = pl.scan_ndjson(source, infer_schema_length=None)
    schema = scan.collect_schema()
    if dtype == "float64":
        return scan
    narrow = {name: pl.Float32() for name, kind in schema.items() if kind == pl.Float64}
    return pl.scan_ndjson(source, infer_schema_length=None, schema_overrides=narrow)


def _refuse_json(lines: Iterable[bytes], path: str) -> None:
    """Raise if a line is not a JSON object, naming the first such lines."""
    bad: list[int] = []
    reason, row = "", 0
    for line in lines:
        if not line.strip():
            continue
        row += 1
        try:
            value = json.loads(line, parse_constant=_not_json)
            problem = None if isinstance(value, dict) else "not an object"
        except (ValueError, RecursionError) as error:
            problem = str(error)
        if problem is not None:
            bad.append(row)
            reason = reason or problem
    if not row:
        raise DataError(f"{path}: the file is empty (0 rows)", file=path)
    if bad:
        raise DataError(
            f"{path}: {len(bad)} line{'s' if len(bad) > 1 else ''} not a JSON object "
            f"(first: row {bad[0]}: {reason}); write one object a line, missing values as null",
            file=path,
            rows=len(bad),
            first_rows=bad,
        )


def _not_json(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not JSON")
