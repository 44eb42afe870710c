"""What the last rounds ask of any partition: its leaves, their rows, and how probabilities are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.features import Features
from calibkit.hetcal.model import Line
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.lines import Counts
from calibkit.hetcal.rounds.rows import Block

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Leaf:
    """The rows of a leaf.

    Attributes
    ----------
    low, high
        Their scores, after the map that all scores go through first, lie in between.
    rows, hits
        How many there are, and how many positive ones, in units of weight.
    """

    low: float
    high: float
    rows: int
    hits: int


class End(Protocol):
    """What is fitted."""

    @property
    def before(self) -> Line:
        """The map that all scores go through first."""

    @property
    def pooled(self) -> Floats:
        """What follows it where there are no parts."""

    @property
    def max_depth(self) -> int:
        """What was used."""

    @property
    def min_leaf(self) -> int:
        """What was used."""

    @property
    def shrinkage(self) -> float | None:
        """What was used; None where nothing is shrunk."""

    @property
    def units(self) -> tuple[float, ...]:
        """How many units of a sum a loss has in one: of the scores, under `pooled`, of the model."""

    @property
    def cell_unit(self) -> float:
        """The same of a probability."""

    @property
    def leaves(self) -> int:
        """How many leaves all trees have."""

    @property
    def cells(self) -> int:
        """How many cells of leaf and probability are looked at."""

    def calibrated(self, block: Block) -> tuple[NDArray[np.int32], Floats]:
        """Return the leaf of each row among those of the cells, and its probability."""

    def written(self, features: Features, known: Known) -> dict[str, Any]:
        """Return the fields of the model that hold trees and maps."""


class Mapped(End, Protocol):
    """What is fitted, where each leaf has a map of its own."""

    @property
    def lines(self) -> Floats:
        """Platt's map of each leaf after `before`, its rows and positives: leaf x 4."""

    @property
    def trees(self) -> list[slice]:
        """The leaves of each tree: their maps are averaged with that of all their rows."""

    @property
    def counts(self) -> list[Counts]:
        """Rows and positives of each leaf, then of all leaves of each tree."""

    def need(self, maps: int) -> None:
        """Raise `ModelError` where a plan has not so many maps as there are leaves."""

    def first(self, score: Any) -> Any:
        """Return scores after the map that all of them go through first."""

    def each_leaf(self) -> list[Leaf | None]:
        """Return the rows of each leaf; None where there are none."""

    def rows_by_leaf(self, block: Block) -> tuple[Int64s, NDArray[np.int32]]:
        """Return where the rows of each leaf begin and end, leaf by leaf, and the rows."""
