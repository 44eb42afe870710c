"""An evaluation of class probabilities against one label a row."""

from __future__ import annotations

import polars as pl

from calibkit.columns.segments import read_segments
from calibkit.evaluation.findings import Evaluated, Findings
from calibkit.evaluation.slices import slices_of
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, read_window
from calibkit.maps.logit_maps import softmax
from calibkit.measures import intervals, multiclass
from calibkit.measures.curves import curve_rows
from calibkit.measures.result import Difference
from calibkit.options.evaluate import EvaluateOptions


def evaluate_classes(options: EvaluateOptions, source: Source, *, curves: bool) -> Evaluated:
    """Return the metrics of class probabilities; the score is the pattern as typed."""
    if options.by is not None:
        source.require([options.by], "--by")
    rows = read_window(
        source,
        RaterOptions(
            probs=options.patterns,
            label=options.label,
            scale=options.scale,
            others=() if options.by is None else (options.by,),
            on_missing=options.on_missing,
            unlabelled=options.unlabelled,
        ),
    )
    findings, label = Findings(asked=options), rows.counts.argmax(axis=1)
    names = options.wanted(list(multiclass.METRICS))
    probability = {
        name: softmax(found) if options.scale == "logit" else found
        for name, found in rows.predictions.items()
    }
    drawn: list[pl.DataFrame] = []
    by = None if options.by is None else read_segments(rows.others[options.by], rows.where)
    for part in slices_of(by):
        small = part.segment and part.size(label.size) < options.min_rows
        for name, found in probability.items():
            classes = multiclass.classes_of(
                part.of(found), part.of(label), name, part.name, options.settings
            )
            findings.add(name, part.name, multiclass.compute(classes, names), small)
            _bound(findings, classes, names)
            if curves and not small:
                confidence = options.confidence if options.intervals else None
                drawn.append(curve_rows(classes.top, confidence))
        _compare(findings, part.name, names)
    return Evaluated(
        metrics=findings.result(int(label.size)),
        curves=pl.concat(drawn) if drawn else None,
        warnings=rows.warnings,
    )


def _bound(findings: Findings, classes: multiclass.Classes, names: list[str]) -> None:
    """Keep the intervals of metrics that are those of one score, and all signatures."""
    asked, name, part = findings.asked, classes.top.name, classes.top.part
    values = findings.metrics.metrics[name][part]
    for metric in names:
        how = None
        if metric in multiclass.AS_SCORES and asked.intervals:
            alias, view_of = multiclass.AS_SCORES[metric]
            view = view_of(classes)
            how = intervals.method(alias, view, findings.options)
            found = intervals.intervals({alias: values[metric]}, view, findings.options)
            kept = findings.metrics.intervals.setdefault(name, {}).setdefault(part, {})
            if alias in found:
                kept[metric] = found[alias]
        findings.metrics.signature[metric] = multiclass.signature(metric, asked.settings, how)


def _compare(findings: Findings, part: str, names: list[str]) -> None:
    """Keep by how much rivals differ from the first predictor."""
    first, *others = findings.metrics.metrics
    for other in others:
        gaps = findings.gaps(first, other, part, [name for name in names if name != "count"])
        found = {name: Difference(gap) for name, gap in gaps.items()}
        findings.metrics.differences.setdefault(f"{other}-{first}", {})[part] = found
