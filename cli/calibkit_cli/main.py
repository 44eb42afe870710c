"""The command ``calibkit``: its commands, and the one place where a run ends."""

from __future__ import annotations

import os
import platform
import re
import sys
import threading
import warnings
from collections.abc import Iterable, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from importlib.machinery import PathFinder
from pathlib import Path
from typing import Annotated, NoReturn, cast

import typer
from typer.core import TyperGroup
from typer.main import get_command

from calibkit.errors import ResourceError, UsageError
from calibkit.runtime.kernels import share_compiling, stop_sharing, tell_of_compiling
from calibkit.version import __version__

from . import failures
from .console import clear_line, end_lines, say_it_compiles
from .declare import Listing, let_options_check
from .help_pages import arrange, name_no_types

#: What the commands are for, in the order of the help, and what each does: the first sentence of its
#: own help, which a list of all tells without loading any.
PURPOSES = {
    "Fit a model": {
        "boundary": "Fit a decision boundary over score and uncertainty.",
        "calibrate": "Fit a map from scores to probabilities on labelled rows.",
        "alpha-cal": "Fit how much raters agree: a Dirichlet distribution over class "
        "probabilities for each row.",
        "hetcal": "Partition the rows by their features, and calibrate each part separately.",
        "vad": "Shrink scores so that selected rows are not over-scored: variance-adjusting debiasing.",
        "bundle": "Make one deployable file of several models, applied in the order given.",
        "merge": "Combine the states of many shards into one result.",
    },
    "Use it": {
        "apply": "Apply a model to rows: every row is kept, in order, and the model's columns are "
        "added.",
        "export": "Export a model as code that needs no calibkit: SQL, polars, or plain Python.",
    },
    "Judge and watch": {
        "evaluate": "Judge scores by labels: ranking, calibration and decisions, with intervals.",
        "drift": "Compare new rows with those that a boundary, or each boundary of a bundle, was "
        "fitted on.",
        "watch": "Test every night whether a deployed boundary keeps its promises, however often you "
        "look.",
        "validate": "Read rows as the other commands would, and report every problem.",
        "gate": "Fail (exit code 1) if metrics, models or other results are not good enough.",
        "diff": "Compare two metrics files, or two models, side by side.",
        "plot": "Draw scores and boundaries as SVG, PNG or PDF, or write the points as a table.",
    },
    "Look and try": {
        "show": "Show what a model does and what to expect of it on new data.",
        "bin": "Count rows and positive rows over a grid of uncertainty bins by score bins.",
        "simulate": "Generate score files with a known truth, to try methods on.",
        "warmup": "Compile everything in advance, so that first uses need not wait.",
    },
}

#: Every command, and what it does.
COMMANDS = {name: does for own in PURPOSES.values() for name, does in own.items()}

#: The modules of several commands; any other command is a name in a module of this name.
MODULES = {
    "runs": ("alpha-cal", "calibrate", "hetcal", "vad"),
    "judging": ("diff", "gate"),
    "models": ("bundle", "export", "show"),
    "rows": ("apply", "bin", "simulate"),
    "watch": ("drift", "watch"),
}
_PLACES = {name: module for module, names in MODULES.items() for name in names}

#: Words that other programs have for what a command here does.
ELSEWHERE = {
    "threshold": "boundary chooses thresholds: boundary INPUT --precision 0.9 --method st",
    "fit": "boundary, calibrate, hetcal, alpha-cal and vad each fit a model: boundary INPUT "
    "--precision 0.9 -o boundary.json",
    "predict": "apply adds what a model says to rows: apply MODEL INPUT -o OUTPUT",
    "report": "evaluate writes it: evaluate INPUT --report report.html",
    "compare": "boundary compares methods: boundary INPUT --precision 0.9 --compare; diff compares two "
    "results: diff FIRST SECOND",
    "plot calibration": "plot reliability draws it: plot reliability INPUT -o PICTURE.svg",
    "plot boundary": "plot heatmap draws one: plot heatmap INPUT --boundary MODEL -o PICTURE.svg",
}

#: What the scripts of ``--show-completion`` set where they ask for what may come next.
COMPLETE = "_CALIBKIT_COMPLETE"

USAGE = 2

#: Addresses that a thread of polars takes, and all else in a run of few rows, in bytes.
OF_A_THREAD, OF_THE_REST = 1 << 27, 11 << 27

#: With fewer addresses than this, in bytes, libraries abort the process or wait for ever.
FEWEST_ADDRESSES = 1_500_000_000

#: Commands that read no rows, and do with fewer addresses.
WITHOUT_ROWS = ("bundle", "diff", "export", "gate", "show")

#: Wide instructions for which numpy has exponentials and logarithms of its own, with other last digits;
#: and how numpy called them before 2.4.
WIDE = "X86_V4 AVX512_ICL AVX512_SPR"
WIDE_BEFORE = "AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL"

#: The matrix products that every 64-bit processor of the last ten years can compute.
PRODUCTS = "Haswell"

HELP = """Choose decision thresholds, calibrate scores, and watch them in production.

Fit a model on one file of scores and labels, apply it to another, judge it there.

Examples:

  calibkit boundary calib.parquet --precision 0.9 -o boundary.json

  calibkit apply boundary.json new.parquet --selected -o alarms.csv

  calibkit evaluate test.parquet --boundary boundary.json --report report.html
"""


def _print_version(asked: bool) -> None:
    if asked:
        typer.echo(f"calibkit {__version__}")
        raise typer.Exit


def build_app(commands: Iterable[str] = COMMANDS, *, brief: bool = False) -> typer.Typer:
    """Return the application with some of its commands; imports nothing heavy.

    A `brief` one has their names and what they do, and no options: it can only be listed.
    """
    app = typer.Typer(
        name="calibkit",
        cls=Listing,
        no_args_is_help=True,
        rich_markup_mode="rich",
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )

    @app.callback(help=HELP)
    def calibkit(
        version: Annotated[
            bool,
            typer.Option(
                "--version", callback=_print_version, is_eager=True, help="Print the version."
            ),
        ] = False,
    ) -> None:
        """Take ``--version``; everything else belongs to a command."""

    for name in commands:
        if brief:
            app.command(name, help=COMMANDS[name])(_listed)
        else:
            module = import_module(f"calibkit_cli.{_PLACES.get(name, name)}")
            getattr(module, name.replace("-", "_"))(app, name)
    arrange(app, {name: purpose for purpose, own in PURPOSES.items() for name in own})
    let_options_check()
    name_no_types()
    return app


def command_of(arguments: Sequence[str]) -> TyperGroup:
    """Return as much of the application as a command line needs.

    To read the options of all commands takes longer than to read a small file.
    """
    named = COMMANDS if COMPLETE in os.environ else arguments[:1]
    return _group_of(*(name for name in named if name in COMMANDS))


@cache
def _group_of(*commands: str) -> TyperGroup:
    """Return the application with some commands, kept for the next line; with none: a list of all."""
    app = build_app(commands) if commands else build_app(brief=True)
    return cast("TyperGroup", get_command(app))


def _listed() -> None:
    """Stand for a command in a list."""


def run(arguments: list[str]) -> int:
    """Run one command line and return its exit code; no exception escapes.

    The parser's own ``main`` is passed by: it would swallow a broken pipe and an interrupt.
    """
    try:
        for word in (" ".join(arguments[:count]) for count in (1, 2)):
            if word in ELSEWHERE:
                raise UsageError(f"no such command {word!r}; {ELSEWHERE[word]}.")
        command = command_of(arguments)
        if COMPLETE in os.environ:
            from typer.completion import shell_complete

            # The shell's line stands in the environment; the parser's own `main` would look at it.
            failed = shell_complete(command, {}, "calibkit", COMPLETE, os.environ[COMPLETE])
            return USAGE if failed else 0
        with command.make_context("calibkit", list(arguments)) as context:
            if arguments[0] not in WITHOUT_ROWS and not {"-h", "--help", "--help-all"}.intersection(
                arguments
            ):
                need_addresses()
            command.invoke(context)
        sys.stdout.flush()
        return 0
    except typer.Exit as asked:
        try:
            sys.stdout.flush()
        except OSError as error:
            return failures.report(error, arguments)
        unknown_shell = asked.exit_code and arguments and arguments[0].endswith("-completion")
        return USAGE if unknown_shell else asked.exit_code  # not 1, which is a failed gate
    except SystemExit as asked:  # of typer's completion; rich turns a broken pipe into it as well
        if asked.__context__ is not None:
            return failures.report(asked, arguments)
        return asked.code if isinstance(asked.code, int) else 0
    except BaseException as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # its message, the help, is printed already
            return USAGE
        clear_line()
        return failures.report(error, arguments)
    finally:
        end_lines()


def main() -> None:
    """Run the command line of this process; the entry point of the installed command."""
    failures.mend_streams()
    signalled = threading.current_thread() is threading.main_thread()
    try:
        if signalled:
            failures.end_by_signals()
        settle()
        code = run(sys.argv[1:])
    except (KeyboardInterrupt, failures.Terminated) as error:  # before the run, or as it ended
        code = failures.report(error, sys.argv[1:])
    if signalled:
        failures.ignore_signals()
    end(code)


def settle() -> None:
    """Set what holds for the whole process."""
    if not os.environ.get("COLUMNS", "1").strip("0"):
        del os.environ["COLUMNS"]  # nothing, or 0: not known
    os.environ["RUST_BACKTRACE"] = "0"  # a damaged file is an error of one line
    # polars keeps freed memory by default; a run of a few seconds should give it back, but not before
    # the next window of rows is read, for which the system would have to clear it page by page.
    os.environ.setdefault("_RJEM_MALLOC_CONF", "dirty_decay_ms:10,muzzy_decay_ms:0")
    same_numbers()
    # polars reads text ahead in so large pieces that some hundred MB of them wait to be parsed.
    os.environ.setdefault("POLARS_CSV_CHUNK_SIZE", str(4 << 20))
    take_few_addresses()
    tell_of_compiling(say_it_compiles)
    share_compiling(next(iter(sys.argv[1:]), ""))
    if not sys.warnoptions:
        warnings.simplefilter("ignore")


def same_numbers() -> None:
    """Make numpy compute as on a processor without wide instructions, unless the user says otherwise.

    A machine that has them would differ from one without in the last digit of an exponential, and with
    it in the hash of a row, its fold, and all that follows.
    """
    if platform.machine().lower() in ("x86_64", "amd64"):
        os.environ.setdefault("NPY_DISABLE_CPU_FEATURES", WIDE_BEFORE if old_numpy() else WIDE)
        os.environ.setdefault("OPENBLAS_CORETYPE", PRODUCTS)
    # numpy would start a thread a processor, with 30 MB each, for matrix products; here they are small.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")


def old_numpy() -> bool:
    """Whether numpy is older than 2.4, without importing it, or what reads the metadata of packages.

    One that is not found in a folder, as its own developers have it, is taken for a new one.
    """
    found, said = PathFinder.find_spec("numpy"), ""
    if found is not None and found.origin is not None:
        with suppress(OSError):
            said = Path(found.origin).with_name("version.py").read_text("utf-8")
    return bool(re.search(r'^version = "2\.[0-3]\.', said, re.MULTILINE))


def limit_of_addresses() -> int | None:
    """Return how many bytes of addresses the process may have (``ulimit -v``), if that is limited."""
    try:
        import resource
    except ImportError:  # no such limits on this system
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    return None if limit == resource.RLIM_INFINITY else limit


def need_addresses() -> None:
    """Raise a `ResourceError` where libraries have not the addresses to begin with."""
    limit = limit_of_addresses()
    if limit is not None and limit < FEWEST_ADDRESSES:
        raise ResourceError(
            f"memory: a limit of {limit / 1e6:,.0f} MB of addresses (ulimit -v) is less than the "
            f"libraries map before a row is read: allow {FEWEST_ADDRESSES / 1e6:,.0f} MB at least; "
            "--memory bounds what rows take"
        )


def take_few_addresses() -> None:
    """Let polars start no more threads than a limit of addresses leaves room for.

    It ends the process where a thread gets no memory.
    """
    limit = limit_of_addresses()
    if limit is None:
        return
    threads = max(1, (limit - OF_THE_REST) // OF_A_THREAD)
    if threads < (os.cpu_count() or 1):
        os.environ.setdefault("POLARS_MAX_THREADS", str(threads))


def end(code: int) -> NoReturn:
    """End the process with everything said and written.

    Python's own end would take the libraries down piece by piece, which after ten million rows
    lasts a third of a second and changes nothing: outputs are complete when `run` returns.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            failures.drop_stdout()
    stop_sharing()
    scratch = sys.modules.get("calibkit.files.streams")
    if scratch is not None:
        scratch.remove_all()
    os._exit(code)


if __name__ == "__main__":
    main()
