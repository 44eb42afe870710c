"""Large files in parts, so that all workers have something to do where files are few."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from fractions import Fraction
from heapq import heapreplace
from math import ceil
from typing import Final

from calibkit.engines.protocol import Divided, Done, Engine, parts_of
from calibkit.engines.shards import Opening, Shard
from calibkit.files.stretches import cuts, may_be_cut, stretches

#: A part has so many rows at least: what comes of it takes longer than its task costs.
_FEWEST_ROWS: Final = 2**18

#: Files are cut into so many parts for each worker at most: merging them costs time as well.
_MOST_PARTS: Final = 4
#: More parts have to shorten the work of the last worker to this share.
_WORTH: Final = 0.9

Work = list[Shard | Divided[Shard]]


@dataclass(frozen=True)
class _Look:
    """Where a file may be cut, and how many rows it has; nothing of one that cannot be read."""

    opening: Opening

    def __call__(self, shard: Shard) -> Done:
        with suppress(Exception):  # what is wrong with a file is said where its rows are read
            rows = self.opening.open(shard).rows
            return Done(rows, told=cuts(shard.path, rows))
        return Done(0, told=())


def divided(engine: Engine, shards: Sequence[Shard], opening: Opening) -> Work:
    """Return files with the large ones among them in parts, in the same order.

    The parts are as few as keep all workers busy to the end.

    Parameters
    ----------
    engine
        What is going to work on them; it looks at the large files.
    shards
        Whole files.
    opening
        How they are opened.
    """
    large = [shard for shard in shards if may_be_cut(shard.path, opening.input_format)]
    best: Work = list(shards)
    if engine.at_once < 2 or not large:
        return best
    looks = dict(zip(large, engine.each(_Look(opening), large), strict=True))
    rows = {shard: look.rows for shard, look in looks.items()}
    for parts in range(1, _MOST_PARTS + 1):
        share = Fraction(max(sum(rows.values()), 1), parts * engine.at_once)
        work = [_in_parts(one, looks[one], share) if one in looks else one for one in shards]
        last, before = (_longest(_sizes(some, rows), engine.at_once) for some in (work, best))
        if last <= _WORTH * before:
            best = work
    return best


def _in_parts(shard: Shard, look: Done, share: Fraction) -> Shard | Divided[Shard]:
    """Return a file in parts of so many rows at most, or as it is where these would be too few."""
    count = min(ceil(look.rows / share), look.rows // _FEWEST_ROWS)
    parts = stretches(look.told, count) if count > 1 else []
    if len(parts) < 2:
        return shard
    return Divided(shard, tuple(replace(shard, stretch=part) for part in parts))


def _sizes(work: Work, rows: dict[Shard, int]) -> Iterable[int]:
    for item in work:
        for part in parts_of(item):
            yield rows.get(part, 0) if part.stretch is None else part.stretch.rows


def _longest(sizes: Iterable[int], workers: int) -> int:
    """Return how many rows the worker has that has most, where large items are dealt first."""
    loads = [0] * workers
    for size in sorted(sizes, reverse=True):
        heapreplace(loads, loads[0] + size)
    return max(loads)
