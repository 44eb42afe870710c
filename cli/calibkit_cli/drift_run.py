"""What ``calibkit drift`` does with its options: read, compare, deliver, judge."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calibkit.drift.drift import Drift, drift
from calibkit.drift.rows import DriftSpec, plan_watch
from calibkit.errors import UsageError
from calibkit.files.outputs import directory_outputs, spare_inputs
from calibkit.files.sinks import Transaction, make_folders, write_bytes
from calibkit.files.sources import Source
from calibkit.gates.expressions import Expression
from calibkit.gates.figures import check
from calibkit.models import Model

from .console import Console
from .dry_run import show_plan
from .gates import settle
from .views.drift import drift_lines, view


@dataclass(frozen=True, kw_only=True)
class DriftRun:
    """One run of the command, its options read.

    Attributes
    ----------
    console
        Where everything is said.
    model, spec
        What is compared with what.
    batch
        How many rows are read at a time.
    gates
        What makes the command fail, once everything is written.
    """

    console: Console
    model: Model
    spec: DriftSpec
    batch: int
    gates: Sequence[Expression]

    def __post_init__(self) -> None:
        if self.console.per_input and (self.gates or self.console.as_json):
            raise UsageError("-o DIR/ goes with neither --fail-if nor --json.")

    def show_plan(self, source: Source) -> None:
        """Print what the run would do."""
        watch = plan_watch(self.model, source, self.spec)
        names = ", ".join(one.name for one in watch.watched)
        show_plan(self.console, source, watch.columns, [f"compare with the fit of {names}"])

    def compare(self, source: Source) -> None:
        """Compare all inputs together, or (``-o DIR/``) each by itself."""
        console = self.console
        if console.per_input:
            self._each(source)
            return
        if console.output not in (None, "-"):
            spare_inputs(str(console.output), source.parts)
        found = self._found(source)
        content = found.as_dict()
        outcomes = check(content, self.gates) if self.gates else []
        if console.output is not None or not console.on_terminal:
            console.summary(*drift_lines(found))
        if console.output not in (None, "-"):
            write_bytes(found.content(console.output), str(console.output))
        console.wrote("Drift")
        console.show_model(found.to_json(), lambda: view(found, console))
        settle([(None, outcome) for outcome in outcomes])

    def _each(self, source: Source) -> None:
        outputs = directory_outputs(str(self.console.output), source.parts, suffix=".json")
        with Transaction() as transaction:
            for alone, output in zip(source.split(), outputs, strict=True):
                found = self._found(alone)
                self.console.summary(f"{alone.parts[0].path}:", *drift_lines(found))
                make_folders([output])
                transaction.write_bytes(found.to_json(), output)

    def _found(self, source: Source) -> Drift:
        found = drift(self.model, source, self.spec, batch=self.batch)
        for remark in found.warnings:
            self.console.warn(remark)
        return found
