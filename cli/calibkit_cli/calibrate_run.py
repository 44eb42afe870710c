"""What ``calibkit calibrate`` does with its options: read, fit, deliver."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .console import Console
from .dry_run import show_plan
from .each_model import Fit, write_models
from .states import write_states
from .views.calibrator import calibrator_lines

if TYPE_CHECKING:
    from calibkit.calibrators.spec import CalibratorSpec
    from calibkit.files.sources import Source
    from calibkit.memory import Memory
    from calibkit.rows.columns import ColumnOptions, ScoreRows
    from calibkit.summaries.states import State


@dataclass(frozen=True)
class CalibrateRun:
    """One run of the command."""

    console: Console
    spec: CalibratorSpec
    columns: ColumnOptions
    provenance: str
    tags: dict[str, str]
    memory: Memory

    @property
    def threads(self) -> int:
        """How many threads to use."""
        return self.spec.threads

    def start(self, source: Source, *, dry_run: bool, partial: bool) -> None:
        """Do what the command line asks for."""
        if dry_run:
            self.show_plan(source)
        elif partial:
            write_states(self.console, source, self.state_maker(self.memory))
        else:
            self.fit(source)

    def show_plan(self, source: Source) -> None:
        """Print what the run would do."""
        from calibkit.calibrators.rows import used_columns

        self.spec.check_scale(self.columns.scale)
        columns = used_columns(source, self.columns, self.spec)
        show_plan(self.console, source, columns, self.spec.steps())

    def fit(self, source: Source) -> None:
        """Fit one calibrator on all inputs, or (``-o DIR/``) one on each."""
        write_models(self.console, source, self._fit, "Calibrator")

    def _fit(self, source: Source) -> Fit:
        from calibkit.calibrators.rows import calibration_rows
        from calibkit.threads import later, warm_up

        later(self.spec.threads, warm_up)
        return self._fit_rows(calibration_rows(source, self.columns, self.spec, self.memory))

    def _fit_rows(self, rows: ScoreRows) -> Fit:
        from calibkit.calibrators.fit import fit_calibrator

        self.console.detail(f"{rows.rows:,} rows used of {rows.rows_read:,} read")
        made = fit_calibrator(rows, self.spec, provenance=self.provenance, tags=self.tags)
        lines = (*rows.notes, *calibrator_lines(made.model))
        return Fit(made.model, (*rows.warnings, *made.warnings), lines)

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source, here or on another machine."""
        from calibkit.calibrators.states import CalibratorProblem, calibrator_state

        problem = CalibratorProblem(spec=self.spec, provenance=self.provenance, tags=self.tags)
        return functools.partial(
            calibrator_state, columns=self.columns, problem=problem, memory=memory
        )

    def fit_state(self, state: State, makers: dict[str, str]) -> None:
        """Fit one calibrator on the rows of a state."""
        from calibkit.makers import record_makers
        from calibkit.summaries.score_states import source_of, summary_of

        source = source_of(state)

        def fit(_: Source) -> Fit:
            made = self._fit_rows(summary_of(state).rows(source, self.memory))
            record_makers(made.model, source, makers)
            return made

        write_models(self.console, source, fit, "Calibrator")


def finish_state(console: Console, state: State, memory: Memory, threads: int) -> None:
    """Make the calibrator that a state is for."""
    from calibkit.calibrators.states import read_problem
    from calibkit.rows.columns import ColumnOptions

    problem = read_problem(state, threads)
    run = CalibrateRun(
        console, problem.spec, ColumnOptions(), problem.provenance, problem.tags, memory
    )
    run.fit_state(state, problem.makers)
