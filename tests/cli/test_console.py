"""How commands end: text, JSON and exit code of every failure; and where each word goes."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from calibkit.errors import CalibkitError, DataError, UsageError
from calibkit.models.page import Table, cell_text, table_text
from calibkit.options.option import listed, tagged
from calibkit_cli import console as console_module
from calibkit_cli import failures, main
from calibkit_cli.console import Console
from calibkit_kernels import _machine
from calibkit_kernels._jit import INTERPRETED
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, clean_environment

TRIAL = Path(__file__).with_name("trial.py")
Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def trial() -> Run:
    def call(*arguments: object, **keywords: object) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, TRIAL, *map(str, arguments)],
            env={**clean_environment(), **keywords.pop("env", {})},
            text=True,
            timeout=60,
            check=False,
            **{"capture_output": True, **keywords},
        )

    return call


@contextmanager
def started(*arguments: object) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, TRIAL, *map(str, arguments)],
        env=clean_environment(),
        # Heard though the tests were started by nohup.
        preexec_fn=partial(signal.signal, signal.SIGHUP, signal.SIG_DFL),
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()  # where the test failed: the next one should not hear of it


# The command line itself ---------------------------------------------------------------------


def test_help_and_version(invoke: Invoke) -> None:
    for flag in ("--help", "-h"):
        shown = invoke(flag)
        assert (shown.code, shown.stderr) == (0, "")
        assert b"Usage: calibkit" in shown.stdout
        assert b"\x1b" not in shown.stdout
    assert invoke("--version").stdout.startswith(b"calibkit ")


def test_no_command_is_a_usage_error_that_shows_the_help(invoke: Invoke) -> None:
    shown = invoke()
    assert shown.code == 2
    assert b"Usage: calibkit" in shown.stdout


def test_the_module_runs_as_a_script(
    command: Callable[..., subprocess.CompletedProcess[bytes]],
) -> None:
    assert command("--help", env={}).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["wran"], "No such command 'wran'. Did you mean 'warn'? Try 'calibkit --help'."),
        (["nothing-like-it"], "No such command 'nothing-like-it'. Try 'calibkit --help'."),
        (
            ["warn", "--sed", "1"],
            "No such option: --sed (did you mean '--seed'?). Try 'calibkit warn --help'.",
        ),
        (["say"], "Missing argument 'text'. Try 'calibkit say --help'."),
        (
            ["say", "x", "--warnings", "none"],
            "Invalid value for '--warnings': 'none' is not one of 'show', 'error'. "
            "Try 'calibkit say --help'.",
        ),
        (["warn", "--seed"], "Option '--seed' requires an argument."),
    ],
)
def test_usage_errors_name_what_is_near(trial: Run, arguments: list[str], message: str) -> None:
    done = trial(*arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"Error: {message}\n"


def test_a_value_that_cannot_be_read_is_named_with_its_origin(trial: Run) -> None:
    typed = trial("warn", "--threads", "0")
    assert typed.returncode == 2
    assert "'--threads'" in typed.stderr
    assert "got '0'" in typed.stderr
    assert "CALIBKIT_THREADS" not in typed.stderr
    inherited = trial("warn", env={"CALIBKIT_SEED": "x"})
    assert inherited.returncode == 2
    assert "got 'x' (from the environment variable CALIBKIT_SEED)" in inherited.stderr


# Failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        (
            "data",
            3,
            "3 scores are above 1. [file a.csv; column 'score'; first at row 4, 9, 12]",
        ),
        ("memory", 5, "Out of memory."),
        ("disk", 5, "out.parquet: No space left on device."),
        ("missing", 2, "no-such-file: No such file or directory."),
        ("bug", 70, "ZeroDivisionError: division by zero. This is a bug"),
        ("panic", 70, "BaseException: a panic below. This is a bug"),
    ],
)
def test_each_failure_has_its_text_and_code(trial: Run, how: str, code: int, message: str) -> None:
    done = trial("fail", how)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr
    assert done.stderr.count("\n") == 1


def test_json_turns_the_failure_into_an_object(trial: Run) -> None:
    done = trial("fail", "data", "--json")
    assert (done.returncode, done.stderr) == (3, "")
    assert json.loads(done.stdout) == {
        "error": {
            "code": 3,
            "message": "3 scores are above 1.",
            "file": "a.csv",
            "column": "score",
            "rows": 3,
            "first_rows": [4, 9, 12],
        }
    }


def test_json_also_covers_usage_errors_and_bugs(trial: Run) -> None:
    for arguments, code in ([["fail", "--json"], 2], [["fail", "bug", "--json"], 70]):
        done = trial(*arguments)
        assert done.returncode == code
        error = json.loads(done.stdout)["error"]
        assert error["code"] == code
        assert list(error) == ["code", "message", "file", "column", "rows", "first_rows"]


def test_a_bug_says_where_to_report_it_and_shows_the_traceback_on_request(trial: Run) -> None:
    assert "Please report" in trial("fail", "bug").stderr
    assert "Traceback" in trial("fail", "bug", "-v").stderr


def test_warnings_of_libraries_do_not_leak(trial: Run) -> None:
    assert trial("warn").stderr == ""


def test_the_message_is_not_told_twice() -> None:
    error = DataError(
        "a.csv: column score: 1,204 rows are null, first 1, 2.",
        file="a.csv",
        column="score",
        rows=1204,
        first_rows=[1, 2],
    )
    assert failures.describe(error) == error.message
    assert failures.describe(CalibkitError("m", rows=1)) == "m [1 row]"
    assert failures.describe(CalibkitError("m 3", first_rows=[3, 7])) == "m 3 [first at row 3, 7]"


# Signals and pipes ---------------------------------------------------------------------------


def test_what_a_callback_raises_is_told_unless_a_signal_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    told: list[object] = []
    monkeypatch.setattr(sys, "__unraisablehook__", told.append)
    monkeypatch.setattr(failures, "_ARRIVED", [])
    dropped: Any = SimpleNamespace(exc_type=ValueError)
    failures._send_again(dropped)
    assert told == [dropped]
    failures._ARRIVED.append(KeyboardInterrupt)
    failures._send_again(dropped)
    assert told == [dropped]


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)], ids=["int", "term"]
)
def test_a_signal_is_told_whatever_is_made_of_it(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    number: signal.Signals,
    code: int,
) -> None:
    class Stops:
        def __set_name__(self, *_: object) -> None:
            failures._unwind(number, None)

    monkeypatch.setattr(failures, "_ARRIVED", [])
    try:
        type("Made", (), {"stops": Stops()})
    except BaseException as error:  # a RuntimeError in 3.11, the signal itself in 3.12
        assert failures.report(error, ["apply"]) == code
    assert capsys.readouterr().err.endswith("ed; nothing half written is left.\n")


def test_a_signal_waits_for_what_compiled_code_has_called(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sent: list[int] = []
    monkeypatch.setattr(failures, "_send_later", sent.append)
    monkeypatch.setattr(failures, "_ARRIVED", [])

    def inner() -> None:
        failures._unwind(signal.SIGINT, inspect.currentframe())

    def _unpickled() -> None:
        inner()

    assert _unpickled.__name__ == _machine._unpickled.__wrapped__.__name__
    _unpickled()
    assert (sent, failures._ARRIVED) == ([signal.SIGINT], [])


@pytest.mark.more
@pytest.mark.skipif(INTERPRETED, reason="nothing is compiled here")
@pytest.mark.parametrize("delay", [0.15, 0.25, 0.35])
def test_a_kernel_that_asks_for_a_class_survives_a_signal(delay: float) -> None:
    script = (
        "import os, signal, sys, threading, time; import numpy as np\n"
        "from calibkit_cli import failures; from calibkit_kernels.maps import margins\n"
        "failures.end_by_signals()\n"
        "score, level = np.random.rand(20_000_000), np.zeros(20_000_000, np.uint16)\n"
        "threading.Timer(float(sys.argv[1]), os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "try: margins(score, level, np.array([0.5]), True); time.sleep(30)\n"
        "except KeyboardInterrupt: print('told')\n"
    )
    line = [sys.executable, "-c", script, str(delay)]
    done = subprocess.run(line, env=clean_environment(), capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (0, b"told\n"), done.stderr


def test_an_error_has_somewhere_to_go_where_standard_output_is_closed() -> None:
    line = f"exec '{sys.executable}' -m calibkit_cli show none.json --json >&-"
    done = subprocess.run(["sh", "-c", line], capture_output=True, check=False)
    assert json.loads(done.stderr)["error"]["file"] == "none.json"
    assert done.returncode == 2


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of a process")
def test_results_cut_short_are_no_success(tmp_path: Path) -> None:
    import resource

    rows, out = write(simulate(300), tmp_path / "rows.csv"), tmp_path / "metrics.json"
    with out.open("wb") as file:
        done = subprocess.run(
            [sys.executable, "-m", "calibkit_cli", "evaluate", str(rows), "-q"],
            env={**os.environ, "PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1024, 1024)),
            stdout=file,
            stderr=subprocess.PIPE,
            check=False,
        )
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith(b"Error: ")


def test_errors_are_json_whatever_the_stream_encodes() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "calibkit_cli", "show", "\u00e9\U0001f600.json", "--json"],
        env={**os.environ, "PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"},
        capture_output=True,
        check=False,
    )
    assert json.loads(done.stdout)["error"]["file"] == "\u00e9\U0001f600.json"


def test_a_closed_pipe_ends_quietly() -> None:
    with started("endless") as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("line")
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == ""


@pytest.mark.parametrize(
    ("number", "code"),
    [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)],
    ids=["int", "term", "hup"],
)
def test_a_signal_leaves_nothing_half_written(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    with started("wait", tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_a_run_without_a_terminal_s_interrupts_goes_on(tmp_path: Path) -> None:
    """As shells start what stands before ``&``, and nohup: the signal is ignored, and stays so."""
    line = ["sh", "-c", f"trap '' INT; exec '{sys.executable}' '{TRIAL}' wait '{tmp_path}'"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(line, env=clean_environment(), text=True, **pipes) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
            process.send_signal(signal.SIGINT)
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(timeout=1)
            process.terminate()
            assert process.wait(timeout=30) == 143
        finally:
            process.kill()


def test_an_ignored_interrupt_is_not_heard_by_polars_either(tmp_path: Path) -> None:
    rows, grid = tmp_path / "rows.csv", tmp_path / "grid.csv"
    simulate(30_000).write_csv(rows)
    line = [sys.executable, "-m", "calibkit_cli", "bin", rows, "-o", grid]
    ignore = partial(signal.signal, signal.SIGINT, signal.SIG_IGN)
    with subprocess.Popen(line, env=clean_environment(), preexec_fn=ignore) as process:
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.005)
    assert process.returncode == 0


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&- <&-"])
def test_closed_streams_do_no_harm(tmp_path: Path, closed: str) -> None:
    output = tmp_path / "model.json"
    line = f"'{sys.executable}' '{TRIAL}' say warn -o '{output}' {closed}"
    assert subprocess.run(line, shell=True, env=clean_environment(), check=False).returncode == 0
    assert output.read_text() == '{"text": 1}\n'


def test_names_that_are_no_utf8_are_escaped(trial: Run) -> None:
    output = os.fsdecode(b"no-\xff-such/model.json")
    assert "no-\\udcff-such" in trial("say", "x", "-o", output).stderr
    failed = trial("say", "x", "-o", output, "--json")
    assert json.loads(failed.stdout)["error"]["file"] == output


# Start-up ------------------------------------------------------------------------------------


def test_help_starts_in_under_a_third_of_a_second() -> None:
    """Or, on a slow machine, in under 0.6 of what importing polars and numba takes beside it."""

    def seconds(*arguments: str) -> float:
        begin = time.perf_counter()
        subprocess.run(
            [sys.executable, *arguments], env=clean_environment(), capture_output=True, check=True
        )
        return time.perf_counter() - begin

    helped: list[float] = []
    imported: list[float] = []
    for _ in range(5):
        helped.append(seconds("-m", "calibkit_cli.main", "--help"))
        if helped[-1] < 0.3:
            break
        imported.append(seconds("-c", "import polars, numba"))
    assert min(helped) < max(0.3, 0.6 * min(imported, default=0.0))


# The console ---------------------------------------------------------------------------------


def test_results_go_to_a_pipe_and_all_else_to_standard_error(trial: Run) -> None:
    done = trial("say", "warn")
    assert done.stdout == '{"text": 1}\n'
    assert done.stderr == "Warning: be careful\ndone\n"
    assert trial("say", "warn", "-q").stderr == "Warning: be careful\n"
    assert trial("say", "x", "-v").stderr == "a detail\ndone\n"


def test_a_warning_under_warnings_error_writes_nothing(trial: Run, tmp_path: Path) -> None:
    output = tmp_path / "model.json"
    done = trial("say", "warn", "-o", output, "--warnings", "error")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "Error: be careful (an error because of --warnings error)\n"
    assert not output.exists()


def test_a_plain_table_aligns_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    Console().table(["name", "rows"], [["a", 1200], ["bcd", None]], title="Levels")
    assert capsys.readouterr().out == "Levels\nname   rows\n----  -----\na     1,200\nbcd       -\n"
    Console(quiet=True).table(["name"], [["a"]], error=True)
    assert capsys.readouterr().err == ""
    assert table_text(Table(["a"], [])) == "a\n-"


def test_the_first_rows_of_a_frame(capsys: pytest.CaptureFixture[str]) -> None:
    Console().head(pl.DataFrame({"x": range(101, 126)}))
    header, rule, *rows, more = capsys.readouterr().out.splitlines()
    assert [header, rule] == ["  x", "---"]
    assert rows == [f"{x}" for x in range(101, 121)]
    assert more == "… 25 rows; -o FILE writes them all."
    Console().head(pl.DataFrame({"x": range(101, 121)}))
    assert len(capsys.readouterr().out.splitlines()) == 22


def test_a_wide_frame_keeps_its_ends_on_a_narrow_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_module, "_is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    Console().head(pl.DataFrame({f"c{k:02}": [k] for k in range(23)}))
    header, *_, more = capsys.readouterr().out.splitlines()
    assert header.split() == [f"c{k:02}" for k in (*range(5), *range(18, 23))]
    assert more == "… 1 row of 23 columns; -o FILE writes them all."


def test_a_terminal_gets_a_rich_table(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(console_module, "_is_terminal", lambda stream: True)
    monkeypatch.setenv("TERM", "dumb")
    Console().table(["[name]", "rows"], [["[red]a", 12]])
    shown = capsys.readouterr().out
    assert "[red]a" in shown
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    ("value", "text"),
    [(None, "-"), (True, "yes"), (12345, "12,345"), (0.123456789, "0.123457"), ("x", "x")],
)
def test_cells_read_well(value: object, text: str) -> None:
    assert cell_text(value) == text


def test_lists_take_commas_or_repetition() -> None:
    assert listed("a, b,c,") == listed(["a", "b", "c"]) == ("a", "b", "c")


def test_tags_are_keys_and_values() -> None:
    assert tagged(["run=7", "note=a=b", "empty="], "--tag") == {
        "run": "7",
        "note": "a=b",
        "empty": "",
    }
    for wrong in (["run"], ["=7"], ["run=7", "run=8"]):
        with pytest.raises(UsageError, match="--tag"):
            tagged(wrong, "--tag")


def test_the_entry_point_ends_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["calibkit", "--version"])
    monkeypatch.setattr(os, "_exit", sys.exit)
    monkeypatch.setattr(sys, "unraisablehook", sys.unraisablehook)
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {number: signal.getsignal(number) for number in numbers}
    try:
        with pytest.raises(SystemExit) as ended:
            main.main()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    assert ended.value.code == 0


def test_names_cannot_command_the_terminal(
    tmp_path: Path, invoke: Invoke, capfdbinary: pytest.CaptureFixture[bytes]
) -> None:
    from calibkit_cli.console import Console

    table = tmp_path / "a.csv"
    table.write_text("score\x1b[31m,label\n0.5,1\n")
    said = invoke("boundary", table, "--precision", "0.5", "-q", "-o", tmp_path / "b.json")
    assert said.code == 2
    assert "\x1b" not in said.stderr
    Console(None, False, False, False).summary("a \x1b[2Jname\u202e")
    assert capfdbinary.readouterr().err == b"a \\x1b[2Jname\\u202e\n"
