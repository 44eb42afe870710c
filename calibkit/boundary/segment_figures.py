"""Figures of each segment of a boundary, beside those of all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from calibkit.boundary.decide import OTHER
from calibkit.boundary.figures import figures, held_out, judge_rows, pooled_figures, standard_error
from calibkit.boundary.found import Found
from calibkit.boundary.goals import Goal, Totals
from calibkit.boundary.model import BoundaryModel, CrossValidated, SegmentFit
from calibkit.boundary.problem import tally_totals
from calibkit.boundary.summary import Stack
from calibkit.boundary.target import Target
from calibkit.rows.columns import ScoreRows
from calibkit.rows.segments import known_codes
from calibkit.rows.weights import Unit
from calibkit.summaries.tally import Tally


@dataclass(frozen=True)
class Judging:
    """What the figures of a stack of segments are counted from.

    Attributes
    ----------
    goal, unit
        The goal of all rows, and what a unit of weight is.
    tally, found
        The fitting rows and the boundary on them.
    dealt, folds
        The rows dealt to folds, and the boundary that each fold was judged by; None without.
    """

    goal: Goal
    unit: Unit
    tally: Tally
    found: Found
    dealt: Tally | None
    folds: dict[int, Found]


def judge_stack(model: BoundaryModel, stack: Stack, seen: Judging) -> None:
    """Write the figures of each segment into a model."""
    assert model.groups is not msgspec.UNSET
    for segment, name in enumerate(stack.names):
        own = stack.places(segment)
        tally = _only(seen.tally, own)
        goal = _goal_of(seen.goal, tally)
        counted = held_out(tally, -1, seen.found)
        rows, positives = goal.totals.classes.rows(goal.totals.rows, goal.totals.positives)
        fit = SegmentFit(
            rows=seen.unit.amount(rows),
            positives=seen.unit.amount(positives),
            in_sample=figures(counted[0], counted[1], goal, seen.unit, counted[2]),
        )
        if seen.dealt is not None:
            fit.cross_validated = _cross_validated(_only(seen.dealt, own), goal, seen.folds)
        model.groups[name].fit = fit


def _only(tally: Tally, levels: slice) -> Tally:
    """Return the entries of some levels, which keep their numbers."""
    return tally.where((tally.level >= levels.start) & (tally.level < levels.stop))


def _goal_of(goal: Goal, tally: Tally) -> Goal:
    """Return the goal for a segment; reweighted by the weights of all rows, not by its own."""
    totals = tally_totals(tally)
    return goal.of(replace(totals, classes=goal.totals.classes))


def _cross_validated(dealt: Tally, goal: Goal, folds: dict[int, Found]) -> CrossValidated:
    pooled, values = np.zeros(3), []
    for fold, found in sorted(folds.items()):
        counted = held_out(dealt, fold, found)
        pooled += counted
        one = _goal_of(goal, dealt.where(dealt.part == fold))
        value = one.value(*counted)
        if value is not None:
            values.append(value)
    return pooled_figures(goal, pooled.tolist(), standard_error(values), len(folds))


def judge_test(
    model: BoundaryModel, rows: ScoreRows, target: Target, make_goal: Callable[[Totals], Goal]
) -> None:
    """Write the figures on test rows into a model, of all of them and of each segment."""
    model.fit.test = judge_rows(model, rows, target, make_goal)
    if model.groups is msgspec.UNSET:
        return
    assert rows.others is not None
    names = tuple(model.groups)
    code = known_codes(rows.others[model.columns["by"].name], names)
    if OTHER in names:
        code = np.where(code < 0, names.index(OTHER), code)
    for place, segment in enumerate(model.groups.values()):
        own = np.flatnonzero(code == place)
        assert rows.label is not None
        if own.size and (target.value_column is None or rows.label[own].any()):
            part = rows.only(own)
            segment.fit.test = judge_rows(model, part, target, make_goal)
