"""What ``calibkit boundary`` does with its options: read, fit, judge, deliver."""

from __future__ import annotations

from dataclasses import dataclass, replace

from calibkit.boundary.auto import Choice, candidates, choose_method, fit_choice
from calibkit.boundary.certificate import certificate_steps, certify_boundary
from calibkit.boundary.choose import CANDIDATES, choose_levels, chosen_note
from calibkit.boundary.compare import HEADER, Compared, compare
from calibkit.boundary.fit import Fitted, fit_summary
from calibkit.boundary.frontier_rows import frontier_rows
from calibkit.boundary.segmented import fit_segments
from calibkit.boundary.spec import AUTO, BoundarySpec, plan
from calibkit.boundary.summary import Summary, summarise
from calibkit.columns import ColumnOptions, ScoreRows, read_score_rows, resolve
from calibkit.errors import CalibkitError, UsageError
from calibkit.grid_table import GridTable, is_grid_table, read_grid_table
from calibkit.outputs import check_output, directory_outputs, spare_inputs
from calibkit.sinks import Transaction, make_folders
from calibkit.sources import STDIN, Source, open_source
from calibkit.threads import later, warm_up

from .console import Console
from .dry_run import show_plan, used_columns
from .views.boundary import boundary_lines, view

#: What a boundary is fitted on: counted once, or for several methods, or later for each segment.
Counted = Summary | Choice | ScoreRows | GridTable


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

    def __post_init__(self) -> None:
        if self.frontier is not None:
            check_output(self.frontier, table=True)
            if self.frontier == "-":
                raise UsageError("--frontier - would mix with the model; give it a file.")
        if self.compare and self.frontier is not None:
            raise UsageError("--frontier is that of one method; leave --compare out.")
        if self.auto_levels and self.spec.folds == 0:
            raise UsageError(
                "--uncertainty-bins auto is chosen by cross-validation: give it --folds."
            )
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
        if spec.confidence is not None and self.auto_levels and spec.method != AUTO:
            raise UsageError(
                "--uncertainty-bins auto chooses by cross-validation, which --confidence has none of."
            )
        if self.compare and spec.by:
            raise UsageError("--compare fits all rows together; leave --by out.")

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
            self._compare(data, test)
            return
        summary = self._summarise(data)
        del data  # the rows are counted, and may be many
        fitted = self._fit(summary, test)
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

    def _summarise(self, data: ScoreRows | GridTable) -> Counted:
        """Count the rows, over the number of levels asked for or chosen, or for several methods."""
        if self.spec.by is not None or self.spec.confidence is not None:
            return data
        if self.spec.method == AUTO:
            return choose_method(data, self.spec)
        if not self.auto_levels:
            return summarise(data, self.spec)
        if isinstance(data, GridTable):
            raise UsageError("a grid has its levels; leave --uncertainty-bins auto out.")
        summary = choose_levels(data, self.spec)
        self.console.summary(chosen_note(summary))
        return summary

    def _fit_each(self, source: Source) -> None:
        assert self.console.output is not None
        outputs = directory_outputs(self.console.output, source.parts, suffix=".json")
        with Transaction() as transaction:
            for alone, output in zip(source.split(), outputs, strict=True):
                data = self._read(alone)
                fitted = self._fit(self._summarise(data), self._read_test(data))
                self.console.summary(f"{alone.parts[0].path}:", *boundary_lines(fitted.model))
                make_folders([output])
                transaction.write_bytes(fitted.model.to_json(), output)

    def _read(self, source: Source) -> ScoreRows | GridTable:
        later(self.spec.threads, warm_up)
        if is_grid_table(source):
            return read_grid_table(source, self.columns)
        rows = read_score_rows(source, self.columns, others=self._beside(source))
        for remark in rows.warnings:
            self.console.warn(remark)
        self.console.summary(*rows.notes)
        self.console.detail(f"{rows.score.size:,} rows used of {rows.rows_read:,} read")
        return rows

    def _beside(self, source: Source) -> list[str]:
        """Return the columns that are read beside those of the roles."""
        found = self._worth_columns(source)
        spec = self.spec
        for option, name in (("--groups", spec.groups), ("--time", spec.time), ("--by", spec.by)):
            if name is not None and name not in found:
                source.require([name], option)
                found.append(name)
        return found

    def _worth_columns(self, source: Source) -> list[str]:
        """Return the columns that say what rows are worth."""
        target = self.spec.target
        option = "--value" if target.value_column is not None else f"--{target.option}"
        names = list(dict.fromkeys(target.worth_columns.values()))
        source.require(names, option)
        return names

    def _read_test(self, data: ScoreRows | GridTable) -> ScoreRows | None:
        if self.test is None:
            return None
        if isinstance(data, ScoreRows):
            options, dtype = data.options, str(data.score.dtype)
        else:
            score, uncertainty = data.columns["score"], data.columns.get("uncertainty")
            name = uncertainty.name if uncertainty and data.grid.shape[0] > 1 else None
            options = replace(self.columns, score=score.name, uncertainty=name)
            dtype = score.dtype or self.dtype
        source = open_source([self.test], dtype=dtype)
        beside = self._worth_columns(source)
        if self.spec.by is not None and self.spec.by not in beside:
            source.require([self.spec.by], "--by")
            beside.append(self.spec.by)
        rows = read_score_rows(source, options, others=beside)
        for remark in rows.warnings:
            self.console.warn(f"--test: {remark}")
        return rows

    def _fit(self, counted: Counted, test: ScoreRows | None) -> Fitted:
        if isinstance(counted, ScoreRows | GridTable) and self.spec.confidence is not None:
            fitted = certify_boundary(
                counted, self.spec, test=test, provenance=self.provenance, tags=self.tags
            )
        elif isinstance(counted, ScoreRows | GridTable):
            fitted = fit_segments(
                counted,
                self.spec,
                auto_levels=self.auto_levels,
                test=test,
                provenance=self.provenance,
                tags=self.tags,
            )
        elif isinstance(counted, Choice):
            fitted = fit_choice(counted, test=test, provenance=self.provenance, tags=self.tags)
        else:
            fitted = fit_summary(counted, test=test, provenance=self.provenance, tags=self.tags)
        for remark in fitted.warnings:
            self.console.warn(remark)
        return fitted

    def _compare(self, data: ScoreRows | GridTable, test: ScoreRows | None) -> None:
        """Print all methods side by side; the model of the chosen one goes to ``-o``."""
        compared = compare(data, self.spec, test)
        compared.sort(key=lambda one: one.rank)
        fitted: Fitted | None = None
        failure: CalibkitError | None = None
        if self.console.output is not None or self.console.as_json:
            try:
                fitted = self._fit(self._summarise(data), test)
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
