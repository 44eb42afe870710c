"""Which rows judge a map, and which it is fitted on: by chance, by groups, or forward in time."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.columns.columns import ScoreRows
from calibkit.columns.splits import group_parts, time_parts
from calibkit.maps.held_out import Split
from calibkit.maps.points import Points, parts_of, together
from calibkit.numerics.row_hash import random_parts
from calibkit.numerics.streams import FOLD, salt_of
from calibkit.options.calibrate import CalibrateOptions
from calibkit.summaries.tally import Tally, count_rows

#: Into how many parts rows are dealt, and how often.
FOLDS: Final = 5
TIMES: Final = 3
#: The most rows, about, that a choice looks at; of more rows so many are dealt.
MOST_ROWS: Final = 200_000

_MOST_PARTS: Final = 255


def dealt(
    rows: ScoreRows,
    level: NDArray[np.uint16],
    tally: Tally,
    parts: int,
    seed: int,
    options: CalibrateOptions,
) -> Tally:
    """Return a tally of rows dealt to parts: rows of a group to one, blocks of time in their order."""
    by_column = options.groups is not None or options.time is not None
    if not by_column and tally.unit.size == 1.0:  # whole rows: dealt as counts
        return tally.deal(parts, seed)
    label = np.zeros(rows.score.size, np.uint8) if rows.label is None else rows.label
    used: dict[str, NDArray[Any]] = {"score": rows.score, "label": label, "by": level}
    if rows.weight is not None:
        used["weight"] = rows.weight
    if options.groups is not None:
        assert rows.others is not None and rows.where is not None
        part = group_parts(rows.others[options.groups], parts, seed, rows.where)
    else:
        part = random_parts(used, parts, seed)
    if options.time is not None:
        assert rows.others is not None and rows.where is not None
        block = time_parts(rows.others[options.time], FOLDS + 1, rows.where)
        part = np.where(part < FOLDS, block, _MOST_PARTS).astype(np.uint8)
    columns = rows.score, level, label, tally.levels
    return count_rows(*columns, weight=rows.weight, part=part, threads=options.workers)


def folds_of(
    rows: ScoreRows, level: NDArray[np.uint16], tally: Tally, options: CalibrateOptions
) -> list[list[Split]]:
    """Return the splits of each dealing: what a map is fitted on, and the rows that judge it.

    A choice looks at about `MOST_ROWS` rows: at a part of many rows, at few of them several times,
    for on few rows the choice would hang on how they were dealt.
    """
    count = float(tally.unit.amount(int(tally.count.sum(dtype=np.int64))))
    parts = parts_of_many(count)
    times = 1 if options.time is not None else max(1, min(TIMES, int(MOST_ROWS // max(count, 1.0))))
    found = []
    for number in range(times):
        seed = int(salt_of(options.seed, FOLD, number))
        own = dealt(rows, level, tally, parts, seed, options)
        used = FOLDS + (options.time is not None)
        held = [part for part in parts_of(own, used, rows.options.scale) if part.score.size]
        found.append(list(_splits(held, forward=options.time is not None)))
    return found


def parts_of_many(rows: float) -> int:
    """Return into how many parts rows are dealt; the first `FOLDS` are the folds."""
    return min(FOLDS * max(1, math.ceil(rows / MOST_ROWS)), _MOST_PARTS)


def _splits(parts: list[Points], *, forward: bool) -> Iterator[Split]:
    """Pair each part with all others, or with those before it."""
    for place, own in enumerate(parts):
        others = parts[:place] if forward else [*parts[:place], *parts[place + 1 :]]
        if others:
            yield together(others), own
