"""Plans: what a fit in rounds asks of every shard next, as a JSON file between two rounds.

A plan is data only and strictly read, as states are: it names the command and its options, the shards
that the first round found, and the question of this round.  It holds all that the fit has learnt so
far, so that nothing else is needed to go on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Final

import msgspec
import polars as pl

from calibkit.errors import ModelError
from calibkit.files.sources import read_bytes
from calibkit.models import canonical_json, decode_as
from calibkit.summaries.states import KINDS, Shard

#: What the file is called wherever ``merge`` writes one.
NAME: Final = "plan.json"

#: The plan of states without one is that of the first round.
FIRST_ROUND: Final = 1

_KIND: Final = "plan"
_VERSION: Final = 1
#: Longer files, and more rounds, are no plans.
_MOST_BYTES: Final = 2**28
_MOST_ROUNDS: Final = 100_000


class Plan(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """What the next round is to do.

    Attributes
    ----------
    of
        The kind of the states (`calibkit.summaries.states.KINDS`): the command.
    options
        Those of the states' headers.
    shards
        The parts of the rows, which each round has to go through, in order.
    round
        The number of the round that answers this plan, from `FIRST_ROUND` + 1.
    ask
        The question, and what is known so far: the kind's own.
    """

    kind: str = _KIND
    version: int = _VERSION
    of: str
    options: dict[str, Any]
    shards: tuple[Shard, ...]
    round: int
    ask: dict[str, Any]

    def to_json(self) -> bytes:
        """Return the plan as canonical JSON."""
        return canonical_json(self)

    @property
    def hash(self) -> str:
        """A hash of the whole plan, as 16 hexadecimal digits: states say by it what they answer."""
        return blake2b(self.to_json(), digest_size=8).hexdigest()

    @property
    def rows(self) -> int:
        """How many rows all shards have."""
        return sum(shard.rows for shard in self.shards)


class _Start(msgspec.Struct):
    kind: str
    version: int


def read_plan(path: str) -> Plan:
    """Return the plan in a file; ``-`` is standard input.

    Raises
    ------
    UsageError
        No such file, or no permission to read it.
    ModelError
        Not a plan, a newer version, the plan of an unknown command, or a damaged one.
    """
    return plan_of(read_bytes(path), path)


def plan_of(data: bytes, path: str) -> Plan:
    """Return the plan that the bytes of a file hold; see `read_plan`."""
    if len(data) > _MOST_BYTES:
        raise ModelError(f"a plan of {len(data):,} bytes is not plausible", file=path)
    start = decode_as(data, _Start, "a calibkit plan", path)
    if start.kind != _KIND:
        raise ModelError(f"this is a file of kind {start.kind!r}, not a plan", file=path)
    if start.version != _VERSION:
        raise ModelError(
            f"version {start.version} of plans is unknown here; this calibkit reads version "
            f"{_VERSION}: update calibkit, or start again without a plan",
            file=path,
        )
    plan = decode_as(data, Plan, "a calibkit plan", path)
    kind = KINDS.get(plan.of)
    if kind is None or not kind.rounds:
        raise ModelError(f"a plan of {plan.of!r}, which is not fitted in rounds here", file=path)
    shards = plan.shards
    if not shards or tuple(sorted(set(shards))) != shards:
        raise ModelError("a damaged plan: its shards are not in order", file=path)
    if not FIRST_ROUND < plan.round <= _MOST_ROUNDS or plan.rows < 1:
        raise ModelError("a damaged plan: its numbers cannot be", file=path)
    return plan


@contextmanager
def damaged_else(path: str) -> Iterator[None]:
    """Take whatever a plan read from a file, or an answer to it, leads to for damage.

    What fits together in a plan is much, and more than its checks look at: numbers that a hand or a
    disk changed may contradict each other rounds later.

    Raises
    ------
    ModelError
        In the place of errors that are no `calibkit.errors.CalibkitError`.
    """
    try:
        yield
    except (
        ArithmeticError, AssertionError, LookupError, TypeError, ValueError, pl.exceptions.PolarsError,
    ) as error:  # fmt: skip
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise ModelError(
            f"{path}: this plan, or a state that answers it, is damaged ({said}); make the states "
            "again, or start again without a plan",
            file=path,
        ) from error
