"""Judging class probabilities by the votes of several raters: predictors, slices, intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import sqrt

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import numeric_column, weight_column
from calibkit.columns.patterns import match_columns, read_matrix
from calibkit.columns.segments import read_segments
from calibkit.errors import UsageError, nearest
from calibkit.evaluation.findings import Evaluated, Findings
from calibkit.evaluation.rows import vote_columns
from calibkit.evaluation.slices import Slice, slices_of
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, RaterRows, read_window
from calibkit.maps.logit_maps import softmax
from calibkit.measures.result import Difference, Interval, Number
from calibkit.measures.vote_curves import disagreement_rows
from calibkit.measures.votes import Judged, Measured, ensemble, measure, standard_error
from calibkit.numerics.normal import critical_value
from calibkit.numerics.votes import BINS, predicted_disagreement
from calibkit.options.evaluate import EvaluateOptions
from calibkit.version import __version__

Floats = NDArray[np.float64]

#: The name of the prediction that is the mean of several.
ENSEMBLE = "ensemble"

#: Metrics that are means of squares or of shares, which cannot be negative: nor can their limits.
_NEVER_NEGATIVE = ("accuracy", "squared_loss", "disagreement_loss", "class_disagreement_loss")


def evaluate_votes(options: EvaluateOptions, source: Source, *, curves: bool) -> Evaluated:
    """Return the metrics of class probabilities judged by votes; a score is a pattern as typed.

    Raises
    ------
    UsageError
        Columns that are not there or do not pair; a baseline that is none of the predictors.
    DataError
        Values that are missing, out of range or of the wrong type.
    """
    beside = [*vote_columns(options, source).values()]
    for flag, name in (
        ("--by", options.by),
        ("--groups", options.groups),
        ("--weight", options.weight),
    ):
        if name is not None:
            source.require([name], flag)
            beside.append(name)
    rows = read_window(
        source,
        RaterOptions(
            probs=options.patterns,
            counts=options.counts,
            scale=options.scale,
            others=tuple(dict.fromkeys(beside)),
            on_missing=options.on_missing,
        ),
    )
    if options.weight is not None:
        rows = _repeated(rows, options.weight)
    findings = Findings(asked=options)
    predictors = _predictors(rows, options)
    baseline = options.baseline or next(iter(predictors))
    if baseline not in predictors:
        raise UsageError(
            f"--baseline {baseline!r} is none of the predictors{nearest(baseline, predictors)}; "
            f"they are {', '.join(map(repr, predictors))}."
        )
    drawn: list[pl.DataFrame] = []
    by = None if options.by is None else read_segments(rows.others[options.by], rows.where)
    for part in slices_of(by):
        small = part.segment and part.size(rows.counts.shape[0]) < options.min_rows
        found = {name: _measured(judged, part) for name, judged in predictors.items()}
        for name, one in found.items():
            _add(findings, name, part.name, one, small)
            if curves and not small:
                confidence = options.confidence if options.intervals else None
                drawn.append(disagreement_rows(name, part.name, one[0], confidence))
        for name, one in found.items():
            if name != baseline and not small:
                own = _differences(one, found[baseline], findings)
                findings.metrics.differences.setdefault(f"{name}-{baseline}", {})[part.name] = own
    return Evaluated(
        metrics=findings.result(int(rows.counts.shape[0])),
        curves=pl.concat(drawn) if drawn else None,
        warnings=rows.warnings,
        notes=_notes(rows),
    )


def _notes(rows: RaterRows) -> tuple[str, ...]:
    several = int(np.count_nonzero(rows.votes >= 2))
    total = int(rows.counts.shape[0])
    if several == total:
        return ()
    return (
        f"{several:,} of {total:,} rows have two votes and more: epistemic and dispersion loss and "
        "all metrics of disagreement use these alone.",
    )


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
    places = np.repeat(np.arange(weight.size), weight.astype(np.int64))
    return replace(
        rows,
        predictions={name: matrix[places] for name, matrix in rows.predictions.items()},
        counts=rows.counts[places],
        others=rows.others[places],
    )


def _measured(judged: Judged, part: Slice) -> tuple[Judged, Measured]:
    own = judged
    if part.rows is not None:
        own = judged.rows(part.of(np.arange(judged.counts.shape[0])))
    return own, measure(own)


def _add(
    findings: Findings, name: str, part: str, one: tuple[Judged, Measured], small: bool
) -> None:
    """Keep the metrics of a predictor in a slice, with intervals and signatures."""
    judged, found = one
    asked = findings.asked
    values = _wanted(found.values, asked.chosen)
    hidden = {metric for metric in values if small and not metric.startswith("rows_")}
    findings.add(name, part, values | dict.fromkeys(hidden))
    findings.metrics.signature |= {metric: _signature(metric, asked) for metric in values}
    if asked.intervals:
        limits = {} if small else _intervals(found, values, judged, asked.confidence)
        findings.metrics.intervals.setdefault(name, {})[part] = limits


def _predictors(rows: RaterRows, options: EvaluateOptions) -> dict[str, Judged]:
    """Return each predictor: one a pattern, or all of them together."""
    patterns = list(rows.predictions)
    probabilities = [
        softmax(matrix) if options.scale == "logit" else matrix
        for matrix in rows.predictions.values()
    ]
    strengths = _strengths(rows, options.strengths, len(patterns))
    groups = None
    if options.groups is not None:
        groups = read_segments(rows.others[options.groups], rows.where).code
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
        )
        for name, (matrix, phi) in joined.items()
    }


def _strengths(rows: RaterRows, names: Sequence[str], predictions: int) -> list[Floats | None]:
    if not names:
        return [None] * predictions
    found: list[Floats | None] = [
        numeric_column(
            rows.others[name],
            rows.where,
            finite=False,
            low=0.0,
            advice="alpha0 is the strength of a Dirichlet distribution, 0 or more",
        ).astype(np.float64)
        for name in names
    ]
    return found * (predictions // len(found))


def _given_disagreement(rows: RaterRows, options: EvaluateOptions, phi: Floats) -> Floats:
    """Return predicted disagreements, with those that columns hold in their place."""
    found = phi.copy() if options.disagreement or options.class_disagreement else phi
    if options.disagreement:
        found[:, 0] = _probabilities(rows, options.disagreement)
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
            own = np.column_stack([_probabilities(rows, column[key]) for key in rows.classes])
        if own.shape[1] != len(rows.classes) or own.min() < 0.0 or own.max() > 1.0:
            raise UsageError(
                f"--class-disagreement {matched.pattern!r}: one probability a class was expected."
            )
        found[:, 1:] = own
    return found


def _probabilities(rows: RaterRows, name: str) -> Floats:
    found = numeric_column(
        rows.others[name],
        rows.where,
        low=0.0,
        high=1.0,
        advice="a predicted disagreement is a probability",
    )
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


def _intervals(
    found: Measured, values: Mapping[str, Number], judged: Judged, confidence: float
) -> dict[str, Interval]:
    """Return normal intervals; those of a root are the roots of the square's."""
    width, limits = critical_value(confidence), {}
    for name in values:
        square = found.roots.get(name, name)
        known = square in found.influence
        error = standard_error(found, square, judged.groups) if known else None
        value = found.values[square] if known else None
        if error is None or value is None:
            continue
        low, high = value - width * error, value + width * error
        if name in found.roots:
            low, high = sqrt(max(low, 0.0)), sqrt(max(high, 0.0))
        low = max(low, 0.0) if name in _NEVER_NEGATIVE else low
        limits[name] = Interval(low, min(high, 1.0) if name == "accuracy" else high)
    return limits


def _differences(
    other: tuple[Judged, Measured], baseline: tuple[Judged, Measured], findings: Findings
) -> dict[str, Difference]:
    """Return the differences of two predictors on the same rows, with intervals where rows pair."""
    (judged, found), (_, known), asked = other, baseline, findings.asked
    differences = {}
    for name in _wanted(found.values, asked.chosen):
        a, b, error = known.values[name], found.values[name], None
        if name.startswith("rows_"):
            continue
        if a is None or b is None:
            differences[name] = Difference(None)
            continue
        if asked.intervals and name in found.influence:
            moves = found.influence[name] - known.influence[name]
            paired = Measured({name: b - a}, {name: moves}, used={name: found.used[name]})
            error = standard_error(paired, name, judged.groups)
        reach = critical_value(asked.confidence) * error if error is not None else None
        ends = () if reach is None else (b - a - reach, b - a + reach)
        differences[name] = Difference(b - a, *ends)
    return differences


def _signature(name: str, asked: EvaluateOptions) -> str:
    """Return what shaped a metric."""
    metric, _, _ = name.partition("[")
    parts = [metric]
    if "calibration" in metric or "dispersion" in metric:
        parts += [f"bins:{BINS}", "strategy:equal-width"]
    if not metric.startswith("rows_"):
        parts.append(f"estimator:{'plugin' if metric.endswith('_plugin') else 'debiased'}")
        if asked.intervals:
            parts.append("interval:influence" + (":groups" if asked.groups else ""))
    return "|".join([*parts, f"v:{__version__}"])
