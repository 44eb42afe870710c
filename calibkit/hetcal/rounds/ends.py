"""What is fitted at the end of a fit in rounds, whatever the partition."""

from __future__ import annotations

from calibkit.hetcal.rounds.boosted_end import boosted_ending
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.parted import parted_end
from calibkit.hetcal.rounds.protocol import End
from calibkit.hetcal.states import HetcalProblem


def end_of(known: Known, problem: HetcalProblem) -> End:
    """Return what all sums say."""
    if problem.spec.partition == "boosted":
        return boosted_ending(known, problem.spec)
    return parted_end(known, problem)
