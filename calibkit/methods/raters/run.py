"""A fit of ``alpha-cal`` from its rows to its model: see `calibkit.summaries.runs.Fit`."""

from __future__ import annotations

from dataclasses import replace

from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, used_roles
from calibkit.maps.stored import read_rater_rows
from calibkit.methods.raters.alpha_cal import AlphaFeatures, feature_names, fit_alpha
from calibkit.methods.raters.model import AlphaModel
from calibkit.methods.raters.states import alpha_options, rater_state
from calibkit.models.lineage import name_makers, record_makers
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import makers_of, sources_of
from calibkit.summaries.runs import Fitted, Plan
from calibkit.summaries.states import State


def fit(options: AlphaOptions, source: Source) -> Fitted[AlphaModel]:
    """Return the model of all rows."""
    fitted = _fit(options, source, source.memory)
    record_makers(fitted.model, source)
    return fitted


def plan(options: AlphaOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    features = feature_names(source, options.patterns)
    return Plan(used_roles(source, _columns(options, features)), options.steps(features))


def state(options: AlphaOptions, source: Source) -> State:
    """Return the rows of a shard, with the features that patterns stand for there."""
    features = feature_names(source, options.patterns)
    kept = replace(options, features=(features,) if isinstance(features, str) else features)
    return rater_state(kept, source, _columns(options, features))


def finish(state: State, memory: Memory, threads: int) -> Fitted[AlphaModel]:
    """Return the model of the rows of a merged state."""
    fitted = _fit(alpha_options(state, threads), sources_of(state)[0], memory)
    name_makers(fitted.model, makers_of(state))
    return fitted


def _fit(options: AlphaOptions, source: Source, memory: Memory | None) -> Fitted[AlphaModel]:
    features = feature_names(source, options.patterns)
    rows = read_rater_rows(source, _columns(options, features), memory)
    return fit_alpha(rows, options, features)


def _columns(options: AlphaOptions, features: AlphaFeatures) -> RaterOptions:
    return RaterOptions(
        probs=(options.pattern,),
        counts=options.counts or "count_*",
        scale=options.scale,
        others=tuple(features) if isinstance(features, list) else (),
        on_missing=options.on_missing,
    )
