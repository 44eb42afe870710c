"""Certified boundaries: the bound holds on new data with a stated confidence.

A boundary tuned on rows overstates itself on them.  So the rows are dealt to two parts.  On the
smaller one a nested path of boundaries is fitted; on the larger one the boundaries of the path are
tested one after the other, by exact binomial tests, from where the first part expects most power.
The last boundary before the first test that fails is the answer.  The chance that it violates the
bound on new data is at most ``1 - confidence``, for every model, every distribution and every number
of rows, as long as rows are independent draws of what the boundary will be applied to.

Rows that come in groups, or that stand for different numbers of rows, are not: no bound holds for
groups or weights of unlimited size, and these options are refused.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import msgspec
import numpy as np

from calibkit.bins.binning import check_bins
from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import ScoreRows
from calibkit.errors import DataError, InfeasibleError, UsageError
from calibkit.methods.boundary.certificate.paths import CURVED, Path, fit_path
from calibkit.methods.boundary.certificate.tests import Quantity, certified, rows_needed, sequence
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.goals import CountGoal
from calibkit.methods.boundary.result.describe import describe, flatten
from calibkit.methods.boundary.result.fit import FittedBoundary, score_only, seen_in_sample
from calibkit.methods.boundary.result.parts import Certificate
from calibkit.methods.boundary.solvers import exact
from calibkit.methods.boundary.solvers.methods import METHODS
from calibkit.methods.boundary.solvers.summary import Summary, summarise
from calibkit.numerics.row_hash import random_parts
from calibkit.options.boundary import AUTO, BoundaryOptions
from calibkit.summaries.tally import count_rows

#: The methods that have a path.
CERTIFIABLE = (AUTO, "st", "logistic", "exact")
#: Integer weights are written out as rows, up to so many.
MOST_ROWS = 2**27
#: Rows are dealt in so many parts, some of which fit.
_PARTS = 200


@dataclass(frozen=True)
class Split:
    """The part of the rows that fits, and the one that certifies."""

    fitting: ScoreRows
    certifying: ScoreRows


def check_certifiable(options: BoundaryOptions, data: ScoreRows | GridTable) -> ScoreRows:
    """Return the rows, or raise `UsageError` for what cannot be certified, with the reason."""
    target = options.target
    if target.bound is None:
        raise UsageError(
            f"--confidence certifies a bound, and --{target.option} has none; use --precision, "
            "--recall, --fpr or --capacity."
        )
    if target.option == "capacity" and target.bound.numerator >= target.bound.denominator:
        raise UsageError(
            "--confidence certifies a share of the rows; give --capacity a number below 1."
        )
    if options.method not in CERTIFIABLE:
        raise UsageError(
            f"--confidence does not go with --method {options.method}; methods that it goes with: "
            f"{', '.join(CERTIFIABLE)}."
        )
    for option, given, why in (
        ("--groups", options.groups, "rows of a group are not independent, and no bound holds for "
         "groups of unlimited size: keep one row of each group, drawn at random"),
        ("--time", options.time, "rows that change with time are no draws of what comes next"),
        ("--by", options.by, "certify one segment at a time, each at its share of 1 - C"),
        ("--value", target.value_column, "no bound holds for values of unlimited size"),
        ("--prevalence", target.prevalence, "the rows are no draws at that base rate"),
        ("--score-bins", options.score_bins, "the path takes the scores themselves"),
        ("--order", options.order != "uncertainty-score", "the path takes the scores themselves"),
        ("--randomise", options.randomise != "block", "the path takes no chances"),
        ("--strategy", options.strategy != "equal-mass", "the path has levels of equal mass"),
    ):  # fmt: skip
        if given:
            raise UsageError(f"--confidence does not go with {option}: {why}.")
    if isinstance(data, GridTable):
        raise UsageError("a grid has lost its rows, and --confidence deals rows: give the rows.")
    if data.options.sampled:
        raise UsageError(
            "--confidence does not go with --weight-kind sampling: a row that stands for many is "
            "no independent draw of each, and no bound holds for weights of unlimited size."
        )
    if options.levels is not None:
        check_bins(options.levels, 1, has_uncertainty=data.uncertainty is not None)
    return data


def certificate_steps(options: BoundaryOptions, data: ScoreRows | GridTable) -> list[str]:
    """Return in words what a certified fit will do.

    Raises
    ------
    UsageError
        What cannot be certified.
    """
    rows = written_out(check_certifiable(options, data)).score.size
    fitting = round(_PARTS * fitting_share(rows)) / _PARTS
    method = "a curved logistic surface" if options.method == AUTO else options.method
    return [
        f"fit a nested path of boundaries by {method} on {fitting:.1%} of the rows",
        f"certify {options.target.text} with confidence {options.confidence_level} along it on the "
        "others, by exact binomial tests in a fixed sequence",
    ]


def certify_boundary(data: ScoreRows | GridTable, options: BoundaryOptions) -> FittedBoundary:
    """Return a boundary whose bound holds on new data with the confidence of the specification.

    Parameters
    ----------
    data
        Rows that are independent draws of what the boundary will be applied to; a weight counts
        as that many rows.
    options
        What to fit, with a confidence.

    Raises
    ------
    UsageError
        What cannot be certified, see `check_certifiable`.
    DataError
        Weights that are not whole numbers, or rows of one class.
    InfeasibleError
        No boundary can be certified; the message says about how many rows it would take.
    """
    data = check_certifiable(options, data)
    rows = written_out(data)
    assert options.target.bound is not None and options.confidence is not None
    quantity = Quantity(options.target.option, options.target.bound)
    split = deal_rows(rows, options.seed)
    _need_classes(data, options, split)
    path = fit_path(
        split.fitting,
        CURVED if options.method == AUTO else options.method,
        options.levels,
        quantity.size,
    )
    place = _certified_place(path, split.certifying, quantity, options)
    summary = _summary(data, options, path)
    option, bound = options.target.option, float(options.target.bound)
    confidence, rows_left = options.confidence_level, int(split.certifying.score.size)
    assert confidence is not None
    certificate = Certificate(
        confidence=float(confidence),
        quantity=option,
        bound=bound,
        side="lower" if quantity.at_least else "upper",
        rows=rows_left,
    )
    return _fitted(summary, path, place, certificate)


def written_out(data: ScoreRows) -> ScoreRows:
    """Return rows without weights: each as often as its weight says."""
    if data.weight is None:
        return data
    whole = data.weight == np.floor(data.weight)
    if not whole.all():
        at = int(np.flatnonzero(~whole)[0])
        raise DataError(
            f"{data.file}: column {data.options.weight!r}: {int((~whole).sum()):,} weights are "
            f"not whole numbers, such as {data.weight[at]:g}; --confidence needs numbers of rows, "
            "for a certificate holds for independent rows",
            column=data.options.weight,
            file=data.file,
        )
    times = data.weight.astype(np.int64)
    if int(times.sum()) > MOST_ROWS:
        raise DataError(
            f"{data.file}: column {data.options.weight!r}: the weights stand for "
            f"{int(times.sum()):,} rows; --confidence takes up to {MOST_ROWS:,}",
            column=data.options.weight,
            file=data.file,
        )
    bare = replace(data, weight=None, others=None, where=None)
    return bare.only(np.repeat(np.arange(times.size), times))


def deal_rows(rows: ScoreRows, seed: int, share: float | None = None) -> Split:
    """Deal rows to the part that fits, a share of them, and the one that certifies.

    A row's part is a hash of the seed, of what the row holds and of its number among identical rows:
    the order of the rows plays no part.
    """
    assert rows.label is not None
    columns = {"score": rows.score, "label": rows.label}
    if rows.uncertainty is not None:
        columns["uncertainty"] = rows.uncertainty
    part = random_parts(columns, _PARTS, seed)
    fits = part < round(_PARTS * (share or fitting_share(rows.score.size)))
    return Split(rows.only(np.flatnonzero(fits)), rows.only(np.flatnonzero(~fits)))


def fitting_share(rows: int) -> float:
    """Return which share of the rows fits: the less of them, the more there are.

    A surface has few parameters, and what it costs to know them worse is soon less than what the
    tests gain by each row.
    """
    return float(min(0.4, max(0.1, 0.2 * (20_000 / max(rows, 1)) ** 0.2)))


def _need_classes(data: ScoreRows, options: BoundaryOptions, split: Split) -> None:
    """Refuse rows that lack a class they need, and parts that do."""
    for part in (split.fitting, split.certifying):
        assert part.label is not None
        positives = int(np.count_nonzero(part.label))
        if positives == 0 or (options.target.option == "fpr" and positives == part.label.size):
            summarise(data, replace(options, method="st", confidence=None)).need_classes()
            raise InfeasibleError(
                f"nothing can be certified: {data.score.size:,} rows are too few, a part of them has "
                "one class only."
            )


def _certified_place(
    path: Path, certifying: ScoreRows, quantity: Quantity, options: BoundaryOptions
) -> int:
    """Return the place on the path that is certified, or raise with what would be needed."""
    assert certifying.label is not None
    level = path.levels.of(certifying.uncertainty, certifying.score.size)
    tally = count_rows(
        certifying.score, level, certifying.label, path.levels.count, threads=options.workers
    )
    totals = tally.level_totals.sum(axis=0)
    rows, positives = int(totals[1]), int(totals[2])
    counts = path.counts(tally)
    confidence = options.confidence_level
    assert confidence is not None
    alpha = (confidence.denominator - confidence.numerator) / confidence.denominator
    tests = sequence(quantity, path.expected, path.totals, rows / max(path.totals[0], 1))
    found = quantity.hits_and_trials(counts.astype(np.float64), rows, positives)
    place = certified(quantity, tests, found.astype(np.int64), alpha)
    if place >= 0 and counts[place, 0] > 0:
        return place
    raise _nothing(quantity, options, tests.signal, alpha, rows + path.totals[0])


def _nothing(
    quantity: Quantity, options: BoundaryOptions, signal: float, level: float, rows: int
) -> InfeasibleError:
    needed = rows_needed(signal, level, rows)
    if quantity.impossible:
        advice = "a bound that leaves no room can never be certified; give it some"
    elif needed is None:
        advice = "no boundary of the path is expected to meet the bound at all: " + (
            "lower it, or improve the scores" if quantity.at_least else "raise it"
        )
    else:
        advice = (
            f"about {needed:,} rows like these would be needed (there are {rows:,}); or "
            f"{'lower' if quantity.at_least else 'raise'} the bound, or the confidence"
        )
    return InfeasibleError(
        f"nothing can be certified: {options.target.text} with confidence {options.confidence_level}; "
        f"{advice}."
    )


def _summary(data: ScoreRows, options: BoundaryOptions, path: Path) -> Summary:
    """Count all rows over the levels of the path, for the figures and the outline of the model."""
    method = "logistic" if path.method == CURVED else path.method
    plain = replace(options.at_levels(None), method=method, confidence=None)
    summary = summarise(data, plain, path.levels)
    summary.need_classes()
    planned = replace(
        summary.planned,
        method=replace(METHODS[method], name=path.method),
        levels=path.levels.count,
    )
    said = {
        **summary.origin.options,
        "method": options.method,
        "uncertainty_bins": path.levels.count,
        "confidence": str(options.confidence_level),
    }
    said.pop("folds", None)
    origin = msgspec.structs.replace(summary.origin, options=said)
    return replace(summary, planned=planned, levels=path.levels, origin=origin)


def _fitted(summary: Summary, path: Path, place: int, certificate: Certificate) -> FittedBoundary:
    tally, goal = summary.aim()
    thresholds = path.thresholds[place]
    selected, hits = tally.selected(thresholds)
    cut = math.nan if path.cuts is None else float(path.cuts[place])
    found = Found(thresholds, selected, hits, surface=path.surface, cut=cut)
    summary, found = flatten(summary, found)
    tally = summary.problem.tally
    assert isinstance(goal, CountGoal)
    ceiling = exact.solve(tally.points(), goal, cap=1).ceiling
    fit = seen_in_sample(summary, found, goal, ceiling, score_only(tally, goal))
    fit.certificate = certificate
    return FittedBoundary(model=describe(summary, found, fit), goal=goal)
