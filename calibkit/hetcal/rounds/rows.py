"""The rows of a window, as a fit in rounds takes them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.files.sources import Source
from calibkit.hetcal.features import Features, read_known_features
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.times import parts_of, time_keys
from calibkit.hetcal.rows import linear_scores
from calibkit.hetcal.states import HetcalProblem
from calibkit.memory import Memory
from calibkit.rows.columns import ScoreRows, read_score_rows
from calibkit.rows.provenance import row_hashes
from calibkit.rows.splits import group_parts, refuse_missing
from calibkit.rows.weights import whole_units
from calibkit_kernels import digest, leaf_maps

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: Rows that are worked on at a time, at most.
_MOST_ROWS: Final = 1 << 17
#: What each of them takes: it is listed at every node of every tree that it comes through.
_PER_ROW: Final = 1 << 10


@dataclass(frozen=True)
class Block:
    """Some rows.

    Attributes
    ----------
    score, label, weight
        Linear scores, 0 or 1, and weights in units; before these are known all rows weigh one.
    masses
        How many rows each counts as in a sum, and in one of squares: 2 x row.
    features
        Of each row; categories that are not known yet are missing.
    clipped
        How many probabilities were moved away from 0 or 1.
    times, part
        What stands for the time of each row, and the part that it is in, once that is known; None
        where parts do not follow each other in time.
    data
        The columns as they were read.
    """

    score: Floats
    label: NDArray[np.uint8]
    weight: Int64s
    masses: Floats
    features: Features
    clipped: int
    times: pl.Series | None
    part: NDArray[np.uint8] | None
    data: ScoreRows


def rows_at_a_time(memory: Memory) -> int:
    """Return how many rows a fit in rounds works on at a time."""
    return min(_MOST_ROWS, memory.room // _PER_ROW)


def used_columns(problem: HetcalProblem) -> list[str]:
    """Return the columns that a fit reads, in the order of its states."""
    columns = problem.columns
    found = [columns.score, columns.label, *([columns.weight] if columns.weight else [])]
    return [*found, *_beside(problem)]


def _beside(problem: HetcalProblem) -> list[str]:
    """Return the features, and the column that deals rows to parts."""
    dealing = problem.spec.groups or problem.spec.time
    return [*problem.features, *([dealing] if dealing else [])]


def read_block(window: Source, problem: HetcalProblem, known: Known) -> Block:
    """Return the rows of a window.

    Raises
    ------
    UsageError, DataError
        As `calibkit.hetcal.rows.read_hetcal_rows`.
    """
    spec = problem.spec
    data = read_score_rows(
        window, problem.columns, uncertainty=False, finite_scores=True, features=_beside(problem)
    )
    assert data.label is not None and data.others is not None and data.where is not None
    categories: list[tuple[str, ...] | None]
    categories = [() if one.kind == "category" else None for one in known.columns]
    if known.categories:
        categories = [None if names is None else tuple(names) for names in known.categories]
    features = read_known_features(data.others, known.columns, categories, data.where)
    score, clipped = linear_scores(data.score, problem.columns.scale)
    weight, size = np.ones(score.size, np.int64), 1.0
    if data.weight is not None and known.seen is not None:
        weight, size = whole_units(data.weight, known.seen.unit), known.seen.size
    mass = weight * size
    squares = mass * mass if problem.columns.sampled else mass
    times, part = None, None
    if known.times is not None and spec.time is not None:
        refuse_missing(data.others[spec.time], data.where)
        times = time_keys(data.others[spec.time], known.times.kind)
        if None not in known.times.ends and known.times.ends:
            part = parts_of(known.times, times)
    masses = np.stack([mass, squares])
    return Block(score, data.label, weight, masses, features, clipped, times, part, data)


def dealt(block: Block, problem: HetcalProblem, parts: int) -> tuple[NDArray[np.uint8], int]:
    """Return the part of each row, and the sum of the hashes of all rows modulo 2^64.

    Groups and times are dealt as in memory, other rows by the hash of all that is used of them: rows
    that are equal in everything are in one part.
    """
    hashes = hashes_of(block)
    return parts_by(block, hashes, problem, parts), int(digest.total(hashes))


def hashes_of(block: Block) -> NDArray[np.uint64]:
    """Return the hash of all that is used of each row."""
    data = block.data
    used: dict[str, NDArray[Any]] = {"score": data.score, "label": block.label}
    used |= block.features.words()
    if data.weight is not None:
        used["weight"] = data.weight
    return row_hashes(used)


def parts_by(
    block: Block, hashes: NDArray[np.uint64], problem: HetcalProblem, parts: int
) -> NDArray[np.uint8]:
    """Return the part of each row; see `dealt`."""
    data, spec = block.data, problem.spec
    if block.part is not None:
        return block.part
    if spec.groups is None:
        return hash_parts(hashes, max(parts, 1), spec.seed)
    assert data.others is not None and data.where is not None
    return group_parts(data.others[spec.groups], max(parts, 1), spec.seed, data.where)


def hash_parts(hashes: NDArray[np.uint64], parts: int, seed: int) -> NDArray[np.uint8]:
    """Deal rows to parts by their hash and the seed."""
    mixed = hashes.copy()
    # Scrambled: the same salt for all rows, but another for each seed.
    digest.absorb(mixed, np.zeros_like(mixed), np.uint64(digest.mix(np.uint64(seed))))
    return (mixed % np.uint64(parts)).astype(np.uint8)


def losses_of(linear: Floats, label: NDArray[np.uint8]) -> Floats:
    """Return the log loss of each row under its linear score."""
    found = np.empty((2, linear.size))
    root, line = np.zeros(linear.size, np.int32), np.array([[1.0, 0.0]])
    leaf_maps.leaf_losses(linear, label, np.ones(linear.size), root, line, found)
    losses: Floats = found[1]
    return losses


def text_counts(frame: pl.DataFrame, names: Sequence[str]) -> list[dict[str, int]]:
    """Return how often each text occurs in some columns; empty text is none."""
    found = []
    for name in names:
        counts = frame[name].cast(pl.String).drop_nulls().value_counts()
        found.append({text: count for text, count in counts.rows() if text != ""})
    return found
