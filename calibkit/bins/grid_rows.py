"""The rows of a grid: as they are, counted where they do not fit, or a shard of them as a state."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial

from calibkit.bins.grid_table import default_bins
from calibkit.bins.level_edges import check_order
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, ScoreRows, read_score_rows, resolve
from calibkit.summaries.plain import as_plain, from_plain
from calibkit.summaries.score_batches import Reading, Spread, rows_within, summarise_scores
from calibkit.summaries.score_states import score_state, source_of, summary_of
from calibkit.summaries.states import State

KIND = "bin"


@dataclass(frozen=True, kw_only=True)
class GridProblem:
    """What makes a grid of rows, see `calibkit.bins.binning.fit_grid`.

    Attributes
    ----------
    uncertainty_bins, score_bins
        K (None: 3, or 1 without uncertainties) and L.
    strategy, order
        How bins are cut, and which axis first.
    edges
        The inner edges of the uncertainty bins, if they are given.
    """

    uncertainty_bins: int | None = None
    score_bins: int = 500
    strategy: str = "equal-mass"
    order: str = "uncertainty-score"
    edges: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        check_order(self.order, self.edges)

    def bins(self, columns: ColumnOptions) -> int:
        """Return the number of uncertainty bins for the columns that there are."""
        return self.uncertainty_bins or default_bins(columns)


def grid_rows(
    source: Source, columns: ColumnOptions, problem: GridProblem, memory: Memory | None = None
) -> ScoreRows:
    """Return the rows of a grid, counted where they do not fit.

    Raises
    ------
    UsageError
        A column that is not there.
    DataError
        Values that are missing, out of range or of the wrong type.
    ResourceError
        Rows that do not fit and cannot be made coarser.
    """
    options = resolve(source, columns, label=True, uncertainty=True)
    # Bins within score bins have edges of their own each: no level can be kept for all.
    levels = (problem.bins(options),) if problem.order == "uncertainty-score" else ()
    spread = Spread(levels, problem.strategy, problem.edges)
    rows = rows_within(source, _reading(options, columns, spread), memory)
    return _with_edges(rows, problem)


def grid_state(
    source: Source, columns: ColumnOptions, problem: GridProblem, memory: Memory
) -> State:
    """Return the state of the rows of a shard; errors as `grid_rows`."""
    options = resolve(source, columns, label=True, uncertainty=True)
    reading = _reading(options, columns, Spread(edges=problem.edges))
    summary = summarise_scores(source, reading, memory)
    return score_state(KIND, {"problem": as_plain(problem)}, summary)


def merged_rows(state: State, memory: Memory) -> tuple[ScoreRows, GridProblem, Source]:
    """Return the rows of a state, what makes a grid of them, and a source that names its shards.

    Raises
    ------
    ModelError
        For a state of something else.
    """
    problem = from_plain(state.header.options.get("problem"), GridProblem, state.path)
    source = source_of(state)
    return _with_edges(summary_of(state).rows(source, memory), problem), problem, source


def _reading(options: ColumnOptions, columns: ColumnOptions, spread: Spread) -> Reading:
    roles = (options.score, options.label, options.uncertainty, options.weight)
    return Reading(
        columns=[name for name in roles if name is not None],
        read=partial(read_score_rows, options=columns),
        spread=spread,
    )


def _with_edges(rows: ScoreRows, problem: GridProblem) -> ScoreRows:
    return replace(rows, level_edges=problem.edges) if problem.edges else rows
