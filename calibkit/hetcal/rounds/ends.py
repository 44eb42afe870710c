"""What is fitted at the end of a fit in rounds, whatever the partition."""

from __future__ import annotations

from calibkit.hetcal.rounds.boosted.end import boosted_ending
from calibkit.hetcal.rounds.end import ending
from calibkit.hetcal.rounds.forest.end import ForestEnding
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.protocol import End, Mapped
from calibkit.hetcal.states import HetcalProblem


def end_of(known: Known, problem: HetcalProblem) -> End:
    """Return what all sums say."""
    if problem.spec.partition == "boosted":
        return boosted_ending(known, problem.spec)
    return mapped_end_of(known, problem)


def mapped_end_of(known: Known, problem: HetcalProblem) -> Mapped:
    """Return the same of a tree or a forest."""
    if problem.spec.partition == "forest":
        return ForestEnding(known, problem)
    return ending(known, problem.spec)
