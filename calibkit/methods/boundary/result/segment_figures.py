"""Figures of each segment of a boundary, beside those of all rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import msgspec
import numpy as np

from calibkit.columns.columns import ScoreRows
from calibkit.columns.segments import known_codes
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.goals import Goal, Totals
from calibkit.methods.boundary.problem.problem import tally_totals
from calibkit.methods.boundary.result.decide import OTHER
from calibkit.methods.boundary.result.figures import (
    Validation,
    figures,
    held_out,
    judge_rows,
    pooled_figures,
    standard_error,
)
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.result.parts import CrossValidated, SegmentFit
from calibkit.methods.boundary.solvers.summary import Stack
from calibkit.options.objective import Target
from calibkit.summaries.tally import Tally


def judge_stack(
    model: BoundaryModel,
    stack: Stack,
    goal: Goal,
    tally: Tally,
    found: Found,
    dealt: Tally | None,
    checked: Validation | None,
) -> None:
    """Write the figures of each segment into a model.

    Parameters
    ----------
    model, stack
        The model, and its segments.
    goal
        That of all rows.
    tally, found
        The fitting rows and the boundary on them.
    dealt, checked
        The rows dealt to folds, and the cross-validation on them; None without.
    """
    assert model.groups is not msgspec.UNSET
    for segment, name in enumerate(stack.names):
        own = stack.places(segment)
        inside = _only(tally, own)
        own_goal, unit = _goal_of(goal, inside), tally.unit
        selected, hits, gain = held_out(inside, -1, found)
        totals = own_goal.totals
        rows, positives = totals.classes.rows(totals.rows, totals.positives)
        fit = SegmentFit(
            rows=unit.amount(rows),
            positives=unit.amount(positives),
            in_sample=figures(selected, hits, own_goal, unit, gain),
        )
        if dealt is not None and checked is not None:
            fit.cross_validated = _cross_validated(_only(dealt, own), own_goal, checked.found)
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
