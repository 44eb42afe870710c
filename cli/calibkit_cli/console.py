"""What a command says, and where: results on standard output, all else on standard error.

How far a run has come stands on one line of a terminal: what is done, how fast, the time left.
"""

from __future__ import annotations

import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Sequence
from datetime import timedelta
from pathlib import Path
from threading import RLock, Timer
from typing import TYPE_CHECKING, Any, TextIO

from msgspec import Struct

from calibkit.errors import DataError, UsageError
from calibkit.files.formats import suffix_format
from calibkit.models.kinds import view_of
from calibkit.models.page import Page, Table, cell_text, numeric, printable, some_of, table_text
from calibkit.runtime.kernels import tell_of_compiling
from calibkit.runtime.progress import listen

if TYPE_CHECKING:
    import polars as pl
    from rich.progress import Progress as Bar

#: How many rows of a result are shown where it goes to a terminal.
SHOWN_ROWS = 20

#: How many characters of the terminal a column of it has: with less nothing can be read.
_COLUMN = 7

#: A first column so narrow is not broken on a narrow terminal: other headers give way.
_KEPT_WHOLE = 30
#: Files of a folder that are named where they are written.
_NAMED = 3


class Console(Struct):
    """The voice of one command's run; made first thing, before any work."""

    output: str | None = None  # ``-o``: a file, ``-`` for standard output
    as_json: bool = False  # the summary of the run as one object on standard output
    quiet: bool = False  # no summary; warnings stay
    verbose: bool = False  # more detail on standard error
    warnings: str = "show"  # ``error``: one ends the run before it has written anything
    #: The result is rows, not a model: ``--json`` then needs ``-o``, because both would be the content
    #: of standard output.
    tabular: bool = False
    output_format: str | None = None  # of a tabular result, whatever the suffix of `output`
    texts: Sequence[str] = ()  # suffixes of what a result can be written as, if more than JSON
    one: str | None = None  # said of a folder, where there is one result whatever the inputs
    everything: bool = False  # on a terminal too a view prints all it has, not one screen
    said: list[str] = []
    per_input: bool = False
    _asides: list[list[str]] = []
    _told: set[str] = set()

    def __post_init__(self) -> None:
        if self.quiet:
            tell_of_compiling(None)
        if self.as_json and self.output == "-":
            raise UsageError(
                "--json and -o - both write to standard output; give -o a file, or leave one out."
            )
        if self.as_json and self.tabular and self.output is None:
            raise UsageError("--json needs -o FILE here: without it the rows are standard output.")
        if self.output is not None:
            from calibkit.files.paths import check_folder, check_output, is_directory_output

            self.per_input = is_directory_output(self.output)
            if self.per_input and self.one is not None:
                raise UsageError(f"{self.output}: {self.one}.", file=self.output)
            if self.per_input:
                check_folder(self.output)
            else:
                check_output(self.output, table=self.tabular, format=self.output_format)
                named = self.output.endswith(tuple(f".{one}" for one in self.texts))
                if not self.tabular and not named and suffix_format(self.output) is not None:
                    names = " or ".join(f"FILE.{one}" for one in self.texts or ("json",))
                    said = f"{self.output}: the result is JSON, not a table; name it {names}."
                    raise UsageError(said)

    @property
    def on_terminal(self) -> bool:
        """Whether standard output is a terminal."""
        return _is_terminal(sys.stdout)

    def warn(self, *texts: str) -> None:
        """Say warnings on standard error; under ``--warnings error`` end the run with the first.

        Call it before the first output is written.
        """
        for text in texts:
            if self.warnings == "error":
                raise DataError(f"{text} (an error because of --warnings error)")
            self.said.append(text)
            _print(f"Warning: {text}", sys.stderr)

    def summary(self, *lines: str) -> None:
        """Say what the run did, on standard error, unless ``-q``; then what is still to be said."""
        if not self.quiet:
            new = dict.fromkeys(one for some in self._asides for one in some)
            told = [one for one in new if one not in self._told]
            for line in (*lines, *told):
                _print(line, sys.stderr)
            self._told.update(told)

    def aside(self, lines: list[str]) -> None:
        """Say what a list comes to hold, once, after the answer: with the next summary."""
        self._asides.append(lines)

    def annotate(self, level: str, message: str, **where: str | None) -> None:
        """Say something as an annotation of GitHub Actions: a workflow command on standard error.

        The runner reads commands on both streams, and standard output may hold a result.  `level` is
        ``error``, ``warning`` or ``notice``; `where` names title, file and line.  Source: GitHub
        documentation, "Workflow commands for GitHub Actions".
        """
        known = [f"{name}={_escaped(own, ':,')}" for name, own in where.items() if own is not None]
        place = f" {','.join(known)}" if known else ""
        _print(f"::{level}{place}::{_escaped(message)}", sys.stderr)

    def detail(self, *lines: str) -> None:
        """Say more, on standard error, under ``-v`` only."""
        if self.verbose:
            for line in lines:
                _print(line, sys.stderr)

    def model(self, content: bytes, view: Callable[[], None]) -> None:
        """Deliver a result (JSON) to ``--json``, a pipe or, by `view`, a terminal; not to ``-o``."""
        if self.as_json or self.output == "-" or (self.output is None and not self.on_terminal):
            self.content(content)
        elif self.output is None:
            view()

    def report_rows(self, rows: int, columns_added: Sequence[str]) -> None:
        """Print the ``--json`` object of a command whose result is rows, if it was asked for."""
        if self.as_json:
            told = {"rows": rows, "columns_added": list(columns_added), "output": self.output}
            self.json(told | {"warnings": self.said})

    def show_progress(self) -> None:
        """Show how far the run comes from now on, on a line, where somebody looks and may see it.

        Nobody sees it where the run writes rows on the same terminal as it goes on.
        """
        hidden = self.quiet or (self.output == "-" and self.on_terminal)
        if hidden or not _is_terminal(sys.stderr):
            return
        clear_line()
        _lines.append(ProgressLine(sys.stderr))
        listen(_lines[-1])

    def wrote(self, what: str, outputs: Sequence[str] = ()) -> None:
        """Say on standard error what went to the output, or to files in it: not with ``--json``."""
        if self.output in (None, "-") or self.as_json:
            self.summary()
            return
        where = outputs[0] if len(outputs) == 1 else self.output
        if len(outputs) > 1:
            where = f"{where}: {some_of(outputs, _NAMED)}"
        self.summary(f"{what} written to {where}.")

    def say(self, *lines: str) -> None:
        """Print lines of a result on standard output, on a terminal broken between words."""
        width = shutil.get_terminal_size().columns if self.on_terminal else None
        for line in lines:
            if width is not None and len(line) > width:
                line = "\n".join(textwrap.wrap(line, width, break_on_hyphens=False))
            _print(line, sys.stdout)

    def show(self, result: Any, *, view: Callable[[Any, Page], None] | None = None) -> None:
        """Print a result as its view, or another: on a terminal one screen, unless `everything`."""
        width = shutil.get_terminal_size().columns
        page = Page(short=self.on_terminal, everything=self.everything, width=width)
        (view or view_of(result).view)(result, page)
        for part in page.parts:
            if isinstance(part, str):
                self.say(part)
            else:
                self.table(part.header, part.rows, title=part.title)

    def outline(self, result: Any, *notes: str) -> None:
        """Say a result in a few lines with the summary, where it is not shown."""
        if self.output is not None or not self.on_terminal:
            self.summary(*view_of(result).lines(result), *notes)

    def content(self, data: bytes) -> None:
        """Print a file's content on standard output as it is."""
        clear_line()
        sys.stdout.flush()
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()

    def json(self, value: object) -> None:
        """Print one JSON object on standard output."""
        import json

        text = json.dumps(value, ensure_ascii=False, allow_nan=False) + "\n"
        self.content(text.encode(errors="backslashreplace"))

    def head(self, frame: pl.DataFrame, *, rows: int | None = None) -> None:
        """Print the first rows of a frame as a table on standard output, of so many `rows` in all."""
        rows = frame.height if rows is None else rows
        names, more = frame.columns, ""
        most = max(2, shutil.get_terminal_size().columns // _COLUMN)
        if len(names) > most and self.on_terminal:  # the columns that were added come last
            frame, more = frame.drop(names[most // 2 : -(most // 2)]), f" of {len(names)} columns"
        self.table(frame.columns, frame.head(SHOWN_ROWS).rows())
        if rows > SHOWN_ROWS or more:
            said = f"{rows:,} row{'s' * (rows != 1)}{more}"
            _print(f"… {said}; -o FILE writes them all.", sys.stdout)

    def table(
        self,
        header: Sequence[str],
        rows: Sequence[Sequence[object]],
        *,
        title: str | None = None,
        error: bool = False,
    ) -> None:
        """Print a table on standard output (`error`: on standard error, unless ``-q``).

        Off a terminal it is plain text, which can be compared.
        """
        if error and self.quiet:
            return
        stream = sys.stderr if error else sys.stdout
        table = Table(header, rows, title)
        if _is_terminal(stream):
            _print_rich(table, stream)
        else:
            _print(table_text(table), stream)


def _print_rich(shown: Table, stream: TextIO) -> None:
    from rich import box
    from rich.console import Console as RichConsole
    from rich.table import Table as RichTable
    from rich.text import Text

    cells = [[cell_text(cell) for cell in row] for row in shown.rows]
    table = RichTable(
        title=shown.title and printable(shown.title),
        title_justify="left",
        box=box.SIMPLE_HEAD,
        show_edge=False,
        pad_edge=False,
    )
    for place, name in enumerate(shown.header):
        on_right = numeric([row[place] for row in shown.rows])
        short = not place and all(len(row[0]) <= _KEPT_WHOLE for row in cells)
        table.add_column(
            Text(printable(name)), justify="right" if on_right else "left", no_wrap=short
        )
    for row in cells:
        table.add_row(*map(Text, row))
    clear_line()
    RichConsole(file=stream, highlight=False).print(table)


def _escaped(text: str, more: str = "") -> str:
    """Return text for a workflow command, in which these characters would end it."""
    for sign in f"%\r\n{more}":
        text = text.replace(sign, f"%{ord(sign):02X}")
    return text


def _is_terminal(stream: TextIO) -> bool:
    return stream.isatty()


def _print(text: str, stream: TextIO) -> None:
    clear_line()
    stream.write(printable(text) + "\n")
    stream.flush()


# How far a run has come ---------------------------------------------------------------------------

#: Seconds before a run is worth a line.
DELAY = 2.0

#: Seconds after the last row until a run is said to work on what it has read.
_AT_WORK = 1.0
#: So many bytes read are worth saying: a command reads some to start.
_MUCH = 100_000_000
#: So many kernels are compiled in a second; a wait for more is explained.
FEW_KERNELS = 4

#: The line that is shown, or will be.
_lines: list[ProgressLine] = []


class ProgressLine:
    """A line on standard error that shows after a while, and goes away without a trace.

    It is told as a `calibkit.runtime.progress.Listener` is; until then it says the bytes read.
    """

    def __init__(self, stream: TextIO, now: Callable[[], float] = time.monotonic) -> None:
        self._stream, self._now = stream, now
        self._begun = self._pass_begun = now()
        self._done, self._total, self._what, self._told = 0, 0, "bytes", now()
        self._before = _bytes_read()
        self._bar: Bar | None = None
        self._lock = RLock()
        self._timer = Timer(DELAY, self._show)
        self._timer.daemon = True
        self._timer.start()

    def __call__(self, done: int, total: int, what: str) -> None:
        """Show that so much is done; less than before, or of something else, is another pass."""
        with self._lock:
            if done < self._done or what != self._what:
                self._pass_begun, self._before = self._now(), _bytes_read()
            self._done, self._total, self._what, self._told = done, total, what, self._now()
            if self._now() - self._begun >= DELAY:
                self._show()

    def clear(self) -> None:
        """Take the line off the terminal: something else is written there."""
        with self._lock:
            self._timer.cancel()
            if self._bar is not None:
                self._bar.stop()
                self._bar = None

    def text(self) -> str:
        """Return what the line says now: its clock runs where nothing is told, too."""
        so_far = f"{_duration(self._now() - self._begun)} so far"
        done, total, what = self.done(), self._total, self._what
        if what == "bytes":
            of_all = f" of {total / 1e6:,.0f}" if total else ""
            return f"{done / 1e6:,.0f}{of_all} MB read, {so_far}" if done >= _MUCH else so_far
        if done >= total and self._now() - self._told >= _AT_WORK:
            all_done = "rows read, working on them:" if what == "rows" else f"{what},"
            return f"{total:,} {all_done} {so_far}"
        seconds = self._now() - self._pass_begun
        known = f"{done:,} of {total:,} {what}"
        if not done or seconds <= 0:
            return f"{known}, {so_far}"
        speed = f"{done / seconds:,.0f} rows/s, " if what == "rows" else ""
        return f"{known}, {speed}{_duration(max(total - done, 0) * seconds / done)} left"

    def done(self) -> int:
        """Return how much is done now; the system counts the bytes, others among them."""
        if self._what != "bytes":
            return self._done
        read = _bytes_read() - self._before
        return min(read, self._total) if self._total else read

    def _show(self) -> None:
        with self._lock:
            if self._bar is None:
                self._bar = self._new_bar()
                self._bar.start()

    def _new_bar(self) -> Bar:
        from rich.console import Console as RichConsole
        from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, Task
        from rich.text import Text

        line = self

        class Said(ProgressColumn):
            """What the line says whenever rich paints it, ten times a second."""

            def render(self, task: Task) -> Text:
                task.completed, task.total = line.done(), line._total or None  # None: a pulse
                return Text(line.text())

        bar = Progress(
            SpinnerColumn(),
            BarColumn(bar_width=30),
            Said(),
            console=RichConsole(file=self._stream),
            transient=True,
            redirect_stdout=False,
        )
        bar.add_task("")
        return bar


def clear_line(*_: Any) -> None:
    """Take the line off the terminal, if there is one; it shows again when more is told."""
    for line in _lines:
        line.clear()


def end_lines() -> None:
    """Forget the lines of a run that has ended."""
    clear_line()
    _lines.clear()
    listen(None)


def say_it_compiles(before: int) -> None:
    """Say why a command takes its time, when it compiles so many kernels that one notices."""
    if before == FEW_KERNELS:
        said = "Compiling for first use, about 15 s; `calibkit warmup` does it in advance."
        _print(said, sys.stderr)


def _bytes_read() -> int:
    """Return how many bytes this process has read: what tells of text that is scanned, or of a pipe.

    Linux counts them; elsewhere, or where it may not be asked, 0.
    """
    try:
        return int(Path("/proc/self/io").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
