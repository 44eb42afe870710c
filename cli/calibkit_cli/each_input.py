"""Outputs of a command: one for all inputs, or (``-o DIR/``) one for each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .console import Console, Count

if TYPE_CHECKING:
    import polars as pl

    from calibkit.files.sources import Source


@dataclass(frozen=True)
class Rows:
    """A result that is rows.

    Attributes
    ----------
    frames, added
        The rows, in one or more frames, and which of their columns the command added.
    warnings
        What the user should be told before they are written.
    metadata
        Keys and values for the footer of a Parquet file.
    """

    frames: Iterable[pl.DataFrame]
    added: Sequence[str]
    warnings: Sequence[str] = ()
    metadata: dict[str, str] = field(default_factory=dict)


#: Says a warning.
Tell = Callable[[str], None]


def write_rows(
    console: Console,
    source: Source,
    make: Callable[[Source, Tell], Rows],
    *,
    in_place: bool = False,
) -> None:
    """Make rows of a source and deliver them where the command line says.

    Several outputs appear together or not at all.

    Parameters
    ----------
    console, source
        Where they go, and what they are made of.
    make
        Returns the rows of a source; what the user should be told only when they have all been made
        goes to its second argument, at the latest before the last frame.
    in_place
        Each input is written over, in its own format.
    """
    source.progress = console.progress()
    if not console.per_input and not in_place:
        deliver_rows(console, make(source, console.warn), source.format)
        return
    from calibkit.files.outputs import directory_outputs
    from calibkit.files.sinks import Transaction, make_folders

    outputs = source.paths
    if not in_place:
        assert console.output is not None
        outputs = directory_outputs(console.output, source.parts, format=console.output_format)
    count, added = Count(), list[str]()
    with Transaction() as transaction:
        for alone, output in zip(source.split(), outputs, strict=True):
            tell = _teller(console, alone.parts[0].path)
            made = make(alone, tell)
            for remark in made.warnings:
                tell(remark)
            make_folders([output])
            frames = count.passing(made.frames)
            kept = alone.parts[0].format if in_place else None
            transaction.write_frames(frames, output, format=kept, metadata=made.metadata or None)
            added = list(made.added)
    console.report_rows(count.rows, added)
    said = f"{count.rows:,} rows in {len(outputs)} file{'s' if len(outputs) > 1 else ''}"
    if in_place and not console.as_json:
        console.summary(f"{said} written over.")
    console.wrote(said, outputs)


def deliver_rows(console: Console, made: Rows, input_format: str) -> None:
    """Say what is to be said of rows, and write them; on standard output in the format of the input."""
    for remark in made.warnings:
        console.warn(remark)
    written = console.rows(
        made.frames, input_format=input_format, columns_added=made.added, metadata=made.metadata
    )
    console.wrote(f"{written:,} rows")


def _teller(console: Console, path: str) -> Tell:
    return lambda text: console.warn(f"{path}: {text}")
