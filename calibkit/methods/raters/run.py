"""A fit of ``alpha-cal`` from its rows to its model: see `calibkit.summaries.runs.Fit`."""

from __future__ import annotations

from dataclasses import replace

from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions, used_roles
from calibkit.maps.stored import class_state, read_rater_rows
from calibkit.methods.raters.alpha_cal import AlphaFeatures, feature_names, fit_alpha
from calibkit.methods.raters.model import AlphaModel
from calibkit.models.lineage import record_makers
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.runtime.memory import Memory
from calibkit.summaries.row_states import RowState, finished, options_of
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


class AlphaState(RowState):
    """Rows for ``alpha-cal``."""

    KIND = "alpha-cal"

    def needed(self) -> list[str]:
        """Return the columns without which there is nothing to fit, beside those of classes."""
        return options_of(self, AlphaOptions).columns_of_features


def state(options: AlphaOptions, source: Source) -> State:
    """Return the rows of a shard, with the features that patterns stand for there."""
    features = feature_names(source, options.patterns)
    kept = replace(options, features=(features,) if isinstance(features, str) else features)
    return class_state(AlphaState, kept, source, _columns(options, features))


def finish(state: State, memory: Memory, threads: int) -> Fitted[AlphaModel]:
    """Return the model of the rows of a merged state."""
    options = options_of(state, AlphaOptions, threads)
    return finished(state, options, lambda asked, rows, _: _fit(asked, rows, memory))


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
