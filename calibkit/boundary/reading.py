"""The rows of a boundary: what its options read, checked, and counted where they do not fit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from calibkit.bins.level_edges import check_order
from calibkit.boundary.auto import LEVELS as AUTO_LEVELS
from calibkit.boundary.choose import CANDIDATES
from calibkit.boundary.logistic import LEVELS as SURFACE_LEVELS
from calibkit.boundary.methods import METHODS
from calibkit.boundary.spec import AUTO, BoundarySpec
from calibkit.boundary.summary import QUANTILES
from calibkit.boundary.target import Target
from calibkit.boundary.worths import amounts_of
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, ScoreRows, read_score_rows, resolve
from calibkit.rows.segments import read_segments
from calibkit.rows.splits import refuse_missing
from calibkit.summaries.score_batches import Reading, Spread, rows_within, summarise_scores
from calibkit.summaries.score_summary import ScoreSummary


def worth_columns(source: Source, target: Target) -> list[str]:
    """Return the columns that say what rows are worth."""
    option = "--value" if target.value_column is not None else f"--{target.option}"
    names = list(dict.fromkeys(target.worth_columns.values()))
    source.require(names, option)
    return names


@dataclass(frozen=True, kw_only=True)
class BoundaryReader:
    """Reads the rows that a boundary is fitted on.

    Attributes
    ----------
    spec, columns
        What is fitted, on which columns.
    auto_levels
        Whether cross-validation chooses the number of uncertainty levels.
    edges
        The inner edges of these levels, if they are given.
    memory
        How much room there is; None: enough.
    """

    spec: BoundarySpec
    columns: ColumnOptions
    auto_levels: bool = False
    edges: tuple[float, ...] = ()
    memory: Memory | None = None

    def __post_init__(self) -> None:
        check_order(self.spec.order, self.edges)

    def rows(self, source: Source) -> ScoreRows:
        """Return the rows: as they are, or counted where they do not fit.

        Raises
        ------
        UsageError
            A column that is not there.
        DataError
            Values that are missing, out of range or of the wrong type.
        ResourceError
            Rows that do not fit, and options that need them as they are.
        """
        return self.with_edges(
            rows_within(source, self._reading(source, self._spread), self.memory)
        )

    def summary(self, source: Source, memory: Memory) -> ScoreSummary:
        """Return the rows as a summary that merges with those of other shards; see `rows`."""
        return summarise_scores(source, self._reading(source, Spread(edges=self.edges)), memory)

    def merged(self, summary: ScoreSummary, source: Source) -> ScoreRows:
        """Return the rows of summaries that were merged."""
        rows = summary.rows(source, self.memory)
        if self._needs_each is not None:
            rows.need_each(self._needs_each)
        return self.with_edges(rows)

    def with_edges(self, rows: ScoreRows) -> ScoreRows:
        """Return the rows with the levels that were given."""
        return replace(rows, level_edges=self.edges) if self.edges else rows

    def _reading(self, source: Source, spread: Spread) -> Reading:
        return Reading(
            columns=self._names(source),
            read=self._read,
            spread=spread,
            needs_each=self._needs_each,
            threads=self.spec.threads,
        )

    @property
    def _needs_each(self) -> str | None:
        """The option that needs every row as it is, if one does."""
        spec = self.spec
        for option, given in (
            ("--groups", spec.groups),
            ("--time", spec.time),
            ("--by", spec.by),
            ("--confidence", spec.confidence),
            ("--weight-kind sampling", self.columns.sampled),
        ):
            if given:
                return option
        return spec.target.worths or None

    @property
    def _spread(self) -> Spread:
        """What the uncertainties are needed for: the edges of all levels that may be tried."""
        spec, levels = self.spec, [QUANTILES]
        if spec.uncertainty_bins is not None:
            levels.append(spec.uncertainty_bins)
        elif spec.method == AUTO:
            levels += [*AUTO_LEVELS, SURFACE_LEVELS]
        elif self.auto_levels:
            levels += CANDIDATES
        elif spec.method in METHODS:
            levels.append(METHODS[spec.method].levels)
        return Spread(tuple(sorted(set(levels))), spec.strategy, self.edges)

    def _beside(self, source: Source) -> list[str]:
        """Return the columns that are read beside those of the roles."""
        found = worth_columns(source, self.spec.target)
        for option, column in self._named:
            if column is not None and column not in found:
                source.require([column], option)
                found.append(column)
        return found

    @property
    def _named(self) -> Sequence[tuple[str, str | None]]:
        spec = self.spec
        return (("--groups", spec.groups), ("--time", spec.time), ("--by", spec.by))

    def _names(self, source: Source) -> list[str]:
        options = resolve(source, self.columns, label=True, uncertainty=True)
        roles = (options.score, options.label, options.uncertainty, options.weight)
        return [*(name for name in roles if name is not None), *self._beside(source)]

    def _read(self, source: Source) -> ScoreRows:
        rows = read_score_rows(source, self.columns, others=self._beside(source))
        if source.whole or rows.others is None or rows.where is None:
            return rows
        # What a fit would refuse later, when a row no longer knows its place.
        for name in self.spec.target.worth_columns.values():
            amounts_of(
                rows.others[name], rows.where, "values" if self.spec.target.bound else "costs"
            )
        for option, column in self._named:
            if column is not None and option == "--by":
                read_segments(rows.others[column], rows.where)
            elif column is not None:
                refuse_missing(rows.others[column], rows.where)
        return rows
