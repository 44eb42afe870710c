"""``calibkit drift``: whether new rows are still like those of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer

from calibkit.errors import UsageError
from calibkit.options.drift import DriftOptions
from calibkit.options.shared import Threads

from . import declare
from .dry_run import show_plan
from .judging import TEXTS, Delivery, Gated
from .lines import DryRun, Reading, Results

if TYPE_CHECKING:
    from calibkit.drift.drift import Drift
    from calibkit.files.sources import Source

HELP = """\
The share of rows selected, the population stability index of score and uncertainty with what chance
gives of it, the shares of rows outside the range of the fit and without a value; with labels also
precision and recall, beside what the model promised. --fail-if judges all of it, as in evaluate.

Examples:

  calibkit drift boundary.json today.parquet -o drift.json

  calibkit drift boundary.json today.parquet --fail-if 'psi_score.low>0.1' -q -o drift.json

  calibkit drift service.json march.csv --label label --fail-if 'precision.high < fit/precision'
"""


@dataclass(frozen=True, kw_only=True)
class DriftLine(Reading, Results, Gated, DryRun):
    """What is compared, and where the result goes."""

    threads: Threads = None


def register(app: typer.Typer) -> None:
    """Add the command to the application."""
    declare.add(app, "drift", HELP, drift, DriftOptions, DriftLine)


def drift(options: DriftOptions, line: DriftLine) -> None:
    """Compare, print."""
    console = line.console(texts=TEXTS)
    if console.per_input and (line.fail_if or console.as_json):
        raise UsageError("-o DIR/ goes with neither --fail-if nor --json.")
    from calibkit.drift.drift import drift as compare
    from calibkit.drift.rows import plan_watch
    from calibkit.models.kinds import view_of

    source = line.open(console)
    if line.dry_run:
        watch = plan_watch(options, source)
        names = ", ".join(one.name for one in watch.watched)
        show_plan(console, source, watch.columns, [f"compare with the fit of {names}"])
        return

    def find(rows: Source) -> Drift:
        found = compare(options, rows)
        for remark in found.warnings:
            console.warn(remark)
        if console.per_input:
            console.summary(f"{rows.parts[0].path}:")
        if console.output is not None or not console.on_terminal:
            console.summary(*view_of(found).lines(found))
        return found

    Delivery("Drift").judge(console, source, find, line)
