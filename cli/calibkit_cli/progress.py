"""How far a run has come, on one line of a terminal: what is done, how fast, the time left."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from threading import RLock, Timer
from typing import TYPE_CHECKING, Any, TextIO

from calibkit.runtime.progress import listen

if TYPE_CHECKING:
    from rich.progress import Progress as Bar

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
        speed = f"{_rounded(done / seconds)} rows/s, " if what == "rows" else ""
        return f"{known}, {speed}{_duration(max(total - done, 0) * seconds / done)} left"

    def done(self) -> int:
        """Return how much is done now; the system counts the bytes, others among them."""
        if self._what != "bytes":
            return self._done
        read = _bytes_read() - self._before
        return min(read, self._total) if self._total else read

    def _show(self) -> None:
        with self._lock:
            bar = self._bar or self._new_bar()
            if self._bar is None:
                self._bar = bar
                bar.start()

    def _new_bar(self) -> Bar:
        from rich.console import Console
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
            console=Console(file=self._stream),
            transient=True,
            redirect_stdout=False,
        )
        bar.add_task("")
        return bar


def show_progress(*, quiet: bool, rows_on_terminal: bool) -> None:
    """Show how far the run comes from now on, on a line, where somebody looks and may see it.

    Nobody sees it where the run writes rows on the same terminal as it goes on.
    """
    if quiet or rows_on_terminal or not sys.stderr.isatty():
        return
    clear_line()
    _lines.append(ProgressLine(sys.stderr))
    listen(_lines[-1])


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
        clear_line()
        sys.stderr.write(
            "Compiling for first use, about 15 s; `calibkit warmup` does it in advance.\n"
        )
        sys.stderr.flush()


def _bytes_read() -> int:
    """Return how many bytes this process has read: what tells of text that is scanned, or of a pipe.

    Linux counts them; elsewhere, or where it may not be asked, 0.
    """
    try:
        return int(Path("/proc/self/io").read_bytes().split()[1])
    except (OSError, ValueError, IndexError):
        return 0


def _rounded(speed: float) -> str:
    """Return a speed with a unit that keeps it short."""
    for size, unit in ((1e9, " billion"), (1e6, " million")):
        if speed >= size:
            return f"{speed / size:.1f}{unit}"
    return f"{speed:,.0f}"


def _duration(seconds: float) -> str:
    whole = round(seconds)
    hours, rest = divmod(whole, 3600)
    if hours:
        return f"{hours} h {rest // 60:02} min"
    return f"{rest // 60} min {rest % 60:02} s" if rest >= 60 else f"{rest} s"
