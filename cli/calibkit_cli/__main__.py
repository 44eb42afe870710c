"""The start of a process: quiet from its first moment on."""

from __future__ import annotations

# What `signal` wraps into enumerations, which take longer to load than all else here.
import _signal  # type: ignore[import-not-found]  # no stubs
import gc
import os
import sys

#: Objects made before Python looks for circles of garbage: imports make many, and none.
GARBAGE = 500_000


def main() -> None:
    """Run the command line; until it has begun, Ctrl-C ends the process without a traceback."""
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:  # not where it is ignored
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    gc.set_threshold(GARBAGE)
    if sys.argv[1:] == ["--version"] and sys.stdout is not None:
        from calibkit.version import __version__

        try:
            os.write(sys.stdout.fileno(), f"calibkit {__version__}\n".encode())
            return
        except (OSError, ValueError):  # `main` knows what to say of a closed or full output
            pass
    from calibkit_cli.main import main as run

    run()


if __name__ == "__main__":
    main()
