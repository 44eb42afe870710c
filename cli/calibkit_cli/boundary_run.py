"""What ``calibkit boundary`` does with its options: read, fit, judge, deliver."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass

from calibkit.bins.grid_table import GridTable
from calibkit.boundary.auto import Choice, candidates
from calibkit.boundary.certificate import certificate_steps
from calibkit.boundary.choose import CANDIDATES, chosen_note
from calibkit.boundary.compare import HEADER, Compared, compare
from calibkit.boundary.fit import Fitted
from calibkit.boundary.frontier import frontier_rows
from calibkit.boundary.reading import BoundaryReader
from calibkit.boundary.run import (
    Counted,
    check_auto_levels,
    columns_to_judge,
    count,
    fit,
    read_boundary_rows,
    read_test_rows,
)
from calibkit.boundary.spec import AUTO, BoundarySpec, plan
from calibkit.boundary.states import BoundaryProblem, boundary_state, merged_rows, read_problem
from calibkit.boundary.summary import Summary
from calibkit.errors import CalibkitError, UsageError
from calibkit.files.outputs import check_output, directory_outputs, spare_inputs
from calibkit.files.sinks import Transaction, make_folders
from calibkit.files.sources import STDIN, Source, open_source
from calibkit.makers import record_makers
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, ScoreRows, resolve
from calibkit.summaries.states import State
from calibkit.threads import later, warm_up

from .console import Console
from .dry_run import show_plan, used_columns
from .states import write_states
from .views.boundary import boundary_lines, view


@dataclass(frozen=True, kw_only=True)
class BoundaryRun:
    """One run of the command, its options read.

    Attributes
    ----------
    console
        Where everything is said.
    spec, columns
        What to fit, on which columns.
    dtype
        What numbers of text files become.
    test, frontier
        A file to judge the boundary on; a file for the frontier.
    compare
        Whether to fit all methods and print them side by side.
    auto_levels
        Whether cross-validation chooses the number of uncertainty levels.
    provenance, tags
        What the model says of its origin.
    makers
        The hash of the model that made the column of a role, as the user says.
    memory
        How much of it there is.
    edges
        The inner edges of the uncertainty levels, if they are given.
    """

    console: Console
    spec: BoundarySpec
    columns: ColumnOptions
    dtype: str
    test: str | None
    frontier: str | None
    compare: bool
    auto_levels: bool
    provenance: str
    tags: dict[str, str]
    makers: dict[str, str]
    memory: Memory
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        if self.frontier is not None:
            check_output(self.frontier, table=True)
            if self.frontier == "-":
                raise UsageError("--frontier - would mix with the model; give it a file.")
        if self.compare and self.frontier is not None:
            raise UsageError("--frontier is that of one method; leave --compare out.")
        if self.auto_levels:
            check_auto_levels(self.spec)
        if self.compare and self.auto_levels:
            raise UsageError("--compare takes one number of levels for all methods, not auto.")
        self._check_beside()
        if self.console.per_input and (self.compare or self.frontier or self.console.as_json):
            raise UsageError("-o DIR/ goes with neither --compare nor --frontier nor --json.")

    def _check_beside(self) -> None:
        """Refuse what a frontier or a comparison would have ignored."""
        spec = self.spec
        reweighted = "--prevalence" if spec.target.prevalence else spec.target.worths
        if self.frontier is not None and (spec.by or reweighted):
            raise UsageError(
                f"--frontier counts rows as they are; it does not go with "
                f"{'--by' if spec.by else reweighted}."
            )
        if spec.confidence is not None and (self.compare or self.frontier is not None):
            raise UsageError(
                "--confidence certifies one boundary; it goes with neither --compare nor --frontier."
            )
        if self.compare and spec.by:
            raise UsageError("--compare fits all rows together; leave --by out.")

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
        data = self._read(source)
        if isinstance(data, GridTable):
            columns = {name: name for name in ("count", "positives")}
        else:
            resolved = resolve(source, self.columns, label=True, uncertainty=True)
            columns = used_columns(resolved, label=True) | self.spec.target.worth_columns
            if self.spec.by is not None:
                columns["by"] = self.spec.by
        if self.spec.confidence is not None:
            show_plan(self.console, source, columns, certificate_steps(self.spec, data))
            return
        auto = self.spec.method == AUTO
        plans = candidates(data, self.spec) if auto else [plan(self.spec, data)]
        steps = [step for planned in plans for step in planned.steps()[:1]] + plans[0].steps()[1:]
        if auto and len(plans) > 1:
            steps.append("keep the simplest that is as good as the best there")
        if self.auto_levels and not auto:
            tried = ", ".join(map(str, CANDIDATES))
            steps.append(f"do so with {tried} levels, and keep what cross-validation favours")
        show_plan(self.console, source, columns, steps)

    def fit(self, source: Source) -> None:
        """Fit one boundary on all inputs, or (``-o DIR/``) one on each."""
        if self.test == STDIN and any(part.path == STDIN for part in source.parts):
            raise UsageError("standard input can be read once only; give --test a file.")
        if self.console.per_input:
            self._fit_each(source)
            return
        for output in (self.console.output, self.frontier):
            if output not in (None, "-"):
                spare_inputs(output, source.parts)
        data = self._read(source)
        test = self._read_test(data)
        if self.compare:
            self._compare(source, data, test)
            return
        self._deliver(source, data, test)

    def fit_state(self, state: State) -> None:
        """Fit one boundary on the rows of a state."""
        rows, source = merged_rows(state, self._problem, self.memory)
        self._introduce(rows)
        self._deliver(source, rows, None)

    def state_maker(self, memory: Memory) -> Callable[[Source], State]:
        """Return what makes the state of a source, here or on another machine."""
        if self.test is not None or self.compare or self.frontier is not None:
            raise UsageError(
                "--partial and --dask go through states, which are not the rows; leave --test, "
                "--compare and --frontier out."
            )
        reader = BoundaryReader(
            spec=self.spec, columns=self.columns, auto_levels=self.auto_levels, edges=self.edges
        )
        return functools.partial(
            boundary_state, reader=reader, problem=self._problem, memory=memory
        )

    @property
    def _problem(self) -> BoundaryProblem:
        return BoundaryProblem(
            spec=self.spec,
            auto_levels=self.auto_levels,
            edges=self.edges,
            provenance=self.provenance,
            tags=self.tags,
            makers=self.makers,
        )

    def _deliver(self, source: Source, data: ScoreRows | GridTable, test: ScoreRows | None) -> None:
        summary = self._count(data)
        del data  # the rows are counted, and may be many
        fitted = self._fit(source, summary, test)
        if self.console.output is not None or not self.console.on_terminal:
            self.console.summary(*boundary_lines(fitted.model))
        with Transaction() as outputs:
            if self.frontier is not None:
                thresholds = summary.thresholds if isinstance(summary, Choice) else summary
                assert isinstance(thresholds, Summary)  # no frontier of segments
                outputs.write_table(frontier_rows(thresholds.problem), self.frontier)
            self._write(fitted, outputs)
        self.console.wrote("Boundary")
        self.console.show_model(fitted.model.to_json(), lambda: view(fitted.model, self.console))

    def _write(self, fitted: Fitted, outputs: Transaction) -> None:
        if self.console.output not in (None, "-"):
            outputs.write_bytes(fitted.model.to_json(), self.console.output, main=True)

    def _count(self, data: ScoreRows | GridTable) -> Counted:
        counted = count(data, self.spec, auto_levels=self.auto_levels)
        if isinstance(counted, Summary) and self.auto_levels:
            self.console.summary(chosen_note(counted))
        return counted

    def _fit_each(self, source: Source) -> None:
        assert self.console.output is not None
        outputs = directory_outputs(self.console.output, source.parts, suffix=".json")
        with Transaction() as transaction:
            for alone, output in zip(source.split(), outputs, strict=True):
                data = self._read(alone)
                fitted = self._fit(alone, self._count(data), self._read_test(data))
                self.console.summary(f"{alone.parts[0].path}:", *boundary_lines(fitted.model))
                make_folders([output])
                transaction.write_bytes(fitted.model.to_json(), output)

    def _read(self, source: Source) -> ScoreRows | GridTable:
        later(self.spec.threads, warm_up)
        rows = read_boundary_rows(
            source,
            self.columns,
            self.spec,
            auto_levels=self.auto_levels,
            edges=self.edges,
            memory=self.memory,
        )
        if isinstance(rows, ScoreRows):
            self._introduce(rows)
        return rows

    def _introduce(self, rows: ScoreRows) -> None:
        for remark in rows.warnings:
            self.console.warn(remark)
        self.console.summary(*rows.notes)
        self.console.detail(f"{rows.rows:,} rows used of {rows.rows_read:,} read")

    def _read_test(self, data: ScoreRows | GridTable) -> ScoreRows | None:
        if self.test is None:
            return None
        columns, dtype = columns_to_judge(data, self.columns, self.dtype)
        rows = read_test_rows(open_source([self.test], dtype=dtype), columns, self.spec)
        for remark in rows.warnings:
            self.console.warn(f"--test: {remark}")
        return rows

    def _fit(self, source: Source, counted: Counted, test: ScoreRows | None) -> Fitted:
        fitted = fit(
            counted,
            self.spec,
            auto_levels=self.auto_levels,
            test=test,
            provenance=self.provenance,
            tags=self.tags,
        )
        for remark in fitted.warnings:
            self.console.warn(remark)
        record_makers(fitted.model, source, self.makers)
        return fitted

    def _compare(self, source: Source, data: ScoreRows | GridTable, test: ScoreRows | None) -> None:
        """Print all methods side by side; the model of the chosen one goes to ``-o``."""
        compared = compare(data, self.spec, test)
        compared.sort(key=lambda one: one.rank)
        fitted: Fitted | None = None
        failure: CalibkitError | None = None
        if self.console.output is not None or self.console.as_json:
            try:
                fitted = self._fit(source, self._count(data), test)
            except CalibkitError as error:
                failure = error
        if self.console.as_json:
            content = fitted.model.as_dict() if fitted else {}
            self.console.json({**content, "compare": [one.as_dict() for one in compared]})
        else:
            self._print_comparison(compared, error=self.console.output == "-")
        if failure is not None and self.console.output is not None:
            raise failure
        if fitted is not None:
            with Transaction() as outputs:
                self._write(fitted, outputs)
            if self.console.output == "-":
                self.console.content(fitted.model.to_json())

    def _print_comparison(self, compared: list[Compared], *, error: bool) -> None:
        rows = [one.row() for one in compared]
        kept = [place for place in range(len(HEADER)) if any(row[place] for row in rows)]
        self.console.table(
            [HEADER[place] for place in kept],
            [[row[place] for place in kept] for row in rows],
            error=error,
        )


def finish_state(console: Console, state: State, memory: Memory, threads: int) -> None:
    """Make the boundary that a state is for."""
    problem = read_problem(state, threads)
    run = BoundaryRun(
        console=console,
        spec=problem.spec,
        columns=ColumnOptions(),
        dtype="float64",
        test=None,
        frontier=None,
        compare=False,
        auto_levels=problem.auto_levels,
        provenance=problem.provenance,
        tags=problem.tags,
        makers=problem.makers,
        memory=memory,
        edges=problem.edges,
    )
    run.fit_state(state)
