"""Slices of the rows: all, the top by a column, the values of a column."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.segments import Segments
from calibkit.errors import UsageError
from calibkit.options.metrics import Share
from calibkit.summaries.tally import count_rows

ALL = "all"


@dataclass(frozen=True)
class Slice:
    """Some of the rows."""

    name: str  # ``all``, ``top:SHARE`` or ``COLUMN:VALUE``
    rows: NDArray[Any] | None  # which rows, by number or as a mask; None is all
    segment: bool = False  # whether it is the value of a column, which may have too few rows

    def of(self, values: NDArray[Any]) -> NDArray[Any]:
        """Return the slice of a column."""
        return values if self.rows is None else values[self.rows]

    def small(self, least: int, times: NDArray[np.int64] | None = None) -> bool:
        """Return whether it is a segment with fewer rows than `least`, each once or so many times."""
        if not self.segment or self.rows is None:
            return False
        return int(self.rows.size if times is None else times[self.rows].sum()) < least


def top_rows(
    values: NDArray[Any], weight: NDArray[np.float64] | None, shares: Sequence[Share]
) -> list[NDArray[np.bool_]]:
    """Return where values are among the largest, for each share of the rows.

    The fewest whole groups of equal values that hold the share: all values at or above the k-th
    largest, k the share times the rows, rounded up from its decimal; of weights likewise.
    """
    nothing = np.zeros(values.size, np.uint8)
    tally = count_rows(values, np.zeros(values.size, np.uint16), nothing, 1, weight=weight)
    reached = np.cumsum(tally.count, dtype=np.int64)
    total, found = int(reached[-1]), []
    for share in shares:
        least = -(-total * share.bound.numerator // share.bound.denominator)
        found.append(values >= tally.score[np.searchsorted(reached, max(1, least))])
    return found


def slices_of(
    segments: Segments | None,
    shares: Sequence[Share] = (),
    top: NDArray[Any] | None = None,
    weight: NDArray[np.float64] | None = None,
) -> Iterator[Slice]:
    """Yield all rows, the shares with the largest values, and the values of a column, in order."""
    yield Slice(ALL, None)
    if top is not None:
        for share, mask in zip(shares, top_rows(top, weight, shares), strict=True):
            yield Slice(f"top:{share.text}", mask)
    if segments is None:
        return
    code = segments.code
    order = np.argsort(
        code.astype(np.uint16) if len(segments.names) < 2**16 else code, kind="stable"
    )
    ends = np.cumsum(np.bincount(code, minlength=len(segments.names)))
    for place, name in enumerate(segments.names):
        start = int(ends[place - 1]) if place else 0
        yield Slice(f"{segments.column}:{name}", order[start : int(ends[place])], segment=True)


def check_names(shares: Sequence[Share], segments: Segments | None) -> None:
    """Refuse a column whose slices would have the names of others."""
    if segments is not None and shares and segments.column == "top":
        clash = {share.text for share in shares} & set(segments.names)
        if clash:
            raise UsageError(f"--by top and --top both make a slice top:{min(clash)}; drop one.")
