"""``calibkit`` with some commands that fail on demand, as a process: ``python trial.py fail``."""

from __future__ import annotations

import errno
import sys
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from calibkit.errors import DataError
from calibkit_cli import main, options


def fail(how: str, as_json: options.Json = False, verbose: options.Verbose = False) -> None:
    """Raise an error."""
    if how == "data":
        raise DataError(
            "3 scores are above 1.", file="a.csv", column="score", rows=3, first_rows=[4, 9, 12]
        )
    if how == "bug":
        raise ZeroDivisionError("division\nby zero")
    if how == "panic":
        raise BaseException("a panic below")
    if how == "memory":
        raise MemoryError
    if how == "missing":
        Path("no-such-file").read_bytes()
    raise OSError(errno.ENOSPC, "No space left on device", "out.parquet")


def endless() -> None:
    """Print lines for ever."""
    while True:
        print("line " * 10)


def wait(place: Path) -> None:
    """Hold a temporary file until a signal comes."""
    temporary = place / "temporary"
    try:
        temporary.write_text("half")
        print("ready", flush=True)
        # In short sleeps: a signal between Python's last look for one and the system's sleep would
        # otherwise be seen after a minute only.
        for _ in range(600):
            time.sleep(0.1)
    finally:
        temporary.unlink()


def warn(seed: options.Seed = 0, threads: options.Threads = None) -> None:
    """Warn as a library does."""
    warnings.warn("a word between libraries", DeprecationWarning, stacklevel=1)
    warnings.warn("another", UserWarning, stacklevel=1)
    print(seed, threads)


def say(
    text: str,
    tabular: Annotated[bool, typer.Option("--tabular")] = False,
    output: options.Output = None,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    verbose: options.Verbose = False,
    warnings: options.Warnings = "show",
) -> None:
    """Say something through the console."""
    from calibkit_cli.console import Console

    console = Console(output, as_json, quiet, verbose, warnings, tabular)
    console.detail("a detail")
    if text == "warn":
        console.warn("be careful")
    console.model(b'{"text": 1}\n', lambda: console.table(["text"], [[text]]))
    console.summary("done")


def build_app(commands: Sequence[str] = main.COMMANDS) -> typer.Typer:
    """Return the application with the trial commands added."""
    app = _build_app(commands)
    for function in (fail, endless, wait, warn, say):
        app.command()(function)
    return app


_build_app, main.build_app = main.build_app, build_app

if __name__ == "__main__":
    sys.exit(main.main())
