"""Condensed score rows: what a file of any size becomes, what merges, and what is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import DataError
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.rows.columns import ColumnOptions, Condensing, RowFinder, ScoreRows
from calibkit.rows.numeric import weightless
from calibkit.rows.provenance import added_hashes
from calibkit.rows.rows import Remark, added_up
from calibkit.summaries.condense import COUNT, Condensed, merge
from calibkit.summaries.ladder import LADDER, SCORE, SPREAD
from calibkit.summaries.resolution import coarse_note

#: How a further column is called among the roles.
OTHER = "column "


@dataclass(frozen=True, kw_only=True)
class ScoreSummary:
    """Score rows, condensed.

    Attributes
    ----------
    condensed
        The distinct rows: a column for each role, further columns as `OTHER` and their name.
    options
        The column options, resolved.
    rows_read, dropped
        How many rows were read, and how many of them were dropped.
    remarks
        What was dropped and why.
    notes
        What a summary should say.
    hashes
        See `calibkit.rows.columns.Condensing`.
    lowest
        The smallest uncertainty; None without uncertainties.
    edges
        The values that uncertainties were moved down to, but for the smallest; None: not moved.
    level_error
        See `calibkit.rows.columns.Condensing`.
    """

    condensed: Condensed
    options: ColumnOptions
    rows_read: int
    dropped: int
    remarks: tuple[Remark, ...]
    notes: tuple[str, ...]
    hashes: dict[str, str]
    lowest: float | None = None
    edges: tuple[float, ...] | None = None
    level_error: float = 0.0

    def rows(self, source: Source, memory: Memory | None = None) -> ScoreRows:
        """Return rows to fit on: written out where they fit and nothing was made coarser."""
        frame, times = self.condensed.frame, self.condensed.frame[COUNT].to_numpy()
        coarse = LADDER[self.condensed.rung]
        kinds = {role.name: role.coarse for role in self.condensed.roles}
        condensing: Condensing | None
        condensing = condensed = Condensing(
            times=times,
            hashes=self.hashes,
            weight=column_of(frame, "weight"),
            score_bits=None if self.condensed.exact else coarse[SCORE],
            uncertainty_bits=None
            if self.condensed.exact or not kinds.get("uncertainty")
            else coarse[SPREAD],
            levels=self.edges is not None,
            level_error=self._level_error(),
        )
        total = int(times.sum())
        fits = total == times.size or memory is None or total <= memory.entries
        if condensed.exact and fits:
            condensing = None
            if total > times.size:
                frame = frame[np.repeat(np.arange(times.size, dtype=np.uint32), times)]
        weight = column_of(frame, "weight")
        if condensing is not None:
            weight = times.astype(np.float64) if weight is None else weight * times
        note = None if condensing is None else coarse_note(condensing)
        others = [role.name for role in self.condensed.roles if role.name.startswith(OTHER)]
        return self._checked(
            ScoreRows(
                score=column_of(frame, "score"),
                uncertainty=self._uncertainty(frame),
                label=column_of(frame, "label"),
                weight=fixed(weight),
                options=self.options,
                rows_read=self.rows_read,
                dropped=self.dropped,
                warnings=(*source.warnings, *(remark.text for remark in self.remarks)),
                notes=(*self.notes, *([note] if note is not None else [])),
                others=frame.select(pl.col(name).alias(name.removeprefix(OTHER)) for name in others)
                if others
                else None,
                where=RowFinder(source, condensed=True),
                source=source,
                remarks=self.remarks,
                condensing=condensing,
            )
        )

    def _level_error(self) -> float:
        """Return by which share of the rows quantiles of the uncertainty may miss theirs.

        Of uncertainties in bits it is the largest share of the rows that have one and the same.
        """
        coarse = {role.name for role in self.condensed.roles if role.coarse}
        if self.condensed.exact or "uncertainty" not in coarse:
            return self.level_error
        masses = self.condensed.frame.group_by("uncertainty").agg(pl.col(COUNT).sum())[COUNT]
        return float(masses.to_numpy().max() / self.condensed.rows)

    def _uncertainty(self, frame: pl.DataFrame) -> NDArray[Any] | None:
        """Return the uncertainties; those below all edges count as the smallest of all."""
        found: NDArray[Any] | None = column_of(frame, "uncertainty")
        if found is None or self.edges is None or self.lowest is None:
            return found
        if found.min(initial=np.inf) >= self.lowest:  # nearly always, and then no copy is needed
            return found
        raised: NDArray[Any] = fixed(np.maximum(found, found.dtype.type(self.lowest)))
        return raised

    def _checked(self, rows: ScoreRows) -> ScoreRows:
        """Refuse what only all rows together can show."""
        options, file = rows.options, rows.source.parts[0].path if rows.source else None
        if rows.weight is not None and not rows.weight.any():
            raise weightless(file, options.weight, rows.rows)
        if rows.label is None or options.positive is None or rows.label.any():
            return rows
        raise DataError(
            f"{file}: column {options.label!r}: no row has the positive class {options.positive!r}; "
            "name one of its values by --positive",
            file=file,
            column=options.label,
            rows=rows.rows,
        )


def merge_summaries(parts: Sequence[ScoreSummary]) -> ScoreSummary:
    """Return the summary of the rows of all parts; they have the same roles, options and edges."""
    first = parts[0]
    hashes = dict(first.hashes)
    for part in parts[1:]:
        hashes = {roles: added_hashes(total, part.hashes[roles]) for roles, total in hashes.items()}
    lowest = [part.lowest for part in parts if part.lowest is not None]
    return replace(
        first,
        condensed=merge([part.condensed for part in parts]),
        rows_read=sum(part.rows_read for part in parts),
        dropped=sum(part.dropped for part in parts),
        remarks=added_up(remark for part in parts for remark in part.remarks),
        hashes=hashes,
        lowest=min(lowest) if lowest else None,
        level_error=max(part.level_error for part in parts),
    )


def column_of(frame: pl.DataFrame, name: str) -> Any:
    """Return a column as an array, as columns give them; None where it is not there."""
    return fixed(frame[name].to_numpy()) if name in frame.columns else None


def fixed(array: NDArray[Any] | None) -> Any:
    """Return an array as columns give them: contiguous and read-only."""
    if array is None:
        return None
    found = np.ascontiguousarray(array)
    found.flags.writeable = False
    return found
