"""What a method of calibration is, once it is loaded: see `calibkit.maps.methods`."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.options.maps import MapOptions

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

Floats = NDArray[Any]
Float64s = NDArray[np.float64]

#: What writes the results of scores.
Writer = Callable[[Floats, tuple[Float64s, ...]], None]

#: Rows mapped at a time, small enough to stay in the cache.
_BLOCK: Final = 131_072


@dataclass(frozen=True)
class Found:
    """What a method found: the fields of its map, and what the user should be told."""

    fields: dict[str, Any]
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True)
class Method:
    """One method of calibration.

    Attributes
    ----------
    fit
        Takes points, options and, where the method `splits`, the points of each part;
        returns what it found.  Refuses points on which it has no finite solution.
    writer
        Takes a map and a scale; returns what takes scores and writes to each of some arrays.
    program
        Takes what formulas are written with; returns the same for an export, before it is clipped.
    rises
        Whether a map that takes logarithms rises; None: it copies numbers or does plain arithmetic,
        the same on every machine.
    added
        The columns it adds.
    takes_logits
        Whether it takes logits of probabilities, so that these are moved inside (0, 1) first.
    splits
        Whether it can fit its steps on different parts of the rows.
    as_it_is
        Whether results stay as they are where no clip is asked for.
    """

    fit: Callable[[Points, MapOptions, list[Points]], Found]
    writer: Callable[[ScoreMap, str], Writer]
    program: Callable[[Maker], tuple[Node, ...]]
    rises: Callable[[ScoreMap], bool] | None = None
    added: tuple[str, ...] = ("calibrated",)
    takes_logits: bool = False
    splits: bool = False
    as_it_is: bool = False

    @property
    def exact(self) -> bool:
        """Whether its results are the same to the last bit on every machine."""
        return self.rises is None


def default_clip(method: Method, points: Points) -> float:
    """Return how far results stay inside (0, 1) where nothing else is asked for."""
    return 0.0 if method.as_it_is else 1.0 / (max(float(points.rows), 1.0) + 2.0)


def mapped(
    method: Method, one: ScoreMap, score: Floats, scale: str, threads: int
) -> tuple[Float64s, ...]:
    """Return what a map makes of scores, an array for each column that the method adds."""
    out = tuple(np.empty(score.size) for _ in method.added)
    write = method.writer(one, scale)

    def work(start: int) -> None:
        own = slice(start, start + _BLOCK)
        write(score[own], tuple(column[own] for column in out))

    starts = range(0, score.size, _BLOCK)
    if threads == 1 or len(starts) < 2:
        for start in starts:
            work(start)
    else:
        with ThreadPoolExecutor(threads) as pool:
            list(pool.map(work, starts))
    return out
