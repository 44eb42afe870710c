"""A fit of ``calibrate`` from its rows to its model: see `calibkit.summaries.states.Fit`.

The rows hold scores, or class probabilities: then all of them are needed at once.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from calibkit.columns.columns import ScoreRows, read_score_rows, resolve
from calibkit.columns.rows import Remark, refuse_missing
from calibkit.columns.segments import read_segments
from calibkit.errors import ModelError, UsageError
from calibkit.files.sources import Source
from calibkit.maps.application import into_unit_interval
from calibkit.maps.calibrator import SEGMENTS, CalibratorModel
from calibkit.maps.class_rows import RaterOptions, used_roles
from calibkit.maps.stored import class_state, read_rater_rows
from calibkit.methods.calibrators.classes import fit_class_calibrator
from calibkit.methods.calibrators.fit import fit_calibrator
from calibkit.models.lineage import makers_of, name_makers, record_makers
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.option import from_plain, plain
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.summaries.row_states import RowState, finished, options_of
from calibkit.summaries.score_batches import Reading, rows_within, summarise_scores
from calibkit.summaries.score_summary import rows_of_state, score_state
from calibkit.summaries.states import Fitted, Plan, State
from calibkit.summaries.states import from_plain as texts_from_plain

KIND = "calibrate"


def fit(options: CalibrateOptions, source: Source) -> Fitted[CalibratorModel]:
    """Return the model of all rows."""
    _dated(options, source)
    if options.of_classes:
        fitted = _fit_classes(options, source, source.memory)
    else:
        fitted = fit_calibrator(calibration_rows(source, options, source.memory), options)
    record_makers(fitted.model, source)
    return fitted


def _dated(options: CalibrateOptions, source: Source) -> None:
    """Have the column of times, if there is one, read as dates where it is text."""
    if options.time is not None:
        source.require([options.time], "--time")
        source.as_dates([options.time])


def plan(options: CalibrateOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    if options.of_classes:
        columns = used_roles(source, _columns(options))
    else:
        columns = used_columns(source, options)
    return Plan(columns, options.steps())


class ClassState(RowState):
    """Rows for ``calibrate --probs``."""

    KIND = "calibrate --probs"

    def needed(self) -> list[str]:
        """Return the columns without which there is nothing to fit, beside those of classes."""
        options = _class_options(self)
        return [] if options.counts else [options.label]


def state(options: CalibrateOptions, source: Source) -> State:
    """Return a summary of the scores of a shard; of class probabilities the rows."""
    _dated(options, source)
    if options.of_classes:
        return class_state(ClassState, options, source, _columns(options))
    summary = summarise_scores(
        source, _reading(source, options), source.memory or memory_budget(None)
    )
    problem = plain(replace(options, threads=None))
    makers = makers_of(source, summary.options.roles)
    files = source.paths if options.provenance == "names" else ()
    return score_state(KIND, {"problem": problem, "makers": makers}, summary, files)


def finish(state: State, memory: Memory, threads: int) -> Fitted[CalibratorModel]:
    """Return the model of the rows of a merged state."""
    if isinstance(state, ClassState):
        options = _class_options(state, threads)
        return finished(state, options, lambda asked, rows, _: _fit_classes(asked, rows, memory))
    said = state.header.options
    options = from_plain(said.get("problem"), CalibrateOptions, state.path, threads=threads)
    rows = rows_of_state(state, memory, _needs_each(options))
    others = [] if rows.others is None else rows.others.columns
    if options.of_classes or sorted(others) != sorted(set(options.segments)):
        raise ModelError("a damaged state: its rows are not those of its options", file=state.path)
    fitted = fit_calibrator(rows, options)
    makers = texts_from_plain(said.get("makers"), dict[str, str], state.path)
    name_makers(fitted.model, makers, state.header.text)
    return fitted


def _class_options(state: State, threads: int | None = None) -> CalibrateOptions:
    options = options_of(state, CalibrateOptions, threads)
    if not options.of_classes:
        raise ModelError("a damaged state: it is of scores", file=state.path)
    return options


def _fit_classes(
    options: CalibrateOptions, source: Source, memory: Memory | None
) -> Fitted[CalibratorModel]:
    return fit_class_calibrator(read_rater_rows(source, _columns(options), memory), options)


def _columns(options: CalibrateOptions) -> RaterOptions:
    return RaterOptions(
        probs=(options.pattern,),
        counts=options.counts or None,
        label=options.label,
        scale=options.scale,
        logits=True,
        on_missing=options.on_missing,
        unlabelled=options.unlabelled,
    )


def read_calibration_rows(source: Source, options: CalibrateOptions) -> ScoreRows:
    """Read scores, labels, weights and segments.

    Prior shift needs no labels: a file without the label column will do.
    """
    clips, columns = options.out_of_range == "clip", options.columns
    for option, name in (("by", options.by), ("groups", options.groups), ("time", options.time)):
        if name is not None:
            source.require([name], f"--{option}")
            if name in (options.score, options.label, options.weight):
                raise UsageError(f"--{option} {name} has another role already; name two columns.")
    rows = read_score_rows(
        source,
        replace(columns, scale="raw") if clips else columns,
        label=_labelled(source, options),
        uncertainty=False,
        finite_scores=True,
        others=list(dict.fromkeys(options.segments)),
    )
    if not source.whole and rows.others is not None and rows.where:  # who later knows no places
        if options.by is not None:
            read_segments(rows.others[options.by], rows.where)
        for name in filter(None, (options.groups, options.time)):
            refuse_missing(rows.others[name], rows.where)
    if not clips:
        return rows
    score, moved = into_unit_interval(rows.score)
    rows = replace(rows, score=score, options=replace(rows.options, scale=options.scale))
    if not moved:
        return rows
    remark = Remark("", "score", "outside [0, 1] clipped (--out-of-range clip)", moved)
    return replace(rows, warnings=(*rows.warnings, remark.text), remarks=(*rows.remarks, remark))


def calibration_rows(
    source: Source, options: CalibrateOptions, memory: Memory | None = None
) -> ScoreRows:
    """Return the rows of a calibrator: as they are, or counted where they do not fit.

    Rows that do not fit are refused where options need them as they are.
    """
    return rows_within(source, _reading(source, options), memory)


def _reading(source: Source, options: CalibrateOptions) -> Reading:
    return Reading(
        columns=list(used_columns(source, options).values()),
        read=partial(read_calibration_rows, options=options),
        needs_each=_needs_each(options),
        threads=options.workers,
    )


def _needs_each(options: CalibrateOptions) -> str | None:
    """Return the option that needs every row as it is, if one does."""
    given = [name for name in ("groups", "time") if getattr(options, name) is not None]
    return f"--{given[0]}" if given else None


def used_columns(source: Source, options: CalibrateOptions) -> dict[str, str]:
    """Return the column of each role that is read."""
    labelled = _labelled(source, options)
    resolved = resolve(source, options.columns, label=labelled, uncertainty=False)
    roles = {
        "score": resolved.score,
        "label": resolved.label if labelled else None,
        "weight": resolved.weight,
        SEGMENTS: options.by,
        "groups": options.groups,
        "time": options.time,
    }
    return {role: name for role, name in roles.items() if name is not None}


def _labelled(source: Source, options: CalibrateOptions) -> bool:
    return options.entry.fits or options.label in source.schema
