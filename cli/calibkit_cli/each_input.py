"""Outputs of a command: one for all inputs, or (``-o DIR/``) one for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from .console import Console

if TYPE_CHECKING:
    import polars as pl

    from calibkit.sources import Source


@dataclass(frozen=True)
class Rows:
    """A result that is rows.

    Attributes
    ----------
    frame, added
        The rows, and which of their columns the command added.
    warnings
        What the user should be told.
    metadata
        Keys and values for the footer of a Parquet file.
    """

    frame: pl.DataFrame
    added: Sequence[str]
    warnings: Sequence[str] = ()
    metadata: dict[str, str] = field(default_factory=dict)


def write_rows(console: Console, source: Source, make: Callable[[Source], Rows]) -> None:
    """Make rows of a source and deliver them where the command line says.

    Several outputs appear together or not at all.
    """
    if not console.per_input:
        made = make(source)
        for remark in made.warnings:
            console.warn(remark)
        console.rows(
            made.frame,
            input_format=source.format,
            columns_added=made.added,
            metadata=made.metadata,
        )
        console.wrote(f"{made.frame.height:,} rows")
        return
    from calibkit.outputs import directory_outputs
    from calibkit.sinks import Transaction, make_folders

    assert console.output is not None
    outputs = directory_outputs(console.output, source.parts, format=console.output_format)
    rows, added = 0, []
    with Transaction() as transaction:
        for alone, output in zip(source.split(), outputs, strict=True):
            made = make(alone)
            for remark in made.warnings:
                console.warn(f"{alone.parts[0].path}: {remark}")
            make_folders([output])
            transaction.write_table(made.frame, output, metadata=made.metadata or None)
            rows, added = rows + made.frame.height, list(made.added)
    console.report_rows(rows, added)
    console.wrote(f"{rows:,} rows in {len(outputs)} files")
