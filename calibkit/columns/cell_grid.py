"""Several uncertainties as one: the cells of a grid of bins of each column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels.tally import assign_levels


@dataclass(frozen=True)
class CellGrid:
    """Bins of several columns by their inner edges, rising, and the cells that they make."""

    names: tuple[str, ...]
    edges: tuple[NDArray[np.float64], ...]

    @property
    def shape(self) -> tuple[int, ...]:
        """How many bins each column has."""
        return tuple(own.size + 1 for own in self.edges)

    @property
    def cells(self) -> int:
        """How many cells there are."""
        return int(np.prod(self.shape))

    def of(self, columns: Sequence[NDArray[Any]]) -> NDArray[np.float64]:
        """Return the cell of each row, numbered with the bin of the last column moving fastest."""
        found = np.zeros(columns[0].size, np.int64)
        place = np.empty(columns[0].size, np.uint16)
        for values, own in zip(columns, self.edges, strict=True):
            assign_levels(values, -np.inf, own, place)
            found = found * (own.size + 1) + place
        return found.astype(np.float64)
