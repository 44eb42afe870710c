"""An evaluation of class probabilities: against one label a row, or the votes of several raters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Literal

import numpy as np
from msgspec.structs import replace

from calibkit.arrays import Floats
from calibkit.columns.patterns import match_columns, read_matrix
from calibkit.columns.rows import numeric_column, weight_column
from calibkit.columns.segments import Segments, read_segments
from calibkit.errors import UsageError, nearest
from calibkit.evaluation.findings import Evaluated, Findings, slices_of
from calibkit.evaluation.rows import beside_classes
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, RaterRows, read_window, softmax
from calibkit.measures import classes as measured
from calibkit.measures.metrics import intervals, method
from calibkit.measures.reliability import curve_rows
from calibkit.measures.result import Number
from calibkit.measures.views import signed
from calibkit.numerics.votes import predicted_disagreement
from calibkit.options.evaluate import EvaluateOptions


def evaluate_classes(options: EvaluateOptions, source: Source, *, curves: bool) -> Evaluated:
    """Return the metrics of class probabilities; the score is the pattern as typed."""
    rows = read_classes(options, source)
    findings, label = Findings(asked=options), rows.counts.argmax(axis=1)
    names = options.wanted(list(measured.METRICS))
    probability = _probabilities(rows, options)
    first = _baseline(options, probability)
    settings = replace(options.settings, scale="probability")  # logits are none any more
    for part in slices_of(_segments(rows, options.by)):
        small = part.small(options.min_rows)
        for name, found in probability.items():
            own = (part.of(found), part.of(label), name, part.name)
            classes = measured.classes_of(*own, settings)
            values = {metric: measured.METRICS[metric].value(classes) for metric in names}
            findings.add(name, part.name, values, small)
            _bound(findings, classes, names)
            if curves and not small:
                findings.drawn.append(curve_rows(classes.top, options.sure))
        compared = [name for name in names if name != "count"]
        for other in probability:
            if other != first:
                findings.differ(first, other, part.name, compared)
    return findings.evaluated(int(label.size), rows.warnings)


def _baseline(options: EvaluateOptions, predictors: Iterable[str]) -> str:
    """Return what others are compared with: the first of the predictors, unless one is named."""
    baseline = options.baseline or next(iter(predictors))
    if baseline not in predictors:
        raise UsageError(
            f"--baseline {baseline!r} is none of the predictors{nearest(baseline, predictors)}; "
            f"they are {', '.join(map(repr, predictors))}."
        )
    return baseline


def _segments(rows: RaterRows, name: str | None) -> Segments | None:
    return None if name is None else read_segments(rows.others[name], rows.where)


def _probabilities(rows: RaterRows, options: EvaluateOptions) -> dict[str, Floats]:
    logits = options.scale == "logit"
    return {name: softmax(own) if logits else own for name, own in rows.predictions.items()}


def read_classes(options: EvaluateOptions, source: Source) -> RaterRows:
    """Return checked rows; judged by a label they have a vote each, for the class that it names."""
    others = dict.fromkeys(beside_classes(options, source).values())
    return read_window(
        source, options.part(RaterOptions, probs=options.patterns, others=tuple(others))
    )


def _bound(findings: Findings, classes: measured.Classes, names: list[str]) -> None:
    """Keep the intervals of metrics that are those of one score, and all signatures."""
    asked, score, part = findings.asked, classes.top.name, classes.top.part
    values = findings.metrics.metrics[score][part]
    for name in names:
        metric, how = measured.METRICS[name], None
        if metric.of != "each" and asked.intervals:
            view = getattr(classes, metric.of)
            how = method(metric.score, view, findings.options)
            if how is not None:
                found = intervals({metric.score: values[name]}, view, findings.options)
                kept = findings.metrics.intervals.setdefault(score, {}).setdefault(part, {})
                if found:
                    kept[name] = found[metric.score]
        options = metric.options(asked.settings)
        findings.metrics.signature[name] = signed(name, options, asked.settings, how)


#: The name of the prediction that is the mean of several.
ENSEMBLE = "ensemble"

_PROBABILITY = "a predicted disagreement is a probability"


def evaluate_votes(
    options: EvaluateOptions, source: Source, *, curves: bool | Literal["classes"]
) -> Evaluated:
    """Return the metrics of class probabilities judged by votes; a score is a pattern as typed.

    Raises `UsageError`: columns that are not there or do not pair; a baseline that is none of the
    predictors; `DataError`: values that are missing, out of range or of the wrong type.
    """
    rows, predictors = read_votes(options, source)
    findings = Findings(asked=options)
    baseline = _baseline(options, predictors)
    for part in slices_of(_segments(rows, options.by)):
        small = part.small(options.min_rows)
        found = {
            name: measured.measure(judged if part.rows is None else judged.rows_of(part.rows))
            for name, judged in predictors.items()
        }
        for name, one in found.items():
            values = _wanted(one.values, options.chosen)
            limits = partial(one.intervals, confidence=options.confidence)
            findings.add(name, part.name, values, small, limits)
            for metric in values:
                findings.metrics.signature[metric] = measured.signature(metric, options)
            if curves and not small:
                shown = (name, part.name, one.judged, options.sure)
                findings.drawn.append(measured.vote_rows(*shown, classes=curves == "classes"))
            if name != baseline and not small:
                names = [metric for metric in values if not metric.startswith("rows_")]
                gaps = one.differences(found[baseline], names, options.sure)
                findings.metrics.differences.setdefault(f"{name}-{baseline}", {})[part.name] = gaps
    total, several = rows.votes.size, int(np.count_nonzero(rows.votes >= 2))
    notes = (
        f"{several:,} of {total:,} rows have two or more votes; only these count for epistemic "
        "and dispersion loss and for disagreement.",
    )
    return findings.evaluated(total, rows.warnings, notes if several < total else ())


def read_votes(
    options: EvaluateOptions, source: Source
) -> tuple[RaterRows, dict[str, measured.Judged]]:
    """Return checked rows, as often as their weights say, and each predictor; errors as above."""
    rows = read_classes(options, source)
    if options.weight is not None:
        column = rows.others[options.weight]
        weight = weight_column(column, rows.where)
        advice = "votes take whole weights only: a weight 2 is the row twice"
        rows.where.check(column, weight != np.floor(weight), "no whole number of rows", advice)
        rows = rows.taken(np.repeat(np.arange(weight.size), weight.astype(np.int64)))
    return rows, _predictors(rows, options)


def _predictors(rows: RaterRows, options: EvaluateOptions) -> dict[str, measured.Judged]:
    """Return each predictor: one a pattern, or all of them together."""
    probabilities = _probabilities(rows, options)
    strengths: list[Floats | None] = [None]
    if options.strengths:
        advice = "alpha0 is the strength of a Dirichlet distribution, 0 or more"
        strengths = [_numbers(rows, name, advice, np.inf) for name in options.strengths]
    strengths *= len(probabilities) // len(strengths)
    groups = _segments(rows, options.groups)
    weight = None
    if options.rater_weight is not None:
        weight = weight_column(rows.others[options.rater_weight], rows.where)
    if options.ensemble:
        joined = {ENSEMBLE: measured.ensemble(list(probabilities.values()), strengths)}
    else:
        joined = {
            pattern: (matrix, predicted_disagreement(matrix, strength))
            for (pattern, matrix), strength in zip(probabilities.items(), strengths, strict=True)
        }
    return {
        name: measured.Judged(
            probabilities=matrix,
            disagreement=_given_disagreement(rows, options, phi),
            counts=rows.counts,
            classes=rows.classes,
            groups=None if groups is None else groups.code,
            weight=weight,
        )
        for name, (matrix, phi) in joined.items()
    }


def _given_disagreement(rows: RaterRows, options: EvaluateOptions, phi: Floats) -> Floats:
    """Return predicted disagreements, with those that columns hold in their place."""
    found = phi.copy() if options.disagreement or options.class_disagreement else phi
    if options.disagreement:
        found[:, 0] = _numbers(rows, options.disagreement, _PROBABILITY, 1.0)
    if options.class_disagreement:
        source, option = rows.where.source, "--class-disagreement"
        matched = match_columns(source, options.class_disagreement, option)
        if matched.nested:
            own = read_matrix(rows.others, matched, rows.where)
        else:
            if sorted(matched.keys) != sorted(rows.classes):
                raise UsageError(
                    f"--class-disagreement {matched.pattern!r} has the classes "
                    f"{', '.join(matched.keys[:10])}, but --probs {', '.join(rows.classes[:10])}."
                )
            column = dict(zip(matched.keys, matched.columns, strict=True))
            own = np.column_stack(
                [_numbers(rows, column[key], _PROBABILITY, 1.0) for key in rows.classes]
            )
        if own.shape[1] != len(rows.classes) or (own < 0.0).any() or (own > 1.0).any():
            raise UsageError(
                f"--class-disagreement {matched.pattern!r}: one probability a class was expected."
            )
        found[:, 1:] = own
    return found


def _numbers(rows: RaterRows, name: str, advice: str, high: float) -> Floats:
    """Return the values of a column, from 0 on."""
    column, finite = rows.others[name], high < np.inf
    found = numeric_column(column, rows.where, finite=finite, low=0.0, high=high, advice=advice)
    return found.astype(np.float64)


def _wanted(values: Mapping[str, Number], names: Sequence[str] | None) -> dict[str, Number]:
    """Return the metrics asked for; ``metric`` also stands for those of its classes."""
    if names is None:
        return dict(values)
    return {
        key: value
        for name in names
        for key, value in values.items()
        if key == name or key.startswith(f"{name}[")
    }
