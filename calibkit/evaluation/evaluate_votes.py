"""Judging class probabilities by the votes of several raters: predictors, slices, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.patterns import match_columns, read_matrix
from calibkit.columns.rows import numeric_column, weight_column
from calibkit.columns.segments import read_segments
from calibkit.errors import UsageError, nearest
from calibkit.evaluation.findings import Evaluated, Findings
from calibkit.evaluation.rows import vote_columns
from calibkit.evaluation.slices import slices_of
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, RaterRows, read_window
from calibkit.maps.logit_maps import softmax
from calibkit.measures.curves import vote_rows
from calibkit.measures.result import Number
from calibkit.measures.votes import Judged, Measured, ensemble, measure, signature
from calibkit.numerics.votes import predicted_disagreement
from calibkit.options.evaluate import EvaluateOptions

Floats = NDArray[np.float64]

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
    baseline = options.baseline or next(iter(predictors))
    if baseline not in predictors:
        raise UsageError(
            f"--baseline {baseline!r} is none of the predictors{nearest(baseline, predictors)}; "
            f"they are {', '.join(map(repr, predictors))}."
        )
    by = None if options.by is None else read_segments(rows.others[options.by], rows.where)
    for part in slices_of(by):
        small = part.small(options.min_rows)
        found = {
            name: measure(judged if part.rows is None else judged.rows(part.rows))
            for name, judged in predictors.items()
        }
        for name, one in found.items():
            _add(findings, name, part.name, one, small)
            if curves and not small:
                curve = vote_rows(
                    *(name, part.name, one.judged, findings.confidence), classes=curves == "classes"
                )
                findings.drawn.append(curve)
            if name != baseline and not small:
                names = [
                    n for n in _wanted(one.values, options.chosen) if not n.startswith("rows_")
                ]
                gaps = one.differences(found[baseline], names, findings.confidence)
                findings.metrics.differences.setdefault(f"{name}-{baseline}", {})[part.name] = gaps
    total, several = rows.votes.size, int(np.count_nonzero(rows.votes >= 2))
    notes = (
        f"{several:,} of {total:,} rows have two or more votes; only these count for epistemic "
        "and dispersion loss and for disagreement.",
    )
    return findings.evaluated(total, rows.warnings, notes if several < total else ())


def read_votes(options: EvaluateOptions, source: Source) -> tuple[RaterRows, dict[str, Judged]]:
    """Return checked rows, as often as their weights say, and each predictor; errors as above."""
    rows = read_window(
        source,
        RaterOptions(
            probs=options.patterns,
            counts=options.counts,
            scale=options.scale,
            others=tuple(dict.fromkeys(vote_columns(options, source).values())),
            on_missing=options.on_missing,
        ),
    )
    if options.weight is not None:
        rows = _repeated(rows, options.weight)
    return rows, _predictors(rows, options)


def _repeated(rows: RaterRows, name: str) -> RaterRows:
    """Return rows as often as their weights say, which are whole numbers here."""
    weight = weight_column(rows.others[name], rows.where)
    whole = weight == np.floor(weight)
    if not whole.all():
        rows.where.refuse(
            rows.others[name],
            ~whole,
            "no whole number of rows",
            "votes take whole weights only: a weight 2 is the row twice",
        )
    return rows.taken(np.repeat(np.arange(weight.size), weight.astype(np.int64)))


def _add(findings: Findings, name: str, part: str, found: Measured, small: bool) -> None:
    """Keep the metrics of a predictor in a slice, with intervals and signatures."""
    asked = findings.asked
    values = _wanted(found.values, asked.chosen)
    hidden = {metric for metric in values if small and not metric.startswith("rows_")}
    findings.add(name, part, values | dict.fromkeys(hidden))
    said = {"groups": bool(asked.groups), "weighted": asked.rater_weight is not None}
    for metric in values:
        text = signature(metric, intervals=asked.intervals, **said)
        findings.metrics.signature[metric] = text
    if asked.intervals:
        limits = {} if small else found.intervals(values, asked.confidence)
        findings.metrics.intervals.setdefault(name, {})[part] = limits


def _predictors(rows: RaterRows, options: EvaluateOptions) -> dict[str, Judged]:
    """Return each predictor: one a pattern, or all of them together."""
    patterns = list(rows.predictions)
    probabilities = [
        softmax(matrix) if options.scale == "logit" else matrix
        for matrix in rows.predictions.values()
    ]
    strengths: list[Floats | None] = [None]
    if options.strengths:
        advice = "alpha0 is the strength of a Dirichlet distribution, 0 or more"
        strengths = [_numbers(rows, name, advice, None) for name in options.strengths]
    strengths *= len(patterns) // len(strengths)
    groups = None
    if options.groups is not None:
        groups = read_segments(rows.others[options.groups], rows.where).code
    weight = None
    if options.rater_weight is not None:
        weight = weight_column(rows.others[options.rater_weight], rows.where)
    if options.ensemble:
        joined = {ENSEMBLE: ensemble(probabilities, strengths)}
    else:
        joined = {
            pattern: (matrix, predicted_disagreement(matrix, strength))
            for pattern, matrix, strength in zip(patterns, probabilities, strengths, strict=True)
        }
    return {
        name: Judged(
            probabilities=matrix,
            disagreement=_given_disagreement(rows, options, phi),
            counts=rows.counts,
            classes=rows.classes,
            groups=groups,
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
        matched = match_columns(rows.source, options.class_disagreement, "--class-disagreement")
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


def _numbers(rows: RaterRows, name: str, advice: str, high: float | None) -> Floats:
    """Return the values of a column, from 0 on."""
    column, finite = rows.others[name], high is not None
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
