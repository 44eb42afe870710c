"""What a kind of fit provides to be done in rounds.

A module (`Kind.rounds` in `calibkit.summaries.states.KINDS`) with the functions of `Rounds`.  They are
pure: what a fit knows is in the plan's `ask`, what a shard answers in `Sums`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol, cast

import polars as pl

from calibkit.files.sources import Source
from calibkit.fitted import Fitted
from calibkit.memory import Memory
from calibkit.rounds.kept import Kept
from calibkit.rounds.plans import Plan
from calibkit.summaries.states import KINDS, State

Ask = dict[str, Any]


@dataclass(frozen=True)
class Sums:
    """What one pass over some rows found.

    Attributes
    ----------
    payload, table
        The sums: plain values (as in a state's header) and a table, sorted so that equal sums have
        equal bytes.  Integers and exact sums only, so that they add up to the same in any order.
    """

    payload: dict[str, Any]
    table: pl.DataFrame


@dataclass(frozen=True)
class Counted:
    """The sums of a shard, with what it is known by.

    Attributes
    ----------
    sums
        The answer.
    hash, rows
        Of all rows that were read, from `calibkit.rounds.passes.Pass`.
    """

    sums: Sums
    hash: str
    rows: int


class Rounds(Protocol):
    """The functions of a kind that is fitted in rounds."""

    def first_ask(self, state: State) -> Ask:
        """Return the first question, from the merged states of the first round.

        These states may hold no rows: `calibkit.summaries.held_states.without_rows` says what they
        still do (columns and their types, options, numbers of rows).
        """

    def sums(
        self, plan: Plan, source: Source, memory: Memory, *, threads: int, kept: Kept | None = None
    ) -> Counted:
        """Return what a shard answers, in one pass in batches within the memory.

        `kept` comes from a process that answers all rounds over the same source: there a round may
        leave what spares a later one work.  The answer is the same whatever it holds, or without it.
        """

    def check_sums(self, sums: Sums) -> None:
        """Raise `ModelError` for an answer that this kind cannot give: it may come from anywhere."""

    def merge_sums(self, parts: Sequence[Sums]) -> Sums:
        """Return the sums of all parts: associative, commutative, exact."""

    def advance(self, plan: Plan, sums: Sums) -> Ask | Fitted[Any]:
        """Return the next question, or what is fitted in the end."""


def rounds_of(kind: str) -> Rounds:
    """Return the functions of a kind of states that has them."""
    return cast(Rounds, import_module(KINDS[kind].rounds))


def about(plan: Plan) -> str:
    """Return what a round does, in a few words; empty for kinds that have no function to tell it."""
    told = getattr(rounds_of(plan.of), "about", None)
    return "" if told is None else str(told(plan))
