"""``calibkit`` with some commands that fail on demand, as a process: ``python trial.py fail``."""

from __future__ import annotations

import errno
import sys
import time
import warnings
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from calibkit.errors import DataError
from calibkit.options.option import option
from calibkit.options.shared import Seeded
from calibkit_cli import declare, main
from calibkit_cli.console import Console
from calibkit_cli.lines import Results, Talk


class Said(Results, Talk):
    """What to say, or how to fail."""

    text: Annotated[str, option(argument=True)]


def fail(asked: Said) -> None:
    """Raise an error."""
    how = asked.text
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


class Chance(Seeded):
    """Where randomness begins."""


def warn(asked: Chance) -> None:
    """Warn as a library does."""
    warnings.warn("a word between libraries", DeprecationWarning, stacklevel=1)
    warnings.warn("another", UserWarning, stacklevel=1)
    print(asked.seed, asked.threads)


def say(asked: Said) -> None:
    """Say something through the console."""
    text, console = asked.text, asked.part(Console)
    console.detail("a detail")
    if text == "warn":
        console.warn("be careful")
    content = b'{"text": 1}\n'
    if console.output not in (None, "-"):
        Path(str(console.output)).write_bytes(content)
    console.model(content, lambda: console.table(["text"], [[text]]))
    console.summary("done")


def build_app(commands: Iterable[str] = main.COMMANDS, *, brief: bool = False) -> typer.Typer:
    """Return the application with the trial commands added."""
    app = _build_app(commands, brief=brief)
    for function in (endless, wait):
        app.command()(function)
    declare.add(app, "fail", fail, Said)
    declare.add(app, "warn", warn, Chance)
    declare.add(app, "say", say, Said)
    return app


_build_app, main.build_app = main.build_app, build_app

if __name__ == "__main__":
    sys.exit(main.main())
