"""States of calibration by parts: the rows of a shard, and what is to be fitted on all of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibkit.columns.columns import read_score_rows
from calibkit.columns.splits import refuse_missing
from calibkit.files.sources import Source
from calibkit.methods.hetcal.features import read_features
from calibkit.methods.hetcal.reading import dealing_columns, used_columns
from calibkit.options.hetcal import HetcalOptions
from calibkit.options.option import from_plain
from calibkit.summaries.row_reading import Reading
from calibkit.summaries.row_states import (
    RowState,
    problem_of,
    row_state,
)
from calibkit.summaries.states import State


class HetcalState(RowState):
    """Rows to calibrate by parts."""

    KIND = "hetcal"

    def needed(self) -> list[str]:
        """Return the columns without which there is nothing to fit."""
        options = options_of(self)
        return used_columns(options, [*dealing_columns(options), *options.patterns])


def hetcal_state(
    options: HetcalOptions, source: Source, train: Source | None, makers: Mapping[str, str]
) -> State:
    """Return the state of the rows of a shard.

    Parameters
    ----------
    options
        What to fit; the features by their names.
    source, train
        The shard, and the rows to grow the partition on, the same for all shards.
    makers
        Which models made the columns.

    Raises
    ------
    UsageError, DataError
        As `read_score_rows`, `read_features`.
    ResourceError
        As `calibkit.summaries.row_states.row_state`.
    """
    other = None if train is None else _reading(train, options, [])
    rows = _reading(source, options, dealing_columns(options))
    return row_state(HetcalState, options, makers, rows, other)


def options_of(state: State, threads: int | None = None) -> HetcalOptions:
    """Return what is to be fitted on a state; raises `ModelError` where it does not say it."""
    return from_plain(problem_of(state), HetcalOptions, state.path, threads=threads)


def _reading(source: Source, options: HetcalOptions, dealt: Sequence[str]) -> Reading:
    """Return what is read of an input: also the columns that deal its rows to folds."""
    features = options.patterns
    beside = [*features, *dealt]

    def check(window: Source) -> None:
        rows = read_score_rows(
            window, options.columns, uncertainty=False, finite_scores=True, features=beside
        )
        assert rows.others is not None and rows.where is not None
        read_features(rows.others, features, rows.where)
        for name in dealt:
            refuse_missing(rows.others[name], rows.where)

    files = source.paths if options.provenance == "names" else ()
    return Reading(source, used_columns(options, beside), check, files)
