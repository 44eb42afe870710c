"""Every exception that ends a command, as text (or JSON) and an exit code."""

from __future__ import annotations

import errno
import io
import json
import os
import re
import signal
import sys
import threading
import traceback
from types import FrameType
from typing import Any

from calibkit.errors import CalibkitError, ResourceError, UsageError, nearest
from calibkit.models.page import printable

BROKEN_PIPE = 141

#: Faults of the name given, not of the machine.
_NAME_FAULTS = (FileNotFoundError, PermissionError, IsADirectoryError, NotADirectoryError)

#: What libraries say where there is no memory for a thread's stack, or for a library itself.
_NO_MEMORY = (
    "can't start new thread",
    "Resource temporarily unavailable",
    "Cannot allocate memory",
    "failed to map segment from shared object",
)

#: The signals that end a run beside Ctrl-C; not every system has the second.
_ENDS = (signal.SIGTERM, getattr(signal, "SIGHUP", signal.SIGTERM))

#: What the signals that have arrived are told as.
_ARRIVED: list[type[BaseException]] = []

#: What stands in for a standard stream that is closed: its number, and how nowhere is opened.
_STREAMS = ((0, "stdin", os.O_WRONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY))


class Terminated(BaseException):
    """SIGTERM or SIGHUP arrived: unwinds the run, so that temporary files are removed."""


#: What unwinds a run, and the signal that it stands for: the exit code is 128 and its number.
_SIGNALS = {KeyboardInterrupt: signal.SIGINT, Terminated: signal.SIGTERM}


class InternalError(CalibkitError):
    """A bug of calibkit: exit code 70."""


def end_by_signals() -> None:
    """Let Ctrl-C, SIGTERM and SIGHUP unwind the run, so that temporary files are removed.

    Python drops what a handler raises inside a callback (of a weak reference, ``__del__``) and says
    so in a traceback: such a signal is sent once more instead.  What a signal left half made may
    fail as it goes, which nobody has to read.
    """
    for number in _ENDS:
        if signal.getsignal(number) != signal.SIG_IGN:  # as under nohup
            signal.signal(number, _unwind)
    # Not where it is ignored; see `calibkit_cli.__main__`.
    if signal.getsignal(signal.SIGINT) in (signal.SIG_DFL, signal.default_int_handler):
        signal.signal(signal.SIGINT, _unwind)
    elif signal.getsignal(signal.SIGINT) == signal.SIG_IGN:  # polars would hear it all the same
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    sys.unraisablehook = _send_again


def ignore_signals() -> None:
    """Let nothing interrupt the last moments of a run."""
    for number in (signal.SIGINT, *_ENDS):
        signal.signal(number, signal.SIG_IGN)


def _unwind(signum: int, frame: FrameType | None) -> None:
    while frame is not None:
        if frame.f_code.co_name == "_unpickled":
            # Compiled code has called it (`calibkit_kernels._machine`), and can take no exception.
            _send_later(signum)
            return
        frame = frame.f_back
    _ARRIVED.append(KeyboardInterrupt if signum == signal.SIGINT else Terminated)
    raise _ARRIVED[-1]


def _send_again(dropped: sys.UnraisableHookArgs) -> None:
    number = _SIGNALS.get(dropped.exc_type)
    if number is None:
        if not _ARRIVED:
            sys.__unraisablehook__(dropped)
        return
    _send_later(number)


def _send_later(number: int) -> None:
    again = threading.Timer(0.01, os.kill, (os.getpid(), number))  # after the callback
    again.daemon = True
    again.start()


def report(error: BaseException, arguments: list[str]) -> int:
    """Say on the right stream how a run failed, and return its exit code.

    On the command line ``--json`` asks for the error as an object, ``-v`` for a traceback.
    """
    # rich turns a broken pipe into SystemExit(1)
    if isinstance(error, BrokenPipeError) or isinstance(error.__context__, BrokenPipeError):
        drop_stdout()
        return BROKEN_PIPE
    # Python makes a RuntimeError of what comes while a class is made, polars one of its own.
    told = _ARRIVED[-1] if _ARRIVED else type(error)
    if told in _SIGNALS:
        word = "Interrupted" if told is KeyboardInterrupt else "Terminated"
        _write(f"{word}; nothing half written is left.\n", sys.stderr)
        return 128 + _SIGNALS[told]
    failure = as_failure(error)
    if isinstance(failure, InternalError) and {"-v", "--verbose"} & set(arguments):
        traceback.print_exception(error)
    if "--json" in arguments:
        text = json.dumps({"error": failure.as_dict()})  # in ASCII, which every stream can encode
        _write(text + "\n", sys.stdout)
    else:
        _write(printable(f"Error: {describe(failure)}\n"), sys.stderr)
    return failure.code


def as_failure(error: BaseException) -> CalibkitError:
    """Return the error of the library's tree that stands for any exception."""
    if isinstance(error, CalibkitError):
        return error
    if hasattr(error, "format_message"):  # the command-line parser's own errors, all of them usage
        return UsageError(_usage_message(error))
    starved = not isinstance(error, OSError) and any(words in str(error) for words in _NO_MEMORY)
    if starved or isinstance(error, MemoryError):
        return ResourceError("Out of memory. Try again with less running beside it, or fewer rows.")
    if isinstance(error, OSError):
        name = os.fsdecode(error.filename) if isinstance(error.filename, str | bytes) else None
        reason = error.strerror or str(error)
        if error.errno == errno.EBADF and name is None:
            return ResourceError("standard output is closed; name a file by -o, or open it.")
        kind = UsageError if isinstance(error, _NAME_FAULTS) and name else ResourceError
        return kind(f"{name}: {reason}." if name else f"{reason}.", file=name)
    last = " ".join(str(error).split()) or "no message"
    return InternalError(
        f"internal error: {type(error).__name__}: {last}. This is a bug in calibkit, not a problem "
        "with your data. Please report this line and the command "
        "(CONTRIBUTING.md, Reporting a bug); -v shows the traceback."
    )


def describe(error: CalibkitError) -> str:
    """Return the message, completed by the place where it does not name it itself."""
    message = error.message
    place = []
    if error.file is not None and not _names(message, error.file):
        place.append(f"file {error.file}")
    if error.column is not None and not _names(message, error.column):
        place.append(f"column {error.column!r}")
    numbers = set(re.findall(r"\d+", message.replace(",", "")))
    if error.rows is not None and str(error.rows) not in numbers:
        place.append(f"{error.rows:,} {'row' if error.rows == 1 else 'rows'}")
    if error.first_rows and not {str(row) for row in error.first_rows} <= numbers:
        place.append("first at row " + ", ".join(map(str, error.first_rows)))
    return f"{message} [{'; '.join(place)}]" if place else message


def mend_streams() -> None:
    """Make standard output and error usable, whatever the caller closed or how it encodes.

    A closed one (``>&-``) would lend its number to the next file opened: it becomes one that can be
    opened but not used, so that only a run that needs it fails; what is said on a closed standard
    error is lost.  Names that are no UTF-8 are written with escapes, which are valid in JSON too.
    """
    for number, name, mode in _STREAMS:
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, mode)
            if nowhere != number:
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r"))
    if isinstance(sys.stdout.buffer, io.RawIOBase):  # PYTHONUNBUFFERED: it may write a part only
        sys.stdout = os.fdopen(1, "w", encoding=sys.stdout.encoding, closefd=False)
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _names(message: str, name: str) -> bool:
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", message) is not None


def drop_stdout() -> None:
    """Point standard output at nothing, so that the flush at exit cannot fail."""
    try:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
    except (OSError, ValueError):  # standard output is not a file, or closed already
        pass


def _usage_message(error: BaseException) -> str:
    cause = error.__cause__  # an option has refused the value
    said: Any = error  # typer may bring its own click
    text: str = cause.message if isinstance(cause, UsageError) else said.format_message()
    context = getattr(error, "ctx", None)
    if type(error).__name__ == "NoSuchOption" and context is not None:
        option = str(getattr(error, "option_name", ""))
        names = [name for param in context.command.params for name in param.opts]
        text = f"No such option: {option}{nearest(option, names)}"
    # typer always names the variable; its validator, which reads flags there, does not name the value
    text = re.sub(r" \(env var: [^)]*\)", "", text).rstrip().rstrip(".")
    details = getattr(cause, "errors", None)
    if callable(details):
        text += f"; got {details()[0].get('input')!r}"
    param = getattr(error, "param", None)
    if param is not None and context is not None:
        source = context.get_parameter_source(param.name)
        if source is not None and source.name == "ENVIRONMENT":
            text += f" (from the environment variable {param.envvar})"
    text += "" if text.endswith("?") else "."
    if context is not None:
        text += f" Try '{context.command_path} --help'."
    return " ".join(text.split())


def _write(text: str, stream: Any) -> None:
    """Write and flush, whatever has become of the stream: the exit code still tells."""
    try:
        stream.write(text)
        stream.flush()
    except (OSError, ValueError):
        if stream is sys.stdout:
            drop_stdout()
            _write(text, sys.stderr)
