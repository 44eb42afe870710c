"""Answers to plans: states that hold the sums a plan asks for, of one shard or of several."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import polars as pl

from calibkit.errors import ModelError
from calibkit.files.sources import Source
from calibkit.memory import Memory
from calibkit.rounds.kept import Kept
from calibkit.rounds.plans import Plan
from calibkit.rounds.protocol import Counted, Sums, rounds_of
from calibkit.summaries.states import Answered, Shard, State, new_state

__all__ = ["answer", "answer_shard", "check_state", "merge_states"]


def answer(
    plan: Plan, source: Source, memory: Memory, *, threads: int = 1, kept: Kept | None = None
) -> State:
    """Return what all rows of a source, as one shard, answer to a plan.

    `kept` is the same for all rounds of a fit over one source; the answer is the same without it.

    Raises
    ------
    UsageError, DataError
        Rows that cannot be used, as in the first round.
    """
    found = rounds_of(plan.of).sums(plan, source, memory, threads=threads, kept=kept)
    return _state(plan, found, Shard(found.hash, found.rows))


def answer_shard(plan: Plan, source: Source, memory: Memory, *, threads: int = 1) -> State:
    """Return what a shard that the plan knows answers to it.

    Raises
    ------
    UsageError, DataError
        As `answer`; a shard that the plan does not know.
    """
    found = rounds_of(plan.of).sums(plan, source, memory, threads=threads)
    for shard in plan.shards:
        if (shard.hash, shard.rows) == (found.hash, found.rows):
            return _state(plan, found, shard)
    raise ModelError(
        f"{source.paths[0]}: these {found.rows:,} rows are no shard of the plan, which has "
        f"{len(plan.shards)}; give the files of the first round as they were, with the same --dtype",
        file=source.paths[0],
    )


def _state(plan: Plan, found: Counted, shard: Shard) -> State:
    sums = found.sums
    answered = Answered(plan.hash, plan.round)
    return new_state(plan.of, plan.options, [shard], sums.payload, sums.table, answered)


def check_state(state: State) -> None:
    """Raise `ModelError` for an answer that the kind of fit cannot give."""
    rounds_of(state.header.kind).check_sums(sums_of(state))


def merge_states(states: Sequence[State]) -> tuple[dict[str, Any], pl.DataFrame]:
    """Return payload and table of the answers of several shards."""
    found = rounds_of(states[0].header.kind).merge_sums([sums_of(state) for state in states])
    return found.payload, found.table


def sums_of(state: State) -> Sums:
    """Return the sums that a state holds."""
    return Sums(state.header.payload, state.table)
