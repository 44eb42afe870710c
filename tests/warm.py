"""Commands as processes of their own, forked from one that has loaded the kernels.

Each command of a page, or of a test, is a process with its own arguments, folder, environment, streams
and exit code, as a user's is; what it does not do again is to load compiled kernels.  `program` starts
the process that is forked and writes a program that stands for ``calibkit``: it hands its streams over
and ends with the command's exit code.

What depends on how a process begins (limits, signals, variables read while libraries are loaded) is for
processes that are started as users start them.
"""

from __future__ import annotations

import atexit
import gc
import importlib
import marshal
import os
import pickle
import pkgutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent

#: Where the three floors are imported from.
FLOORS = os.pathsep.join(map(str, (ROOT, ROOT / "kernels", ROOT / "cli")))

#: Read by a Python that loads nothing else: a hundredth of a second.
CLIENT = """\
#!/bin/sh
exec "{python}" -ISEc '
import marshal, os, socket, sys
with socket.socket(socket.AF_UNIX) as server:
    server.connect("{address}")
    socket.send_fds(server, [b"!"], [0, 1, 2])
    server.sendall(marshal.dumps((sys.argv[1:], os.getcwd(), dict(os.environ))))
    server.shutdown(socket.SHUT_WR)
    code = server.recv(1)
os._exit(code[0] if code else 70)' "$@"
"""

#: What one message about loaded kernels may hold.
_MOST_BYTES = 1 << 20


@cache
def program() -> Path:
    """Return a program that stands for ``calibkit``, as long as this process lasts."""
    folder = tempfile.TemporaryDirectory(prefix="calibkit-warm-")
    address, path = Path(folder.name, "socket"), Path(folder.name, "calibkit")
    path.write_text(CLIENT.format(python=sys.executable, address=address))
    path.chmod(0o755)
    server = subprocess.Popen(
        [sys.executable, "-m", "tests.warm", str(address)],
        env={**os.environ, "PYTHONPATH": FLOORS, "LC_ALL": "C.UTF-8"},
        stdin=subprocess.PIPE,  # its end is the server's
        stdout=subprocess.PIPE,
    )
    assert server.stdout is not None
    if server.stdout.readline() != b"ready\n":
        raise RuntimeError("the process that commands are forked from did not start")
    atexit.register(folder.cleanup)
    atexit.register(server.communicate)
    return path


def serve(address: str) -> None:
    """Fork a process for each command, until standard input ends."""
    import selectors

    load()
    told, tell = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    told.setblocking(False)
    with socket.socket(socket.AF_UNIX) as server, selectors.DefaultSelector() as ready:
        server.bind(address)
        server.listen(64)
        ready.register(server, selectors.EVENT_READ)
        ready.register(sys.stdin, selectors.EVENT_READ)
        sys.stdout.write("ready\n")
        sys.stdout.flush()
        while not any(key.fileobj is sys.stdin for key, _ in ready.select()):
            client, _ = server.accept()
            _wait(os.WNOHANG)
            _load_kernels(told)
            if os.fork() == 0:
                ready.close()
                server.close()
                _run(client, tell)
            client.close()
    _wait(0)


def _wait(options: int) -> None:
    """Wait for processes that have ended (0: for all), so that their time is counted."""
    with suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            pass


def load() -> None:
    """Import what starts no thread: a lock held by one of polars would stay shut in a fork."""
    from calibkit_cli.main import same_numbers

    same_numbers()
    package = importlib.import_module("calibkit_kernels")
    for module in pkgutil.walk_packages(package.__path__, "calibkit_kernels."):
        importlib.import_module(module.name)
    for name in ("msgspec", "rich.console", "typer"):
        importlib.import_module(name)
    tasks = Path("/proc/self/task")
    if tasks.is_dir() and len(list(tasks.iterdir())) > 1:
        raise RuntimeError("the process that commands are forked from has threads")
    gc.collect()
    gc.freeze()


def _run(client: socket.socket, tell: socket.socket) -> None:
    """Be the process of a command that a client asked for; does not return."""
    _, streams, _, _ = socket.recv_fds(client, 1, 3)
    request = b"".join(iter(lambda: client.recv(1 << 16), b""))
    arguments, folder, environment = marshal.loads(request)
    for place, stream in enumerate(streams):
        os.dup2(stream, place)
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = open(2, "w", errors="backslashreplace", closefd=False, buffering=1)  # noqa: SIM115
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["calibkit", *arguments]
    before, leave = set(_loaded()), os._exit

    def end(code: int) -> None:
        with suppress(OSError):
            tell.send(pickle.dumps([one for one in _loaded() if one not in before]))
        with suppress(OSError):
            client.send(bytes([code]))
        leave(code)

    os._exit = end  # type: ignore[assignment]
    from calibkit_cli import main

    # How many kernels are left to compile depends on the tests before.
    main.tell_of_compiling = lambda _: None
    main.share_compiling = lambda _: None
    try:
        main.main()
    except BaseException:  # a process that is started as usual would show it
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    end(1)


def _kernels() -> Iterator[tuple[str, str, Any]]:
    for name, module in list(sys.modules.items()):
        if name.startswith("calibkit_kernels."):
            for own, value in vars(module).items():
                if hasattr(value, "entries") and value.__module__ == name:
                    yield name, own, value


def _loaded() -> Iterator[tuple[str, str, Any]]:
    """Yield the kernels that are loaded: module, name and types of each."""
    for module, name, kernel in _kernels():
        for types in kernel.entries:
            yield module, name, types


def _load_kernels(told: socket.socket) -> None:
    """Load what commands before had to load, so that those to come need not."""
    with suppress(BlockingIOError):
        while True:
            for module, name, types in pickle.loads(told.recv(_MOST_BYTES)):
                getattr(sys.modules[module], name).prepared(types)


if __name__ == "__main__":
    serve(sys.argv[1])
