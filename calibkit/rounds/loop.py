"""From one round to the next: the first plan, the plan after an answer, and the loop over both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec

from calibkit.errors import DataError, ModelError
from calibkit.fitted import Fitted
from calibkit.rounds.answers import sums_of
from calibkit.rounds.plans import FIRST_ROUND, Plan
from calibkit.rounds.protocol import rounds_of
from calibkit.summaries.states import Answered, Shard, State


def first_plan(state: State) -> Plan:
    """Return what to ask after the first round, whose merged states are `state`."""
    header = state.header
    ask = rounds_of(header.kind).first_ask(state)
    return Plan(
        of=header.kind,
        options=header.options,
        shards=header.shards,
        round=FIRST_ROUND + 1,
        ask=ask,
    )


def advanced(plan: Plan, state: State) -> Plan | Fitted[Any]:
    """Return what follows from the merged answers of all shards: the next plan, or the end.

    Raises
    ------
    ModelError
        A state of another round or of another plan.
    DataError
        A shard of the plan that is missing, or one that it does not know.
    """
    _check_plan(plan, state)
    _check_shards(plan, state)
    following = rounds_of(plan.of).advance(plan, sums_of(state))
    if isinstance(following, Fitted):
        return following
    return msgspec.structs.replace(plan, round=plan.round + 1, ask=following)


def fit_in_rounds(
    state: State, answer: Callable[[Plan], State], told: Callable[[Plan], None] | None = None
) -> Fitted[Any]:
    """Return the end of a fit whose rounds are all done by the caller's process.

    Parameters
    ----------
    state
        Of the first round.
    answer
        Returns what all rows answer to a plan.
    told
        Called with each plan before it is answered.
    """
    plan = first_plan(state)
    while True:
        if told is not None:
            told(plan)
        following = advanced(plan, answer(plan))
        if isinstance(following, Fitted):
            return following
        plan = following


def _check_plan(plan: Plan, state: State) -> None:
    header = state.header
    if header.kind != plan.of:
        raise ModelError(
            f"a state of `calibkit {header.kind}`, but the plan is one of `calibkit {plan.of}`",
        )
    if state.round != plan.round:
        raise ModelError(
            f"a state of round {state.round}, but the plan asks for round {plan.round}: make all "
            "parts by this plan",
        )
    if header.plan != Answered(plan.hash, plan.round):
        raise ModelError(
            "a state that answers another plan of the same round; make all parts by this plan",
        )


def _check_shards(plan: Plan, state: State) -> None:
    wanted, found = map(_known, (plan.shards, state.header.shards))
    missing = [wanted[key] for key in sorted(wanted.keys() - found.keys())]
    if missing:
        raise DataError(
            f"{len(missing)} of {len(wanted)} shards of the plan missing: {_named(missing)}; make "
            "the states of all shards by the plan, and merge them",
        )
    unknown = [found[key] for key in sorted(found.keys() - wanted.keys())]
    if unknown:
        raise DataError(f"no shard of the plan: {_named(unknown)}")


def _known(shards: tuple[Shard, ...]) -> dict[tuple[str, int], Shard]:
    return {(shard.hash, shard.rows): shard for shard in shards}


def _named(shards: list[Shard]) -> str:
    said = [", ".join(shard.files) or f"{shard.hash} ({shard.rows:,} rows)" for shard in shards]
    return "; ".join(said[:5]) + ("; …" if len(said) > 5 else "")
