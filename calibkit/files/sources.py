"""Inputs: files, globs, folders and standard input of one schema, read as one table."""

from __future__ import annotations

import os
import stat
import sys
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from copy import copy
from functools import partial
from itertools import accumulate
from numbers import Real
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import polars as pl

from calibkit.errors import DataError, UsageError, nearest
from calibkit.files import formats
from calibkit.files.excel import excel_table
from calibkit.files.explain import explain, reading, repeated_name
from calibkit.files.formats import Dialect, Opening
from calibkit.files.paths import STDIN, Named, Part, find_files, is_remote
from calibkit.files.streams import Scratch, ScratchPath, decompressed, held
from calibkit.files.table import Schema, Table, in_one_schema
from calibkit.files.text import as_written, settled, text_table
from calibkit.files.told import Noted, Told, together
from calibkit.files.values import Texts
from calibkit.runtime.memory import memory_budget
from calibkit.runtime.progress import tell

#: What stands for null in the name of a folder.
_HIVE_NULL = "__HIVE_DEFAULT_PARTITION__"

#: Inputs that are said nothing of.
AS_TOLD = Opening()


def _open(path: Named, opening: Opening) -> Table:
    """Open one input of `find_files`; see `open_source`."""
    large = None if opening.memory is None else opening.memory.text
    with reading(path):
        source = _where(path, large)
        head = formats.head_of(source)
        known = opening.input_format or formats.suffix_format(path)
        if known is None and isinstance(source, bytes | ScratchPath):
            known = formats.sniff_format(head)
        if known is None:
            raise formats.unknown_suffix(path, "--input-format")
        if not head and not isinstance(source, str):
            raise DataError.of(path, "the file is empty (0 bytes); write it again")
        named = (folder.partition("=") for folder in Path(path.relative).parts[:-1])
        keys = {
            unquote(key): None if unquote(value) == _HIVE_NULL else unquote(value)
            for key, equals, value in named
            if equals and key
        }
        part = Part(path.known_as, known, path.relative, keys)
        if known in formats.TEXT_FORMATS and not isinstance(source, str):
            table = text_table(source, part, large, opening.dialect)
        elif known == "xlsx":
            table = excel_table(source, part, opening.dialect)
        elif known == "parquet":
            scan = pl.scan_parquet(source, glob=False, hive_partitioning=False)
            table = Table.of(part, scan, source=source)
        elif isinstance(source, str):
            table = Table.of(part, pl.scan_ipc(source, glob=False, hive_partitioning=False))
        else:
            table = _arrow_table(source, part, large, stream=head.startswith(formats.ARROW_STREAM))
    if not table.rows:
        raise DataError.of(path, "the file is empty (0 rows); give a file with rows")
    return table


def _where(path: str, large: int | None) -> Path | bytes | str:
    """Return where an input can be read as often as need be.

    A file is that itself, and so is an address that polars reads parts of.  All else comes but once,
    and is held, from so many bytes on (`large`) in a file of its own.
    """
    if path == STDIN:
        return held(decompressed(sys.stdin.buffer, path), large)
    if is_remote(path):
        if formats.suffix_format(path) not in formats.TEXT_FORMATS:
            return path
        batches = pl.scan_lines(path).collect_batches(maintain_order=True)
        return held(("\n".join([*rows["line"], ""]).encode() for rows in batches), large)
    if path.startswith("/dev/") or not stat.S_ISREG(Path(path).stat().st_mode):
        with Path(path).open("rb") as stream:
            return held(decompressed(stream, path), large)
    return Path(path)


def _arrow_table(source: Path | bytes, part: Part, large: int | None, *, stream: bool) -> Table:
    """Open Arrow data, checked first: polars panics at repeated names and at damage.

    A large stream becomes a file of the run's own, which can be read in parts.
    """
    import pyarrow as pa

    big = large is not None and isinstance(source, Path) and source.stat().st_size >= large
    kept = Scratch() if stream and big else None
    try:
        with ExitStack() as opened:
            file = (
                pa.memory_map(str(source)) if isinstance(source, Path) else pa.BufferReader(source)
            )
            data = opened.enter_context(file)
            found = pa.ipc.open_stream(data) if stream else pa.ipc.open_file(data)
            if len(set(found.schema.names)) < len(found.schema.names):
                raise repeated_name(found.schema.names, part.path)
            if kept is not None:
                opened.enter_context(closing(kept))
                made = opened.enter_context(pa.ipc.new_file(kept, found.schema))
            numbered = () if stream else map(found.get_batch, range(found.num_record_batches))
            for batch in found if stream else numbered:
                batch.validate(full=True)
                if kept is not None:
                    made.write_batch(batch)
    except (ValueError, NotImplementedError) as error:
        if kept is not None:  # what Arrow files cannot hold is read as a whole; or it is damaged
            return _arrow_table(source, part, None, stream=True)
        if isinstance(error, NotImplementedError):  # such types come of damage
            raise ValueError(str(error)) from error
        raise
    if kept is not None:
        source = kept.path
    elif stream:
        return Table.of(part, pl.read_ipc_stream(source))
    scan = pl.scan_ipc(source, glob=False, hive_partitioning=False)
    return Table.of(part, scan, source=source)


#: What polars and pyarrow raise for frames that they cannot take.
UNREADABLE = (
    *(TypeError, ValueError, NotImplementedError),
    *(pl.exceptions.PolarsError, pl.exceptions.PanicException),
)


def series_of(name: str, values: Any) -> Any:
    """Return a list as the column that it is, of the type that has room for all its values.

    An array of Python objects, such as pandas makes of columns with gaps, is what these are; so are
    the arrays of its own types, and what a mask covers is no value.  Others stay.
    """
    if np.ma.isMaskedArray(values):
        if values.dtype.kind != "O":
            return pl.Series(name, values.data).set(pl.Series(np.ma.getmaskarray(values)), None)
        values = values.tolist()
    own = isinstance(values, list | tuple)
    objects = getattr(getattr(values, "dtype", None), "kind", "") == "O"
    if not own and (hasattr(values, "iloc") or not (objects or hasattr(values, "__arrow_array__"))):
        return values
    import pyarrow as pa

    try:
        return pl.Series(name, pa.array(values, from_pandas=True))
    except (pa.ArrowException, OverflowError):
        if not own:
            raise
    # Numbers of several kinds, or beyond 64 bits; those of numpy would make the first one's kind.
    plain = [one.item() if isinstance(one, np.generic) else one for one in values]
    numbers = all(one is None or isinstance(one, Real) for one in plain)
    return pl.Series(name, plain, strict=not numbers)


def _unreadable_column(data: Any) -> str:
    """Return in words which column of a pandas frame polars cannot read; empty where it reads each."""
    for place, name in enumerate(data.columns if hasattr(data, "iloc") else ()):
        try:
            pl.Series(str(name), data.iloc[:, place])
        except UNREADABLE as error:
            return f"its column {name!r} ({error}): leave it out, or make its values of one type"
    return ""


class Source:
    """All inputs of a command as one table, in the order of `parts`; see `open_source`."""

    def __init__(self, tables: Sequence[Table], opening: Opening = AS_TOLD) -> None:
        self._tables = in_one_schema(tables)
        self._ends = list(accumulate(table.rows for table in tables))
        self.schema: Schema = self._tables[0].schema  # columns from folder names come last
        #: What the inputs call columns that are called otherwise here.
        self.as_named: Mapping[str, str] = {}
        names = dict[str, list[str]]()  # of each file: one may have several
        for path in self.paths if len(self._tables) > 1 else ():
            names.setdefault(os.path.realpath(path), []).append(path)
        self.warnings = tuple(
            f"{' = '.join(sorted(set(own)))} is among the inputs more than once: its rows count each "
            "time"
            for own in names.values()
            if len(own) > 1
        )
        self._unusual = tuple((one.part.path, one.remarks) for one in tables if one.remarks)
        #: What users are told of how inputs were read, a line each; it grows with `require`.
        self.remarks = self.noted.lines
        self._opening, self.memory, self.dialect = opening, opening.memory, opening.dialect
        self.whole = True  # these are all rows, not a window of them
        self._begin = 0  # how many rows of the first part stand before the window
        self._dates: str | None = None  # how dates are written, where some were read
        self._used: set[str] = set()  # shared with the windows

    @property
    def parts(self) -> list[Part]:
        """The files, those of a glob or folder sorted by name."""
        return [table.part for table in self._tables]

    @property
    def loose(self) -> bool:
        """Whether any of it is text, of which options say what stands for nothing."""
        return any(part.format in formats.LOOSE_FORMATS for part in self.parts)

    @property
    def paths(self) -> list[str]:
        """The names of the files, in order."""
        return [part.path for part in self.parts]

    @property
    def file(self) -> str:
        """The first file, for messages."""
        return self._tables[0].part.path

    @property
    def rows(self) -> int:
        """The number of rows of all parts."""
        return self._ends[-1]

    @classmethod
    def from_frame(cls, data: Any, name: str = "frame", dialect: Dialect | None = None) -> Source:
        """Return a source of one part that holds a data frame, which messages call `name`.

        `data`: a polars frame (also lazy) or any object with the Arrow C stream interface.

        Raises `UsageError` if polars cannot read `data`; `DataError` if it has no rows.
        """
        try:
            if isinstance(data, pl.LazyFrame):
                frame = data.collect()
            elif isinstance(data, Mapping):
                frame = pl.DataFrame({name: series_of(name, own) for name, own in data.items()})
            else:
                frame = pl.DataFrame(data, infer_schema_length=None)  # of rows: all are looked at
        except (FileNotFoundError, PermissionError) as error:  # the file of a lazy frame
            raise explain(name, error) from error
        except UNREADABLE as error:
            what = _unreadable_column(data) or f"a {type(data).__name__}: {error}"
            raise UsageError(f"{name}: polars cannot read {what}") from error
        if not frame.height:
            raise DataError.of(name, "the frame is empty (0 rows)")
        opening = Opening(dialect=dialect or Dialect())
        return cls([Table.of(Part(name, "arrow", name), frame)], opening)

    def beside(self, rows: Any, name: str) -> Source:
        """Return further rows: files opened as these were, or a frame, which messages call `name`.

        `rows`: a file, glob or folder, several of them, or what `from_frame` takes.
        """
        one = isinstance(rows, str | os.PathLike)
        if not one and not (isinstance(rows, tuple | list) and rows):
            return Source.from_frame(rows, name)
        return open_source([os.fspath(rows)] if one else rows, self._opening)

    def require(self, columns: Sequence[str], role: str = "column") -> None:
        """See to it that columns are there, and are read as their role needs it.

        A name that no column has is that of the column that differs from it by case and blanks around
        only, if there is one.  `role`: what messages call them, usually the option that named them.

        Raises `UsageError`, with the nearest names, if one of `columns` is not there.
        """
        for name in columns:
            if name not in self.schema:
                old, named = self._alike(name, role), dict(self.as_named)
                self._put(table.renamed(old, name) for table in self._tables)
                named[name] = named.pop(old, old)  # the inputs' own name, by whatever way
                self.as_named = {new: own for new, own in named.items() if new != own}
                self.remarks += [one for one in self.noted.lines if one not in self.remarks]
            if role == "column":
                continue
            if self.schema[name] == pl.Object:
                problem = f"column {name!r} for {role} holds Python objects; give numbers or text"
                raise DataError.of(self.file, problem, column=name)
            if "--by" in role or "--groups" in role:
                # Nothing is missing that has a name.
                self.as_written([name])
            if name.startswith("^") and name.endswith("$"):
                raise UsageError.of(
                    self.file,
                    f"column {name!r} for {role} has the form of a pattern (^…$), which polars "
                    "would take for other columns; rename it",
                    column=name,
                )

    def _alike(self, name: str, role: str) -> str:
        """Return the column that is called nearly so."""
        path, wanted = self.file, name.strip().casefold()
        alike = [one for one in self.schema if one.strip().casefold() == wanted]
        if len(alike) == 1:
            return alike[0]
        close = nearest(name, self.schema)
        if alike:
            problem = f"both {' and '.join(map(repr, alike))} could be meant; name one exactly"
        else:
            known = ", ".join(repr(other) for other in list(self.schema)[:20])
            problem = f"the columns are {known}{_misread(list(self.schema))}"
            if role == "--label" and not close:
                problem += self._labels()
        raise UsageError.of(path, f"no column {name!r} for {role}{close}; {problem}", column=name)

    def _labels(self) -> str:
        """Return which columns could be labels."""
        found = []
        for name, kind in self.schema.items():
            if kind.is_numeric() or kind == pl.Boolean:
                values = self.read([name]).to_series().drop_nulls().cast(pl.Float64)
                if values.n_unique() == 2 and values.is_in([0.0, 1.0]).all():
                    found.append(name)
        if not found:
            return ""
        return f"; columns of 0 and 1: {', '.join(map(repr, found))} (use --label {found[0]})"

    def _put(self, tables: Iterable[Table]) -> None:
        self._tables = tuple(tables)
        self.schema = self._tables[0].schema

    def as_written(self, names: Sequence[str]) -> None:
        """Take columns as the text that they are written as, where they might be numbers."""
        for name in names:
            if any(name in table.texts for table in self._tables):
                self._put(table.as_text(name) for table in self._tables)

    def typed(self, names: tuple[str, ...]) -> Source:
        """Return the same rows, the columns of text but some as they are written."""
        tables = as_written(self._tables, names)
        made = Source(settled(tables, self.dialect.marks), self._opening)
        made.require([*self.as_named])
        return made

    def as_dates(self, names: Sequence[str]) -> None:
        """Take columns of text as the dates that they are, unless ``--date-format text`` is said.

        Raises what `Texts.way` says.
        """
        for name in names:
            if not isinstance(self.schema[name], pl.String | pl.Categorical | pl.Enum):
                continue
            way = None
            if self.dialect.date_format != formats.AS_TEXT:
                texts = (table.as_text(name).select([name]) for table in self._tables)
                inputs = zip(
                    self.paths, (rows.rename({name: "text"}) for rows in texts), strict=True
                )
                way = Texts(name, [*inputs], self.dialect).way()
            self._dates = formats.AS_TEXT if way is None else way.name
            if way is not None:
                read = partial(way.read, dialect=self.dialect)
                self._put(table.read_as(name, read) for table in self._tables)

    @property
    def told(self) -> Told | None:
        """How the text of the columns that were read was read; None where nothing was told."""
        # A column that was read under two names has the last one.
        numbers = [name for name in self._used if self.schema.get(name, pl.Null()).is_numeric()]
        own = {self.as_named.get(name, name) for name in numbers}
        found = list[tuple[str, Told | None]]()
        for table in self._tables:
            path = table.part.path
            with reading(path):
                found.append((path, None if table.told is None else table.told(own)))
        if self._dates is not None:
            dates = Told(null_values=self.dialect.null_values, dates=self._dates)
            found.append((self.file, dates))
        return together(found)

    @property
    def noted(self) -> Noted:
        """What users are told of how inputs were read."""
        return Noted(self._unusual, tuple(self.as_named.items()))

    def read(self, columns: Sequence[str] | None = None, *, rechunk: bool = True) -> pl.DataFrame:
        """Return the rows of all parts: the columns in this order, None reads all.

        Each column comes in one chunk; without `rechunk` there is one copy less.

        Raises `UsageError` if a column is not there; `DataError`, `ResourceError` if a file cannot
        be read.
        """
        names = self._names(columns)
        rows = pl.concat(table.read(names) for table in self._tables)
        return rows.rechunk() if rechunk else rows

    def windows(
        self, columns: Sequence[str] | None = None, *, rows: int | None = None
    ) -> Iterator[Source]:
        """Yield the rows of all parts as sources of at most so many rows, each of one part.

        None: as many as memory allows.  Messages number their rows rightly.  Columns and errors are
        as of `read`.
        """
        names = self._names(columns)
        rows = rows or (self.memory or memory_budget(None)).batch
        told = 0
        for table in self._tables:
            done = 0
            for frame in table.batches(names, rows):
                yield self._only(Table.of(table.part, frame), done)
                done, told = done + frame.height, told + frame.height
                tell(told, self.rows)

    def stretch(self, first: int, rows: int) -> Source:
        """Return some rows of the first part, from number `first` (from 0) on, as a window is."""
        return self._only(self._tables[0].stretch(first, rows), first)

    def shard(self) -> Source:
        """Return the rows as some of all: what all rows must have together may be in the others."""
        shard = copy(self)
        shard.whole = False
        return shard

    def split(self) -> list[Source]:
        """Return a source for each part alone, with the schema that all of them share."""
        return list(map(self._only, self._tables))

    def _only(self, table: Table, begin: int | None = None) -> Source:
        """Return rows of one part: all of them, or a window that begins at a row of it."""
        only = copy(self)
        only._tables, only._ends, only.warnings = (table,), [table.rows], ()
        if begin is not None:
            only.whole, only._begin = False, self._begin + begin
        return only

    def metadata(self) -> dict[str, str]:
        """Return the keys and values of the first part's footer; only Parquet files have any."""
        return self._tables[0].metadata()

    def locate(self, rows: Sequence[int]) -> tuple[str, list[int]]:
        """Return where rows stand, for messages; they are numbered from 0 over all parts, as read.

        That is the file of the first row, and the numbers (from 1, the header not counted) of those
        of `rows` that lie in this file.
        """
        index = bisect_right(self._ends, rows[0])
        start, end = self._ends[index] - self._tables[index].rows, self._ends[index]
        first = start - self._begin - 1
        return self.paths[index], [int(row) - first for row in rows if start <= row < end]

    def _names(self, columns: Sequence[str] | None) -> list[str]:
        names = list(self.schema) if columns is None else list(dict.fromkeys(columns))
        self.require(names)
        self._used.update(names)
        return names


def _misread(names: Sequence[str]) -> str:
    """Return what may be wrong with a text file whose header has these names, or nothing."""
    if 2 * pl.Series(names).cast(pl.Float64, strict=False).null_count() < len(names):
        return "; is the header line missing?"
    if len(names) == 1 and "\t" in names[0]:
        return "; if tabs separate the columns, add --input-format tsv"
    if len(names) == 1 and ";" in names[0]:
        return "; if semicolons separate the columns, add --delimiter ';'"
    return ""


def open_source(inputs: Sequence[str], opening: Opening = AS_TOLD) -> Source:
    """Open the inputs of a command and check that they have one schema.

    Inputs are files, globs, folders (searched recursively; names that begin with ``.`` or ``_`` are
    left out) or ``-`` for standard input.  Messages and models call a `Named` one as it says.

    Raises `UsageError`: no such file, an unreadable file or one of unknown format; `DataError`: an
    empty, truncated or corrupt file, or files of different schemas; `ResourceError`: the machine
    could not read.
    """
    tables = [_open(path, opening) for path in find_files(inputs)]
    return Source(settled(tables, opening.dialect.marks), opening)


def open_readable(
    inputs: Sequence[str], opening: Opening = AS_TOLD
) -> tuple[Source | None, list[DataError]]:
    """Open those inputs that can be read as rows of one schema, None if there are none.

    With them come the errors of the others, of which `open_source` raises the first.
    """
    tables, errors = list[Table](), list[DataError]()
    for path in find_files(inputs):
        try:
            tables.append(_open(path, opening))
        except DataError as error:
            errors.append(error)
    while tables:
        try:
            return Source(settled(tables, opening.dialect.marks), opening), errors
        except DataError as error:
            errors.append(error)
            others = [table for table in tables if table.part.path != error.file]
            tables = others if len(others) < len(tables) else []
    return None, errors
