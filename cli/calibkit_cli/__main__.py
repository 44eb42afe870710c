"""The start of a process: quiet from its first moment on."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line; until it has begun, Ctrl-C ends the process without a traceback."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # not where it is ignored
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from calibkit_cli.main import main as run

    run()


if __name__ == "__main__":
    main()
