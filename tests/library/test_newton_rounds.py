"""Newton steps of fits in rounds: a step after which the loss is no less is halved, then given up."""

from __future__ import annotations

import numpy as np
import pytest

from calibkit.hetcal.rounds.curves import bent
from calibkit.hetcal.rounds.known import Curve, Line
from calibkit.hetcal.rounds.lines import moved
from calibkit.hetcal.rounds.tables import keys_of
from calibkit_kernels import rounds as kernels


@pytest.mark.parametrize(("length", "left", "done"), [(1.0, 0.5, False), (1.5e-9, 0.0, True)])
@pytest.mark.parametrize("loss", [2, 10**9])
def test_steps_that_do_not_help_are_halved(
    loss: int, length: float, left: float, done: bool
) -> None:
    """The loss was 1; sums have one unit in one."""
    curve = Curve([1.0, 1.0, 0.0], [0.0, 0.0], [1.0, 1.0], [0.5, 0.5, 0.5], length, 1.0)
    sums = np.array([loss, *[1] * (kernels.CURVE_SUMS - 1)])
    found = bent(curve, 9.0, np.ones(kernels.CURVE_WIDTH), sums)
    assert (found.point, found.step, found.loss) == (curve.point, curve.step, 1.0)
    assert (found.length, found.done) == (left, done)

    line = Line(1.0, 0.0, -1.0, 1.0, 0.0, 1.0, (0.5, 0.5), length, 1.0)
    low, high = keys_of(np.array([1.0, 1.0])).tolist()  # the least score is told as its negative
    sums = np.array([loss, *[1] * (kernels.SUMS - 1)])
    on = moved(line, (9, 4), np.ones(kernels.LINE_WIDTH), sums, low, high)
    assert (on.slope, on.step, on.loss, on.length, on.done) == (1.0, (0.5, 0.5), 1.0, left, done)
