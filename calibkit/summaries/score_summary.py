"""Counted score rows: what a file of any size becomes, what merges, and what is fitted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.columns.rows import Remark, RowFinder, merge_remarks, weightless
from calibkit.errors import DataError, ResourceError
from calibkit.files.sources import Source
from calibkit.models.model import Resolution
from calibkit.models.scales import ScoreColumns
from calibkit.numerics.row_hash import data_hash, data_hashes, merge_hashes
from calibkit.runtime.memory import Memory
from calibkit.summaries.cells import COUNT, UnitError
from calibkit.summaries.counted import Counted
from calibkit.summaries.edges import assign
from calibkit.summaries.passes import merge_all

#: How a further column is called among the roles.
OTHER = "column "


@dataclass(frozen=True, kw_only=True)
class ScoreSummary:
    """Score rows, counted."""

    #: The rows: a column for each role, further columns as `OTHER` and their name.  Where there are
    #: `edges`, uncertainties are the numbers of their levels.
    counted: Counted
    options: ScoreColumns
    #: As in `ScoreRows`.
    rows_read: int
    dropped: int
    remarks: tuple[Remark, ...]
    notes: tuple[str, ...]
    #: The sums of the hashes of the rows as they were, by their roles in alphabetical order.
    hashes: dict[str, str]
    dtypes: dict[str, str]  # the types of the columns before they were counted
    lowest: float | None = None  # the smallest uncertainty; None without uncertainties
    #: The values that uncertainties are moved down to, but for the smallest (None: not moved), and
    #: by which share of the rows they may miss their quantiles.
    edges: tuple[float, ...] | None = None
    level_error: float = 0.0

    def merge(self, *others: ScoreSummary) -> ScoreSummary:
        """Return the summary of the rows of all; they have the same roles, options and edges.

        Refused are rows that do not fit, with weights that cannot be summed as they are.
        """
        parts = (self, *others)
        try:
            counted = merge_all(part.counted for part in parts)
        except UnitError:
            raise no_unit() from None
        return replace(
            self,
            counted=counted,
            rows_read=sum(part.rows_read for part in parts),
            dropped=sum(part.dropped for part in parts),
            remarks=merge_remarks(remark for part in parts for remark in part.remarks),
            hashes={
                roles: merge_hashes(part.hashes[roles] for part in parts) for roles in self.hashes
            },
            lowest=min((p.lowest for p in parts if p.lowest is not None), default=None),
            level_error=max(part.level_error for part in parts),
        )

    def rows(self, source: Source, memory: Memory | None = None) -> ScoreRows:
        """Return rows to fit on: written out where they fit and nothing was made coarser."""
        counted, total, resolution = self.counted, self.counted.rows, self._resolution()
        written = counted.exact and (
            memory is None or total <= memory.entries or total == counted.frame.height
        )
        frame = counted.written() if written else counted.frame
        uncertainty, weight = (column_of(frame, role) for role in ("uncertainty", "weight"))
        if (
            uncertainty is not None and self.edges is not None
        ):  # below all edges: the smallest of all
            kind = np.float32 if self.dtypes["uncertainty"] == "Float32" else np.float64
            uncertainty = fixed(level_values(self.edges, kind, self.lowest)[uncertainty])
        others = [name for name in frame.columns if name.startswith(OTHER)]
        return checked(
            ScoreRows(
                score=column_of(frame, "score"),
                uncertainty=uncertainty,
                label=column_of(frame, "label"),
                weight=weight if written else fixed(counted.weights),
                options=self.options,
                rows_read=self.rows_read,
                dropped=self.dropped,
                warnings=(*source.warnings, *(remark.text for remark in self.remarks)),
                notes=(*self.notes, *_coarse_note(total, resolution)),
                others=frame.select(pl.col(name).alias(name.removeprefix(OTHER)) for name in others)
                if others
                else None,
                where=RowFinder(source, counted=True),
                remarks=self.remarks,
                times=None if written else frame[COUNT].to_numpy(),
                weight_each=None if written else weight,
                resolution=resolution,
                moved=not counted.exact or self.edges is not None,
                hashes=self.hashes,
            )
        )

    def _resolution(self) -> Resolution | None:
        """Return how coarse the rows are; None where nothing was lost.

        Quantiles of uncertainties in bits may miss theirs by the largest share of one value.
        """
        error = self.level_error
        if self.counted.spread_bits is not None:
            masses = self.counted.frame.group_by("uncertainty").agg(pl.col(COUNT).sum())[COUNT]
            error = float(masses.to_numpy().max() / self.counted.rows)
        if self.counted.exact and not error:
            return None
        return Resolution(self.counted.bits, self.counted.spread_bits, error or None)


def _coarse_note(rows: int, resolution: Resolution | None) -> list[str]:
    """Return in words how coarse rows are, if they are."""
    if resolution is None:
        return []
    said = []
    if resolution.score_bits is not None:
        said.append(f"scores to {resolution.score_bits} bits")
    if resolution.uncertainty_bits is not None:
        said.append(f"uncertainties to {resolution.uncertainty_bits} bits")
    if resolution.level_error:
        said.append(f"the edges of uncertainty levels to {resolution.level_error:.2g} of the rows")
    return [f"{rows:,} rows do not fit in memory: rounded down {', '.join(said)}"]


def no_unit() -> ResourceError:
    """Return what is said of weights that parts of the rows cannot be counted by."""
    return ResourceError(
        "memory: the rows do not fit, and their weights are no multiples of 1/1,048,576 (or too "
        "great), so that parts of them cannot be counted alike; raise --memory, round the weights, or "
        "fit on all rows at once"
    )


def checked(rows: ScoreRows) -> ScoreRows:
    """Refuse what only all rows together can show."""
    options, file = rows.options, rows.file
    if rows.weight is not None and not rows.weight.any():
        raise weightless(file, options.weight, rows.rows)
    if rows.label is None or options.positive is None or rows.label.any():
        return rows
    raise DataError.of(
        file,
        f"column {options.label!r}: no row has the positive class {options.positive!r}; "
        "name one of its values by --positive",
        column=options.label,
        rows=rows.rows,
    )


def levels_of(edges: Sequence[float] | None) -> int:
    """Return how many levels there are between edges."""
    return 1 if edges is None else len(edges) + 1


def level_numbers(uncertainty: NDArray[Any], edges: Sequence[float]) -> NDArray[np.uint16]:
    """Return the number of the level of each uncertainty."""
    return assign(uncertainty, -np.inf, np.array(edges))


def level_values(edges: Sequence[float], kind: Any, lowest: float | None) -> NDArray[Any]:
    """Return what the uncertainties of each level are moved down to: the edge, or the lowest of all."""
    exact = np.array(edges)
    steps = np.concatenate([[-np.inf], exact]).astype(kind)
    steps[1:] = np.where(steps[1:] < exact, np.nextafter(steps[1:], kind(np.inf)), steps[1:])
    return steps if lowest is None else np.maximum(steps, kind(lowest))


@dataclass
class Seen:
    """What windows of score rows tell together, besides the rows themselves; see `ScoreSummary`.

    `lowest` is the smallest uncertainty of rows that weigh something, `last` the last window.
    """

    rows: int = 0
    rows_read: int = 0
    remarks: list[Remark] = field(default_factory=list)
    hashes: dict[str, str] = field(default_factory=dict)
    lowest: float | None = None
    last: ScoreRows | None = None

    def add(self, rows: ScoreRows, *, hashed: bool = True) -> None:
        """Add a window; `hashed`: whether its hashes are needed."""
        self.last = rows
        self.remarks += rows.remarks
        self.rows += rows.score.size
        self.rows_read += rows.rows_read
        if rows.uncertainty is not None:
            held = rows.uncertainty if rows.weight is None else rows.uncertainty[rows.weight > 0]
            least = [] if self.lowest is None else [self.lowest]
            self.lowest = min([*least, *([float(held.min())] if held.size else [])], default=None)
        for names, total in _row_sums(rows).items() if hashed else ():
            self.hashes[names] = merge_hashes([self.hashes.get(names, "0"), total])


def _row_sums(rows: ScoreRows) -> dict[str, str]:
    """Return the sums of the rows' hashes, with and without the uncertainty."""
    used = columns_of(rows)
    names = ",".join(sorted(used))
    if "uncertainty" not in used:
        return {names: data_hash(used)}
    both = (names, names.replace(",uncertainty", ""))
    return dict(zip(both, data_hashes(used, "uncertainty"), strict=True))


def columns_of(rows: ScoreRows) -> dict[str, NDArray[Any]]:
    """Return the columns of the roles that rows have, the score first."""
    roles = ("score", "uncertainty", "label", "weight")
    return {role: getattr(rows, role) for role in roles if getattr(rows, role) is not None}


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
