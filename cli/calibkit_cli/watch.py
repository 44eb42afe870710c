"""``calibkit watch``: whether a deployed boundary keeps its promises, valid at every look."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Literal

import typer

from calibkit.errors import UsageError
from calibkit.options.shared import Threads, of_output
from calibkit.options.watch import WatchOptions

from . import declare
from .console import Console
from .deliver import show_plan
from .judging import GATE_FAILED, TEXTS, deliver_judged
from .lines import DryRun, Reading, Results

if TYPE_CHECKING:
    from calibkit.files.sinks import Transaction
    from calibkit.methods.watch.watch import Watched

HELP = """\
Tests every night whether precision, recall or the false positive rate keeps its bound. The file of
--state holds the counts so far. However often and however long you look, the chance of a false alarm is
at most 1 - C. Rows of an earlier night are refused; giving the same rows twice changes nothing.

Examples:
  calibkit watch boundary.json tonight.parquet --state watch.state -o watch.json
  calibkit watch boundary.json labels.csv --state watch.state --period day --fail-if alarm
  calibkit watch boundary.json labels.csv --state watch.state --precision 0.7 --confidence 0.99
  calibkit watch boundary.json tonight.parquet --state watch.state --drift --unlabelled drop
"""


@dataclass(frozen=True, kw_only=True)
class WatchLine(Reading, Results, DryRun):
    """What is added, and where the result goes."""

    threads: Threads = None
    fail_if: Literal["alarm"] | None = of_output(
        "Exit with code 1 if a promise is refuted, tonight or on an earlier night."
    )


def watch(options: WatchOptions, line: WatchLine) -> None:
    """Count, test, write the state and what was found."""
    console = line.console(texts=TEXTS)
    if console.per_input:
        raise UsageError("watch makes one result of all inputs; give -o a file.")
    from calibkit.methods.watch.rows import plan
    from calibkit.methods.watch.watch import current
    from calibkit.methods.watch.watch import watch as add

    source = line.open(console)
    if line.dry_run:
        reading = plan(options, source)
        tested = ", ".join(one.text for one in current(options, reading).tested)
        show_plan(console, source, reading.columns, [f"test {tested}"])
        return
    found = add(options, source)
    console.warn(*found.warnings)
    console.summary(*(f"{remark.text}." for remark in found.remarks))
    if found.known:
        console.summary(f"{found.known:,} rows are in {options.state} already: nothing was added.")
    if options.labelled_at is not None and options.maturity is None:
        console.summary(
            "Labels count as they arrive: this takes their delay not to depend on the outcome "
            "(see --maturity)."
        )
    deliver(console, found, options.state)
    if line.fail_if is not None and found.alarm:
        if console.quiet:
            Console().table(["fail if", "found"], [["alarm", found.advice]], error=True)
        raise typer.Exit(GATE_FAILED)


def deliver(console: Console, found: Watched, state: str | None = None) -> None:
    """Write the state and the result together, and show what was found."""
    console.outline(found)
    write = None if state is None else partial(_write_state, state)
    deliver_judged(console, found, "Watch", beside=write)


def _write_state(state: str, found: Watched, outputs: Transaction) -> None:
    outputs.write_bytes(found.state.to_json(), state)


register = declare.command(HELP, watch, WatchOptions, WatchLine)
