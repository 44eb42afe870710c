"""Step functions of the score, which several methods fit."""

from __future__ import annotations

import numpy as np

from calibkit.calibrators.method import Float64s, Floats
from calibkit.calibrators.model import ScoreMap
from calibkit_kernels.maps import step_map


def apply_steps(one: ScoreMap, score: Floats, _: str, out: tuple[Float64s, ...]) -> None:
    """Write the value of the greatest knot at or below each score; below all the first value."""
    assert one.knots is not None and one.values is not None  # the model was checked
    # The first value holds below the second knot already.
    step_map(score, np.array(one.knots[1:]), np.array(one.values), one.clip, out[0])


def without_repeats(knots: Float64s, values: Float64s) -> dict[str, list[float]]:
    """Return the fields of a map without steps of no width and without steps that change nothing.

    `knots` do not fall; of equal ones the last one holds.
    """
    kept = np.append(knots[1:] > knots[:-1], True)
    knots, values = knots[kept], values[kept]
    changes = np.append(True, values[1:] != values[:-1])
    return {"knots": knots[changes].tolist(), "values": values[changes].tolist()}
