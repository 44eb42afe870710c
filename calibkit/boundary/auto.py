"""Choosing the method: a single threshold, a logistic surface, or the optimum over K levels.

Every candidate is cross-validated on the same deal of the same rows.  The richer a boundary, the
more it overstates itself on the rows it was fitted on: out of sample it selects too many rows for
the bound, and recall alone would take that for a gain.  So under a bound a candidate is worth
``T - c M``, its true positives less the price of the rows it selects, at the one price c at which
the bound is paid for: the rate of positives at the margin of the best single threshold's relaxation.
That is, up to a factor, its recall where its precision (false positives, selected rows) has been
brought back to the bound along a line of slope c.  Without a bound its worth is the objective.

The rule is the usual one for candidates in order of complexity: the simplest within one standard
error of the best.  The error is that of the *difference* of two candidates, which comes from the
rows that one selects and the other does not; the figures themselves share most of their noise.
Candidates whose bounded figure falls short of the bound by more than two standard errors are left
out, unless all do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.binning import Levels, uncertainty_levels
from calibkit.boundary.choose import marginal_rate
from calibkit.boundary.figures import Judged, standard_error
from calibkit.boundary.fit import Fitted, cross_validated, fit_summary, fold_count, need_classes
from calibkit.boundary.goals import Goal
from calibkit.boundary.logistic import distinct
from calibkit.boundary.methods import Found
from calibkit.boundary.model import Candidate, CrossValidated
from calibkit.boundary.problem import deal, tally_totals
from calibkit.boundary.spec import AUTO, BoundarySpec, Plan, plan
from calibkit.boundary.summary import Summary, summarise
from calibkit.columns import ScoreRows
from calibkit.errors import InfeasibleError, UsageError
from calibkit.grid_table import GridTable
from calibkit.tally import Tally
from calibkit_kernels.surface import differing

#: The numbers of levels that the optimum is tried with.
LEVELS = (2, 3, 5, 7, 11)

Floats = NDArray[np.float64]
Places = NDArray[np.uint16]


@dataclass(frozen=True)
class Tried:
    """A candidate.

    Attributes
    ----------
    summary
        What it is fitted on.
    checked
        Its cross-validation, the figures and each fold; None where there was none.
    fine
        On each fold, its threshold at each of the finest levels; None on a tally of its own.
    """

    summary: Summary
    checked: tuple[CrossValidated, tuple[Judged, ...]] | None = None
    fine: Floats | None = None

    @property
    def figures(self) -> CrossValidated:
        """Its figures over all folds."""
        assert self.checked is not None
        return self.checked[0]

    @property
    def folds(self) -> tuple[Judged, ...]:
        """Its folds."""
        assert self.checked is not None
        return self.checked[1]

    @property
    def pooled(self) -> Judged:
        """The sum of its folds."""
        return Judged(*(sum(column) for column in zip(*self.folds, strict=True)))


@dataclass(frozen=True)
class Choice:
    """Candidates, the best to use first, what was seen of each, and what the user should be told."""

    ranked: tuple[Tried, ...]
    seen: tuple[Candidate, ...]
    warnings: tuple[str, ...]

    @property
    def thresholds(self) -> Summary:
        """What the best candidate is fitted on that has thresholds of its own, not a surface."""
        return next(
            one.summary for one in self.ranked if one.summary.planned.method.surface is None
        )


def fit_choice(
    choice: Choice,
    *,
    test: ScoreRows | None = None,
    provenance: str = "hash",
    tags: dict[str, str] | None = None,
) -> Fitted:
    """Fit the candidate that was chosen, or the next best one where that one finds no boundary.

    Raises
    ------
    InfeasibleError
        No candidate selects a row and meets the bound.
    """
    failure: InfeasibleError | None = None
    for tried in choice.ranked:
        try:
            fitted = fit_summary(
                _merged(tried.summary),
                test=test,
                provenance=provenance,
                tags=tags,
                checked=tried.checked,
            )
        except InfeasibleError as error:
            failure = error
            continue
        if choice.seen:
            fitted.model.fit.candidates = list(choice.seen)
        return replace(fitted, warnings=(*choice.warnings, *fitted.warnings))
    assert failure is not None
    raise failure


def choose_method(data: ScoreRows | GridTable, spec: BoundarySpec) -> Choice:
    """Return the candidates of ``--method auto`` by what cross-validation says of them.

    Parameters
    ----------
    data
        Rows, or a grid of their counts (a grid has one number of levels, and no surface).
    spec
        What to fit, with method ``auto``.  A number of levels restricts the optimum to it.

    Raises
    ------
    UsageError
        Options that no candidate can take.
    DataError
        One class only where the objective needs both.
    """
    plans = candidates(data, spec)
    shared = isinstance(data, ScoreRows) and not any(planned.score_bins for planned in plans)
    if len(plans) == 1:
        return Choice((Tried(_named(summarise(data, plans[0].spec))),), (), ())
    counted: list[tuple[Summary, Places | None]]
    if shared:
        assert isinstance(data, ScoreRows)
        base, counted = _count_finely(data, plans)
    else:
        base = _named(summarise(data, plans[0].spec))
        counted = [(base, None)]
        counted += [(_named(summarise(data, planned.spec)), None) for planned in plans[1:]]
    need_classes(base)
    warnings: list[str] = []
    if spec.folds == 0 or not fold_count(base, []):
        warnings.append(
            f"--method {AUTO} chooses by cross-validation, and there are no folds: a single threshold "
            "is taken if it meets the bound"
        )
        return Choice(tuple(Tried(summary) for summary, _ in counted), (), tuple(warnings))
    classes = spec.target.classes(base.problem.totals())
    goal = spec.target.goal(tally_totals(base.problem.tally.reweighted(classes)))
    dealt = None
    if shared:
        dealt = deal(base.problem, spec.folds, spec.seed, spec.threads).reweighted(classes)
    tried = [_try(summary, places, dealt, goal) for summary, places in counted]
    price = 0.0 if goal.uses_gain else marginal_rate(counted[0][0])
    return _rank(tried, dealt, goal, price)


def candidates(data: ScoreRows | GridTable, spec: BoundarySpec) -> list[Plan]:
    """Return what ``auto`` tries, the simplest first."""
    levels = spec.uncertainty_bins
    if isinstance(data, GridTable):
        wanted = [("st", levels), ("exact", levels)]
    elif data.uncertainty is None or levels == 1:
        wanted = [("st", levels)]
    else:
        optima = [("exact", own) for own in (LEVELS if levels is None else (levels,))]
        wanted = [("st", None), ("logistic", None), *optima]
    plans, refused = [], None
    for name, own in wanted:
        try:
            plans.append(plan(replace(spec, method=name, uncertainty_bins=own), data))
        except UsageError as error:
            refused = error
    if refused is not None and not plans:
        raise refused
    return plans


def _merged(summary: Summary) -> Summary:
    """Return a summary with the tally that a count over its own levels alone would give."""
    tally = summary.problem.tally.merged()
    single = tally if summary.single is summary.problem.tally else summary.single
    return replace(summary, problem=replace(summary.problem, tally=tally), single=single)


def _named(summary: Summary) -> Summary:
    """Let a model's provenance name the method that was asked for."""
    options = {**summary.origin.options, "method": AUTO}
    return replace(summary, origin=msgspec.structs.replace(summary.origin, options=options))


def _count_finely(
    data: ScoreRows, plans: list[Plan]
) -> tuple[Summary, list[tuple[Summary, Places | None]]]:
    """Count rows once, over levels that refine those of all candidates.

    Returned are the summary over these levels, and each candidate's with its level of every one.
    """
    own_levels = []
    for planned in plans:
        levels = uncertainty_levels(data, planned.levels, planned.spec.strategy)
        own_levels.append(distinct(levels) if planned.method.surface else levels)
    finest = distinct(
        Levels(own_levels[0].minimum, np.concatenate([levels.edges for levels in own_levels]))
    )
    most = max(plans, key=lambda planned: 0 if planned.method.surface else planned.levels)
    base = summarise(data, most.spec, finest)
    starts = np.append(finest.minimum, finest.edges)
    found: list[tuple[Summary, Places | None]] = []
    for planned, levels in zip(plans, own_levels, strict=True):
        places = np.searchsorted(levels.edges, starts, side="right").astype(np.uint16)
        tally = base.problem.tally.coarser(places, levels.count)
        problem = replace(base.problem, tally=tally, levels=levels)
        options = {**base.origin.options, "uncertainty_bins": planned.levels, "method": AUTO}
        summary = replace(
            base,
            planned=planned,
            problem=problem,
            single=tally,
            levels=levels,
            origin=msgspec.structs.replace(base.origin, options=options),
        )
        found.append((summary, places))
    return base, found


def _try(summary: Summary, places: Places | None, dealt: Tally | None, goal: Goal) -> Tried:
    """Cross-validate a candidate: on its levels of a common deal, or on a deal of its own."""
    planned, tally = summary.planned, summary.problem.tally
    spec = planned.spec
    if dealt is None or places is None:
        own = deal(summary.problem, spec.folds, spec.seed, spec.threads)
        return Tried(summary, cross_validated(own.reweighted(goal.totals.classes), planned, goal))
    kept: dict[int, Found] = {}
    checked = cross_validated(dealt.coarser(places, tally.levels), planned, goal, kept)
    fine = np.full((spec.folds, places.size), np.nan)
    for fold, found in kept.items():
        if fold >= 0:  # folds that go forward in time are fitted on what comes before
            fine[fold] = found.thresholds[places]
    return Tried(summary, checked, fine if spec.time is None else None)


def _rank(tried: list[Tried], dealt: Tally | None, goal: Goal, price: float) -> Choice:
    """Order candidates: the simplest that is as good as the best first, then by worth."""
    minimised = tried[0].summary.planned.spec.target.option == "minimize"
    judge = _Judge(goal, price, dealt, minimised)
    worth = [judge.worth(one) for one in tried]
    within = [judge.within(one) for one in tried]
    eligible = [k for k in range(len(tried)) if within[k] or not any(within)]
    best = max(eligible, key=lambda k: worth[k])
    gaps = [(worth[best] - worth[k], judge.error(one, tried[best])) for k, one in enumerate(tried)]
    chosen = next(k for k in eligible if gaps[k][0] <= gaps[k][1])
    order = sorted(range(len(tried)), key=lambda k: (k != chosen, k not in eligible, -worth[k]))
    seen = [
        judge.describe(one, inside, *gap)
        for one, inside, gap in zip(tried, within, gaps, strict=True)
    ]
    return Choice(tuple(tried[k] for k in order), tuple(seen), ())


class _Judge:
    """What candidates are worth on the rows that their fits left out.

    Where the objective is more than counts of rows (a column of values or costs), a candidate is
    worth the objective itself, and errors come from the folds.
    """

    def __init__(self, goal: Goal, price: float, dealt: Tally | None, minimised: bool) -> None:
        self.goal, self.price, self.dealt, self.minimised = goal, price, dealt, minimised
        self.priced = bool(goal.bounded) and not goal.uses_gain

    def worth(self, tried: Tried) -> float:
        """Return the worth of a candidate, in shares of the positives or in the objective's unit."""
        return self._worth(tried.pooled)

    def _worth(self, seen: Judged) -> float:
        if self.priced:
            return (seen.true_positives - self.price * seen.selected) / (seen.positives or 1)
        value = self._goal(seen).value(*seen[2:]) or 0.0
        return -value if self.minimised else value

    def _goal(self, seen: Judged) -> Goal:
        share = seen.rows / (self.goal.totals.rows or 1)
        totals = replace(
            self.goal.totals,
            rows=int(seen.rows),
            positives=int(seen.positives),
            gain=int(self.goal.totals.gain * share),
        )
        return self.goal.of(totals)

    def within(self, tried: Tried) -> bool:
        """Tell whether the bounded figure is not short of its bound by two standard errors."""
        seen = tried.pooled
        selected, hits = seen.selected, seen.true_positives
        if self.goal.bounded == "precision":
            hits += 2 * _spread(hits, selected)
        elif self.goal.bounded == "recall":
            hits += 2 * _spread(hits, seen.positives)
        elif self.goal.bounded == "fpr":
            selected -= 2 * _spread(selected - hits, seen.rows - seen.positives)
        else:
            selected -= 2 * _spread(selected, seen.rows)
        return self._goal(seen).met(math.floor(selected), math.ceil(hits), int(seen.gain))

    def error(self, one: Tried, other: Tried) -> float:
        """Return the standard error of the difference between two candidates' worths."""
        if one is other:
            return 0.0
        apart = [
            self._worth(a) - self._worth(b) for a, b in zip(one.folds, other.folds, strict=True)
        ]
        if self.dealt is None:  # dealt apart: the error of the better one's worth must do
            return standard_error([self._worth(fold) for fold in other.folds]) or 0.0
        over_folds = standard_error(apart) or 0.0
        spec = one.summary.planned.spec
        if one.fine is None or other.fine is None or self.goal.uses_gain:
            return over_folds
        found = self._error_of_rows(one, other)
        return found if spec.groups is None else max(found, over_folds)

    def _error_of_rows(self, one: Tried, other: Tried) -> float:
        """Return the error that comes from the rows which one of two boundaries selects."""
        dealt = self.dealt
        assert dealt is not None and one.fine is not None and other.fine is not None
        scale, price = self._slope(other.pooled)
        apart = differing(
            dealt.score, dealt.level, dealt.count, dealt.positive, dealt.part, one.fine, other.fine
        )
        rows, hits = (float(amount) for amount in apart.sum(axis=(0, 1)))
        classes = dealt.classes
        variance = classes.positive * hits * (1 - price) ** 2
        variance += classes.negative * (rows - hits) * price**2
        if dealt.unit.size != 1.0:  # counted in units far smaller than a row
            totals = one.summary.problem.totals()
            variance *= totals.rows / one.summary.rows
        return scale * math.sqrt(variance)

    def _slope(self, seen: Judged) -> tuple[float, float]:
        """Return what a true positive adds to the worth, and what share of that a row costs."""
        if self.priced:
            return 1.0 / (seen.positives or 1.0), self.price
        rows, hits = seen.selected, seen.true_positives
        step = max(1.0, 0.01 * rows)
        more, fewer = min(hits + step, rows, seen.positives), max(hits - step, 0.0)
        wider, narrower = (
            min(rows + step, seen.rows - seen.positives + hits),
            max(rows - step, hits),
        )

        def worth(selected: float, true_positives: float) -> float:
            return self._worth(seen._replace(selected=selected, true_positives=true_positives))

        gain = (worth(rows, more) - worth(rows, fewer)) / max(more - fewer, 1.0)
        cost = (worth(narrower, hits) - worth(wider, hits)) / max(wider - narrower, 1.0)
        return (gain, cost / gain) if gain > 0.0 else (0.0, 0.0)

    def describe(self, tried: Tried, within: bool, gap: float, error: float) -> Candidate:
        """Return what a model says of a candidate."""
        planned, figures = tried.summary.planned, tried.figures
        return Candidate(
            method=planned.method.name,
            uncertainty_bins=planned.levels,
            precision=figures.precision,
            recall=figures.recall,
            objective_value=figures.objective_value,
            within_bound=within,
            gap=gap,
            gap_standard_error=error,
        )


def _spread(hits: float, trials: float) -> float:
    """Return the standard deviation of a number of hits among some trials."""
    return math.sqrt(max(hits * (trials - hits) / trials, 0.0)) if trials else 0.0
