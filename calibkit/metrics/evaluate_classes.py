"""An evaluation of class probabilities against one label a row."""

from __future__ import annotations

import polars as pl

from calibkit.files.sources import Source
from calibkit.metrics import intervals, multiclass
from calibkit.metrics.curves import curve_rows
from calibkit.metrics.evaluate import Evaluated, Findings
from calibkit.metrics.result import Difference
from calibkit.metrics.slices import slices_of
from calibkit.metrics.spec import EvaluateSpec
from calibkit.raters.logit_maps import softmax
from calibkit.raters.rows import RaterOptions, read_window
from calibkit.rows.segments import read_segments


def evaluate_classes(source: Source, spec: EvaluateSpec) -> Evaluated:
    """Return the metrics of class probabilities; the score is the pattern as typed."""
    if spec.by is not None:
        source.require([spec.by], "--by")
    rows = read_window(
        source,
        RaterOptions(
            probs=spec.probs,
            label=spec.columns.label,
            scale=spec.columns.scale,
            others=() if spec.by is None else (spec.by,),
            on_missing=spec.columns.on_missing,
            unlabelled=spec.columns.unlabelled,
        ),
    )
    findings, label = Findings(spec=spec), rows.counts.argmax(axis=1)
    names = spec.wanted(list(multiclass.METRICS))
    probability = {
        name: softmax(found) if spec.columns.scale == "logit" else found
        for name, found in rows.predictions.items()
    }
    curves: list[pl.DataFrame] = []
    by = None if spec.by is None else read_segments(rows.others[spec.by], rows.where)
    for part in slices_of(by):
        small = part.segment and part.size(label.size) < spec.min_rows
        for name, found in probability.items():
            classes = multiclass.classes_of(
                part.of(found), part.of(label), name, part.name, spec.settings
            )
            findings.add(name, part.name, multiclass.compute(classes, names), small)
            _bound(findings, classes, names)
            if spec.curves and not small:
                curves.append(curve_rows(classes.top, spec.confidence if spec.intervals else None))
        _compare(findings, part.name, names)
    return Evaluated(
        metrics=findings.result(int(label.size)),
        curves=pl.concat(curves) if curves else None,
        warnings=rows.warnings,
    )


def _bound(findings: Findings, classes: multiclass.Classes, names: list[str]) -> None:
    """Keep the intervals of metrics that are those of one score, and all signatures."""
    spec, name, part = findings.spec, classes.top.name, classes.top.part
    values = findings.metrics.metrics[name][part]
    for metric in names:
        how = None
        if metric in multiclass.AS_SCORES and spec.intervals:
            alias, view_of = multiclass.AS_SCORES[metric]
            view = view_of(classes)
            how = intervals.method(alias, view, findings.options)
            found = intervals.intervals({alias: values[metric]}, view, findings.options)
            kept = findings.metrics.intervals.setdefault(name, {}).setdefault(part, {})
            if alias in found:
                kept[metric] = found[alias]
        findings.metrics.signature[metric] = multiclass.signature(metric, spec.settings, how)


def _compare(findings: Findings, part: str, names: list[str]) -> None:
    """Keep by how much rivals differ from the first predictor."""
    first, *others = findings.metrics.metrics
    for other in others:
        gaps = findings.gaps(first, other, part, [name for name in names if name != "count"])
        found = {name: Difference(gap) for name, gap in gaps.items()}
        findings.metrics.differences.setdefault(f"{other}-{first}", {})[part] = found
