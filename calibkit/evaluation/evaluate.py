"""An evaluation: read the rows, cut them into slices, compute every metric of every score.

As a run it goes from rows, or from states of them, to metrics: see `calibkit.summaries.states.Run`.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

import msgspec
from msgspec.structs import replace

from calibkit.columns.remarks import of_weights
from calibkit.evaluation import rows as reading
from calibkit.evaluation.findings import ALL, Evaluated, Findings, Slice, check_names, slices_of
from calibkit.evaluation.rows import EvaluateRows, columns_used, read_evaluate_rows
from calibkit.files.sources import Source
from calibkit.measures import decisions, metrics
from calibkit.measures.cells import Cells, stretches
from calibkit.measures.decisions import NET_BENEFIT, Flagged, confusion_of
from calibkit.measures.ranking import ranges
from calibkit.measures.reliability import curve_rows
from calibkit.measures.views import View, signed, view_of
from calibkit.models.lineage import model_hash
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.metrics import OF_CELLS, stem
from calibkit.options.option import from_plain as options_from_plain
from calibkit.options.option import plain
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import Reading as RowReading
from calibkit.summaries.row_states import RowState, row_state, sources_of
from calibkit.summaries.score_batches import score_state
from calibkit.summaries.score_summary import rows_of_state
from calibkit.summaries.states import Plan, State, from_plain, options_of


def evaluate(
    options: EvaluateOptions, source: Source, *, curves: bool | Literal["classes"] = False
) -> Evaluated:
    """Return the metrics of rows; those of scores are counted where they do not fit.

    `curves`: reliability diagrams too; of votes those of disagreement, or of the ``classes``.

    Raises `UsageError`: options that do not fit the inputs or each other; `DataError`: values that
    are missing, out of range or of the wrong type.
    """
    options = reading.with_score(options, source)
    if options.patterns:
        from calibkit.evaluation.classes import evaluate_classes, evaluate_votes

        if options.counts is None:
            return evaluate_classes(options, source, curves=bool(curves))
        return evaluate_votes(options, source, curves=curves)
    return evaluate_rows(options, read_evaluate_rows(options, source), curves=bool(curves))


def evaluate_rows(
    options: EvaluateOptions, rows: EvaluateRows, *, curves: bool = False
) -> Evaluated:
    """Return the metrics of scores, and of decisions, against labels 0 and 1."""
    findings = Findings(asked=options)
    settings, ranked = options.settings, options.wanted(metrics.names(options.settings))
    if len(rows.scores) == 1 and options.chosen is None:
        ranked = [name for name in ranked if name != "log_loss_reduction"]
    compared = [name for name in ranked if metrics.METRICS[stem(name)].compared]
    decided = decisions.names(options.chosen)
    check_names(options.tops, rows.segments)
    weight = rows.whole.weight
    number = weight if options.prevalence is None else rows.whole.number
    counted = number is not None and options.weight_kind == "frequency"
    times = number if counted else rows.whole.times
    for part in slices_of(rows.segments, options.tops, rows.top, rows.whole):
        small = part.small(options.min_rows, times)
        views: list[View] = []
        for name, score in rows.scores.items():
            more = {"base_rate": rows.base_rate, "baseline": views[0] if views else None}
            view = view_of(rows.sample(score, part), name, part.name, settings, **more)
            views.append(view)
            findings.judge(view, ranked, small)
            if rows.score_bits is not None and not small:
                findings.ranges.setdefault(name, {})[part.name] = ranges(view)
        for other in views[1:]:
            both = (views[0], other)
            findings.differ(views[0].name, other.name, part.name, compared, both)
        if rows.cells is not None:
            _add_cells(findings, rows.cells, views, part, small)
        for name, taken in rows.decisions.items():
            confusion = confusion_of(rows.sample(taken, part), name, part.name, settings)
            findings.judge(confusion, decided, small)
        if curves and not small:
            findings.drawn += [curve_rows(view, options.sure) for view in views]
    warnings = (*rows.warnings, *of_weights(rows.whole.label, weight))
    found = findings.evaluated(rows.rows, warnings, rows.notes, rows.score_bits)
    if not curves:
        return found
    worth = NET_BENEFIT, options.sure, options.seed
    return replace(found, net_benefit=lambda: decisions.curves(models_of(options, rows), *worth))


def _add_cells(
    findings: Findings, cells: Cells, views: list[View], part: Slice, small: bool
) -> None:
    """Keep ECE@j and cumulative ECE@j of each score in a slice."""
    asked, own = findings.asked, replace(cells, cell=part.of(cells.cell))
    every = [f"{name}:{j}" for name in OF_CELLS for j in range(cells.columns)]
    names = asked.wanted(every) or every  # as with decisions: a grid is given to be judged
    for view in views:
        found = () if small else stretches(view.sample, own, asked.settings)
        values = dict.fromkeys(names) | {f"{name}:{j}": value for name, j, value, _ in found}
        findings.add(view.name, part.name, {name: values[name] for name in names}, small)
    shape: dict[str, object] = {"grid": f"{cells.levels}x{cells.columns}", "norm": "l1"}
    for name in names:
        findings.metrics.signature[name] = signed(name, shape, asked.settings)


def models_of(options: EvaluateOptions, rows: EvaluateRows) -> list[Flagged]:
    """Return the decisions that are judged, if any, and each score at all thresholds."""
    decided = (
        confusion_of(rows.sample(taken), name, ALL, options.settings)
        for name, taken in rows.decisions.items()
    )
    return [*map(Flagged.of_decisions, decided), *map(Flagged.of, views_of(options, rows))]


def views_of(options: EvaluateOptions, rows: EvaluateRows) -> list[View]:
    """Return each score of all rows, counted."""
    return [
        view_of(rows.sample(score), name, ALL, options.settings)
        for name, score in rows.scores.items()
    ]


#: The name under which the registry of methods looks for it.
fit = evaluate


class Problem(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What makes metrics of the rows of all shards."""

    asked: dict[str, Any]  # the options, without those that a shard has done with
    #: `boundary, grid`: the hashes of the model that decided and of the grid whose cells were
    #: taken.
    boundary: str | None
    grid: str | None
    columns: tuple[str | None, str | None]  # the uncertainties and the scores that these two read
    shape: tuple[int, int] | None  # uncertainty levels and score bins of the grid
    three_way: bool  # whether the model blocks, reviews and passes


class ClassesState(RowState):
    """Rows for ``evaluate --probs``."""

    KIND, OPTIONS = "evaluate --probs", EvaluateOptions


def plan(options: EvaluateOptions, source: Source) -> Plan:
    """Return what an evaluation would do."""
    return Plan(columns_used(reading.with_score(options, source), source), options.steps())


def state(options: EvaluateOptions, source: Source) -> State:
    """Return the state of a shard: of class probabilities its rows; errors as `evaluate`."""
    options = reading.with_score(options, source)
    if options.patterns:
        from calibkit.evaluation.classes import read_classes, read_votes

        used = columns_used(options, source).values()
        reader = partial(read_classes if options.counts is None else read_votes, options)
        return row_state(ClassesState, options, {}, RowReading(source, used, reader))
    table = reading.grid_of(options.grid_table, options.scale)
    problem = Problem(
        asked=plain(options, "boundary", "grid", "grid_score", "uncertainty"),
        boundary=None if options.model is None else model_hash(options.model),
        grid=None if table is None else table.fingerprint,
        columns=(options.uncertainty, options.grid_score),
        shape=None if table is None else table.grid.shape,
        three_way=reading.decides_three_ways(options.model),
    )
    said = {"problem": msgspec.to_builtins(problem)}
    return score_state("evaluate", source, reading.reading_of(options, source), options, said)


def finish(state: State, memory: Memory, threads: int) -> Evaluated:
    """Return the metrics of the rows of a state.

    Raises `ModelError` for a state of something else; `ResourceError`: rows that do not fit, and
    options that need them as they are.
    """
    if isinstance(state, ClassesState):
        return evaluate(options_of(state, EvaluateOptions, threads), sources_of(state)[0])
    problem = from_plain(state.header.options.get("problem"), Problem, state.path)
    options = options_from_plain(problem.asked, EvaluateOptions, state.path, threads=threads)
    rows = rows_of_state(state, memory, options.needs_each)
    found = reading.rows_of(options, rows, problem.shape, three_way=problem.three_way)
    return evaluate_rows(options, found)
