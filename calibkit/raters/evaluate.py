"""Judging class probabilities by the votes of several raters: predictors, slices, intervals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np
from numpy.typing import NDArray

from calibkit import __version__
from calibkit.columns import numeric_column
from calibkit.errors import UsageError, nearest
from calibkit.metrics.result import Difference, Interval, Metrics, Number
from calibkit.normal import critical_value
from calibkit.patterns import match_columns, read_matrix
from calibkit.raters.histograms import BINS, predicted_disagreement
from calibkit.raters.logit_maps import softmax
from calibkit.raters.metrics import Judged, Measured, ensemble, measure, standard_error
from calibkit.raters.rows import RaterRows
from calibkit.segments import read_segments
from calibkit.sources import Source

Floats = NDArray[np.float64]

#: The name of the prediction that is the mean of several.
ENSEMBLE = "ensemble"

#: Metrics that are probabilities, or squared errors that cannot be negative: so are their limits.
_NEVER_NEGATIVE = ("accuracy", "squared_loss", "disagreement_loss", "class_disagreement_loss")


@dataclass(frozen=True, kw_only=True)
class RaterSpec:
    """What to judge.

    Attributes
    ----------
    as_ensemble
        Whether the predictions are members of one predictor.
    alpha0
        Columns of strengths, one for each prediction or one for all; none: raters are predicted to
        draw from the class probabilities.
    disagreement, class_disagreement
        A column and a pattern of predicted disagreements, in place of those that follow from the
        class probabilities; for one predictor.
    baseline
        The predictor that the others are compared with; None: the first.
    by, groups
        Columns of slices, and of rows that belong together.
    min_rows
        Slices with fewer rows are null.
    confidence
        Of the intervals; None leaves them out.
    metrics
        Names of the metrics wanted; empty: all.
    """

    as_ensemble: bool = False
    alpha0: tuple[str, ...] = ()
    disagreement: str | None = None
    class_disagreement: str | None = None
    baseline: str | None = None
    by: str | None = None
    groups: str | None = None
    min_rows: int = 100
    confidence: float | None = 0.95
    metrics: tuple[str, ...] = ()

    def columns(self, source: Source) -> tuple[str, ...]:
        """Return the columns that are read beside probabilities and votes.

        Raises
        ------
        UsageError
            For one that is not there.
        """
        named = [("--alpha0", name) for name in self.alpha0]
        named += [("--disagreement", self.disagreement)] if self.disagreement else []
        named += [("--by", self.by)] if self.by else []
        named += [("--groups", self.groups)] if self.groups else []
        for option, name in named:
            source.require([name], option)
        found = [name for _, name in named]
        if self.class_disagreement:
            matched = match_columns(source, self.class_disagreement, "--class-disagreement")
            found += matched.columns
        return tuple(dict.fromkeys(found))


def evaluate_raters(rows: RaterRows, spec: RaterSpec, scale: str = "probability") -> Metrics:
    """Return the metrics of every predictor in every slice.

    Raises
    ------
    UsageError
        Options that do not go together, a metric or baseline that does not exist.
    DataError
        Strengths or disagreements that are out of range.
    """
    predictors = _predictors(rows, spec, scale)
    baseline = spec.baseline or next(iter(predictors))
    if baseline not in predictors:
        raise UsageError(
            f"--baseline {baseline!r} is none of the predictors{nearest(baseline, predictors)}; "
            f"they are {', '.join(map(repr, predictors))}."
        )
    metrics: dict[str, dict[str, dict[str, Number]]] = {name: {} for name in predictors}
    intervals: dict[str, dict[str, dict[str, Interval]]] = {}
    differences: dict[str, dict[str, dict[str, Difference]]] = {}
    names: dict[str, None] = {}
    for part, kept in _slices(rows, spec):
        measured: dict[str, tuple[Judged, Measured]] = {}
        for name, judged in predictors.items():
            own = judged if kept is None else judged.rows(kept)
            found = measure(own)
            if part != "all" and own.counts.shape[0] < spec.min_rows:
                found = _undefined(found)
            values = _wanted(found.values, spec.metrics)
            metrics[name][part] = values
            names |= dict.fromkeys(values)
            measured[name] = own, found
            if spec.confidence is not None:
                limits = _intervals(found, values, own, spec.confidence)
                intervals.setdefault(name, {})[part] = limits
        for name in predictors:
            if name != baseline:
                differences.setdefault(f"{name}-{baseline}", {})[part] = _differences(
                    measured[name], measured[baseline], spec
                )
    return Metrics(
        signature={name: _signature(name, spec) for name in names},
        rows=int(rows.counts.shape[0]),
        metrics=metrics,
        intervals=intervals,
        differences=differences,
    )


def _predictors(rows: RaterRows, spec: RaterSpec, scale: str) -> dict[str, Judged]:
    """Return each predictor: one a pattern, or all of them together."""
    patterns = list(rows.predictions)
    probabilities = [
        softmax(matrix) if scale == "logit" else matrix for matrix in rows.predictions.values()
    ]
    strengths = _strengths(rows, spec, len(patterns))
    if (
        (spec.disagreement or spec.class_disagreement)
        and len(patterns) > 1
        and not spec.as_ensemble
    ):
        raise UsageError(
            "--disagreement goes with one predictor: give --probs once, or --ensemble."
        )
    groups = None
    if spec.groups is not None:
        groups = read_segments(rows.others[spec.groups], rows.where).code
    if spec.as_ensemble:
        joined = {ENSEMBLE: ensemble(probabilities, strengths)}
    else:
        joined = {
            pattern: (matrix, predicted_disagreement(matrix, strength))
            for pattern, matrix, strength in zip(patterns, probabilities, strengths, strict=True)
        }
    return {
        name: Judged(
            probabilities=matrix,
            disagreement=_given_disagreement(rows, spec, phi),
            counts=rows.counts,
            classes=rows.classes,
            groups=groups,
        )
        for name, (matrix, phi) in joined.items()
    }


def _strengths(rows: RaterRows, spec: RaterSpec, predictions: int) -> list[Floats | None]:
    if not spec.alpha0:
        return [None] * predictions
    if len(spec.alpha0) not in (1, predictions):
        raise UsageError(
            f"--alpha0 names {len(spec.alpha0)} columns for {predictions} predictions; name one for "
            "all of them, or one for each."
        )
    found: list[Floats | None] = [
        numeric_column(
            rows.others[name],
            rows.where,
            finite=False,
            low=0.0,
            advice="alpha0 is the strength of a Dirichlet distribution, 0 or more",
        ).astype(np.float64)
        for name in spec.alpha0
    ]
    return found * (predictions // len(found))


def _given_disagreement(rows: RaterRows, spec: RaterSpec, phi: Floats) -> Floats:
    """Return predicted disagreements, with those that columns hold in their place."""
    found = phi.copy() if spec.disagreement or spec.class_disagreement else phi
    if spec.disagreement:
        found[:, 0] = _probabilities(rows, spec.disagreement)
    if spec.class_disagreement:
        matched = match_columns(rows.source, spec.class_disagreement, "--class-disagreement")
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


def _slices(rows: RaterRows, spec: RaterSpec) -> Iterator[tuple[str, NDArray[np.int64] | None]]:
    """Yield the names and rows of the slices."""
    yield "all", None
    if spec.by is not None:
        segments = read_segments(rows.others[spec.by], rows.where)
        for code, value in enumerate(segments.names):
            yield f"{spec.by}:{value}", np.flatnonzero(segments.code == code)


def _undefined(found: Measured) -> Measured:
    """Return the metrics of too few rows: how many there are, and nothing else."""
    counts = {name: found.values[name] for name in ("rows_used", "rows_two_raters")}
    return Measured({**dict.fromkeys(found.values), **counts})


def _wanted(values: Mapping[str, Number], names: Sequence[str]) -> dict[str, Number]:
    """Return the metrics asked for; ``metric`` also stands for those of its classes."""
    if not names:
        return dict(values)
    found: dict[str, Number] = {}
    for name in names:
        own = {key: values[key] for key in values if key == name or key.startswith(f"{name}[")}
        if not own:
            raise UsageError(
                f"--metrics: there is no metric {name!r} of votes{nearest(name, values)}; there are "
                + ", ".join(key for key in values if "[" not in key)
                + "."
            )
        found |= own
    return found


def _intervals(
    found: Measured, values: Mapping[str, Number], judged: Judged, confidence: float
) -> dict[str, Interval]:
    """Return normal intervals; those of a root are the roots of the square's."""
    width, limits = critical_value(confidence), {}
    for name in values:
        square = found.roots.get(name, name)
        if square not in found.influence:
            continue
        error, value = standard_error(found, square, judged.groups), found.values[square]
        if error is None or value is None:
            continue
        low, high = value - width * error, value + width * error
        if name in found.roots:
            low, high = sqrt(max(low, 0.0)), sqrt(max(high, 0.0))
        if name in _NEVER_NEGATIVE:
            low = max(low, 0.0)
        if name == "accuracy":
            high = min(high, 1.0)
        limits[name] = Interval(low, high)
    return limits


def _differences(
    other: tuple[Judged, Measured], baseline: tuple[Judged, Measured], spec: RaterSpec
) -> dict[str, Difference]:
    """Return the differences of two predictors on the same rows, with intervals where rows pair."""
    (judged, found), (_, known) = other, baseline
    differences = {}
    for name in _wanted(found.values, spec.metrics):
        a, b = known.values[name], found.values[name]
        if name.startswith("rows_"):
            continue
        if a is None or b is None:
            differences[name] = Difference(None)
            continue
        change, error = b - a, None
        if spec.confidence is not None and name in found.influence:
            paired = Measured(
                {name: change},
                {name: found.influence[name] - known.influence[name]},
                used={name: found.used[name]},
            )
            error = standard_error(paired, name, judged.groups)
        if error is None or spec.confidence is None:
            differences[name] = Difference(change)
        else:
            reach = critical_value(spec.confidence) * error
            differences[name] = Difference(change, change - reach, change + reach)
    return differences


def _signature(name: str, spec: RaterSpec) -> str:
    """Return what shaped a metric."""
    metric, _, _ = name.partition("[")
    parts = [metric]
    if "calibration" in metric or "dispersion" in metric:
        parts += [f"bins:{BINS}", "strategy:equal-width"]
    if not metric.startswith("rows"):
        plugin = metric.endswith("_plugin")
        parts.append("estimator:plugin" if plugin else "estimator:debiased")
        if spec.confidence is not None:
            grouped = ":groups" if spec.groups else ""
            parts.append(f"interval:influence{grouped}:{spec.confidence:g}")
    return "|".join([*parts, f"v:{__version__}"])
