"""What all scores go through first: Platt's map, or the one that a choice among maps takes."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from calibkit.maps.method import Points, parts_of
from calibkit.maps.methods import FOLDS, METHODS, MOST_PARTS, choose
from calibkit.maps.model import ScoreMap
from calibkit.methods.hetcal.maps import pooled_line, tallied
from calibkit.methods.hetcal.model import FirstMap
from calibkit.methods.hetcal.rows import HetcalRows
from calibkit.numerics.streams import folds_of_keys
from calibkit.options.maps import MapOptions
from calibkit.summaries.tally import Tally
from calibkit_kernels.maps import LEAST, log_odds

Floats = NDArray[np.float64]

#: Maps with steps: fitted to the rows, they would tell a partition what the labels of each step are.
STEPPED: Final = dict.fromkeys(
    ("venn-abers", "isotonic"),
    "its steps reveal the labels of the rows that a partition learns from",
)


def first_map(rows: HetcalRows, asked: str, seed: int, threads: int) -> FirstMap | None:
    """Return what the scores of rows go through first: `platt`, `none`, or what `auto` chooses.

    The choice is that of `calibkit.maps.methods`, on folds that groups or times deal where rows have
    some, without maps that have steps.
    """
    if asked == "none":
        return None
    slope, intercept = pooled_line(rows).tolist()
    if asked == "platt":
        return FirstMap(a=slope, b=intercept)
    points, options = _points(rows), MapOptions(threads=threads, seed=seed)
    once = rows.folds is not None
    forward = rows.folds is not None and rows.folds.forward

    def deal(parts: int, seed: int) -> list[Points]:
        return _dealt(rows, points, parts, seed)

    name, candidates = choose(points, deal, options, forward=forward, once=once, left_out=STEPPED)
    one = ScoreMap(clip=0.0, a=slope, b=intercept)
    if name != "platt":
        one, _ = METHODS[name].fitted(points, options, [], 0.0)
    return FirstMap(method=name, map=one, candidates=candidates)


def moved(first: FirstMap | None, linear: Floats) -> Floats:
    """Return linear scores after what they go through first.

    Of a map that is no line, that is the logit of its probability, which is moved 1e-6 inside (0, 1).
    """
    if first is None or first.name == "none":
        return linear
    one = first.score_map
    if first.name == "platt":
        assert one.a is not None and one.b is not None  # the model was checked
        return one.a * linear + one.b
    found = np.empty(linear.size)
    log_odds(METHODS[first.name].mapped(one, linear, "logit", 1)[0], LEAST, found)
    return found


def _points(rows: HetcalRows, kept: NDArray[np.bool_] | None = None) -> Points:
    """Return the distinct scores of all rows, or of some, from high to low, as a map is fitted to."""
    # A unit of weight counts as many rows as in leaves.
    unit = replace(rows.unit, size=rows.size)
    scale = "raw" if rows.options.scale == "raw" else "logit"
    rising = tallied(rows, slice(None) if kept is None else np.flatnonzero(kept))
    score, count, positive = (column[::-1].copy() for column in rising)
    return Points(score, count, positive, unit, scale)


def _dealt(rows: HetcalRows, points: Points, parts: int, seed: int) -> list[Points]:
    """Return the points of each fold, of rows dealt to so many parts.

    Whole rows are dealt as counts, others by their keys; those of groups and times keep their folds,
    of which as large a share is looked at.
    """
    folds = rows.folds
    if folds is None and rows.unit.size == rows.size == 1.0:
        level = np.zeros(points.score.size, np.uint16)
        tally = Tally(points.score, level, points.count, points.positive, 1, points.unit)
        return parts_of(tally.deal(parts, seed), FOLDS, points.scale)
    if folds is None:
        part, number = folds_of_keys(rows.key, parts, seed), FOLDS
    else:
        looked = folds_of_keys(rows.key, parts // FOLDS, seed) == 0
        part = np.where(looked, folds.part, MOST_PARTS).astype(np.uint8)
        number = FOLDS + folds.forward
    return [_points(rows, part == own) for own in range(number)]
