"""What ``calibkit evaluate`` does with its options: read, compute, deliver, judge."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from calibkit.errors import UsageError
from calibkit.files.outputs import check_output, directory_outputs, is_stream, spare_inputs
from calibkit.files.sinks import Transaction, make_folders, write_bytes
from calibkit.files.sources import Source
from calibkit.gates.expressions import Expression
from calibkit.gates.figures import check
from calibkit.memory import Memory
from calibkit.metrics.batches import evaluate_state, merged_rows
from calibkit.metrics.evaluate import Evaluated, evaluate, evaluate_rows
from calibkit.metrics.rows import columns_used
from calibkit.metrics.spec import EvaluateSpec
from calibkit.metrics.views import Settings
from calibkit.rows.columns import ColumnOptions
from calibkit.summaries.states import State
from calibkit.threads import later, warm_up

from .console import Console
from .dry_run import show_plan
from .evaluate_plot import check_plot, plot_of
from .evaluate_report import check_report, report_of
from .gates import settle
from .states import write_states
from .views.metrics import view

Named = TypeVar("Named")


@dataclass(frozen=True, kw_only=True)
class EvaluateRun:
    """One run of the command, its options read.

    Attributes
    ----------
    console
        Where everything is said.
    spec
        What to evaluate.
    reliability
        A file for the reliability diagrams.
    plot
        A file for the picture.
    report
        A file for the page.
    gates
        What makes the command fail, once everything is written.
    memory
        How much of it there is.
    """

    console: Console
    spec: EvaluateSpec
    reliability: str | None
    plot: str | None
    report: str | None
    gates: Sequence[Expression]
    memory: Memory

    def __post_init__(self) -> None:
        if self.reliability is not None:
            check_output(self.reliability, table=True)
            if self.reliability == "-":
                raise UsageError("--reliability - would mix with the metrics; give it a file.")
        if self.plot is not None:
            check_plot(self.plot)
        if self.report is not None:
            check_report(self.report)
        alone = self.reliability or self.plot or self.report or self.gates or self.console.as_json
        if self.console.per_input and alone:
            raise UsageError(
                "-o DIR/ goes with none of --reliability, --plot, --report, --fail-if, --json."
            )

    @property
    def threads(self) -> int:
        """How many threads to use."""
        return self.spec.settings.threads

    def start(self, source: Source, *, dry_run: bool, partial: bool) -> None:
        """Do what the command line asks for."""
        if dry_run:
            self.show_plan(source)
        elif partial:
            write_states(self.console, source, self.state_maker(self.memory))
        else:
            self.evaluate(source)

    def finish(self, state: State) -> None:
        """Deliver the metrics of the rows of a state."""
        rows, spec = merged_rows(state, self.memory, self.spec.settings.threads)
        found = self._told(evaluate_rows(rows, spec))
        if self.console.output not in (None, "-"):
            write_bytes(_content(found, self.console.output), self.console.output)
        self.console.wrote("Metrics")
        self.console.show_model(found.metrics.to_json(), lambda: view(found.metrics, self.console))

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source, here or on another machine."""
        if self.reliability or self.plot or self.report or self.gates:
            raise UsageError(
                "--partial and --dask go through states, which are not the rows; leave "
                "--reliability, --plot, --report and --fail-if out (calibkit gate judges the "
                "metrics)."
            )
        spec = replace(
            self.spec, boundary=_absolute(self.spec.boundary), grid=_absolute(self.spec.grid)
        )
        return functools.partial(evaluate_state, spec=spec, memory=memory)

    def show_plan(self, source: Source) -> None:
        """Print what the run would do."""
        slices = ["all rows", *(f"the top {share.text}" for share in self.spec.tops)]
        slices += [f"each value of {self.spec.by!r}"] if self.spec.by else []
        names = "all metrics" if self.spec.metrics is None else ", ".join(self.spec.metrics)
        steps = [f"compute {names} on {', '.join(slices)}"]
        steps += [f"write reliability diagrams to {self.reliability}"] if self.reliability else []
        steps += [f"draw a picture to {self.plot}"] if self.plot else []
        steps += [f"write a page to {self.report}"] if self.report else []
        show_plan(self.console, source, columns_used(source, self.spec), steps)

    def evaluate(self, source: Source) -> None:
        """Evaluate all inputs together, or (``-o DIR/``) each by itself."""
        later(self.spec.settings.threads, warm_up)
        if self.console.per_input:
            self._each(source)
            return
        for output in (self.console.output, self.reliability, self.plot, self.report):
            if output not in (None, "-"):
                spare_inputs(output, source.parts)
        found = self._evaluated(source)
        outcomes = check(found.metrics.as_dict(), self.gates) if self.gates else []
        with Transaction() as outputs:
            if self.reliability is not None and found.curves is not None:
                outputs.write_frames([found.curves], self.reliability)
            if self.plot is not None:
                picture = plot_of(source, self.spec, found, self.plot)
                outputs.write_bytes(picture, self.plot)
            if self.report is not None:
                outputs.write_bytes(report_of(source, self.spec, found, self.memory), self.report)
            if self.console.output not in (None, "-"):
                content = _content(found, self.console.output)
                outputs.write_bytes(content, self.console.output)
        self.console.wrote("Metrics")
        self.console.show_model(found.metrics.to_json(), lambda: view(found.metrics, self.console))
        settle([(None, outcome) for outcome in outcomes])

    def _each(self, source: Source) -> None:
        assert self.console.output is not None
        outputs = directory_outputs(self.console.output, source.parts, suffix=".json")
        with Transaction() as transaction:
            for alone, output in zip(source.split(), outputs, strict=True):
                found = self._evaluated(alone)
                make_folders([output])
                transaction.write_bytes(found.metrics.to_json(), output)
        self.console.summary(f"Metrics of {len(outputs)} files written to {self.console.output}")

    def _evaluated(self, source: Source) -> Evaluated:
        return self._told(evaluate(source, self.spec, self.memory))

    def _told(self, found: Evaluated) -> Evaluated:
        for remark in found.warnings:
            self.console.warn(remark)
        self.console.summary(*found.notes)
        return found


def finish_state(console: Console, state: State, memory: Memory, threads: int) -> None:
    """Make the metrics that a state is for."""
    run = EvaluateRun(
        console=console,
        spec=EvaluateSpec(scores=(), columns=ColumnOptions(), settings=Settings(threads=threads)),
        reliability=None,
        plot=None,
        report=None,
        gates=(),
        memory=memory,
    )
    run.finish(state)


def _absolute(named: Named) -> Named | str:
    """Return the name of a file as any worker that shares the disk knows it."""
    if isinstance(named, str) and named != "-":
        return str(Path(named).absolute())
    return named


def _content(found: Evaluated, output: str) -> bytes:
    """Return the metrics in the format that the output's suffix names; JSON to pipes and devices."""
    if output.endswith(".json"):
        return found.metrics.to_json()
    from calibkit.metrics.outputs import SUFFIXES, render

    if is_stream(output) and not output.endswith(SUFFIXES):
        return found.metrics.to_json()
    return render(found.metrics, output)
