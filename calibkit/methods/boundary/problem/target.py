"""The objective of a fit becomes a goal, with the totals of the rows."""

from __future__ import annotations

from fractions import Fraction

from calibkit.columns.weights import AS_THEY_ARE, ClassWeights, at_prevalence
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.goals import Goal, LeastCost, Totals
from calibkit.methods.boundary.problem.measures import Measure
from calibkit.methods.boundary.problem.three_way import ThreeWay
from calibkit.options.objective import Target


def goal_of(target: Target, totals: Totals) -> Goal:
    """Return the goal for rows with some totals."""
    if target.review is not None:
        return ThreeWay(target.review, totals)
    if target.costs:
        return LeastCost(target.value, totals)
    if target.bound is None:
        return Measure(target.measure, target.parameters, totals)
    return GOALS[target.option](target.bound, totals, of_value=target.value_column is not None)


def classes_of(target: Target, totals: Totals) -> ClassWeights:
    """Return by how much the classes of rows with some totals are reweighted."""
    if target.prevalence is None:
        return AS_THEY_ARE
    share = Fraction(target.prevalence.numerator, target.prevalence.denominator)
    return at_prevalence(totals.rows, totals.positives, share)
