"""What follows from the sums of each round of a boosted model."""

from __future__ import annotations

from typing import Final

from calibkit.hetcal.rounds import after
from calibkit.hetcal.rounds.boosted import runs
from calibkit.hetcal.rounds.boosted.known import BOOST, LINE_UP, ORDER, SUM_UP
from calibkit.hetcal.rounds.boosted.runs import held_counts
from calibkit.hetcal.rounds.known import GROW, LOOK, REFINE, Known
from calibkit.hetcal.states import HetcalProblem
from calibkit.rounds.protocol import Sums


def after_line_up(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Take a step towards the line of the held-out scores."""
    assert known.correction is not None
    known.correction = after.moved_lines([known.correction], [held_counts(known)], sums.table)[0]
    if known.correction.done:
        known.step = SUM_UP


#: What follows each round of a boosted model.
FOLLOWING: Final = {
    LOOK: after.after_look,
    REFINE: after.after_refinement,
    GROW: after.after_growth,
    ORDER: runs.after_order,
    BOOST: runs.after_boost,
    LINE_UP: after_line_up,
}
