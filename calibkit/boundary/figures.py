"""Counting a boundary: rates from totals, on the fitting rows, over folds and on new rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from calibkit.boundary.decide import probabilities
from calibkit.boundary.goals import Goal, Totals
from calibkit.boundary.methods import Found
from calibkit.boundary.model import BoundaryModel, CrossValidated, Figures, TestFigures
from calibkit.columns import ScoreRows
from calibkit.tally import Tally
from calibkit.weights import ROW, Unit, in_units

#: Finds a boundary on a tally with one part left out, given what the other parts hold; None where
#: nothing can be found.
Find = Callable[[Tally, int, Totals], Found | None]


class Judged(NamedTuple):
    """What a fold holds, and what a boundary fitted without it selects there, in units."""

    rows: int
    positives: int
    selected: float
    true_positives: float


def figures(selected: float, true_positives: float, goal: Goal, unit: Unit) -> Figures:
    """Return the figures of a boundary from its totals, in units of weight."""
    rows, positives = goal.totals.rows, goal.totals.positives
    negatives = rows - positives
    return Figures(
        selected=unit.amount(selected),
        true_positives=unit.amount(true_positives),
        precision=true_positives / selected if selected else None,
        recall=true_positives / positives if positives else None,
        false_positive_rate=(selected - true_positives) / negatives if negatives else None,
        objective_value=goal.value(selected, true_positives),
    )


def cross_validate(
    dealt: Tally,
    folds: int,
    find: Find,
    make_goal: Callable[[Totals], Goal],
    threads: int,
    *,
    forward: bool = False,
) -> tuple[CrossValidated, tuple[Judged, ...]]:
    """Return the figures of boundaries judged on the fold that their fit left out, and each fold.

    With `forward` the parts, one more than folds, follow each other in time: each but the first is
    judged by a boundary fitted on those before it.

    Counts are pooled over the folds.  The standard error of the objective comes from its values on
    the single folds, null where fewer than two are defined.
    """
    totals = dealt.part_totals(folds + forward)

    def judge(fold: int) -> Judged:
        rows, positives = map(int, totals[fold])
        fitting = totals[:fold] if forward else np.delete(totals, fold, axis=0)
        fitting_rows, fitting_positives = map(int, fitting.sum(axis=0))
        others = Totals(fitting_rows, fitting_positives, dealt.unit.exact)
        found = find(dealt.before(fold), -1, others) if forward else find(dealt, fold, others)
        selected, hits = (0, 0) if found is None else _held_out(dealt, fold, found)
        return Judged(rows, positives, selected, hits)

    with ThreadPoolExecutor(min(threads, folds)) as pool:
        judged = tuple(pool.map(judge, range(forward, folds + forward)))
    rows, positives, selected, hits = (sum(column) for column in zip(*judged, strict=True))
    pooled = make_goal(Totals(rows, positives, dealt.unit.exact))
    values = [
        value
        for fold_rows, fold_positives, m, t in judged
        if (value := make_goal(Totals(fold_rows, fold_positives)).value(m, t)) is not None
    ]
    found = CrossValidated(
        precision=hits / selected if selected else None,
        recall=hits / positives if positives else None,
        objective_value=pooled.value(selected, hits),
        standard_error=standard_error(values),
        folds=folds,
    )
    return found, judged


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean of some values, None for fewer than two."""
    if len(values) < 2:
        return None
    mean = math.fsum(values) / len(values)
    spread = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return math.sqrt(spread / len(values))


def _held_out(dealt: Tally, fold: int, found: Found) -> tuple[float, float]:
    """Return what a boundary selects of a fold; the expected numbers of a randomised one."""
    selected, hits = dealt.selected(found.thresholds, part=fold)
    if found.wide is None or found.probability == 0.0:
        return selected, hits
    more, more_hits = dealt.selected(found.wide, part=fold)
    return (
        selected + found.probability * (more - selected),
        hits + found.probability * (more_hits - hits),
    )


def judge_rows(
    model: BoundaryModel, rows: ScoreRows, make_goal: Callable[[Totals], Goal]
) -> TestFigures:
    """Return the figures of a boundary on labelled rows."""
    assert rows.label is not None
    chance = probabilities(model, rows.score, rows.uncertainty)
    units, unit = np.ones(rows.score.size, np.int64), ROW
    if rows.weight is not None:
        units, unit = in_units(rows.weight)
    hits = rows.label.astype(bool)
    totals = Totals(int(units.sum()), int(units[hits].sum()), unit.exact)
    found = figures(
        _expected(units, chance), _expected(units[hits], chance[hits]), make_goal(totals), unit
    )
    return TestFigures(
        rows=unit.amount(totals.rows),
        positives=unit.amount(totals.positives),
        selected=found.selected,
        true_positives=found.true_positives,
        precision=found.precision,
        recall=found.recall,
        false_positive_rate=found.false_positive_rate,
        objective_value=found.objective_value,
    )


def _expected(units: NDArray[np.int64], chance: NDArray[np.float64]) -> float:
    """Return how many units are selected: whole ones, expected ones where chance plays a part."""
    certain = int(units[chance == 1.0].sum())
    random = (chance > 0.0) & (chance < 1.0)
    if not random.any():
        return certain
    # One level randomises at most, so there is one probability.
    return certain + float(chance[random][0]) * int(units[random].sum())
