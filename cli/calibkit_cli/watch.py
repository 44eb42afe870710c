"""New rows of a deployed model: ``calibkit drift`` and ``calibkit watch``."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from calibkit.errors import UsageError
from calibkit.options.shared import Threaded, of_output
from calibkit.options.watch import DriftOptions, WatchOptions

from . import declare
from .console import Console
from .judging import GATE_FAILED, TEXTS, Gated, judge
from .lines import DryRun, Reading, Results, StateLine
from .runs import deliver, run_states, show_plan

if TYPE_CHECKING:
    from calibkit.drift.drift import Drift
    from calibkit.files.sinks import Transaction
    from calibkit.methods.watch.watch import Watched


class DriftLine(StateLine, Gated):
    """What is compared, and where the result goes."""

    def check(self) -> None:
        """Refuse gates on a state, which holds no result."""
        super().check()
        self.refuse_states(self.fail_if, "--fail-if out (calibkit gate judges the result)")


@declare.command
def drift(options: DriftOptions, line: DriftLine) -> None:
    """Compare, print."""
    console = line.part(Console, texts=TEXTS)
    if console.per_input and line.fail_if:
        raise UsageError("-o DIR/ does not go with --fail-if.")
    write = partial(judge, tell=_tell, gates=line, noun="Drift")
    run_states("drift", options, line, console, write, deliver_drift)


def deliver_drift(console: Console, found: Drift) -> None:
    """Say what was found of the rows of a state, and write it."""
    _tell(console, found)
    deliver(console, found, "Drift")


def _tell(console: Console, found: Drift, file: str | None = None) -> None:
    console.warn(*found.warnings)
    if file is not None:
        console.summary(f"{file}:")
    console.outline(found)


class WatchLine(Reading, Results, DryRun):
    """What is added, and where the result goes."""

    threads: Annotated[int | None, Threaded] = None
    fail_if: Literal["alarm"] | None = of_output(
        "Exit with code 1 if a promise is refuted, tonight or on an earlier night."
    )


@declare.command
def watch(options: WatchOptions, line: WatchLine) -> None:
    """Count, test, write the state and what was found."""
    said = "watch makes one result of all inputs; name a file"
    console = line.part(Console, texts=TEXTS, one=said)
    from calibkit.files.paths import check_output
    from calibkit.files.sinks import alone_with
    from calibkit.methods.watch.rows import plan
    from calibkit.methods.watch.watch import current
    from calibkit.methods.watch.watch import watch as add

    source = line.open(console)
    if line.dry_run:
        reading = plan(options, source)
        tested = ", ".join(one.text for one in current(options, reading).tested)
        show_plan(console, source, reading.columns, [f"test {tested}"])
        return
    check_output(options.state)
    with alone_with(options.state):
        found = add(options, source)
        console.warn(*found.warnings)
        console.summary(*(f"{remark.text}." for remark in found.remarks))
        if found.known:
            console.summary(
                f"{found.known:,} rows are in {options.state} already: nothing was added."
            )
        if options.labelled_at is not None and options.maturity is None:
            console.summary(
                "Labels count as they arrive: this takes their delay not to depend on the outcome "
                "(see --maturity)."
            )
        deliver_watch(console, found, options.state)
    if line.fail_if is not None and found.alarm:
        if console.quiet:
            Console().table(["fail if", "found"], [["alarm", found.advice]], error=True)
        raise typer.Exit(GATE_FAILED)


def deliver_watch(console: Console, found: Watched, state: str | None = None) -> None:
    """Write the state and the result together, and show what was found."""
    console.outline(found)

    def write(_: Watched, outputs: Transaction) -> None:
        outputs.write_bytes(found.state.to_json(), str(state))

    deliver(console, found, "Watch", beside=None if state is None else write)
