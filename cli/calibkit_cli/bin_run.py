"""What ``calibkit bin`` does with its options: read, count, deliver."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from calibkit.bins.binning import fit_grid, grid_frame, grid_metadata
from calibkit.bins.grid_rows import GridProblem, grid_rows, grid_state, merged_rows
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, ScoreRows, resolve
from calibkit.summaries.states import State

from .console import Console
from .dry_run import show_plan, used_columns
from .each_input import Rows, Tell, write_rows
from .states import write_states


@dataclass(frozen=True, kw_only=True)
class BinRun:
    """One run of the command, its options read.

    Attributes
    ----------
    console
        Where everything is said.
    problem, columns
        What grid to make, of which columns.
    memory, threads
        How much there is of them.
    """

    console: Console
    problem: GridProblem
    columns: ColumnOptions
    memory: Memory
    threads: int

    def start(self, source: Source, *, dry_run: bool, partial: bool) -> None:
        """Do what the command line asks for."""
        if dry_run:
            self._show_plan(source)
        elif partial:
            write_states(self.console, source, self.state_maker(self.memory))
        else:
            write_rows(self.console, source, self._make)

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source, here or on another machine."""
        return functools.partial(
            grid_state, columns=self.columns, problem=self.problem, memory=memory
        )

    def finish(self, rows: ScoreRows, source: Source) -> None:
        """Deliver the grid of rows that were merged."""
        write_rows(self.console, source, lambda _part, _tell: self._grid(rows))

    def _show_plan(self, source: Source) -> None:
        resolved = resolve(source, self.columns, label=True, uncertainty=True)
        problem, bins = self.problem, self.problem.bins(resolved)
        step = (
            f"count {source.rows:,} rows over {bins} x {problem.score_bins} bins "
            f"({problem.strategy}, {problem.order})"
        )
        show_plan(self.console, source, used_columns(resolved, label=True), [step])

    def _make(self, part: Source, _tell: Tell) -> Rows:
        return self._grid(grid_rows(part, self.columns, self.problem, self.memory))

    def _grid(self, rows: ScoreRows) -> Rows:
        problem = self.problem
        self.console.summary(*rows.notes)
        self.console.detail(f"{rows.rows:,} rows used of {rows.rows_read:,} read")
        grid = fit_grid(
            rows,
            problem.bins(rows.options),
            problem.score_bins,
            strategy=problem.strategy,
            order=problem.order,
            threads=self.threads,
        )
        frame = grid_frame(grid)
        about = grid_metadata(grid, rows, problem.strategy)
        return Rows([frame], frame.columns, rows.warnings, about)


def finish_state(console: Console, state: State, memory: Memory, threads: int) -> None:
    """Make the grid that a state is for."""
    rows, problem, source = merged_rows(state, memory)
    run = BinRun(
        console=console, problem=problem, columns=rows.options, memory=memory, threads=threads
    )
    run.finish(rows, source)
