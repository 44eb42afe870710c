"""What is fitted of a partition whose leaves have maps of their own: a tree, or a forest."""

from __future__ import annotations

from calibkit.hetcal.rounds.end import ending
from calibkit.hetcal.rounds.forest_end import ForestEnding
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.protocol import Parted
from calibkit.hetcal.states import HetcalProblem


def parted_end(known: Known, problem: HetcalProblem) -> Parted:
    """Return what all sums say."""
    if problem.spec.partition == "forest":
        return ForestEnding(known, problem)
    return ending(known, problem.spec)
