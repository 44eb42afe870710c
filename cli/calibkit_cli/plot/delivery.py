"""How a picture is delivered: drawn, or as the table of its points; one, or one for each input."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibkit.errors import UsageError
from calibkit_cli.console import Console

if TYPE_CHECKING:
    from calibkit.files.sinks import Transaction
    from calibkit.files.sources import Source
    from calibkit.report.look import Look
    from calibkit.report.points import Points

#: What is drawn; any other output is the table of its points.
PICTURES = ("svg", "png")


@dataclass(frozen=True)
class Delivery:
    """Where a picture goes and how it looks, as typed; made first thing, before any work.

    Raises
    ------
    UsageError
        For an output that is no picture and no table, options that contradict each other, and
        where matplotlib is missing.
    """

    console: Console
    look: Look
    data: str | None
    output_format: str | None

    @classmethod
    def of(
        cls,
        output: str | None,
        output_format: str | None,
        data: str | None,
        look: Look,
        *,
        as_json: bool,
        quiet: bool,
        verbose: bool,
        warnings: str,
    ) -> Delivery:
        """Check the outputs and make the console."""
        from calibkit.files.outputs import check_output, is_stream

        named = output_format or _picture_suffix(output)
        _check_suffix(output, named)
        console = Console(
            output, as_json, quiet, verbose, warnings, tabular=True, output_format=named
        )
        if data is not None:
            check_output(data, table=True)
            if data == "-":
                raise UsageError("--data - would mix with the picture; give it a file.")
            if console.per_input:
                raise UsageError("-o DIR/ gives several pictures; leave --data out.")
        if named is None and (output is None or console.per_input or is_stream(output)):
            named = "svg"
        made = cls(console, look, data, named)
        if made.drawn:
            from calibkit.report.style import need_matplotlib

            need_matplotlib()
        return made

    @property
    def drawn(self) -> bool:
        """Whether the result is a picture, not a table of points."""
        if self.console.output is None and self.console.on_terminal:
            return False
        return self.output_format in PICTURES

    def plot(
        self,
        source: Source,
        make: Callable[[Source], Points],
        columns: Mapping[str, str],
        *,
        dry_run: bool,
    ) -> None:
        """Draw the inputs together, or (``-o DIR/``) each by itself."""
        from calibkit.files.formats import format_suffix
        from calibkit.files.outputs import directory_outputs, spare_inputs
        from calibkit.files.sinks import Transaction, make_folders

        console = self.console
        if dry_run:
            from calibkit_cli.dry_run import show_plan

            what = "a picture" if self.drawn else "the points of a picture"
            show_plan(console, source, columns, [f"write {what} to {console.output or '-'}"])
            return
        for output in (console.output, self.data):
            if output not in (None, "-") and not console.per_input:
                spare_inputs(str(output), source.parts)
        if not console.per_input:
            shown = self._made(make, source)
            with Transaction() as outputs:
                if self.data is not None:
                    outputs.write_table(shown.table, self.data)
                if console.output is None and console.on_terminal:
                    console.head(shown.table)
                else:
                    self._write(outputs, shown, console.output or "-")
            self._report(shown.table.height)
            console.wrote("Picture" if self.drawn else f"{shown.table.height:,} points")
            return
        kind = str(self.output_format)
        suffix = f".{kind}" if kind in PICTURES else format_suffix(kind)
        files = directory_outputs(str(console.output), source.parts, suffix=suffix)
        points = 0
        with Transaction() as outputs:
            for alone, output in zip(source.split(), files, strict=True):
                shown = self._made(make, alone)
                points += shown.table.height
                make_folders([output])
                self._write(outputs, shown, output)
        self._report(points)
        console.wrote(f"{len(files)} pictures")

    def _made(self, make: Callable[[Source], Points], source: Source) -> Points:
        shown = make(source)
        for remark in shown.warnings:
            self.console.warn(remark)
        self.console.summary(*shown.notes)
        return shown

    def _write(self, outputs: Transaction, shown: Points, output: str) -> None:
        if not self.drawn:
            outputs.write_table(shown.table, output, format=self.output_format, main=True)
            return
        from calibkit.report.plots import picture

        outputs.write_bytes(picture(shown, self.look, str(self.output_format)), output, main=True)

    def _report(self, points: int) -> None:
        if self.console.as_json:
            self.console.json(
                {
                    "points": points,
                    "output": self.console.output,
                    "data": self.data,
                    "warnings": self.console.said,
                }
            )


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
        f"{output}: the suffix tells no format; a picture is .svg or .png, its points as a table "
        f"{known_suffixes()}",
        file=output,
    )
