"""An evaluation: read the rows, cut them into slices, compute every metric of every score."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

from numpy.typing import NDArray

from calibkit.columns.remarks import of_weights
from calibkit.evaluation.decision_curves import decision_curves
from calibkit.evaluation.findings import Evaluated, Findings
from calibkit.evaluation.rows import EvaluateRows, read_evaluate_rows
from calibkit.evaluation.slices import Slice, check_names, slices_of
from calibkit.files.sources import Source
from calibkit.measures import cells as cell_metrics
from calibkit.measures import decisions, registry
from calibkit.measures.curves import curve_rows
from calibkit.measures.metric import signed
from calibkit.measures.views import Sample, View, view_of
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.metrics import stem

__all__ = ["Evaluated", "evaluate", "evaluate_rows"]


def evaluate(options: EvaluateOptions, source: Source, *, curves: bool = False) -> Evaluated:
    """Return the metrics of rows; those of scores are counted where they do not fit.

    `curves`: reliability diagrams too.

    Raises
    ------
    UsageError
        Options that do not fit the inputs or each other.
    DataError
        Values that are missing, out of range or of the wrong type.
    """
    if options.counts is not None:
        from calibkit.evaluation.evaluate_votes import evaluate_votes

        return evaluate_votes(options, source, curves=curves)
    if options.patterns:
        from calibkit.evaluation.evaluate_classes import evaluate_classes

        return evaluate_classes(options, source, curves=curves)
    return evaluate_rows(options, read_evaluate_rows(options, source), curves=curves)


def evaluate_rows(
    options: EvaluateOptions, rows: EvaluateRows, *, curves: bool = False
) -> Evaluated:
    """Return the metrics of scores, and of decisions, against labels 0 and 1."""
    findings = Findings(asked=options)
    check_names(options.tops, rows.segments)
    for part in slices_of(rows.segments, options.tops, rows.top, rows.weight):
        small = part.small(options.min_rows, rows.label.size, rows.times)
        views = _views(rows, part, options)
        _add_scores(findings, views, small)
        if rows.score_bits is not None and not small:
            findings.spread(views.values())
        if rows.cells is not None:
            _add_cells(findings, rows.cells, views, part, small)
        for name, taken in rows.decisions.items():
            _add_decisions(findings, rows, name, taken, part, small)
        if curves and not small:
            findings.drawn += [curve_rows(view, findings.confidence) for view in views.values()]
    warnings = (*rows.warnings, *of_weights(rows.label, rows.weight))
    found = findings.evaluated(rows.rows, warnings, rows.notes, rows.score_bits)
    return replace(found, net_benefit=partial(decision_curves, options, rows)) if curves else found


def _sample(rows: EvaluateRows, part: Slice, score: NDArray[Any]) -> Sample:
    return Sample(
        score=part.of(score),
        label=part.of(rows.label),
        weight=None if rows.weight is None else part.of(rows.weight),
        group=None if rows.group is None else part.of(rows.group),
        times=None if rows.times is None else part.of(rows.times),
    )


def _views(rows: EvaluateRows, part: Slice, options: EvaluateOptions) -> dict[str, View]:
    """Return the view of each score in a slice, the baseline first."""
    views: dict[str, View] = {}
    for name, score in rows.scores.items():
        baseline = views.get(options.ranked[0])
        sample = _sample(rows, part, score)
        views[name] = view_of(
            sample, name, part.name, options.settings, base_rate=rows.base_rate, baseline=baseline
        )
    return views


def _add_scores(findings: Findings, views: dict[str, View], small: bool) -> None:
    """Add the metrics of all scores in a slice, and how they differ from the baseline's."""
    asked = findings.asked
    alone = len(views) == 1 and asked.chosen is None
    names = [
        name
        for name in asked.wanted(registry.names(asked.settings))
        if not (alone and name == "log_loss_reduction")
    ]
    signature = partial(registry.signature, settings=asked.settings)
    for view in views.values():
        findings.judge(view, registry.compute(view, names), signature, small)
    compared = [name for name in names if registry.METRICS[stem(name)].compared]
    baseline, *others = views.values()
    for other in others:
        findings.differ(baseline, other, compared)


def _add_cells(
    findings: Findings, cells: cell_metrics.Cells, views: dict[str, View], part: Slice, small: bool
) -> None:
    asked, own = findings.asked, replace(cells, cell=part.of(cells.cell))
    names = asked.wanted(list(cell_metrics.names(cells)))
    for name, view in views.items():
        values = cell_metrics.compute(view.sample, own, asked.settings)
        findings.add(name, part.name, {metric: values[metric] for metric in names}, small)
    for metric in names:
        findings.metrics.signature[metric] = cell_metrics.signature(metric, cells, asked.settings)


def _add_decisions(
    findings: Findings,
    rows: EvaluateRows,
    name: str,
    taken: NDArray[Any],
    part: Slice,
    small: bool,
) -> None:
    asked = findings.asked
    confusion = decisions.confusion_of(_sample(rows, part, taken), name, part.name, asked.settings)
    names = decisions.names(asked.chosen)
    signature = partial(signed, options={}, settings=asked.settings)
    findings.judge(confusion, decisions.compute(confusion, names), signature, small)
