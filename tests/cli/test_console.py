"""How commands end: text, JSON and exit code of every failure; and where each word goes."""

from __future__ import annotations

import inspect
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from calibkit.errors import CalibkitError, DataError, UsageError
from calibkit.options.option import listed, tagged
from calibkit_cli import console as console_module
from calibkit_cli import failures
from calibkit_cli.console import Console
from calibkit_kernels import _machine
from calibkit_kernels._jit import INTERPRETED
from tests.cli.score_files import simulate, write
from tests.conftest import Invoke, clean_environment

TRIAL = Path(__file__).with_name("trial.py")
MODULE = ("-m", "calibkit_cli")


def ran(*arguments: object, **keywords: Any) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        env={**clean_environment(), **keywords.pop("env", {})},
        text=True,
        timeout=60,
        check=False,
        **{"capture_output": True, **keywords},
    )


trial = partial(ran, TRIAL)


@contextmanager
def started(
    *arguments: object, number: int = signal.SIGHUP, handler: Any = signal.SIG_DFL
) -> Iterator[Any]:
    """Start Python with a signal heard, though the tests were started by nohup, or ignored."""
    process = subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        env=clean_environment(),
        preexec_fn=partial(signal.signal, number, handler),
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
    for arguments, code in ((["--help"], 0), (["-h"], 0), ([], 2)):
        shown = invoke(*arguments)
        assert (shown.code, shown.stderr) == (code, "")
        assert b"Usage: calibkit" in shown.stdout
        assert b"\x1b" not in shown.stdout
    assert invoke("--version").stdout.startswith(b"calibkit ")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("wran", "No such command 'wran'. Did you mean 'warn'? Try 'calibkit --help'."),
        ("nothing-like-it", "No such command 'nothing-like-it'. Try 'calibkit --help'."),
        (
            "warn --sed 1",
            "No such option: --sed (did you mean '--seed'?). Try 'calibkit warn --help'.",
        ),
        ("say", "Missing argument 'text'. Try 'calibkit say --help'."),
        (
            "say x --warnings none",
            "--warnings 'none' is not known; use one of show, error. Try 'calibkit say --help'.",
        ),
        ("warn --seed", "Option '--seed' requires an argument."),
    ],
)
def test_usage_errors_name_what_is_near(line: str, message: str) -> None:
    done = trial(*line.split())
    assert (done.returncode, done.stdout, done.stderr) == (2, "", f"Error: {message}\n")


def test_a_value_that_cannot_be_read_is_named_with_its_origin() -> None:
    typed = trial("warn", "--threads", "0")
    assert typed.returncode == 2
    assert "--threads is 0; expected a whole number, at least 1. Try" in typed.stderr
    assert "CALIBKIT_THREADS" not in typed.stderr
    inherited = trial("warn", env={"CALIBKIT_SEED": "x"})
    assert inherited.returncode == 2
    assert "--seed is 'x'; expected a whole number" in inherited.stderr
    assert "(from the environment variable CALIBKIT_SEED)" in inherited.stderr


# Failures ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "code", "message"),
    [
        ("data", 3, "3 scores are above 1. [file a.csv; column 'score'; first at row 4, 9, 12]"),
        ("memory", 5, "Out of memory."),
        ("disk", 5, "out.parquet: No space left on device."),
        ("missing", 2, "no-such-file: No such file or directory."),
        ("bug", 70, "ZeroDivisionError: division by zero. This is a bug"),
        ("panic", 70, "BaseException: a panic below. This is a bug"),
    ],
)
def test_each_failure_has_its_text_and_code(how: str, code: int, message: str) -> None:
    done = trial("fail", how)
    assert (done.returncode, done.stdout) == (code, "")
    assert done.stderr.startswith("Error: ")
    assert message in done.stderr
    assert ("Please report" in done.stderr) == (code == 70)
    assert done.stderr.count("\n") == 1


def test_json_turns_the_failure_into_an_object() -> None:
    done = trial("fail", "data", "--json")
    assert (done.returncode, done.stderr) == (3, "")
    expected = {
        "code": 3,
        "message": "3 scores are above 1.",
        "file": "a.csv",
        "column": "score",
        "rows": 3,
        "first_rows": [4, 9, 12],
    }
    assert json.loads(done.stdout) == {"error": expected}
    for arguments, code in (["fail", "--json"], 2), (["fail", "bug", "--json"], 70):
        done = trial(*arguments)
        error = json.loads(done.stdout)["error"]
        assert (done.returncode, error["code"]) == (code, code)
        assert list(error) == list(expected)


def test_a_bug_shows_the_traceback_on_request() -> None:
    assert "Traceback" in trial("fail", "bug", "-v").stderr


def test_the_message_is_not_told_twice() -> None:
    message = "a.csv: column score: 1,204 rows are null, first 1, 2."
    error = DataError(message, file="a.csv", column="score", rows=1204, first_rows=[1, 2])
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
    done = ran("-c", script, delay)
    assert (done.returncode, done.stdout) == (0, "told\n"), done.stderr


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of a process")
def test_results_cut_short_are_no_success(tmp_path: Path) -> None:
    import resource

    rows, out = write(simulate(300), tmp_path / "rows.csv"), tmp_path / "metrics.json"
    with out.open("wb") as file:
        done = ran(
            *(*MODULE, "evaluate", rows, "-q"),
            env={"PYTHONUNBUFFERED": "1", "PYTHONDONTWRITEBYTECODE": "1"},
            preexec_fn=partial(resource.setrlimit, resource.RLIMIT_FSIZE, (1024, 1024)),
            capture_output=False,
            stdout=file,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 5, done.stderr
    assert done.stderr.startswith("Error: ")


def test_errors_are_json_whatever_the_stream_encodes_and_where_it_is_closed() -> None:
    ascii_only = {"PYTHONIOENCODING": "ascii", "PYTHONUTF8": "1"}
    done = ran(*MODULE, "show", "\u00e9\U0001f600.json", "--json", env=ascii_only)
    assert json.loads(done.stdout)["error"]["file"] == "\u00e9\U0001f600.json"
    done = ran(*MODULE, "show", "none.json", "--json", preexec_fn=partial(os.close, 1))
    assert json.loads(done.stderr)["error"]["file"] == "none.json"
    assert done.returncode == 2


def test_a_closed_pipe_ends_quietly() -> None:
    with started(TRIAL, "endless") as process:
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
    with started(TRIAL, "wait", tmp_path) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(number)
        _, said = process.communicate(timeout=30)
    assert process.returncode == code
    assert said.count("\n") == 1
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []


def test_an_ignored_interrupt_is_heard_by_nothing(tmp_path: Path) -> None:
    """As shells start what stands before ``&``, and nohup: the signal is ignored, and stays so."""
    ignored: dict[str, Any] = {"number": signal.SIGINT, "handler": signal.SIG_IGN}
    with started(TRIAL, "wait", tmp_path, **ignored) as process:
        assert process.stdout.readline() == "ready\n"
        process.send_signal(signal.SIGINT)
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1)
        process.terminate()
        assert process.wait(timeout=30) == 143
    # Not by polars either.
    rows = write(simulate(30_000), tmp_path / "rows.csv")
    with started(*MODULE, "bin", rows, "-o", tmp_path / "grid.csv", **ignored) as process:
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


def test_names_that_are_no_utf8_are_escaped() -> None:
    output = os.fsdecode(b"no-\xff-such/model.json")
    assert "no-\\udcff-such" in trial("say", "x", "-o", output).stderr
    failed = trial("say", "x", "-o", output, "--json")
    assert json.loads(failed.stdout)["error"]["file"] == output


# Start-up ------------------------------------------------------------------------------------


def test_help_starts_in_under_a_third_of_a_second() -> None:
    """Or, on a slow machine, in under 0.6 of what importing polars and numba takes beside it."""

    def seconds(*arguments: str) -> float:
        begin = time.perf_counter()
        assert ran(*arguments).returncode == 0
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


def test_results_go_to_a_pipe_and_all_else_to_standard_error() -> None:
    done = trial("say", "warn")
    assert done.stdout == '{"text": 1}\n'
    assert done.stderr == "Warning: be careful\ndone\n"
    assert trial("say", "warn", "-q").stderr == "Warning: be careful\n"
    assert trial("say", "x", "-v").stderr == "a detail\ndone\n"
    assert trial("warn").stderr == "", "warnings of libraries do not leak"


def test_a_warning_under_warnings_error_writes_nothing(tmp_path: Path) -> None:
    output = tmp_path / "model.json"
    done = trial("say", "warn", "-o", output, "--warnings", "error")
    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr == "Error: be careful (an error because of --warnings error)\n"
    assert not output.exists()


def test_a_plain_table_aligns_numbers_right(capsys: pytest.CaptureFixture[str]) -> None:
    rows: list[list[object]] = [["a", 12345, True, 0.123456789], ["bcd", None, False, 2.0]]
    Console().table(["name", "rows", "met", "share"], rows, title="Levels")
    assert capsys.readouterr().out.splitlines() == [
        "Levels",
        "name    rows  met     share",
        "----  ------  ---  --------",
        "a     12,345  yes  0.123457",
        "bcd        -  no          2",
    ]
    Console().table(["a"], [])
    Console(quiet=True).table(["name"], [["a"]], error=True)
    assert capsys.readouterr() == ("a\n-\n", "")


def test_the_first_rows_of_a_frame(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    Console().head(pl.DataFrame({"x": range(101, 126)}))
    header, rule, *rows, more = capsys.readouterr().out.splitlines()
    assert [header, rule] == ["  x", "---"]
    assert rows == [f"{x}" for x in range(101, 121)]
    assert more == "… 25 rows; -o FILE writes them all."
    Console().head(pl.DataFrame({"x": range(101, 121)}))
    assert len(capsys.readouterr().out.splitlines()) == 22
    # A wide one keeps its ends on a narrow terminal.
    monkeypatch.setattr(console_module, "_is_terminal", lambda stream: True)
    monkeypatch.setenv("COLUMNS", "80")
    Console().head(pl.DataFrame({f"c{k:02}": [k] for k in range(23)}))
    header, *_, more = capsys.readouterr().out.splitlines()
    assert header.split() == [f"c{k:02}" for k in (*range(5), *range(18, 23))]
    assert more == "… 1 row of 23 columns; -o FILE writes them all."


def test_names_cannot_command_the_terminal(
    tmp_path: Path,
    invoke: Invoke,
    capfdbinary: pytest.CaptureFixture[bytes],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    table = tmp_path / "a.csv"
    table.write_text("score\x1b[31m,label\n0.5,1\n")
    said = invoke("boundary", table, "--precision", "0.5", "-q", "-o", tmp_path / "b.json")
    assert said.code == 2
    assert "\x1b" not in said.stderr
    Console().summary("a \x1b[2Jname\u202e")
    assert capfdbinary.readouterr().err == b"a \\x1b[2Jname\\u202e\n"
    # Nor rich.
    monkeypatch.setattr(console_module, "_is_terminal", lambda stream: True)
    monkeypatch.setenv("TERM", "dumb")
    Console().table(["[name]", "rows"], [["[red]a", 12]])
    shown = capfdbinary.readouterr().out
    assert b"[red]a" in shown
    assert b"\x1b" not in shown


def test_lists_take_commas_and_tags_are_keys_and_values() -> None:
    assert listed("a, b,c,") == listed(["a", "b", "c"]) == ("a", "b", "c")
    assert tagged(["note=a=b", "empty="], "--tag") == {"note": "a=b", "empty": ""}
    with pytest.raises(UsageError, match="--tag"):
        tagged(["=7"], "--tag")
