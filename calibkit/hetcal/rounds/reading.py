"""What a plan knows, read strictly: it may come from anywhere, and kernels rely on it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final

import msgspec

from calibkit.errors import ModelError
from calibkit.hetcal.rounds.boosted.reading import runs_fit
from calibkit.hetcal.rounds.forest.packed import lines_fit
from calibkit.hetcal.rounds.known import (
    BRANCH,
    EVERYONE,
    LOOK,
    REFINE,
    STEPS,
    Curve,
    Fork,
    Known,
    Spot,
)
from calibkit.hetcal.rounds.sought import Stretches
from calibkit.hetcal.spec import LEAF_SIZES
from calibkit.models import Column
from calibkit.summaries.plain import from_plain

#: Bins of a feature, or stretches of its keys, and parts of the rows: there are never more.
_MOST_VALUES: Final = 1 << 16
_MOST_FOLDS: Final = 100

#: No map makes such a score.
_MOST: Final = 1e100

#: What stands for times.
_TIMES: Final = ("number", "whole", "text", "wide")

#: Keys, and numbers of rows, are below this one.
_KEYS: Final = 1 << 63

#: The key of infinity; those of scores are below it, and from its opposite on.
_INFINITE: Final = 0x7FF << 52


def known_of(ask: dict[str, Any]) -> Known:
    """Return what a plan knows.

    Raises
    ------
    ModelError
        Where its parts do not fit together.
    """
    try:
        known = msgspec.convert(ask, Known)
    except msgspec.ValidationError as error:
        raise ModelError(f"a damaged plan: {error}") from None
    known.columns = from_plain(ask["columns"], list[Column], "the plan")
    trees = [known.nodes, known.grown.nodes if known.grown else []]
    fit = _bins_fit(known) and all(_nodes_fit(known, nodes) for nodes in trees)
    maps = _lines_fit(known) and _cuts_fit(known) and _forest_fits(known)
    maps = maps and _times_fit(known) and all(stretches_fit(one) for one in known.stretches)
    fit = fit and maps and known.step in STEPS and _rows_fit(known)
    if not (known.columns and fit and runs_fit(known)):
        raise ModelError("a damaged plan: its parts do not fit together")
    return known


def _bins_fit(known: Known) -> bool:
    """Tell whether there are bins of all features, in order; kernels rely on it."""
    if known.step == LOOK and known.grown is None:
        return True
    count = len(known.columns)
    scores = [] if known.scores is None else [known.scores]
    return len(known.edges) == len(known.categories) == count and all(
        (one.lows is not None or len(one.buckets) > 0)
        and max(len(one.lows or []), len(one.buckets)) <= _MOST_VALUES
        and _rising(one.lows or [])
        and (one.highs is None or len(one.highs) == len(one.lows or []))
        and _rising([bucket.first for bucket in one.buckets])
        and all(0 <= bucket.bits <= 48 for bucket in one.buckets)
        for one in [*known.edges, *scores]
    )


def _rising(values: Sequence[float]) -> bool:
    return all(low < high for low, high in pairwise(values))


def _nodes_fit(known: Known, nodes: Sequence[Spot]) -> bool:
    """Tell whether nodes are trees, whose splits are of features and categories that there are."""
    count, parents = len(known.columns), [0] * len(nodes)
    for place, node in enumerate(nodes):
        if not (EVERYONE <= node.part < known.parts and node.rows >= node.hits >= 0):
            return False
        if any(not 0 <= size < len(LEAF_SIZES) for size in node.sizes):
            return False
        for fork in node.forks:
            if not (0 <= fork.feature < count and _categories_fit(fork, known)):
                return False
            for child in (fork.left, fork.right):
                if not place < child < len(parents) or parents[child]:
                    return False
                parents[child] = 1
    return 0 <= known.folds <= _MOST_FOLDS


def _categories_fit(fork: Fork, known: Known) -> bool:
    names = known.categories[fork.feature]
    if fork.categories is None:
        return names is None
    return names is not None and all(
        0 <= code < len(names) for side in fork.categories for code in side
    )


def _rows_fit(known: Known) -> bool:
    """Tell whether there are rows, and trees once these have begun."""
    if known.step == LOOK:
        return known.grown is None or len(known.grown.nodes) + len(known.grown.groves) > 0
    seen, roots = known.rows, [node.part for node in known.nodes if node.depth == 0]
    return (
        seen.rows > 0
        and seen.weight >= seen.hits >= 0
        and seen.low <= seen.high
        and seen.unit.size > 0.0
        and (known.step == REFINE or roots[:1] == [EVERYONE])
    )


def _lines_fit(known: Known) -> bool:
    """Tell whether maps are numbers that sums have room for."""
    lines = [node.line for node in known.nodes if node.line]
    lines += [known.correction] if known.correction else []
    return all(_curve_fits(curve) for curve in known.curves) and all(
        line.scale > 0.0
        and abs(line.slope) * max(abs(line.low), abs(line.high)) + abs(line.intercept) < _MOST
        for line in lines
    )


def _cuts_fit(known: Known) -> bool:
    """Tell whether the bins of leaves are in order, or sought among keys of 64 bits."""
    sizes = [len(edges.lows or []) for edges in known.cuts]
    return (not known.rates or [len(own) for own in known.rates] == sizes) and all(
        (len(edges.lows or []) > 0) != (len(edges.buckets) > 0)
        and _rising(edges.lows or [])
        and _rising([bucket.first for bucket in edges.buckets])
        and all(0 < one.bits <= 64 and 0 <= one.first < 1 << 64 for one in edges.buckets)
        and len({one.bits for one in edges.buckets}) <= 1
        for edges in known.cuts
    )


def _times_fit(known: Known) -> bool:
    """Tell whether times are of one kind and in order, and the parts known once trees begin."""
    times = known.times
    if times is None or known.step == LOOK:
        return times is None or times.kind in _TIMES
    whole = times.kind in ("whole", "number")
    ends = _without_none(times.ends)
    gaps = [_without_none([one.after, *one.drawn, one.before]) for one in times.gaps]
    return (
        times.kind in _TIMES
        and all(isinstance(key, int if whole else str) for own in (ends, *gaps) for key in own)
        and all(-_KEYS <= key < _KEYS for own in (ends, *gaps) for key in own if whole)
        and all(end <= other for end, other in pairwise(ends))
        and all(_rising(own) for own in gaps)
        and all(one.below >= 0 < one.rows < _KEYS - one.below for one in times.gaps)
        and len({len(one.drawn) > 0 for one in times.gaps}) <= 1
        and len(times.ends) == known.folds > 0
        and (known.step == REFINE or (len(ends) == known.folds and not times.gaps))
    )


def _without_none(keys: Sequence[Any]) -> list[Any]:
    return [key for key in keys if key is not None]


def _forest_fits(known: Known) -> bool:
    """Tell whether the maps of a forest are numbers too, and its trees are those that are searched."""
    wood = known.forest
    return wood is None or (
        lines_fit(wood.lines, _MOST)
        and (known.step != BRANCH or len(wood.searched) == len(wood.grove.sizes))
        and all(place >= 0 for place in wood.searched)
        and wood.size >= 0
    )


def _curve_fits(curve: Curve) -> bool:
    sizes = [len(values) for values in (curve.point, curve.shifts, curve.scales, curve.step)]
    return sizes == [3, 2, 2, 3]


def stretches_fit(found: Stretches) -> bool:
    """Tell whether stretches of keys are in order, and hold rows that sums have room for."""
    lows, highs, rows, hits = found.lows, found.highs, found.rows, found.hits
    return (
        len(lows) == len(highs) == len(rows) == len(hits)
        and all(low <= high for low, high in zip(lows, highs, strict=True))
        and all(high < low for high, low in zip(highs, lows[1:], strict=False))
        and all(-_INFINITE <= end < _INFINITE for end in (*lows[:1], *highs[-1:]))
        and all(0 <= own <= count and count > 0 for own, count in zip(hits, rows, strict=True))
        and sum(rows) < _KEYS
    )
