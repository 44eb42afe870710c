"""Counting a boundary: rates from totals, on the fitting rows, over folds and on new rows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import msgspec
import numpy as np
from msgspec.structs import replace

from calibkit.arrays import Floats, Int64s
from calibkit.columns.weights import AS_THEY_ARE, ROW, ClassWeights, Unit, in_units
from calibkit.methods.boundary.problem.columns import Values, read_values, uncertainties
from calibkit.methods.boundary.problem.found import Found, held_out
from calibkit.methods.boundary.problem.goals import Goal, Measure, Totals, tally_totals
from calibkit.methods.boundary.result import parts
from calibkit.methods.boundary.result.application import (
    group_codes,
    probabilities,
    reviewed,
    spread_of,
)
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.methods.boundary.solvers import gap
from calibkit.methods.boundary.solvers.methods import METHODS, Plan, classes_of
from calibkit.methods.boundary.solvers.summary import Stack
from calibkit.methods.boundary.solvers.three_way import ThreeWay
from calibkit.numerics.confusion import Cells, slopes
from calibkit.numerics.sums import added
from calibkit.options.objective import Gap, Target
from calibkit.runtime.threads import in_order, threads_for
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import Tally

#: The gaps between segments whose price is told, in shares of the one that was asked for.
_GAPS = (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(2), Fraction(4))


class Judged(NamedTuple):
    """What a fold holds, and what a boundary fitted without it selects there, in units."""

    rows: float
    positives: float
    selected: float
    true_positives: float
    gain: float = 0.0
    reviewed: float = 0.0
    reviewed_positives: float = 0.0


def figures(goal: Goal, unit: Unit, counts: Sequence[float]) -> parts.Figures:
    """Return the figures of a boundary from its totals, in units of weight; see `Found.counts`.

    The rates are those of reweighted classes where they are, the counts those of the rows.
    """
    selected, true_positives, _, *more = counts
    negatives = goal.totals.rows - goal.totals.positives
    rows, hits = goal.totals.classes.rows(selected, true_positives)
    found = parts.Figures(
        selected=unit.amount(rows),
        true_positives=unit.amount(hits),
        false_positive_rate=(selected - true_positives) / negatives if negatives else None,
        **_rates(goal, counts),
    )
    if isinstance(goal, ThreeWay):
        found.reviewed, found.reviewed_positives = map(unit.amount, more)
    return found


def _rates(goal: Goal, counts: Sequence[float]) -> dict[str, Any]:
    """Return what is known of a boundary on whatever rows it is judged."""
    selected, hits, gain, _, also = counts
    precision = hits / selected if selected else None
    recall, value = goal.recall(hits + also, gain), goal.value(*counts)
    return {"precision": precision, "recall": recall, "objective_value": value}


class Validation(NamedTuple):
    """The figures of boundaries on the folds that their fits left out; each fold, and its boundary."""

    figures: parts.CrossValidated
    folds: tuple[Judged, ...]
    found: dict[int, Found]

    def on(self, dealt: Tally) -> list[tuple[Tally, Found]]:
        """Return each fold of rows that were dealt alike, with the boundary that left it out."""
        return [(dealt.where(dealt.part == k), own) for k, own in sorted(self.found.items())]

    def of_some(self, tally: Tally) -> Validation:
        """Return the same, saying that it is of these rows, which were drawn from all."""
        totals, amount = tally_totals(tally), tally.unit.amount
        rows, positives = amount(totals.rows), amount(totals.positives)
        return self._replace(figures=replace(self.figures, rows=rows, positives=positives))


def cross_validate(dealt: Tally, planned: Plan, goal: Goal) -> Validation:
    """Return the cross-validation of a method on a tally that is dealt to folds.

    Where a column of time deals them the parts, one more than folds, follow each other: each but the
    first is judged by a boundary fitted on those before it.

    Counts are pooled over the folds.  The standard error of the objective comes from its values on
    the single folds, null where fewer than two are defined; where rows stand for several rows each,
    from their influences (see `calibkit.methods.boundary.result.figures`).
    """
    options, method = planned.options, planned.method
    forward = options.time is not None
    parts = options.folds + forward
    totals = np.column_stack((dealt.part_totals(parts), dealt.part_gains(parts)))
    like = tally_totals(dealt)
    squares = np.full((parts, 4), np.nan)
    boundaries: dict[int, Found] = {}

    def goal_of(fold_totals: Int64s) -> Goal:
        rows, positives, gain = map(int, fold_totals.sum(axis=0))
        return goal.of(replace(like, rows=rows, positives=positives, gain=gain))

    def judge(fold: int) -> Judged:
        rows, positives = int(totals[fold, 0]), int(totals[fold, 1])
        others = goal_of(totals[:fold] if forward else np.delete(totals, fold, axis=0))
        if others.totals.positives == 0 and options.target.needs:
            return Judged(rows, positives, 0, 0, 0)
        if forward:
            found = method.find(dealt.before(fold), others)
        else:
            found = method.find(dealt, others, excluded=fold)
        boundaries[fold] = found
        if dealt.squares.size and not found.probability:  # sums of squared weights in the cells
            own = dealt.part == fold
            with np.errstate(invalid="ignore"):
                taken = dealt.score >= found.thresholds[dealt.level]
            cells = [dealt.squares[own & chosen] for chosen in (taken, ~taken)]
            squares[fold] = [float(cell[:, side].sum()) for cell in cells for side in (1, 0)]
        return Judged(rows, positives, *held_out(dealt, fold, found))

    judged_folds = range(forward, parts)
    threads = threads_for(dealt.score.size, options.workers)
    judged = tuple(in_order(threads, judge, judged_folds))
    counted = added([fold[2:] for fold in judged])
    pooled = goal_of(totals[forward:])
    error = standard_error(
        goal_of(totals[[fold]]).value(*one[2:])
        for fold, one in zip(judged_folds, judged, strict=True)
    )
    alike = not pooled.uses_gain and not isinstance(pooled, ThreeWay)
    known = pooled.value(*counted) is not None and np.isfinite(squares[forward:]).all()
    if dealt.squares.size and alike and known:
        whole, classes = pooled.totals, dealt.classes
        rows, positives = classes.rows(float(whole.rows), float(whole.positives))
        taken, hits = classes.rows(float(counted[0]), float(counted[1]))
        cells = np.array([hits, taken - hits, positives - hits, rows - positives - taken + hits])
        prevalence = None if classes == AS_THEY_ARE else whole.positives / whole.rows
        sums = squares[forward:].sum(axis=0) * dealt.square_unit
        error = linearised_error(pooled, cells * dealt.unit.size, sums, prevalence)
    return Validation(pooled_figures(pooled, counted, error, options.folds), judged, boundaries)


def pooled_figures(
    goal: Goal, counted: Sequence[float], error: float | None, folds: int
) -> parts.CrossValidated:
    """Return the figures of what boundaries select of the folds that their fits left out.

    `counted` are totals over all folds, see `Found.counts`, `goal` is that of them, and `error` the
    standard error of the objective.
    """
    return parts.CrossValidated(standard_error=error, folds=folds, **_rates(goal, counted))


def standard_error(values: Iterable[float | None]) -> float | None:
    """Return the standard error of the mean of those values that are known, None for fewer than two."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    mean = math.fsum(known) / len(known)
    spread = math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1)
    return math.sqrt(spread / len(known))


def judge_rows(
    model: BoundaryModel,
    rows: ScoreRows,
    target: Target,
    make_goal: Callable[[Totals], Goal],
    values: Values | None,
    classes: ClassWeights | None = None,
) -> parts.TestFigures:
    """Return the figures of a boundary on labelled rows.

    `values`: what each row is worth, see `read_values`; `classes`: by how much these are reweighted;
    None: so that the base rate is that of the target.
    """
    by = model.columns.get("by")
    segments = None if by is None or not rows.others.width else rows.other(by.name)
    spread = rows.uncertainty
    if model.partition is not msgspec.UNSET:
        named = [model.columns[role].name for role in model.spreads]
        spread = spread_of(model, uncertainties(rows, named))
    chance = probabilities(model, rows.score, spread, segments)
    also = np.zeros(chance.size, np.bool_)
    if model.review_thresholds is not msgspec.UNSET:
        also = reviewed(model, rows.score, spread)
    units, unit, totals = _counted(rows, chance + 2.0 * also)
    hits, gain, weighed = rows.labels.astype(bool), 0.0, totals
    selected, true_positives = _expected(units, chance), _expected(units[hits], chance[hits])
    classes = classes_of(target, totals) if classes is None else classes
    if classes != AS_THEY_ARE:
        weighed = totals.reweighted(classes)
        selected, true_positives = classes.weigh(selected, true_positives)
    if values is not None:
        whole = int(values.gain[values.gain > 0].sum())
        weighed = replace(weighed, gain=whole, gain_unit=values.unit)
        gain = _expected(values.gain, chance)
    more = int(units[also].sum()), int(units[also & hits].sum())
    counts = selected, true_positives, gain, *more
    return parts.TestFigures(
        rows=unit.amount(totals.rows),
        positives=unit.amount(totals.positives),
        **msgspec.structs.asdict(figures(make_goal(weighed), unit, counts)),
    )


def _counted(rows: ScoreRows, kind: Floats) -> tuple[Int64s, Unit, Totals]:
    """Return what each row counts in whole units, the unit, and the totals.

    Sums over the rows of a kind and label do not depend on the order of rows.
    """
    units, unit = np.ones(rows.score.size, np.int64), ROW
    hits = rows.labels.astype(bool)
    if rows.weight is not None:
        units, unit = in_units(rows.weight, 2 * np.unique(kind, return_inverse=True)[1] + hits)
    totals = Totals(int(units.sum()), int(units[hits].sum()), unit.exact, 1 / Fraction(unit.size))
    return units, unit, totals


def _expected(units: Int64s, chance: Floats) -> float:
    """Return how many units are selected: whole ones, expected ones where chance plays a part."""
    certain = int(units[chance == 1.0].sum())
    random = (chance > 0.0) & (chance < 1.0)
    if not random.any():
        return certain
    # One level randomises at most, of each segment: few probabilities, in whatever order rows come.
    known, place = np.unique(chance[random], return_inverse=True)
    sums = np.zeros(known.size, np.int64)
    np.add.at(sums, place, units[random])
    return math.fsum([certain, *(known * sums)])


# ---------------------------------------------------------------- segments


def judge_segments(
    stack: Stack,
    goal: Goal,
    tally: Tally,
    found: Found,
    folds: Sequence[tuple[Tally, Found]],
) -> list[parts.SegmentFit]:
    """Return the figures of each segment.

    `stack`: the segments; `goal`: that of all rows; `tally`, `found`: the fitting rows and the
    boundary on them; `folds`: see `Validation.on`, empty without cross-validation.
    """

    def seen(part: Tally, boundary: Found, levels: slice) -> tuple[Goal, Sequence[float]]:
        """Return the goal of a segment's rows, and what a boundary selects of them."""
        own = part.where((part.level >= levels.start) & (part.level < levels.stop))
        # Reweighted by the weights of all rows, not by its own.
        own_totals = replace(tally_totals(own), classes=goal.totals.classes)
        return goal.of(own_totals), held_out(own, -1, boundary)

    fits, unit = [], tally.unit
    for levels in map(stack.places, range(len(stack.names))):
        own_goal, counts = seen(tally, found, levels)
        totals = own_goal.totals
        rows, positives = totals.classes.rows(totals.rows, totals.positives)
        fit = parts.SegmentFit(
            rows=unit.amount(rows),
            positives=unit.amount(positives),
            in_sample=figures(own_goal, unit, counts),
        )
        if folds:
            judged = [seen(*fold, levels) for fold in folds]
            error = standard_error(each.value(*counted) for each, counted in judged)
            pooled: Floats = np.sum([counted for _, counted in judged], axis=0, dtype=np.float64)
            fit.cross_validated = pooled_figures(own_goal, pooled.tolist(), error, len(folds))
        fits.append(fit)
    return fits


def gap_seen(
    goal: gap.WithinGap, tally: Tally, found: Found, folds: Sequence[tuple[Tally, Found]]
) -> parts.GapFigures:
    """Return how far segments lie apart, and what the objective is within other gaps."""
    counted = [_by_segment(goal, *fold) for fold in folds]
    free = METHODS["exact"].find(tally, goal.alone)
    widest = goal.gap(*_by_segment(goal, tally, free))
    prices = []
    for times in _GAPS:
        most = times * goal.most
        if widest is None or most >= widest:
            break
        narrower = gap.WithinGap(goal.goal, goal.measure, most, goal.segments)
        within = gap.find(tally, narrower)
        prices.append(parts.Price(max_gap=float(most), objective_value=goal.value(*within.counts)))
    if widest is not None:
        prices.append(parts.Price(max_gap=widest, objective_value=goal.value(*free.counts)))
    return parts.GapFigures(
        in_sample=goal.gap(*_by_segment(goal, tally, found)),
        cross_validated=goal.gap(*np.sum(counted, axis=0)) if counted else None,
        without_limit=widest,
        prices=prices,
    )


def _by_segment(goal: gap.WithinGap, tally: Tally, found: Found) -> Int64s:
    """Return rows, positives, selected rows and true positives of each segment, one row each."""
    with np.errstate(invalid="ignore"):
        taken = tally.where(tally.score >= found.thresholds[tally.level])
    counts = np.hstack([own.level_totals[:, 1:] for own in (tally, taken)])
    return counts.reshape(goal.segments, -1, 4).sum(axis=1).T


def judge_test(
    model: BoundaryModel, rows: ScoreRows, target: Target, make_goal: Callable[[Totals], Goal]
) -> None:
    """Write the figures on test rows into a model, of all of them and of each segment."""
    values = read_values(rows, target)
    model.fit.test = judge_rows(model, rows, target, make_goal, values)
    if model.groups is msgspec.UNSET:
        return
    code = group_codes(model, rows.other(model.columns["by"].name))
    classes = None  # its own, where each segment was fitted by itself
    if model.bound != "each":
        classes = classes_of(target, _counted(rows, np.zeros(rows.score.size))[2])
    for place, segment in enumerate(model.groups.values()):
        own = np.flatnonzero(code == place)
        if own.size:
            worth = None if values is None else replace(values, gain=values.gain[own])
            part = rows.only(own)
            segment.fit.test = judge_rows(model, part, target, make_goal, worth, classes)
    if model.fit.gap and target.gap is not None:
        seen = (segment.fit.test for segment in model.groups.values())
        model.fit.gap.test = apart(target.gap, seen)


def apart(gap: Gap, seen: Iterable[parts.Figures | None]) -> float | None:
    """Return how far the rates of segments lie apart that a gap is about; None where none has one."""
    name = "recall" if gap.measure == "recall" else "false_positive_rate"
    rates = [rate for one in seen if (rate := getattr(one, name, None)) is not None]
    return max(rates) - min(rates) if rates else None


def linearised_error(goal: Goal, cells: Floats, squares: Floats, prevalence: float | None) -> float:
    """Return the standard error of a goal that counts rows which stand for several rows each.

    A weight that says for how many rows one row stands makes a figure a ratio of weighted sums.  Its
    error to first order is that of the sum of the rows' influences: a row's weight times the derivative
    of the figure by the weight in the row's cell of the confusion matrix (Särndal, Swensson, Wretman,
    Model assisted survey sampling, 1992, section 5.5).  So the sums of squared weights in the cells (of
    true and false positives, false and true negatives) are all it takes, beside the weights there.
    `prevalence` is the base rate to which the classes are reweighted, if they are.
    """

    def objective(c: Cells) -> Any:
        if prevalence is not None:
            positive, negative = prevalence / (c.tp + c.fn), (1.0 - prevalence) / (c.fp + c.tn)
            c = Cells(c.tp * positive, c.fp * negative, c.fn * positive, c.tn * negative)
        return goal.formula(c) if isinstance(goal, Measure) else getattr(c, goal.maximised)

    return math.sqrt(math.fsum(slopes(objective, cells) ** 2 * squares))
