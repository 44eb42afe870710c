"""What a boundary selects, as rectangles over score and uncertainty, and the outline of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.columns.weights import in_units
from calibkit.errors import UsageError
from calibkit.methods.boundary.result.decide import level_thresholds
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import threshold_value
from calibkit.models.model import Model, load
from calibkit.reports.grid_points import GridCells, level_ends

Floats = NDArray[np.float64]

Point = tuple[float, float]

#: The share of rows with an uncertainty below a value.
Ranks = Callable[[float, str], float]


def ranks_of(cells: GridCells) -> Ranks:
    """Return what tells the share of rows whose uncertainty lies below a value.

    Of a table that was read it knows the borders of its levels alone; the second argument says what
    asks, for the message.
    """
    if cells.rows is None or cells.rows.uncertainty is None:
        return _table_ranks(cells.frame)
    values, weight = cells.rows.uncertainty, cells.rows.weight
    order = np.argsort(values, kind="stable")
    sorted_values = values[order]
    units = np.ones(values.size, np.int64) if weight is None else in_units(weight)[0]
    reached = np.concatenate([[0], np.cumsum(units[order])])

    def rank(value: float, _: str) -> float:
        return float(reached[np.searchsorted(sorted_values, value)] / reached[-1])

    return rank


def _table_ranks(frame: pl.DataFrame) -> Ranks:
    ends = level_ends(frame)
    lows = frame["uncertainty_low"].gather_every(frame.height // (ends.size - 1)).to_list()
    known: dict[float, float] = {}
    for low, share in zip(lows, ends[:-1].tolist(), strict=True):
        if low is not None:
            known.setdefault(low, share)

    def rank(value: float, name: str) -> float:
        if np.isinf(value):
            return 0.0 if value < 0 else 1.0
        if value not in known:
            raise UsageError(
                f"{name}: its levels are not those of the table; draw it over the rows themselves.",
                file=name,
            )
        return known[value]

    return rank


def boundary_regions(
    name: str, model: Model | str, cells: GridCells, ranks: Ranks
) -> tuple[pl.DataFrame, tuple[str, ...]]:
    """Return the rectangles that a boundary selects, and what the user has to be told.

    What a stochastic boundary selects by chance has a name of its own.  A boundary that selects
    nothing has one row without limits.

    Raises
    ------
    UsageError
        A model that is no boundary, or one with thresholds for each value of a column.
    """
    model = load(model) if isinstance(model, str) else model
    if not isinstance(model, BoundaryModel):
        raise UsageError(f"{name}: is a {model.kind}, not a boundary.", file=name)
    if model.groups is not msgspec.UNSET:
        raise UsageError(
            f"{name}: has thresholds for each {model.columns['by'].name!r}; draw a boundary of all "
            "rows, fitted without --by.",
            file=name,
        )
    found = list(_rectangles(model))
    rows = [
        {
            "kind": "boundary",
            "name": name if not chance else f"{name}, by chance",
            "uncertainty_low": low,
            "uncertainty_high": high,
            "rank_low": ranks(low, name),
            "rank_high": ranks(high, name),
            "score_low": start,
            "score_high": end,
        }
        for low, high, start, end, chance in found
    ]
    nothing = [{"kind": "boundary", "name": name}]
    return pl.DataFrame(rows or nothing), tuple(_remarks(name, model, cells))


def _remarks(path: str, model: BoundaryModel, cells: GridCells) -> list[str]:
    drawn = {role: cells.words[role] for role in ("score", "uncertainty")}
    return [
        f"{path} decides by the {role} {model.columns[role].name!r}, but the picture shows {name!r}"
        for role, name in drawn.items()
        if role in model.columns and name not in ("", model.columns[role].name)
    ]


def _rectangles(model: BoundaryModel) -> list[tuple[float, float, float, float, bool]]:
    """Return uncertainties [low, high), scores [start, end) and whether by chance, of each one."""
    sure, edges = level_thresholds(model).tolist(), model.uncertainty_edges
    if model.order == "score-uncertainty":
        assert model.score_edges is not msgspec.UNSET
        columns: Any = zip(pairwise([-np.inf, *model.score_edges, np.inf]), edges, strict=True)
        found = [
            (*levels, start, end, False)
            for (start, end), own in columns
            for levels, cut in zip(_levels(own, len(sure)), sure, strict=True)
            if cut <= start < end
        ]
    else:
        levels = _levels(edges, len(sure))
        found = [(*own, start, np.inf, False) for own, start in zip(levels, sure, strict=True)]
        if model.random_thresholds is not msgspec.UNSET:
            chance = map(threshold_value, model.random_thresholds)
            for own, start, end in zip(levels, chance, sure, strict=True):
                found.append((*own, start, np.inf if np.isnan(end) else end, True))
    return [one for one in found if one[0] < one[1] and not np.isnan(one[2])]


def _levels(edges: Any, count: int) -> list[tuple[float, float]]:
    """Return the limits of uncertainty levels; rows of a bin without any count as level 0."""
    return list(pairwise([-np.inf, *(edges or [np.inf] * (count - 1)), np.inf]))


def outline(
    left: Floats, right: Floats, bottom: Floats, top: Floats, *, frame: tuple[float, float]
) -> list[list[Point]]:
    """Return the border of a union of rectangles as lines, without the frame's own sides.

    Parameters
    ----------
    left, right, bottom, top
        The rectangles.
    frame
        Where the picture ends on the left and on the right; below and above it ends at 0 and 1.
    """
    xs = np.unique(np.concatenate([left, right, frame]))
    ys = np.unique(np.concatenate([bottom, top, [0.0, 1.0]]))
    inside = np.zeros((xs.size + 1, ys.size + 1), np.bool_)
    for start, end, low, high in zip(left, right, bottom, top, strict=True):
        columns = slice(np.searchsorted(xs, start) + 1, np.searchsorted(xs, end) + 1)
        rows = slice(np.searchsorted(ys, low) + 1, np.searchsorted(ys, high) + 1)
        inside[columns, rows] = True
    segments = []
    for place, x in enumerate(xs.tolist()):
        if frame[0] < x < frame[1]:
            for low, high in _runs(inside[place] != inside[place + 1], ys):
                segments.append([(x, low), (x, high)])
    for place, y in enumerate(ys.tolist()):
        if 0.0 < y < 1.0:
            for low, high in _runs(inside[:, place] != inside[:, place + 1], xs):
                segments.append([(low, y), (high, y)])
    return _chained(segments)


def _chained(segments: list[list[Point]]) -> list[list[Point]]:
    """Return lines made of segments that meet end to end."""
    meeting: dict[Point, list[int]] = {}
    for place, segment in enumerate(segments):
        for end in segment:
            meeting.setdefault(end, []).append(place)
    left = dict.fromkeys(range(len(segments)))
    # Begin where a line begins, so that none is cut in two; what remains are closed lines.
    loose = [own[0] for own in meeting.values() if len(own) == 1]
    lines = []
    for start in (*loose, *range(len(segments))):
        if start not in left:
            continue
        del left[start]
        line = list(segments[start])
        if len(meeting[line[1]]) == 1:
            line.reverse()
        while True:
            following = next((one for one in meeting[line[-1]] if one in left), None)
            if following is None:
                break
            del left[following]
            one, two = segments[following]
            line.append(two if one == line[-1] else one)
        lines.append(line)
    return lines


def _runs(marked: NDArray[np.bool_], ends: Floats) -> list[tuple[float, float]]:
    """Return the stretches of marked intervals; interval i lies between ends i - 1 and i."""
    steps = np.flatnonzero(np.diff(np.concatenate([[False], marked, [False]])))
    return [(float(ends[start - 1]), float(ends[stop - 1])) for start, stop in steps.reshape(-1, 2)]
