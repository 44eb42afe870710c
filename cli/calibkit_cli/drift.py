"""``calibkit drift``: whether new rows are still like those of the fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from calibkit.errors import UsageError
from calibkit.options.drift import DriftOptions
from calibkit.registry.methods import comparison

from . import declare
from .console import Console
from .fitting import run_states
from .judging import TEXTS, Gated, deliver_judged, judge
from .lines import StateLine

if TYPE_CHECKING:
    from calibkit.drift.drift import Drift
    from calibkit.files.sources import Source

HELP = """\
Reports the share of rows selected, the population stability index of score and uncertainty beside its
expectation under chance, and the shares of rows outside the range of the fit or without a value; with
labels also precision and recall, beside what the model promised; with --estimate an estimate of these
and of AUC without labels. --fail-if judges all of it, as in evaluate.

Examples:
  calibkit drift boundary.json today.parquet -o drift.json
  calibkit drift boundary.json today.parquet --fail-if 'psi_score.low>0.1' -q -o drift.json
  calibkit drift boundary.json today.parquet --estimate --calibrator cal.json -o drift.json
  calibkit drift service.json march.csv --label label --fail-if 'precision.high < fit/precision'
"""


@dataclass(frozen=True, kw_only=True)
class DriftLine(StateLine, Gated):
    """What is compared, and where the result goes."""

    def check(self) -> None:
        """Refuse gates on a state, which holds no result."""
        super().check()
        if (self.partial or self.dask is not None) and self.fail_if:
            raise UsageError(
                "--partial and --dask go through states; leave --fail-if out (calibkit gate judges "
                "the result)."
            )


def drift(options: DriftOptions, line: DriftLine) -> None:
    """Compare, print."""
    console = line.console(texts=TEXTS)
    if console.per_input and (line.fail_if or console.as_json):
        raise UsageError("-o DIR/ goes with neither --fail-if nor --json.")

    def write(console: Console, source: Source, find: Callable[[Source], Drift]) -> None:
        def told(rows: Source) -> Drift:
            found = find(rows)
            return _told(console, found, rows.parts[0].path if console.per_input else None)

        judge(console, source, told, line, "Drift")

    run_states(comparison, options, line, console, write, deliver)


def deliver(console: Console, found: Drift) -> None:
    """Say what was found of the rows of a state, and write it."""
    deliver_judged(console, _told(console, found), "Drift")


def _told(console: Console, found: Drift, file: str | None = None) -> Drift:
    console.warn(*found.warnings)
    if file is not None:
        console.summary(f"{file}:")
    console.outline(found)
    return found


register = declare.command(HELP, drift, DriftOptions, DriftLine)
