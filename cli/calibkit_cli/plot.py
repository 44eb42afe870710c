"""``calibkit plot``: every kind of picture, drawn or as the table of its points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from calibkit.errors import UsageError
from calibkit.options.plot import KINDS, PlotOptions
from calibkit.options.shared import of_output

from . import declare
from .console import Console
from .lines import DryRun, Inputs, Results, check_beside
from .runs import Write, show_plan, write_each

if TYPE_CHECKING:
    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source

#: What is drawn; any other output is the table of its points.
PICTURES = ("svg", "png", "pdf")


class PlotLine(Inputs, Results, DryRun):
    """What the command line of a picture has besides its options."""

    output_format: (
        Literal["svg", "png", "pdf", "parquet", "csv", "tsv", "ndjson", "arrow"] | None
    ) = of_output(
        "Format of the output, whatever its suffix: a picture, or its points as a table.",
        shown="by suffix; on standard output svg",
    )
    data: str | None = of_output("Also write the points drawn, as a table.", "FILE")


@declare.several(KINDS)
def plot(options: PlotOptions, line: PlotLine) -> None:
    """Draw what the line asks for; pictures of each input appear together or not at all."""
    from calibkit.reports import plots

    console, kind = _checked(line)
    output = line.output
    shown = output is None and console.on_terminal  # as a table
    drawn = kind in PICTURES and not shown
    if drawn:
        from calibkit.reports.style import need_matplotlib

        need_matplotlib()
    source = plots.opened(line.inputs, options) or line.open(console)
    columns = plots.columns(source, options)
    if line.dry_run:
        what = "a picture" if drawn else "the points of a picture"
        show_plan(console, source, columns, [f"write {what} to {output or '-'}"])
        return
    count = 0

    def make(rows: Source) -> Write:
        nonlocal count
        points = plots.points(rows, options)
        console.warn(*points.warnings)
        console.summary(*points.notes)
        count += points.table.height

        def write(outputs: Transaction, output: str) -> None:
            if line.data is not None:
                outputs.write_frames([points.table], line.data)
            if shown:
                console.head(points.table)
            elif drawn:
                outputs.write_bytes(plots.picture(points, options.look, str(kind)), output)
            else:
                outputs.write_frames([points.table], output, format=kind)

        return write

    files = write_each(console, source, make, suffix=f".{kind}")
    what = "Picture" if drawn else f"{count:,} points"
    if console.per_input:
        what = f"{len(files)} pictures"
    if console.as_json:
        told = {"output": output, "data": line.data, "warnings": console.said}
        console.json({"points": count} | told)
    console.wrote(what, files)


def _checked(line: PlotLine) -> tuple[Console, str | None]:
    """Return the console and the format of the output, after a look at every output."""
    from calibkit.files.formats import KNOWN_SUFFIXES, suffix_format
    from calibkit.files.paths import is_directory_output, is_stream

    output = line.output or ""
    suffix = output.rpartition(".")[2].lower()
    named = line.output_format or (suffix if suffix in PICTURES else None)
    table = output in ("", "-") or named is not None or suffix_format(output) is not None
    if not table and not is_directory_output(output) and not is_stream(output):
        raise UsageError(
            f"{output}: the suffix names no known format; a picture is .svg, .png or .pdf, its points "
            f"as a table {KNOWN_SUFFIXES}",
            file=output,
        )
    console = line.part(Console, tabular=True, output_format=named)
    if line.data is not None:
        check_beside("--data", line.data, "picture")
        if console.per_input:
            raise UsageError("-o DIR/ gives several pictures; leave --data out.")
    if named is None and (line.output is None or console.per_input or is_stream(output)):
        named = "svg"
    return console, named
