"""Choosing the method, or the number of levels, by cross-validation.

The candidates of the method ``auto`` are a single threshold, a logistic surface and the optimum over
K levels; those of ``--uncertainty-bins auto`` are the levels of one method.

Every candidate is cross-validated, if possible on the same deal of the same rows. The richer a
boundary, the more it overstates itself on the rows it was fitted on: out of sample it selects too
many rows for the bound, and recall alone would take that for a gain. So under a bound a candidate
is worth ``T - c M``, its true positives less the price of the rows it selects, at the one price c
at which the bound is paid for: the rate of positives at the margin of the best single threshold's
relaxation. That is, up to a factor, its recall where its precision (false positives, selected rows)
has been brought back to the bound along a line of slope c. Without a bound its worth is the
objective.

Whoever asks for the most recall at a precision is not to be given less of it than another candidate
has: each is also judged *at the bound*, with its cut moved to where the bound just holds on the rows
that its fits left out.  Candidates that fall short of the best there by more than a standard error of
the difference are left out.  Every boundary orders rows by their *margin*: by how much the score, in
log-odds where scores are probabilities, exceeds the threshold of the row's level; of a surface, by how
much its value exceeds the cut.  Each row is measured against the boundary that was fitted without its
fold.  To select the rows above one margin, the same for all folds, is the boundary with its cut moved.
Levels of which a boundary selects nothing stay without.  Margins are told apart by bins, of which the
first selected one begins at the cut as it was fitted.

The rule for the others is the usual one for candidates in order of complexity: the simplest within
one standard error of the best.  The error is that of the *difference* of two candidates, which comes
from the rows that one selects and the other does not; the figures themselves share most of their
noise.  Numbers of levels have deals of their own each, so for them it is the error of the best.
Of very many rows a million or two, taken at random, are enough to choose by; the candidate chosen is
then fitted on all, and what these rows say of it out of sample stands in the model.

Candidates whose bounded figure falls short of the bound by more than two standard errors are left
out before, unless all do.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from fractions import Fraction
from typing import TypeVar

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from calibkit.arrays import Bools, Floats, Int64s
from calibkit.errors import InfeasibleError, UsageError
from calibkit.methods.boundary.problem.bounded import BoundedGoal
from calibkit.methods.boundary.problem.goals import CountGoal, Goal, tally_totals
from calibkit.methods.boundary.result import figures
from calibkit.methods.boundary.result.fit import FittedBoundary, fit_summary, no_folds
from calibkit.methods.boundary.result.parts import Candidate
from calibkit.methods.boundary.solvers import prefixes, three_way
from calibkit.methods.boundary.solvers.cells import leaves_of
from calibkit.methods.boundary.solvers.logistic import distinct
from calibkit.methods.boundary.solvers.methods import Plan, plan
from calibkit.methods.boundary.solvers.summary import Summary, summarise
from calibkit.numerics.sums import added
from calibkit.options.boundary import AUTO, MOST_FOLDS, BoundaryOptions
from calibkit.runtime.memory import give_back
from calibkit.runtime.progress import steps
from calibkit.summaries.binning import GridTable, Levels, several_levels
from calibkit.summaries.score_rows import ScoreRows
from calibkit.summaries.tally import Tally
from calibkit_kernels.tally import margin_bins

#: The numbers of levels that the optimum is tried with.
LEVELS = (2, 3, 5, 7, 11)
#: The numbers of levels that ``--uncertainty-bins auto`` tries.
EVERY_LEVELS = (1, *LEVELS)
#: Of more rows than twice as many, about so many are enough to choose by.
ENOUGH = 1_000_000
_THINNED = 2**32
#: Bins of the margin on either side of the cut, and how many interquartile ranges they reach.
_BINS, _REACH = 4096, 4.0
G = TypeVar("G", bound=Goal)
#: Counts rows for some options.
Count = Callable[[ScoreRows, BoundaryOptions], Summary]


class Choice(Struct, frozen=True):
    """What candidates are fitted on, the best to use first, and what was seen of each.

    Beside each is its cross-validation where that stands for the one of the fit: of many rows.
    """

    ranked: tuple[tuple[Summary, figures.Validation | None], ...]
    seen: tuple[Candidate, ...] = ()


def fit_choice(choice: Choice) -> FittedBoundary:
    """Fit the candidate that was chosen, or the next best one where that one finds no boundary."""
    give_back()
    failure: InfeasibleError | None = None
    for candidate, checked in choice.ranked:
        try:
            summary = candidate.over_own_levels()
            tally = summary.tally.merged()  # as a count over its own levels alone would give it
            single = tally if summary.single is summary.tally else summary.single
            give_back()
            fitted = fit_summary(replace(summary, tally=tally, single=single), checked)
        except InfeasibleError as error:
            failure = min(failure or error, error, key=lambda one: one.least)
            continue
        model = fitted.model
        if choice.seen:
            model.fit.candidates = list(choice.seen)
        assert model.provenance is not None  # which names the method that was asked for
        asked = {**model.provenance.options, "method": AUTO}
        model.provenance = replace(model.provenance, options=asked)
        own = next(one for one, _ in choice.ranked if one.planned.method.surface is None)
        return replace(fitted, summary=own.over_own_levels())
    assert failure is not None
    raise failure


def fit_rows(data: ScoreRows | GridTable, options: BoundaryOptions) -> FittedBoundary:
    """Fit one boundary on all rows, by the method and over the levels given or chosen."""
    if options.method == AUTO:
        choice = choose_method(data, options)
        del data  # of which nothing but the counts is needed
        return fit_choice(choice)
    if options.auto_levels:
        return choose_levels(data, options)
    summary = summarise(data, options)
    del data
    give_back()
    return fit_summary(summary)


def choose_levels(
    data: ScoreRows | GridTable, options: BoundaryOptions, count: Count = summarise
) -> FittedBoundary:
    """Fit a boundary with the number of levels that cross-validation favours.

    Without uncertainties there is one level; `count` counts the rows for a number of levels.
    """
    if isinstance(data, GridTable):
        raise UsageError("a grid has its levels; leave --uncertainty-bins auto out.")
    single = count(data, options.at_levels(1))
    if data.uncertainty is None:
        return fit_summary(single)
    tried: list[tuple[FittedBoundary, Tried]] = []
    failure: InfeasibleError | None = None
    for levels in EVERY_LEVELS:
        summary = single if levels == 1 else count(data, options.at_levels(levels))
        try:
            fitted = fit_summary(summary)
        except InfeasibleError as error:
            failure = error
            continue
        if fitted.checked is None:  # too few rows to tell: the fit will warn
            return fitted
        tried.append((fitted, Tried(summary, fitted.checked)))
    if failure is not None and not tried:
        raise failure
    judge = Judge(single.aim()[1], single)
    worth = [judge.worth(one.pooled) for _, one in tried]
    best = int(np.argmax(worth))
    least = worth[best] - judge.error_alone(tried[best][1])
    return next(fitted for (fitted, _), own in zip(tried, worth, strict=True) if own >= least)


def choose_method(data: ScoreRows | GridTable, options: BoundaryOptions) -> Choice:
    """Return the candidates of ``--method auto`` by what cross-validation says of them.

    A grid has one number of levels, and no surface; a number of levels that is asked for is that of
    every candidate.  Without folds, or with too few rows for them, the simplest comes first.
    """
    plans = candidates(data, options)
    if len(plans) == 1:
        return Choice(((summarise(data, plans[0].options), None),))
    if isinstance(data, ScoreRows) and not any(planned.score_bins for planned in plans):
        return choose_among(*_count_finely(data, plans))
    return choose_among([summarise(data, planned.options) for planned in plans])


def choose_among(summaries: list[Summary], shared: Summary | None = None) -> Choice:
    """Return candidates, the simplest first, by what cross-validation says of them.

    `shared`: whose tally all of them have, over finer levels; they are judged on one deal of it.
    """
    base = shared or summaries[0]
    options = base.planned.options
    base.need_classes()
    if not options.folds or no_folds(base) is not None:  # of too few rows the fit warns
        return Choice(tuple((one, None) for one in summaries))
    goal = base.aim()[1]
    classes, dealt, some = goal.totals.classes, None, None
    if shared is not None:
        parts, counted_on = base.totals().rows // ENOUGH, base
        if base.dealt is None and parts > 1:  # that many are enough, taken at random
            # Another seed than that of the folds: both draws are keyed by score, level and label.
            some = base.tally.sample(min(parts, MOST_FOLDS), options.seed + _THINNED)
            counted_on = replace(base, tally=some)
        dealt = counted_on.deal(classes)
        if base.columns["score"].measure == "probability":
            dealt.logits(options.workers)  # which the levels of all candidates share
    # What one threshold can hardly reach has a price there that says nothing of a partition's.
    priced = summaries[0 if base.cells is None else len(summaries) // 2]
    if some is not None:
        priced = replace(priced, tally=some)
    judge, tried = Judge(goal, priced.over_own_levels(), dealt), []
    for summary in steps(summaries, len(summaries), "candidates judged"):
        if dealt is None:
            own = summary.deal(classes)
        else:
            own = replace(summary, tally=dealt).over_own_levels().tally
        checked, beside = figures.cross_validate(own, summary.planned, goal), None
        if checked.found and judge.rows_alone:
            known = summary.grid is None and summary.columns["score"].measure == "probability"
            beside = margins(own, checked, probability=known)
        if some is not None:
            checked = checked.of_some(some)
        tried.append(Tried(summary, checked, beside))
    # A table of segments needs the folds themselves.
    stands = some is not None and base.stack is None
    return _rank(judge, tried, stands)


def candidates(data: ScoreRows | GridTable, options: BoundaryOptions) -> list[Plan]:
    """Return what ``auto`` tries, the simplest first."""
    levels = options.levels
    wanted = [("st", levels)]
    if isinstance(data, GridTable):
        wanted = [*(wanted if data.grid.score_edges.shape[0] == 1 else []), ("exact", levels)]
    elif data.uncertainty is not None and levels != 1:
        finite = data.options.measure == "probability" or not np.isinf(data.score).any()
        if options.target.review is None and finite:
            wanted.append(("logistic", levels))
        wanted += [("exact", own) for own in (LEVELS if levels is None else (levels,))]
    plans, refused = [], None
    for name, own in wanted:
        try:
            plans.append(plan(dataclasses.replace(options.at_levels(own), method=name), data))
        except UsageError as error:
            refused = error
    if refused is not None and not plans:
        raise refused
    return plans


def _count_finely(data: ScoreRows, plans: list[Plan]) -> tuple[list[Summary], Summary]:
    """Count rows once, over levels that refine those of all candidates.

    Returned are the summaries of the candidates, and the one over these levels, whose tally they share.
    """
    own_levels = []
    wanted, strategy = [planned.levels for planned in plans], plans[0].options.strategy
    for planned, levels in zip(plans, several_levels(data, wanted, strategy), strict=True):
        own = planned.method.surface and data.cells is None  # of cells each keeps its number
        own_levels.append(distinct(levels) if own else levels)
    edges = np.concatenate([levels.edges for levels in own_levels])
    finest = distinct(Levels(own_levels[0].minimum, edges))
    most = max(plans, key=lambda planned: 0 if planned.method.surface else planned.levels)
    base = summarise(data, most.options, finest)
    starts = np.append(finest.minimum, finest.edges)
    summaries = []
    for planned, levels in zip(plans, own_levels, strict=True):
        places = np.searchsorted(levels.edges, starts, side="right").astype(np.uint16)
        options = {**base.origin.options, "uncertainty_bins": planned.kept_levels}
        origin = replace(base.origin, options=options)
        counted = replace(base, planned=planned, origin=origin, levels=levels, places=places)
        summaries.append(counted)
    return summaries, base


def _rank(judge: Judge, tried: list[Tried], stands: bool) -> Choice:
    """Order candidates: the simplest that is as good as the best first, then by worth.

    `stands`: whether their cross-validations stand for that of the fit.
    """
    worth = [judge.worth(one.pooled) for one in tried]
    within = [judge.within(one) for one in tried]
    eligible = [k for k in range(len(tried)) if within[k] or not any(within)]
    moved = [judge.at_bound(one) for one in tried]
    reached = [0.0 if one is None else judge.value(one.pooled) for one in moved]
    first = max(eligible, key=lambda k: reached[k])
    errors = [judge.error_at_bound(one, moved[first]) for one in moved]
    eligible = [k for k in eligible if reached[first] - reached[k] <= errors[k]]
    best = max(eligible, key=lambda k: worth[k])
    gaps = [(worth[best] - worth[k], judge.error(one, tried[best])) for k, one in enumerate(tried)]
    chosen = next(k for k in eligible if gaps[k][0] <= gaps[k][1])
    order = sorted(range(len(tried)), key=lambda k: (k != chosen, k not in eligible, -worth[k]))
    seen = []
    for k, (one, inside, (gap, error)) in enumerate(zip(tried, within, gaps, strict=True)):
        planned, found = one.summary.planned, one.checked.figures
        seen.append(
            Candidate(
                method=planned.method.name,
                uncertainty_bins=planned.kept_levels,
                precision=found.precision,
                recall=found.recall,
                objective_value=found.objective_value,
                within_bound=inside,
                gap=gap,
                gap_standard_error=error,
            )
        )
        if moved[k] is not None:
            setattr(seen[-1], f"{judge.goal.maximised}_at_bound", reached[k])
            seen[-1].at_bound_standard_error = errors[k]
    ranked = ((tried[k].summary, tried[k].checked if stands else None) for k in order)
    return Choice(tuple(ranked), tuple(seen))


class Tried(Struct, frozen=True):
    """A candidate: what it is fitted on, and its cross-validation."""

    summary: Summary
    checked: figures.Validation  # whose folds may hold what a moved cut selects
    #: Where numbers of rows are all that counts, and the bin that the cut is moved to (None: nothing
    #: is selected).
    margins: Margins | None = None
    cut: int | None = 0

    @property
    def pooled(self) -> figures.Judged:
        """The sum of its folds."""
        return figures.Judged(*added(self.checked.folds))


class Judge:
    """What candidates are worth on the rows that their fits left out.

    Where the objective is more than counts of rows (a column of values or costs), a candidate is
    worth the objective itself, and errors come from the folds.
    """

    def __init__(self, goal: Goal, priced: Summary, dealt: Tally | None = None) -> None:
        self.goal, self.dealt, self.prices = goal, dealt, marginal_prices(priced, goal)
        self.minimised, self.price = priced.planned.options.target.minimised, self.prices[0]
        self.rows_alone = not goal.uses_gain and not isinstance(goal, three_way.ThreeWay)
        self.priced = bool(goal.bounded) and self.rows_alone

    def worth(self, seen: figures.Judged) -> float:
        """Return the worth of what was seen, in shares of the positives or in the objective's unit."""
        if self.priced:
            return (seen.true_positives - self.price * seen.selected) / (seen.positives or 1)
        if isinstance(self.goal, three_way.ThreeWay):
            return goal_on(self.goal, seen).priced(self.prices, seen[2:])
        return -self.value(seen) if self.minimised else self.value(seen)

    def within(self, tried: Tried) -> bool:
        """Tell whether the bounded figure is not short of its bound by two standard errors."""
        if isinstance(self.goal, three_way.ThreeWay):  # what its bounds are missed by is paid for
            return True
        seen, bounded, classes = tried.pooled, self.goal.bounded, self.goal.totals.classes
        selected, hits = seen.selected, seen.true_positives
        harm, rate = selected - hits, hits / (selected or 1)
        # What a count of units varies by: each row of a class is as many units as its weight.
        of_hits, of_harm = classes.positive * hits, classes.negative * harm
        spread = {
            "precision": of_hits * (1 - rate) ** 2 + of_harm * rate**2,
            "recall": of_hits * (1 - hits / (seen.positives or 1)),
            "fpr": of_harm * (1 - harm / ((seen.rows - seen.positives) or 1)),
            "capacity": (of_hits + of_harm) * (1 - selected / (seen.rows or 1)),
        }
        slack = 2 * math.sqrt(max(spread.get(bounded, 0.0), 0.0) * _units_per_row(tried))
        if bounded in ("precision", "recall"):
            hits += slack
        else:
            selected -= slack
        return goal_on(self.goal, seen).met(math.floor(selected), math.ceil(hits), int(seen.gain))

    def error(self, one: Tried, other: Tried) -> float:
        """Return the standard error of the difference between two candidates' worths."""
        if one is other:
            return 0.0
        worth, others = (
            [self.worth(fold) for fold in tried.checked.folds] for tried in (one, other)
        )
        dealt, options = self.dealt, one.summary.planned.options
        if dealt is None:  # dealt apart: the error of the better one's worth must do
            return figures.standard_error(others) or 0.0
        apart = [a - b for a, b in zip(worth, others, strict=True)]
        over_folds = figures.standard_error(apart) or 0.0
        if one.margins is None or other.margins is None or options.time is not None:
            return over_folds
        # What comes from the rows that one of the two boundaries selects.
        differ = one.margins.taken(one.cut) != other.margins.taken(other.cut)
        rows, hits = (
            float(own[differ].sum(dtype=np.int64)) for own in (dealt.count, dealt.positive)
        )
        scale, price = self._slope(other.pooled)
        variance = dealt.classes.positive * hits * (1 - price) ** 2
        variance += dealt.classes.negative * (rows - hits) * price**2
        found = scale * math.sqrt(variance * _units_per_row(one))
        independent = options.groups is None and not dealt.squares.size
        return found if independent else max(found, over_folds)

    def value(self, seen: figures.Judged) -> float:
        """Return the objective of what was seen, 0 where nothing is selected."""
        return goal_on(self.goal, seen).value(*seen[2:]) or 0.0

    def at_bound(self, tried: Tried) -> Tried | None:
        """Return a candidate with its cut moved to where the bound just holds on all folds together.

        None where the objective is more than numbers of rows, or has no bound.
        """
        if tried.margins is None or not isinstance(self.goal, BoundedGoal):
            return None
        (rows, hits), cut = tried.margins.move(goal_on(self.goal, tried.pooled))
        seen = tried.checked.folds
        parts = slice(rows.size - len(seen), None)  # no fit judges the first block of time
        folds = tuple(
            fold._replace(selected=float(selected), true_positives=float(found))
            for fold, selected, found in zip(seen, rows[parts], hits[parts], strict=True)
        )
        return replace(tried, checked=tried.checked._replace(folds=folds), cut=cut)

    def error_at_bound(self, one: Tried | None, best: Tried | None) -> float:
        """Return the standard error of the difference between two candidates' objectives at the bound.

        There a difference in worth is one in the objective times how much of it is filled up along
        the line of the price.
        """
        if one is None or best is None or not isinstance(self.goal, BoundedGoal):
            return 0.0
        seen = best.pooled
        if not seen.selected:
            return 0.0
        factor = goal_on(self.goal, seen).exchange(self.price, seen.selected, seen.true_positives)
        return factor * self.error(one, best)

    def error_alone(self, tried: Tried) -> float:
        """Return the standard error of a candidate's worth."""
        if not self.priced and self.rows_alone | self.goal.uses_gain:
            return tried.checked.figures.standard_error or 0.0
        worths = [self.worth(fold) for fold in tried.checked.folds if fold.positives]
        return figures.standard_error(worths) or 0.0

    def _slope(self, seen: figures.Judged) -> tuple[float, float]:
        """Return what a true positive adds to the worth, and what share of that a row costs."""
        if self.priced:
            return 1.0 / (seen.positives or 1.0), self.price
        rows, hits = seen.selected, seen.true_positives
        step = max(1.0, 0.01 * rows)
        more, fewer = min(hits + step, rows, seen.positives), max(hits - step, 0.0)
        wider = min(rows + step, seen.rows - seen.positives + hits)
        narrower = max(rows - step, hits)

        def worth(selected: float, true_positives: float) -> float:
            return self.worth(seen._replace(selected=selected, true_positives=true_positives))

        gain = (worth(rows, more) - worth(rows, fewer)) / max(more - fewer, 1.0)
        cost = (worth(narrower, hits) - worth(wider, hits)) / max(wider - narrower, 1.0)
        return (gain, cost / gain) if gain > 0.0 else (0.0, 0.0)


def goal_on(goal: G, seen: figures.Judged) -> G:
    """Return a goal for the rows that were seen, which hold their share of what all are worth."""
    whole = goal.totals
    gain = round(whole.gain * (seen.rows / (whole.rows or 1)))
    rows, positives = round(seen.rows), round(seen.positives)
    return goal.of(replace(whole, rows=rows, positives=positives, gain=gain))


def _units_per_row(tried: Tried) -> float:
    """Return how many units a row has, 1 where a weight of 2 is two rows."""
    summary = tried.summary
    return 1.0 if summary.tally.unit.size == 1.0 else summary.totals().rows / summary.origin.rows


def marginal_prices(summary: Summary, goal: Goal) -> tuple[float, ...]:
    """Return the rate of positives at which the bound stops one more row; of three-way decisions more.

    It is 0 without a bound, and where what rows are worth counts.  The rows may be some of those that
    the goal is for.
    """
    tally = summary.tally.reweighted(goal.totals.classes)
    goal = goal.of(tally_totals(tally))
    if leaves := summary.planned.method.leaves:
        tally = tally.coarser(leaves_of(tally, goal, leaves), leaves)
    if isinstance(goal, three_way.ThreeWay):
        return three_way.prices(tally.points(every=True), goal)
    if goal.uses_gain or not goal.bounded:
        return (0.0,)
    goal = goal.alone
    assert isinstance(goal, CountGoal)
    return (prefixes.margin(tally.points(), goal),)


# ---------------------------------------------------------------- at the bound


class Margins(Struct, frozen=True):
    """Where the rows of a deal lie beside the boundaries fitted without their folds."""

    bins: NDArray[np.int16]  # of each entry of the dealt tally; 0 and more where it is selected
    above: Int64s  # rows and positives in the highest 0, 1, … bins, shape (2, parts, 2 `_BINS` + 1)

    def taken(self, cut: int | None) -> Bools:
        """Return which entries are selected from a bin up; none for None."""
        return self.bins >= (_BINS if cut is None else cut)

    def move(self, goal: CountGoal) -> tuple[Floats, int | None]:
        """Return what each part holds above the margin at which a goal's bound just holds.

        That is a share of one bin's rows, as many as meet the bound with equality; tied rows are not
        parted otherwise.  Returned are rows and positive rows, shape (2, parts), and the lowest bin of
        which half is selected; nothing and None where no margin meets the bound.
        """
        rows, hits = self.above.sum(axis=1)
        ends = np.append(0, np.flatnonzero(np.diff(rows)) + 1)
        if goal.met(int(rows[-1]), int(hits[-1])) or goal.maximised == "recall":
            taken, share = goal.mix(rows[ends], hits[ends])
        else:  # levels without a threshold hold the positives that are missing
            taken, share = 0, Fraction(0)
        if not taken and not share:
            return np.zeros(self.above.shape[:2]), None
        before, after = (self.above[:, :, ends[min(k, ends.size - 1)]] for k in (taken, taken + 1))
        last = ends[taken + 1] if share >= Fraction(1, 2) else ends[taken]
        return before + float(share) * (after - before), int(_BINS - last)


def margins(dealt: Tally, checked: figures.Validation, *, probability: bool) -> Margins:
    """Return the margins of the rows of a dealt tally in a cross-validation on it.

    `probability`: whether scores are probabilities, whose margins are differences of log-odds.
    """
    parts = max(*checked.found, int(dealt.part.max(initial=0))) + 1
    limits = np.full((parts, dealt.levels), np.nan)
    slopes = np.ones_like(limits)
    for fold, found in checked.found.items():
        limits[fold] = found.thresholds
        if found.surface is not None:
            slopes[fold] = found.surface.lines()[:, 1]
    score = dealt.score
    regressor = dealt.logits() if probability else score.astype(np.float64)
    # The lowest score that a threshold selects has a margin of exactly 0.
    place = np.searchsorted(-score, -limits.astype(score.dtype), side="right") - 1
    starts = np.where(np.isneginf(limits), -np.inf, regressor[np.maximum(place, 0)])
    scales = slopes / (_REACH * _spread(dealt, regressor) / _BINS)
    counted, cuts = (dealt.count, dealt.positive), np.array([limits, starts, scales])
    bins, held = margin_bins(score, regressor, dealt.level, dealt.part, *counted, cuts, _BINS)
    falling = held[:, :, :0:-1]  # without the bin of no cut
    return Margins(bins, np.pad(np.cumsum(falling, axis=2), ((0, 0), (0, 0), (1, 0))))


def _spread(tally: Tally, regressor: Floats) -> float:
    """Return the range of the middle half of all rows; 1 where it is no positive number."""
    reached = np.cumsum(tally.count.astype(np.float64))
    middle = np.searchsorted(reached, reached[-1] * np.array([0.25, 0.75]))
    high, low = regressor[np.minimum(middle, regressor.size - 1)]
    found = float(high - low) if np.isfinite(high) and np.isfinite(low) else 0.0
    return found if found > 0.0 else 1.0
