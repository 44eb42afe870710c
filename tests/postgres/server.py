"""A PostgreSQL server for a test session, in a temporary folder and on a socket of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import polars as pl

#: Where Debian keeps the programs of a server; elsewhere they are on the path.
_DEBIAN = Path("/usr/lib/postgresql")

_TYPES = {
    pl.Float64: "double precision",
    pl.Float32: "real",
    pl.String: "text",
    pl.Boolean: "boolean",
    pl.Decimal: "numeric",
    pl.Date: "date",
}


def find_programs() -> Path | None:
    """Return the folder of `initdb`, the newest one, or None."""
    found = sorted(_DEBIAN.glob("*/bin/initdb"), key=lambda path: int(path.parts[-3]))
    if found:
        return found[-1].parent
    program = shutil.which("initdb")
    return None if program is None else Path(program).resolve().parent


@dataclass(frozen=True)
class Server:
    """A running server that listens on a socket in `folder` only."""

    programs: Path
    folder: Path

    def psql(self, script: bytes) -> bytes:
        """Run a script and return what it prints; raise with the server's words if it fails."""
        line = [self.programs / "psql", "-h", self.folder, "-U", "postgres", "-d", "postgres"]
        done = subprocess.run(
            [*map(str, line), "-X", "-q", "-v", "ON_ERROR_STOP=1", "-f", "-"],
            input=script,
            capture_output=True,
            check=False,
            timeout=600,
        )
        if done.returncode:
            raise RuntimeError(done.stderr.decode()[-2000:])
        return done.stdout

    def load(self, table: str, frame: pl.DataFrame) -> None:
        """Make a table (its name quoted already) that holds a frame."""
        columns = ", ".join(f"{quoted(name)} {_type(kind)}" for name, kind in frame.schema.items())
        header = f"DROP TABLE IF EXISTS {table}; CREATE UNLOGGED TABLE {table} ({columns});\n"
        copy = f"COPY {table} FROM STDIN WITH (FORMAT csv);\n"
        rows = frame.with_columns(
            pl.selectors.by_dtype(pl.List(pl.Float64)).map_batches(_arrays, return_dtype=pl.String)
        )
        data = rows.write_csv(include_header=False)
        self.psql((header + copy + data + "\\.\n").encode())

    def query(self, sql: str) -> pl.DataFrame:
        """Return what a query gives."""
        found = self.psql(f"COPY (\n{sql}\n) TO STDOUT WITH (FORMAT csv, HEADER);\n".encode())
        return pl.read_csv(found, infer_schema_length=None)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _type(kind: pl.DataType) -> str:
    if isinstance(kind, pl.List):
        return "double precision[]"
    if isinstance(kind, pl.Datetime):
        return "timestamptz" if kind.time_zone else "timestamp"
    if kind == pl.Int128:
        return "numeric"
    return "bigint" if kind.is_integer() else _TYPES[type(kind)]


def _arrays(lists: pl.Series) -> pl.Series:
    texts = [
        None if row is None else "{" + ",".join(map(repr, row)) + "}" for row in lists.to_list()
    ]
    return pl.Series(lists.name, texts, dtype=pl.String)


@contextmanager
def running(programs: Path) -> Iterator[Server]:
    """Start a server, and stop it in the end.  As root it runs as the user `postgres`."""
    folder = Path(
        tempfile.mkdtemp(prefix="calibkit-postgres-", dir="/tmp")
    )  # a socket's path is short
    root = os.geteuid() == 0
    if root:
        shutil.chown(folder, "postgres")
    started = ["runuser", "-u", "postgres", "--"] if root else []
    user = "postgres" if root else getpass.getuser()
    data, log = folder / "data", folder / "log"
    make = [programs / "initdb", "-D", data, "-A", "trust", "-U", "postgres", "-E", "UTF8"]
    settings = f"-k {folder} -c listen_addresses= -c fsync=off -c full_page_writes=off"
    control = [programs / "pg_ctl", "-D", data, "-w", "-l", log]
    try:
        _run([*started, *make, "--locale=C", "--no-sync"], user)
        _run([*started, *control, "-o", settings, "start"], user)
        try:
            yield Server(programs, folder)
        finally:
            _run([*started, *control, "-m", "immediate", "stop"], user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _run(line: list[object], user: str) -> None:
    done = subprocess.run(
        list(map(str, line)),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
        timeout=120,
    )
    if done.returncode:
        raise RuntimeError(f"as {user}: {done.stderr.decode()[-2000:]}")
