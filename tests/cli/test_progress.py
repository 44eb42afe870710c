"""The progress line: on a terminal only, after a while, and gone when it is over."""

from __future__ import annotations

import io
import sys
import time
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from calibkit.files.sources import Source
from calibkit.runtime.progress import listen, steps
from calibkit_cli import console as progress
from calibkit_cli.console import Console, ProgressLine, clear_line, end_lines
from tests.cli.test_formats import on_terminal


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("options", "stdout", "stderr", "shown"),
    [
        ({}, True, True, True),
        ({}, False, True, True),
        ({}, True, False, False),
        ({"quiet": True}, True, True, False),
        # Rows that go to the terminal hide the line.
        ({"output": "-"}, True, True, False),
        ({"output": "-"}, False, True, True),
    ],
)
def test_only_a_terminal_is_told(
    options: dict[str, Any],
    stdout: bool,
    stderr: bool,
    shown: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    both = {sys.stdout: stdout, sys.stderr: stderr}
    monkeypatch.setattr(progress, "_is_terminal", both.__getitem__)
    Console(**options).show_progress()
    assert len(progress._lines) == shown
    end_lines()
    assert not progress._lines


def test_rows_speed_and_time_left() -> None:
    clock = [0.0]
    line = ProgressLine(Terminal(), lambda: clock[0])
    line.clear()  # no timer in a test
    clock[0] = 1.0
    line(0, 10_000_000, "rows")
    clock[0] = 2.0
    line(1_000_000, 10_000_000, "rows")
    assert line.text() == "1,000,000 of 10,000,000 rows, 1,000,000 rows/s, 0:00:09 left"
    clock[0] = 2.5
    line(500, 10_000_000, "rows")  # another pass
    clock[0] = 4.5
    assert line.text() == "500 of 10,000,000 rows, 250 rows/s, 11:06:38 left"
    line(10_000_000, 10_000_000, "rows")
    assert line.text().endswith(", 0:00:00 left")
    line(0, 6, "candidates judged")
    assert line.text() == "0 of 6 candidates judged, 0:00:04 so far"
    clock[0] = 8.5
    line(2, 6, "candidates judged")
    assert line.text() == "2 of 6 candidates judged, 0:00:08 left"
    line.clear()


def test_the_clock_runs_while_nothing_is_told() -> None:
    clock, terminal = [0.0], Terminal()
    line = ProgressLine(terminal, lambda: clock[0])
    progress._lines.append(line)
    clock[0] = 3.0
    line._show()
    assert "0:00:03 so far" in terminal.getvalue()
    clock[0] = 7.0  # rich paints again by itself, and asks for the text of that moment
    deadline = time.monotonic() + 10
    while "0:00:07 so far" not in terminal.getvalue() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert "0:00:07 so far" in terminal.getvalue()
    line(100, 100, "rows")
    clock[0] = 60.0
    assert line.text() == "100 rows read, working on them: 0:01:00 so far"
    end_lines()


@pytest.mark.skipif(not Path("/proc/self/io").exists(), reason="Linux counts bytes")
@pytest.mark.skipif(
    tuple(map(int, pl.__version__.split(".")[:2])) < (2, 1),
    reason="polars 2.0 maps text into memory, of which nobody counts bytes",
)
def test_bytes_are_told_while_text_is_scanned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "_MUCH", 10_000_000)
    line = ProgressLine(Terminal(), lambda: 3.0)
    line.clear()
    assert line.text() == "0:00:00 so far"
    rows = Path("rows.csv")
    rows.write_text("label\n" + "10\n" * 5_000_000)
    pl.read_csv(rows)
    assert line.text() in ("15 MB read, 0:00:00 so far", "16 MB read, 0:00:00 so far")
    line(0, 15_000_006, "bytes")
    pl.read_csv(rows)
    assert line.text() == "15 of 15 MB read, 0:00:00 so far"


def test_it_shows_after_a_while_and_goes_away() -> None:
    clock, terminal = [0.0], Terminal()
    line = ProgressLine(terminal, lambda: clock[0])
    progress._lines.append(line)
    line(10, 100, "rows")
    assert terminal.getvalue() == ""
    clock[0] = progress.DELAY
    line(20, 100, "rows")
    assert "20 of 100 rows" in terminal.getvalue()
    clear_line()
    assert line._bar is None
    end_lines()


def test_a_source_tells_of_its_windows() -> None:
    source = Source.from_frame(pl.DataFrame({"v": range(10)}))
    told: list[tuple[int, int, str]] = []
    listen(lambda *about: told.append(about))
    assert sum(window.rows for window in source.windows(rows=4)) == 10
    assert list(steps("ab", 2, "trees grown")) == ["a", "b"]
    listen(None)
    assert told[:3] == [(4, 10, "rows"), (8, 10, "rows"), (10, 10, "rows")]
    assert told[3:] == [(k, 2, "trees grown") for k in (0, 1, 2)]


def test_a_short_run_on_a_terminal_shows_nothing() -> None:
    Path("rows.csv").write_text("score_1,score_2\n0.2,0.3\n0.7,0.6\n")
    code, said = on_terminal("vad", "rows.csv", "-o", "v.json")
    assert code == 0 and "rows/s" not in said and "Model written" in said
