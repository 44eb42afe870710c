"""The uncertainties of rows that do not fit, for the edges of levels: whole as long as they do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.bins.edges import equal_width_edges, quantile_edges
from calibkit.summaries.condense import COUNT, Condensed, Condenser
from calibkit.summaries.ladder import Role
from calibkit.summaries.score_summary import column_of

Floats = NDArray[np.float64]


@dataclass
class Uncertainties:
    """The uncertainties of rows, with their weights.

    Parameters
    ----------
    roles
        The columns: the uncertainty, and the weight if there is one.
    entries
        How many distinct ones there is room for.  Without weights twice as many rows are kept as
        they are, which takes less room; edges of these are exact, and are found without a sort.
        What is exact so depends on the rows alone, not on their order.
    """

    roles: tuple[Role, ...]
    entries: int
    _frames: list[pl.DataFrame] = field(default_factory=list)
    _rows: int = 0
    _condenser: Condenser | None = None

    def add(self, frame: pl.DataFrame) -> None:
        """Add rows, or condensed rows where the frame has a column `COUNT`."""
        names = {COUNT, *(role.name for role in self.roles)}
        frame = frame.select(name for name in frame.columns if name in names)
        if self._condenser is not None:
            self._condenser.add(frame)
            return
        self._frames.append(frame)
        self._rows += int(frame[COUNT].sum()) if COUNT in frame.columns else frame.height
        if self._rows > self.entries * (2 if len(self.roles) == 1 else 1):
            self._condense()

    def _condense(self) -> None:
        self._condenser = Condenser(self.roles, self.entries)
        for frame in self._frames:
            self._condenser.add(frame)
        self._frames = []

    def edges(self, levels: Sequence[int], strategy: str) -> tuple[Floats, float] | None:
        """Return edges of levels, and by what share of the rows they may miss; None without weight.

        Parameters
        ----------
        levels
            The numbers of levels: all their edges together, and the smallest uncertainty, rise.
        strategy
            ``equal-mass`` or ``equal-width``.
        """
        condensed = None if self._condenser is None else self._condenser.finish()
        parts, weight = _weighed(self._frames if condensed is None else [condensed.frame])
        held = parts if weight is None else [parts[0][weight > 0]]
        if not any(part.size for part in held):
            return None
        low = min(float(part.min(initial=np.inf)) for part in held)
        high = max(float(part.max(initial=-np.inf)) for part in held)
        if strategy == "equal-width":
            edges = [equal_width_edges(low, high, count) for count in levels]
        else:
            edges = [quantile_edges(parts, count, weight)[1] for count in levels]
        return np.unique([*np.concatenate(edges), low]), _error(condensed, weight)


def _weighed(frames: Sequence[pl.DataFrame]) -> tuple[list[Floats], Floats | None]:
    """Return the values of some frames, and their weights; None, and values in parts, without any."""
    values = [column_of(frame, "uncertainty") for frame in frames]
    if all(frame.columns == ["uncertainty"] for frame in frames):
        return values, None
    return [np.concatenate(values)], np.concatenate([_weight(frame) for frame in frames])


def _weight(frame: pl.DataFrame) -> Floats:
    own, times = column_of(frame, "weight"), column_of(frame, COUNT)
    weight: Floats = np.ones(frame.height) if own is None else own
    return weight if times is None else weight * times.astype(np.float64)


def _error(condensed: Condensed | None, weight: Floats | None) -> float:
    """Return what share of the rows has one and the same uncertainty, where these are coarse."""
    if condensed is None or condensed.exact or weight is None:
        return 0.0
    return float(weight.max() / weight.sum())
