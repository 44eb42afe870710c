"""An evaluation of class probabilities against one label a row."""

from __future__ import annotations

from calibkit.columns.segments import read_segments
from calibkit.evaluation.findings import Evaluated, Findings
from calibkit.evaluation.slices import slices_of
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, RaterRows, read_window, softmax
from calibkit.measures import intervals, multiclass
from calibkit.measures.curves import curve_rows
from calibkit.measures.metric import signed
from calibkit.measures.result import Difference
from calibkit.options.evaluate import EvaluateOptions


def evaluate_classes(options: EvaluateOptions, source: Source, *, curves: bool) -> Evaluated:
    """Return the metrics of class probabilities; the score is the pattern as typed."""
    rows = read_classes(options, source)
    findings, label = Findings(asked=options), rows.counts.argmax(axis=1)
    names = options.wanted(list(multiclass.METRICS))
    probability = {
        name: softmax(found) if options.scale == "logit" else found
        for name, found in rows.predictions.items()
    }
    by = None if options.by is None else read_segments(rows.others[options.by], rows.where)
    for part in slices_of(by):
        small = part.small(options.min_rows)
        for name, found in probability.items():
            classes = multiclass.classes_of(
                part.of(found), part.of(label), name, part.name, options.settings
            )
            findings.add(name, part.name, multiclass.compute(classes, names), small)
            _bound(findings, classes, names)
            if curves and not small:
                findings.drawn.append(curve_rows(classes.top, findings.confidence))
        _compare(findings, part.name, names)
    return findings.evaluated(int(label.size), rows.warnings)


def read_classes(options: EvaluateOptions, source: Source) -> RaterRows:
    """Return checked rows: a vote each, for the class that the label names."""
    if options.by is not None:
        source.require([options.by], "--by")
    return read_window(
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


def _bound(findings: Findings, classes: multiclass.Classes, names: list[str]) -> None:
    """Keep the intervals of metrics that are those of one score, and all signatures."""
    asked, score, part = findings.asked, classes.top.name, classes.top.part
    values = findings.metrics.metrics[score][part]
    for name in names:
        metric, how = multiclass.METRICS[name], None
        if metric.score and asked.intervals:
            view = metric.view(classes)
            how = intervals.method(metric.score, view, findings.options)
            found = intervals.intervals({metric.score: values[name]}, view, findings.options)
            kept = findings.metrics.intervals.setdefault(score, {}).setdefault(part, {})
            if found:
                kept[name] = found[metric.score]
        options = metric.options(asked.settings)
        findings.metrics.signature[name] = signed(name, options, asked.settings, how)


def _compare(findings: Findings, part: str, names: list[str]) -> None:
    """Keep by how much rivals differ from the first predictor."""
    first, *others = findings.metrics.metrics
    for other in others:
        gaps = findings.gaps(first, other, part, [name for name in names if name != "count"])
        found = {name: Difference(gap) for name, gap in gaps.items()}
        findings.metrics.differences.setdefault(f"{other}-{first}", {})[part] = found
