"""States of rows with class probabilities and votes: those of a shard, for fits that iterate."""

from __future__ import annotations

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import RaterOptions
from calibkit.maps.stored import used_columns, window_reader
from calibkit.models.lineage import makers_in
from calibkit.options.alpha_cal import AlphaOptions
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.option import from_plain
from calibkit.summaries.row_reading import Reading
from calibkit.summaries.row_states import (
    RowState,
    problem_of,
    row_state,
)
from calibkit.summaries.states import State


class AlphaState(RowState):
    """Rows for ``alpha-cal``."""

    KIND = "alpha-cal"

    def needed(self) -> list[str]:
        """Return the columns without which there is nothing to fit, beside those of classes."""
        return alpha_options(self).columns_of_features


class ClassState(RowState):
    """Rows for ``calibrate --probs``."""

    KIND = "calibrate --probs"

    def needed(self) -> list[str]:
        """Return the columns without which there is nothing to fit, beside those of classes."""
        options = class_options(self)
        return [] if options.counts else [options.label]


def rater_state(
    options: AlphaOptions | CalibrateOptions, source: Source, columns: RaterOptions
) -> State:
    """Return the state of the rows of a shard.

    Raises
    ------
    UsageError, DataError
        As `calibkit.maps.class_rows.read_window`.
    ResourceError
        As `calibkit.summaries.row_states.row_state`.
    """
    makers = makers_in(source, {"probs": options.pattern})
    files = source.paths if options.provenance == "names" else ()
    rows = Reading(source, used_columns(source, columns), window_reader(columns), files)
    kind = AlphaState if isinstance(options, AlphaOptions) else ClassState
    return row_state(kind, options, makers, rows)


def alpha_options(state: State, threads: int | None = None) -> AlphaOptions:
    """Return what is to be fitted; raises `ModelError` where the state does not say it."""
    return from_plain(problem_of(state), AlphaOptions, state.path, threads=threads)


def class_options(state: State, threads: int | None = None) -> CalibrateOptions:
    """Return what is to be fitted; raises `ModelError` where the state does not say it."""
    options = from_plain(problem_of(state), CalibrateOptions, state.path, threads=threads)
    if not options.of_classes:
        raise ModelError("a damaged state: it is of scores", file=state.path)
    return options
