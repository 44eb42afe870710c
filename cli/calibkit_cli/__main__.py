"""The start of a process: quiet from its first moment on."""

from __future__ import annotations

import gc
import os
import signal
import sys

#: Objects made before Python looks for circles of garbage: imports make many, and none.
GARBAGE = 50_000


def main() -> None:
    """Run the command line; until it has begun, Ctrl-C ends the process without a traceback."""
    gc.set_threshold(GARBAGE)
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
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
