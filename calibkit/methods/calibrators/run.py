"""A fit of ``calibrate`` from its rows to its model: see `calibkit.summaries.runs.Fit`.

The rows hold scores, or class probabilities: then all of them are needed at once.
"""

from __future__ import annotations

from dataclasses import replace

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.maps.calibrator import CalibratorModel
from calibkit.maps.class_rows import RaterOptions, used_roles
from calibkit.maps.stored import read_rater_rows
from calibkit.methods.calibrators.classes import fit_class_calibrator
from calibkit.methods.calibrators.fit import fit_calibrator
from calibkit.methods.calibrators.rows import calibration_rows, calibration_summary, used_columns
from calibkit.methods.raters.states import ClassState, class_options, rater_state
from calibkit.models.lineage import makers_of, name_makers, record_makers
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.option import from_plain, plain
from calibkit.runtime.memory import Memory, memory_budget
from calibkit.summaries import row_states
from calibkit.summaries.plain import from_plain as texts_from_plain
from calibkit.summaries.runs import Fitted, Plan
from calibkit.summaries.score_states import score_state, source_of, summary_of
from calibkit.summaries.states import State

KIND = "calibrate"


def fit(options: CalibrateOptions, source: Source) -> Fitted[CalibratorModel]:
    """Return the model of all rows."""
    if options.of_classes:
        fitted = _fit_classes(options, source, source.memory)
    else:
        fitted = fit_calibrator(calibration_rows(source, options, source.memory), options)
    record_makers(fitted.model, source)
    return fitted


def plan(options: CalibrateOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    if options.of_classes:
        columns = used_roles(source, _columns(options))
    else:
        columns = used_columns(source, options)
    return Plan(columns, options.steps())


def state(options: CalibrateOptions, source: Source) -> State:
    """Return a summary of the scores of a shard; of class probabilities the rows."""
    if options.of_classes:
        return rater_state(options, source, _columns(options))
    summary = calibration_summary(source, options, source.memory or memory_budget(None))
    problem = plain(replace(options, threads=None))
    makers = makers_of(source, summary.options)
    files = source.paths if options.provenance == "names" else ()
    return score_state(KIND, {"problem": problem, "makers": makers}, summary, files)


def finish(state: State, memory: Memory, threads: int) -> Fitted[CalibratorModel]:
    """Return the model of the rows of a merged state."""
    if isinstance(state, ClassState):
        options, source = class_options(state, threads), row_states.sources_of(state)[0]
        fitted = _fit_classes(options, source, memory)
        name_makers(fitted.model, row_states.makers_of(state))
        return fitted
    said = state.header.options
    options = from_plain(said.get("problem"), CalibrateOptions, state.path, threads=threads)
    rows = summary_of(state).rows(source_of(state), memory)
    segments = [] if rows.others is None else rows.others.columns
    if options.of_classes or segments != ([] if options.by is None else [options.by]):
        raise ModelError("a damaged state: its rows are not those of its options", file=state.path)
    fitted = fit_calibrator(rows, options)
    name_makers(fitted.model, texts_from_plain(said.get("makers"), dict[str, str], state.path))
    return fitted


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
