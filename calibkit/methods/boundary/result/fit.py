"""Fitting a boundary: a method's choice on counted rows, its figures, and the model that says them."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np
import polars as pl
from msgspec.structs import replace

from calibkit.arrays import distinct_values
from calibkit.errors import DataError, InfeasibleError
from calibkit.methods.boundary.problem.bounded import GOALS
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.goals import Goal
from calibkit.methods.boundary.result import figures, parts
from calibkit.methods.boundary.result.model import COEFFICIENTS, BoundaryModel
from calibkit.methods.boundary.solvers import prefixes
from calibkit.methods.boundary.solvers.gap import WithinGap
from calibkit.methods.boundary.solvers.logistic import logistic
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.methods.boundary.solvers.summary import Summary, summarise
from calibkit.methods.boundary.solvers.three_way import ThreeWay
from calibkit.models.model import Column, Range, Resolution
from calibkit.options.boundary import BoundaryOptions
from calibkit.options.objective import Target
from calibkit.runtime.threads import later
from calibkit.summaries.binning import Grid, GridTable, Levels
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.states import Fitted
from calibkit.summaries.tally import Tally


class FittedBoundary(Fitted[BoundaryModel], frozen=True, kw_only=True):
    """A fitted boundary, what the user should be told, and its folds one by one."""

    goal: Goal  # that of all rows, in the units of the folds
    checked: figures.Validation | None = None
    row_units: Fraction = Fraction(1)  # of a weight of 1, before classes are reweighted
    #: What it was fitted on, or a boundary without a surface would be; None for segments and
    #: certificates.
    summary: Summary | None = None

    @property
    def folds(self) -> tuple[figures.Judged, ...]:
        """What each fold gave, empty without cross-validation."""
        return () if self.checked is None else self.checked.folds

    @property
    def frontier(self) -> pl.DataFrame:
        """Every boundary that no other beats in precision and recall, one row each."""
        from calibkit.methods.boundary.solvers.frontier import frontier_rows

        assert self.summary is not None  # `BoundaryOptions.check_frontier`
        return frontier_rows(self.summary)


def fit_boundary(
    data: ScoreRows | GridTable, options: BoundaryOptions, *, test: ScoreRows | None = None
) -> FittedBoundary:
    """Fit a decision boundary over score and uncertainty, on rows or a grid of their counts.

    `test`: labelled rows on which the boundary is judged; they take no part in the fit.  Raises
    `UsageError` for an impossible combination of options, `DataError` for rows without a positive one,
    `InfeasibleError` where no boundary of this method selects a row and meets the bound.
    """
    return delivered(fit_summary(summarise(data, options)), options, test)


def delivered(
    fitted: FittedBoundary, options: BoundaryOptions, test: ScoreRows | None = None
) -> FittedBoundary:
    """Judge a fit on test rows, and let its model say of its origin what is asked for."""
    model = fitted.model
    model.tags = dict(options.tags or {})
    if options.provenance == "none":
        model.provenance = None
    elif options.provenance == "hash" and model.provenance is not None:
        model.provenance = replace(model.provenance, files=None)
    if test is not None:
        figures.judge_test(model, test, options.target, fitted.goal.of)
    return fitted


def fit_summary(summary: Summary, checked: figures.Validation | None = None) -> FittedBoundary:
    """Fit a decision boundary on what was counted of its rows; see `fit_boundary`.

    It is cross-validated, unless it was: `checked`, of some of the rows.
    """
    planned, fitted_on = summary.planned, summary
    options = planned.options
    summary.need_classes()
    tally, goal = summary.aim()
    warning = no_folds(summary)
    folds = options.folds if warning is None and checked is None else 0
    # While the search runs: none of these needs another.
    single = later(options.workers, score_only, summary.single, goal.alone)
    deal = later(options.workers if folds else 1, summary.deal, goal.totals.classes)
    found = planned.method.find(tally, goal, ceiling=True)
    resolution = summary.resolution
    if resolution is not None:
        found, resolution = _of_rows(summary, tally, goal, found, resolution)
    if found.selected == 0 and options.target.bound is not None:
        raise _infeasible(summary, tally, goal)
    bounded = options.target.review is not None and not options.target.review.costs
    if bounded and found.selected + found.reviewed == 0:
        more = "" if options.review_capacity is None else ", or raise --review-capacity"
        raise InfeasibleError(
            f"--method {planned.method.name} cannot {options.target.text}: no rows of the highest "
            f"scores within it hold a positive one; loosen the bound{more}."
        )
    if isinstance(goal, ThreeWay) and found.reviewed > goal.limit:
        floor = found.reviewed if found.proven else math.ceil(found.ceiling * goal.totals.rows)
        raise OverCapacityError(summary, *map(tally.unit.amount, (found.reviewed, floor)))
    of_folds: list[tuple[Tally, Found]] = []
    if folds:
        dealt = deal()
        checked = figures.cross_validate(dealt, planned, goal)
        if summary.stack is not None and options.time is None:
            of_folds = checked.on(dealt)
    summary, found = flatten(summary, found)
    fit = seen_in_sample(summary, found, goal, single())
    fit.optimal_in_sample = planned.method.mix is not None or (
        found.proven and fit.bound_met and goal.value(*found.counts) == found.ceiling
    )
    fit.cross_validated = None if checked is None else checked.figures
    if resolution is not None:
        fit.resolution = resolution
    segments: list[parts.SegmentFit] = []
    if summary.stack is not None:
        segments = figures.judge_segments(summary.stack, goal, tally, found, of_folds)
        if isinstance(goal, WithinGap):
            fit.gap = figures.gap_seen(goal, tally, found, of_folds)
    model = describe(summary, found, fit, segments)
    return FittedBoundary(
        model=model,
        warnings=(*filter(None, [warning]), *_warnings_of(model, options.target)),
        goal=goal,
        checked=checked,
        row_units=fitted_on.totals().row_units,
        summary=fitted_on,
    )


def seen_in_sample(
    summary: Summary, found: Found, goal: Goal, single: parts.Figures | None
) -> parts.BoundaryFit:
    """Return what is known of a boundary from the rows that it was found on.

    `summary`, `found`: the rows, and the boundary, with what no other one can exceed; `goal`: that of
    the rows, see `Summary.aim`; `single`: the figures of the best single threshold.
    """
    totals, unit = summary.totals(), summary.tally.unit
    selected, _ = goal.totals.classes.rows(found.selected, found.true_positives)
    return parts.BoundaryFit(
        rows=unit.amount(totals.rows),
        positives=unit.amount(totals.positives),
        in_sample=figures.figures(goal, unit, found.counts),
        upper_bound=found.ceiling,
        optimal_in_sample=False,
        exact_arithmetic=goal.totals.exact and summary.tally.gain_unit.exact,
        # A randomised boundary meets its bound by its very probability.
        bound_met=summary.planned.method.mix is not None or goal.met(*map(int, found.counts)),
        score_only=single,
        cross_validated=None,
        test=None,
        reference=reference(summary, selected / totals.rows),
        certificate=None,
    )


def _of_rows(
    summary: Summary, tally: Tally, goal: Goal, found: Found, resolution: Resolution
) -> tuple[Found, Resolution]:
    """Return a boundary over rows that were made coarser, with what can be known of the optimum.

    No boundary over the rows themselves does better than one that could take the positive rows of
    each coarse score without its negative ones.
    """
    planned, value = summary.planned, goal.value(*found.counts)
    if planned.method.mix or planned.method.surface or planned.score_bins or value is None:
        return found, resolution
    if isinstance(goal, ThreeWay):  # how many rows of a cell suffice is not known
        ceiling = float(not planned.options.target.minimised)
        return replace(found, ceiling=ceiling, proven=False), resolution
    points = tally.parted().points(together=planned.method.together)
    ceiling = prefixes.solve(points, goal.alone).ceiling
    low, high = sorted((value, ceiling))
    found = replace(found, ceiling=ceiling, proven=value == ceiling)
    return found, replace(resolution, optimum=Range(low, high))


def _infeasible(summary: Summary, tally: Tally, goal: Goal) -> InfeasibleError:
    method, target = summary.planned.method, summary.planned.options.target
    blocks = prefixes.isotonic_blocks(tally.points(together=method.together))
    rows, hits = int(blocks.selected[0]), int(blocks.true_positives[0])
    if target.gap is not None:
        advice = "allow a larger gap"
    elif goal.met(rows, hits) and method.name == "exact":
        advice = "the rows within the bound are worth nothing by --value: loosen it"
    elif goal.met(rows, hits):
        advice = "--method exact may"
    elif target.option == "precision":
        assert target.bound is not None
        best = f"{hits / rows:.6g}"
        if float(best) >= float(target.bound):  # of six digits, yet short of it
            best = f"{hits / rows}"
        some, more = "", "improve the scores"
        if summary.planned.score_bins:
            some, more = " of its score bins", "take more --score-bins (0: every score)"
        amount = round(tally.unit.amount(tally.classes.rows(rows, hits)[0]), 2)
        advice = (
            f"the highest precision any selection{some} reaches is {best}, with {amount:,} rows: "
            f"lower the bound, or {more}"
        )
    else:
        advice = "no rows of the highest scores within it hold a positive one: raise the bound"
    found = "selects" if target.gap is None else "was found that selects"
    return InfeasibleError(
        f"no boundary of --method {method.name} {found} a row with {target.text}; {advice}."
    )


class OverCapacityError(InfeasibleError):
    """More rows have to be reviewed than can be."""

    def __init__(self, summary: Summary, least: float, floor: float) -> None:
        possible = f"the least review possible is {least:,} rows"
        if floor < least:
            possible = f"the least review found is {least:,} rows, at least {floor:,} are needed"
        super().__init__(
            f"--method {summary.planned.method.name} cannot {summary.planned.options.target.text}: "
            f"{possible}; raise the capacity, or lower a bound."
        )
        self.least = least


def no_folds(summary: Summary) -> str | None:
    """Return why rows are too few to be cross-validated as asked; None where they are enough."""
    options, part, dealt = summary.planned.options, summary.part, summary.dealt
    folds = options.folds
    if dealt is not None:
        rows, positives = dealt.rows, dealt.positive_rows
    else:
        totals, size = summary.totals(), summary.tally.unit.size
        rows, positives = round(totals.rows * size), round(totals.positives * size)
    few = ""
    if positives < folds or rows < 2 * folds:
        few = f"{positives} positive of {rows} rows are too few"
    elif part is not None and distinct_values(part).size < folds + (options.time is not None):
        few = f"column {options.groups or options.time!r} has too few values"
    if not folds or not few:
        return None
    return f"{few} for {folds} folds: not cross-validated, and the figures on these rows are optimistic"


def score_only(tally: Tally | None, goal: Goal) -> parts.Figures | None:
    """Return the figures of the best single threshold."""
    if tally is None:
        return None
    tally = tally.reweighted(goal.totals.classes)
    found = METHODS["st"].find(tally, goal)
    return figures.figures(goal, tally.unit, found.counts)


# ---------------------------------------------------------------- the model


def reference(summary: Summary, share: float) -> parts.Reference | None:
    """Return the rows in outline, None where only a grid is known; `share` is what is selected."""
    if summary.score is None:
        return None
    tally, score = summary.tally, summary.score
    if summary.single is not None and summary.single.levels > tally.levels:
        tally = summary.single  # the levels that are shown, of which score bins have none
    quantiles, counts, largest = summary.uncertainty or (None, None, None)
    return parts.Reference(
        score_quantiles=[parts.threshold_json(value) for value in score.quantiles],
        uncertainty_quantiles=quantiles,
        rows_per_level=[tally.unit.amount(units) for units in tally.level_totals[:, 1]],
        selected_share=share,
        score_counts=score.counts,
        score_max=parts.threshold_json(score.largest),
        uncertainty_counts=counts,
        uncertainty_max=largest,
    )


def flatten(summary: Summary, found: Found) -> tuple[Summary, Found]:
    """Leave out of what is written down an uncertainty that a surface has no use for; gather cells."""
    if found.leaves is not None:  # of which none is to be empty
        _, first, places = np.unique(found.leaves, return_index=True, return_inverse=True)
        leaves, levels = places.astype(np.uint16), first.size
        found = replace(found.at(first), leaves=leaves)
        tally = summary.tally.coarser(leaves, levels)
    elif (surface := found.surface) and not surface.uncertainty and not surface.product:
        surface = replace(surface, ranks=np.array([0.5]))
        found = replace(found.at(slice(1)), surface=surface)
        levels, tally = 1, summary.tally.coarser(np.zeros(summary.tally.levels, np.uint16), 1)
        summary = replace(summary, levels=Levels(-math.inf, np.empty(0)))
    else:
        return summary, found
    planned = replace(summary.planned, levels=levels)
    return replace(summary, planned=planned, tally=tally, single=tally), found


def describe(
    summary: Summary,
    found: Found,
    fit: parts.BoundaryFit,
    segments: Sequence[parts.SegmentFit] = (),
) -> BoundaryModel:
    """Return the model of a boundary that was found on a tally; `segments` are their figures."""
    planned, stack = summary.planned, summary.stack
    options, levels, columns = planned.options, planned.levels, dict(summary.columns)
    if found.surface is not None and summary.levels is not None:
        levels = summary.levels.count
    if levels == 1:
        columns = {role: c for role, c in columns.items() if not role.startswith("uncertainty")}
    isotonic = _level_steps(summary) if planned.method.isotonic else []
    more: dict[str, Any] = {}

    def rule_of(own: slice, shown: Levels | None) -> dict[str, Any]:
        rule = _rule(replace(summary, levels=shown), found.at(own), levels)
        return rule | {"isotonic": isotonic[own]} if isotonic else rule

    if stack is None:
        rule = rule_of(slice(None), summary.levels)
    else:
        rules = [rule_of(stack.places(k), shown) for k, shown in enumerate(stack.levels)]
        groups = {
            name: parts.Segment(fit=seen, **own)
            for name, seen, own in zip(stack.names, segments, rules, strict=True)
        }
        rule, columns["by"] = never(rules[0]), Column(str(options.by))
        more = {"groups": groups, "bound": options.bound, "pooled": list(stack.pooled)}
    return BoundaryModel(
        kind=BoundaryModel.KIND,
        version=BoundaryModel.VERSION,
        columns=columns,
        objective=objective_of(options.target),
        fit=fit,
        provenance=summary.origin,
        **rule,
        **more,
    )


def _level_steps(summary: Summary) -> list[parts.Steps]:
    """Return the isotonic regression of the labels on the score in each level: what MIST estimates.

    (Arora, Merugu, Saladi, Rastogi, Leveraging uncertainty estimates to improve classifier
    performance, appendix C.6.)  The share of positive rows rises by blocks.  A block reaches down to
    its lowest score; rows below the last score with a positive row are a block of rate 0.
    """
    tally, _ = summary.aim()
    points = tally.points()
    blocks = prefixes.isotonic_blocks(points)
    rate = blocks.true_positives / blocks.selected
    lowest = tally.score[points.entry[blocks.point]]
    lowest_of = np.full(tally.levels, np.nan)
    lowest_of[tally.level] = tally.score  # scores fall along the tally: the last one stays
    found = []
    for level, least in enumerate(lowest_of):
        own = blocks.level == level  # from the highest score down
        knots, values = lowest[own], rate[own]
        if not np.isnan(least) and not (knots.size and knots[-1] == least):
            knots, values = np.append(knots, least), np.append(values, 0.0)
        scores = [parts.threshold_json(summary.score_at(level, knot)) for knot in knots[::-1]]
        found.append(parts.Steps(knots=scores, values=values[::-1].tolist()))
    return found


def never(rule: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rule like another one that selects nothing."""
    nothing = {"method": rule["method"], "uncertainty_min": None, "uncertainty_edges": []}
    nothing["score_thresholds"] = [None]
    if rule.get("randomise", msgspec.UNSET) is not msgspec.UNSET:
        nothing |= {"randomise": rule["randomise"], "seed": rule["seed"]}
        nothing |= {"random_thresholds": [None], "tie_probability": [0.0]}
    return nothing


def _rule(summary: Summary, found: Found, levels: int) -> dict[str, Any]:
    """Return what decides in a model: its method, levels and thresholds."""
    rule: dict[str, Any] = {"method": summary.planned.method.name, "uncertainty_min": None}
    rule |= {"uncertainty_edges": [], "score_thresholds": []}
    if summary.grid is not None and summary.grid.order == "score-uncertainty":
        return rule | _score_first(summary.grid, found, summary)
    lowest = summary.scores(found.thresholds)
    if levels > 1 and found.leaves is not None and summary.cells is not None:
        edges = [own.tolist() for own in summary.cells.edges]
        rule["partition"] = parts.Partition(edges=edges, leaves=found.leaves.tolist())
    elif levels > 1:
        assert summary.levels is not None
        lowest = np.broadcast_to(lowest, levels)  # a single threshold, shown at every level
        rule["uncertainty_min"] = summary.levels.minimum
        rule["uncertainty_edges"] = summary.levels.edges.tolist()
    rule["score_thresholds"] = [parts.threshold_json(value) for value in lowest]
    if found.review is not None:
        review = np.broadcast_to(summary.scores(found.review), lowest.shape)
        rule["block_thresholds"] = rule["score_thresholds"]
        rule["review_thresholds"] = [parts.threshold_json(value) for value in review]
    if found.wide is not None:
        rule |= _random(summary, found, rule["score_thresholds"])
    if found.surface is not None:
        clipped: int | float = 0  # of probabilities, to have logits
        if summary.columns["score"].measure == "probability":
            clipped = summary.tally.unit.amount(summary.tally.clipped)
        rule |= {
            "coefficients": {name: getattr(found.surface, name) for name in COEFFICIENTS},
            "uncertainty_ranks": found.surface.ranks.tolist(),
            "cut": None if math.isnan(found.cut) else logistic(found.cut),
            "clipped": clipped,
        }
    return rule


def _random(summary: Summary, found: Found, thresholds: list[parts.Threshold]) -> dict[str, Any]:
    """Return what is random: over scores from `random_thresholds` up, or at the threshold itself."""
    options = summary.planned.options
    assert found.wide is not None
    wide = np.broadcast_to(summary.scores(found.wide), len(thresholds))
    rule: dict[str, Any] = {"randomise": options.randomise, "seed": options.seed}
    lows = [parts.threshold_json(low) for low in wide]
    if options.randomise == "tie":
        chance = found.probability or float(lows[0] is not None)
        rule |= {"score_thresholds": lows, "tie_probability": [chance]}
        return rule | {"random_thresholds": [None] * len(lows)}
    known = zip(lows, thresholds, strict=True)
    lows = [low if found.probability and low != narrow else None for low, narrow in known]
    chances = [0.0 if low is None else found.probability for low in lows]
    return rule | {"random_thresholds": lows, "tie_probability": chances}


def _score_first(grid: Grid, found: Found, summary: Summary) -> dict[str, Any]:
    """Return the levels of each score bin, and how many of the highest bins each takes."""
    if not np.isfinite(grid.score_edges).all() or not np.isfinite(grid.score_min).all():
        column = summary.columns["score"].name
        problem = f"column {column!r}: a score bin begins at an infinite score"
        advice = "--order score-uncertainty needs finite ones: clip the scores, or leave it out"
        raise DataError.of(summary.file, f"{problem}; {advice}", column=column)
    empty = np.isnan(grid.uncertainty_min)
    lowest = zip(grid.uncertainty_min, empty, strict=True)
    edges = zip(grid.uncertainty_edges, empty, strict=True)
    bins, take = grid.shape[1], []
    for total, threshold in zip(grid.total, found.thresholds, strict=True):
        least = bins if np.isnan(threshold) else int(threshold)
        take.append(bins - least if least == bins or total[:least].any() else bins)
    return {
        "order": grid.order,
        "take": take,
        "score_min": float(grid.score_min[0]),
        "score_edges": grid.score_edges[0].tolist(),
        "uncertainty_min": [None if none or np.isinf(low) else float(low) for low, none in lowest],
        "uncertainty_edges": [[] if none else own.tolist() for own, none in edges],
    }


def objective_of(target: Target) -> parts.Objective:
    """Return what is reached for, as models say it."""
    found = parts.Objective(subject_to={})
    if target.prevalence is not None:
        found.prevalence = float(target.prevalence)
    if (asked := target.review) is not None:
        setattr(found, "minimize" if target.minimised else "maximize", asked.objective)
        found.subject_to = {name: float(bound) for name, bound in asked.bounds.items()}
        if asked.costs:
            found.review_cost = float(asked.costs[2])
    elif target.bound is not None:
        found.maximize = GOALS[target.option].maximised
        found.subject_to = {one.option: float(one.bound) for one in target.each if one.bound}
        if target.gap is not None:
            found.max_gap = {target.gap.measure: float(target.gap.most)}
    elif target.option == "minimize":
        found.minimize = target.value
    else:
        found.maximize = target.value
    return found


def _warnings_of(model: BoundaryModel, target: Target) -> list[str]:
    """Return what the user of a boundary should be told."""
    found, seen = [], model.fit.in_sample
    if not model.fit.bound_met:
        found.append(
            f"counted again on the rows, --method {model.method} misses the bound {target.text}: "
            f"precision {_rate(seen.precision)}, recall {_rate(seen.recall)}"
        )
    coarse = model.fit.resolution is not msgspec.UNSET or model.partition is not msgspec.UNSET
    whole = model.method == "exact" and target.gap is None  # of a gap some choices are searched
    if whole and not model.fit.optimal_in_sample and not coarse:
        found.append(
            f"the search was cut short: {_rate(seen.objective_value)} is reached, at "
            f"{'least' if target.minimised else 'most'} {_rate(model.fit.upper_bound)} is possible"
        )
    bounds = {} if target.review is None else target.review.bounds
    if "precision" in bounds and not seen.selected:
        found.append(
            f"no rows reach precision {bounds['precision']}: none is blocked"
            + (", and what is wanted of recall is reviewed" if "recall" in bounds else "")
        )
    return found


def _rate(value: float | None) -> str:
    return "undefined" if value is None else f"{value:.6g}"
