"""Step functions of the score, which several methods fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.maps.method import Float64s, Floats, Writer
from calibkit.maps.score_map import ScoreMap
from calibkit_kernels.maps import bucket_starts, step_map

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker

_BUCKETS_A_KNOT: Final = 4
_MOST_BUCKETS: Final = 65_536


def write_steps(one: ScoreMap, _: str) -> Writer:
    """Return what writes the value of the greatest knot at or below; below all the first value."""
    assert one.knots is not None and one.values is not None  # the model was checked
    knots, values = np.array(one.knots[1:]), np.array(one.values)  # below the second: the first
    starts = starts_of(knots)

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        step_map(score, knots, values, starts, one.clip, out[0])

    return write


def steps_program(maker: Maker) -> tuple[Node, ...]:
    """Return the value of the greatest knot at or below; below all the first value."""
    return (maker.steps("step", lambda one: ((one.knots or [])[1:], one.values or [])),)


def starts_of(knots: Float64s) -> NDArray[np.int64]:
    """Return where each bucket of knots begins: some buckets for each knot."""
    starts = np.empty(min(_BUCKETS_A_KNOT * knots.size + 1, _MOST_BUCKETS) + 1, np.int64)
    bucket_starts(knots, starts)
    return starts


def without_repeats(knots: Float64s, values: Float64s) -> dict[str, list[float]]:
    """Return the fields of a map without steps of no width and without steps that change nothing.

    `knots` do not fall; of equal ones the last one holds.
    """
    kept = np.append(knots[1:] > knots[:-1], True)
    knots, values = knots[kept], values[kept]
    changes = np.append(True, values[1:] != values[:-1])
    return {"knots": knots[changes].tolist(), "values": values[changes].tolist()}
