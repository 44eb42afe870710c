"""``calibkit plot``: every kind of picture, drawn or as the table of its points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import typer

from calibkit.errors import UsageError
from calibkit.options.grid_plots import KINDS
from calibkit.options.plot import PlotOptions
from calibkit.options.shared import of_output

from . import declare
from .console import Console
from .dry_run import show_plan
from .lines import DryRun, Inputs, Results

if TYPE_CHECKING:
    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source
    from calibkit.reports.points import Points

#: What is drawn; any other output is the table of its points.
PICTURES = ("svg", "png", "pdf")

HELP = """\
Examples:

  calibkit plot reliability test.parquet -o reliability.svg

  calibkit plot roc test.parquet --boundary boundary.json -o roc.png

  calibkit plot heatmap test.parquet --boundary boundary.json -o heatmap.svg
"""


@dataclass(frozen=True, kw_only=True)
class PlotLine(Inputs, Results, DryRun):
    """What the command line of a picture has besides its options."""

    output_format: (
        Literal["svg", "png", "pdf", "parquet", "csv", "tsv", "ndjson", "arrow"] | None
    ) = of_output(
        "Format of the output, whatever its suffix says: a picture, or its points as a table.",
        shown="by suffix; on standard output svg",
    )
    data: str | None = of_output("Also write the points drawn, as a table.", "FILE")


def register(app: typer.Typer) -> None:
    """Add the command, one sub-command a kind of picture, to the application."""
    declare.add_kinds(app, "plot", HELP, run, KINDS, PlotLine)


def run(options: PlotOptions, line: PlotLine) -> None:
    """Draw what the line asks for."""
    from calibkit.reports import plots

    delivery = Delivery.of(options, line)
    source = line.open(delivery.console)
    columns = plots.columns(source, options)
    if line.dry_run:
        what = "a picture" if delivery.drawn else "the points of a picture"
        step = f"write {what} to {line.output or '-'}"
        show_plan(delivery.console, source, columns, [step])
    elif delivery.console.per_input:
        delivery.write_each(source)
    else:
        delivery.write(source)


@dataclass(frozen=True)
class Delivery:
    """Where a picture goes; made first thing, before any work.

    Raises
    ------
    UsageError
        For an output that is no picture and no table, options that contradict each other, and
        where matplotlib is missing.
    """

    console: Console
    options: PlotOptions
    data: str | None
    format: str | None

    @classmethod
    def of(cls, options: PlotOptions, line: PlotLine) -> Delivery:
        """Check the outputs and make the console."""
        from calibkit.files.outputs import check_output, is_stream

        output = line.output
        named = line.output_format or _picture_suffix(output)
        _check_suffix(output, named)
        console = line.console(tabular=True, output_format=named)
        if line.data is not None:
            check_output(line.data, table=True)
            if line.data == "-":
                raise UsageError("--data - would mix with the picture; give it a file.")
            if console.per_input:
                raise UsageError("-o DIR/ gives several pictures; leave --data out.")
        if named is None and (output is None or console.per_input or is_stream(output)):
            named = "svg"
        made = cls(console, options, line.data, named)
        if made.drawn:
            from calibkit.reports.style import need_matplotlib

            need_matplotlib()
        return made

    @property
    def drawn(self) -> bool:
        """Whether the result is a picture, not a table of points."""
        return self.format in PICTURES and not self.shown

    @property
    def shown(self) -> bool:
        """Whether the result is seen on a terminal, and so is a table."""
        return self.console.output is None and self.console.on_terminal

    def write(self, source: Source) -> None:
        """Draw the inputs together."""
        from calibkit.files.sinks import Transaction

        points = self._points(source)
        with Transaction() as outputs:
            if self.data is not None:
                outputs.write_frames([points.table], self.data)
            if self.shown:
                self.console.head(points.table)
            else:
                self._write(outputs, points, self.console.output or "-")
        count = points.table.height
        self._report(count, "Picture" if self.drawn else f"{count:,} points")

    def write_each(self, source: Source) -> None:
        """Draw each input by itself; all pictures appear together or not at all."""
        from calibkit.files.outputs import directory_outputs
        from calibkit.files.sinks import Transaction, make_folders

        kind = str(self.format)
        suffix = f".{kind}"
        files = directory_outputs(str(self.console.output), source.parts, suffix=suffix)
        count = 0
        with Transaction() as outputs:
            for alone, output in zip(source.split(), files, strict=True):
                points = self._points(alone)
                count += points.table.height
                make_folders([output])
                self._write(outputs, points, output)
        self._report(count, f"{len(files)} pictures", files)

    def _points(self, source: Source) -> Points:
        from calibkit.reports import plots

        points = plots.points(source, self.options)
        for remark in points.warnings:
            self.console.warn(remark)
        self.console.summary(*points.notes)
        return points

    def _write(self, outputs: Transaction, points: Points, output: str) -> None:
        if not self.drawn:
            outputs.write_frames([points.table], output, format=self.format)
            return
        from calibkit.reports.plots import picture

        drawn = picture(points, self.options.look, str(self.format))
        outputs.write_bytes(drawn, output)

    def _report(self, points: int, what: str, outputs: Sequence[str] = ()) -> None:
        console = self.console
        if console.as_json:
            told = {"output": console.output, "data": self.data, "warnings": console.said}
            console.json({"points": points} | told)
        console.wrote(what, outputs)


def _picture_suffix(output: str | None) -> str | None:
    suffix = (output or "").rpartition(".")[2].lower()
    return suffix if suffix in PICTURES else None


def _check_suffix(output: str | None, named: str | None) -> None:
    """Refuse an output whose name tells neither a picture nor a table."""
    from calibkit.files.formats import known_suffixes, suffix_format
    from calibkit.files.outputs import is_directory_output, is_stream

    if output in (None, "-", "") or named is not None or suffix_format(str(output)) is not None:
        return
    if is_directory_output(str(output)) or is_stream(str(output)):
        return
    raise UsageError(
        f"{output}: the suffix tells no format; a picture is .svg, .png or .pdf, its points as a table "
        f"{known_suffixes()}",
        file=output,
    )
