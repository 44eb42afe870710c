"""Certified boundaries: their bounds hold on new data with a stated confidence.

A boundary tuned on rows overstates itself on them.  So the rows are dealt to two parts.  On the
smaller one a nested path of boundaries is fitted; on the larger one the boundaries of the path are
tested one after the other, from where the first part expects most power: by exact binomial tests, or
by bets where rows belong together or count for different amounts.  The last boundary before the first
test that fails is the answer.  The chance that it violates a bound on new data is at most
``1 - confidence``, for every model, every distribution and every number of rows, as long as rows (or
groups of rows) are independent draws of what the boundary will be applied to, and within the limits
that the certificate says it assumes.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import ScoreRows
from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.certificate import evidence
from calibkit.methods.boundary.certificate.paths import CURVED, Path, fit_path
from calibkit.methods.boundary.certificate.tests import Binomials, Chain, walk_all
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.problem import goal_of
from calibkit.methods.boundary.result.describe import describe, flatten
from calibkit.methods.boundary.result.fit import FittedBoundary, score_only, seen_in_sample
from calibkit.methods.boundary.result.parts import Certificate, Promise
from calibkit.methods.boundary.segments import judge_together, side_by_side, split_rows
from calibkit.methods.boundary.solvers.methods import METHODS, best_choice
from calibkit.methods.boundary.solvers.summary import Stack, summarise
from calibkit.options.boundary import AUTO, LIMITS, BoundaryOptions
from calibkit.options.objective import Target

#: A first test is made if it is expected to reject so many times as often as it may reject wrongly.
LEAST_POWER = 1.5


def certificate_steps(options: BoundaryOptions, data: ScoreRows | GridTable) -> list[str]:
    """Return in words what a certified fit will do; errors as `check_certifiable`."""
    rows = evidence.written_out(evidence.check_certifiable(options, data), options)[0]
    method = "a curved logistic surface" if options.method == AUTO else options.method
    share = f"{evidence.fitting_share(rows.score.size):.1%} of the rows"
    share = f"the first {share}, by {options.time}" if options.time else share
    of_each = "" if options.by is None else f" for each {options.by}"
    bets = evidence.bets_on(options.target.each[0].option, rows, options)
    return [
        f"fit a nested path of boundaries{of_each} by {method} on {share}",
        f"certify {options.target.text} with confidence {options.confidence_level} along it on the "
        f"others, by {'bets' if bets else 'exact binomial tests'} in a fixed sequence",
    ]


def certify_boundary(data: ScoreRows | GridTable, options: BoundaryOptions) -> FittedBoundary:
    """Return a boundary whose bounds hold on new data with the confidence of the options.

    Rows are independent draws of what the boundary will be applied to, or groups of rows are.

    Raises
    ------
    UsageError
        What cannot be certified, see `check_certifiable`.
    DataError
        Weights that cannot be counted, or rows of one class.
    InfeasibleError
        No boundary can be certified; the message says about how many rows it would take.  Rows beyond
        a limit that the certificate would have to assume.
    """
    data = evidence.check_certifiable(options, data)
    rows, index = evidence.written_out(data, options)
    split = evidence.deal_rows(rows, options)
    _need_classes(data, options, split)
    limits, confidence = evidence.limits_of(split, options), options.confidence_level
    assert confidence is not None
    level = (confidence.denominator - confidence.numerator) / confidence.denominator
    stack = Stack(("",), (), (np.arange(data.score.size),))
    if options.by is not None:
        # As the part that fits has them: the other one must not say what is tested on it.
        times = np.bincount(index[split.fits], minlength=data.score.size) / split.fits.mean()
        stack = split_rows(data, options, times)
    code = np.empty(data.score.size, np.int64)
    for own, places in enumerate(stack.rows):
        code[places] = own
    code = code[index]
    stretches = [_stretch(split, code, own, options) for own in range(len(stack.names))]
    known = [one for one in stretches if one is not None]
    if not known:
        raise InfeasibleError(
            f"nothing can be certified: {data.score.size:,} rows are too few, no segment has both "
            "classes among those that fit and rows among those that certify; pool segments by "
            "--min-group-positives."
        )
    together = [[one] for one in known] if options.bound == "each" else [known]
    tested = [
        evidence.Evidence(own, split, options, limits, level / len(together)) for own in together
    ]
    _certify([one.chain for one in tested], options, level, rows.score.size)
    fitted = {}
    for own_path in tested:
        chain = own_path.chain
        for column, stretch in enumerate(own_path.stretches if chain.certifies else ()):
            place = int(own_path.table[chain.place, column])
            if place >= 0:
                part = data if options.by is None else data.only(stack.rows[stretch.segment])
                name = stack.names[stretch.segment]
                fitted[name] = _fitted(part, options, stretch.path, place)
    certificate = _certificate(options, split, limits)
    found = fitted[""] if options.by is None else _assembled(data, options, stack, fitted)
    if options.by is not None and options.bound == "each":
        certificate.failed = [name for name in stack.names if name not in fitted]
        said = "nothing can be certified, and none of its rows is selected"
        warnings = tuple(f"segment {name!r}: {said}" for name in certificate.failed)
        found = replace(found, warnings=warnings)
    found.model.fit.certificate = certificate
    found.model.objective.subject_to = {
        one.option: float(one.bound) for one in options.target.each if one.bound is not None
    }
    return found


def _certificate(
    options: BoundaryOptions, split: evidence.Split, limits: dict[str, float]
) -> Certificate:
    """Return what is promised, by which rows, and what that assumes."""
    each = [_promise(one.option, float(one.bound or 0.0)) for one in options.target.each]
    found = Certificate(
        confidence=float(options.confidence_level or 0.0),
        rows=int(split.certifying.score.size),
        **msgspec.structs.asdict(each[0]),
    )
    if len(each) > 1:
        found.promises = each
    said: dict[str, int | float | str] = {
        name: int(limit) if float(limit).is_integer() else limit for name, limit in limits.items()
    }
    if options.time is not None:
        assert split.certifying.others is not None
        said["certified_from"] = str(split.certifying.others[options.time].min())
    if said:
        found.assumes = said
    return found


def _promise(quantity: str, bound: float) -> Promise:
    side = "upper" if quantity in ("fpr", "capacity") else "lower"
    return Promise(quantity=quantity, bound=bound, side=side)


def _need_classes(data: ScoreRows, options: BoundaryOptions, split: evidence.Split) -> None:
    """Refuse rows that lack a class they need, and parts that do."""
    for part in (split.fitting, split.certifying):
        assert part.label is not None
        positives = int(np.count_nonzero(part.label))
        if positives == 0 or ("n" in options.target.needs and positives == part.label.size):
            summarise(data, _plain(options, "st")).need_classes()
            raise InfeasibleError(
                f"nothing can be certified: {data.score.size:,} rows are too few, a part of them has "
                "one class only."
            )


def _stretch(
    split: evidence.Split, code: NDArray[np.int64], segment: int, options: BoundaryOptions
) -> evidence.Stretch | None:
    """Fit the path of a segment; None where its part that fits has one class, or none is left."""
    own = code == segment
    fitting, testing = own[split.fits], own[~split.fits]
    part = split.fitting.only(np.flatnonzero(fitting)) if not fitting.all() else split.fitting
    assert part.label is not None
    positives = int(np.count_nonzero(part.label))
    if (positives in (0, part.label.size) or not testing.any()) and not own.all():
        return None
    sizes = evidence.sizes_of(part, options)
    if part.weight is None or not part.weight.any():
        part = replace(part, weight=None)
    else:  # in quarters of the mean: what a path needs to know of them
        quarters = np.rint(4.0 * part.weight / part.weight.mean())
        part = replace(part, weight=np.maximum(quarters, part.weight > 0.0))
    path = fit_path(
        part, CURVED if options.method == AUTO else options.method, options.levels, sizes
    )
    return evidence.Stretch(segment, path, np.flatnonzero(fitting), np.flatnonzero(testing))


def _certify(chains: list[Chain], options: BoundaryOptions, level: float, rows: int) -> None:
    """Walk along all chains, or raise with what would be needed if none of them gets anywhere."""
    # Else it would be luck to be certified, much as it is for a boundary that breaks its promise.
    hopeful = [one for one in chains if one.power >= LEAST_POWER * level]
    walk_all(hopeful, level)
    if any(one.certifies for one in chains):
        return
    chain = max(chains, key=lambda one: one.power)
    target, needed = options.target, chain.rows_needed(rows)
    looser = "raise" if target.each[0].option in ("fpr", "capacity") else "lower"
    together = _together(chain, target) if target.beside else ""
    if any(one.impossible for one in evidence.quantities_of(options)):
        advice = "a bound that leaves no room can never be certified; give it some"
    elif needed is None:
        word = "bounds together" if target.beside else "bound"
        advice = f"no boundary of the path is expected to meet the {word} at all: "
        advice += together or (
            "lower it, or improve the scores" if looser == "lower" else "raise it"
        )
    elif needed <= rows:
        advice = "the rows that certify do not bear out what the others let one expect: "
        advice += f"{together or f'{looser} the bound'}, or the confidence"
    else:
        few = "" if hopeful else "too few rows: "
        advice = (
            f"{few}about {needed:,} rows like these would be needed (there are {rows:,}); or "
            f"{together or f'{looser} the bound'}, or the confidence"
        )
    raise InfeasibleError(
        f"nothing can be certified: {target.text} with confidence {options.confidence_level}; "
        f"{advice}."
    )


def _together(chain: Chain, target: Target) -> str:
    """Say what each bound could be so that it is expected to be certified with the others."""
    said = []
    for test, one in zip(chain.tests, target.each, strict=True):
        others = [other.signals - other.wanted for other in chain.tests if other is not test]
        open_to = np.flatnonzero(np.min(others, axis=0) >= 0.0)
        if not isinstance(test, Binomials) or not open_to.size or one.bound is None:
            continue
        sign = 1.0 if test.quantity.at_least else -1.0
        reached, bound = float((sign * test.limits[open_to]).max()), sign * float(one.bound)
        if abs(reached) > 0.0 and reached < bound:
            digits = max(2 - math.ceil(math.log10(abs(reached))), 0)
            rounded = abs(math.floor(reached * 10**digits) / 10**digits)
            said.append(_promise(one.option, rounded).text)
    if not said:
        return "loosen one of the bounds"
    return f"loosen one of them, which may do with the others as they are: {' or '.join(said)}"


def _assembled(
    data: ScoreRows, options: BoundaryOptions, stack: Stack, found: dict[str, FittedBoundary]
) -> FittedBoundary:
    """Return the boundaries of segments as one."""
    model = side_by_side(data, options, stack, found, None)
    parts = list(found.values())
    first = parts[0].model
    plain = replace(_plain(options, first.method), by=options.by, bound=options.bound)
    goal = judge_together(data, plain, model, parts, None)
    if options.bound == "overall":
        seen, met = model.fit.in_sample, []
        rates = {
            "precision": seen.precision,
            "recall": seen.recall,
            "fpr": seen.false_positive_rate,
            "capacity": seen.selected / model.fit.rows,
        }
        for one in options.target.each:  # but for rounding
            slack = (rates[one.option] or 0.0) - float(one.bound or 0.0)
            met.append((slack if one.option in ("precision", "recall") else -slack) >= -1e-12)
        model.fit.bound_met = all(met)
    assert model.provenance is not None and first.provenance is not None
    said = {**first.provenance.options, "by": options.by, "bound": options.bound}
    said["min_group_positives"] = options.min_group_positives
    model.provenance = msgspec.structs.replace(model.provenance, options=said)
    return FittedBoundary(model=model, warnings=(), goal=goal)


def _plain(options: BoundaryOptions, method: str) -> BoundaryOptions:
    """Return what fits the same without a certificate: what its figures are counted by."""
    unset: dict[str, Any] = dict.fromkeys(
        (*(name for name, _ in options.target.beside), *LIMITS, "confidence", "groups", "time")
    )
    unset |= {"by": None, "bound": "overall", "min_group_positives": None}
    method = "logistic" if method == CURVED else method
    return replace(options.at_levels(None), method=method, **unset)


def _fitted(data: ScoreRows, options: BoundaryOptions, path: Path, place: int) -> FittedBoundary:
    """Return a boundary of a path as a fit, with its figures on all rows over the path's levels."""
    plain = _plain(options, path.method)
    summary = summarise(data, plain, path.levels)
    summary.need_classes()
    method = replace(METHODS[plain.method], name=path.method)
    planned = replace(summary.planned, method=method, levels=path.levels.count)
    said = {
        **summary.origin.options,
        **{one.option: one.value for one in options.target.each},
        "method": options.method,
        "uncertainty_bins": path.levels.count,
        "confidence": str(options.confidence_level),
        **options.limits,
    }
    said |= {name: own for name in ("groups", "time") if (own := getattr(options, name))}
    said.pop("folds", None)
    origin = msgspec.structs.replace(summary.origin, options=said)
    summary = replace(summary, planned=planned, shown=path.levels, origin=origin)
    tally, goal = summary.aim()
    thresholds = path.thresholds[place]
    counted = tally.selected(thresholds), tally.gained(thresholds)
    cut = math.nan if path.cuts is None else float(path.cuts[place])
    found = Found(thresholds, *counted[0], gain=counted[1], surface=path.surface, cut=cut)
    summary, found = flatten(summary, found)
    tally = summary.tally.reweighted(goal.totals.classes)
    ceiling = best_choice(tally.points(), goal, cap=1).ceiling
    single = score_only(summary.tally, goal)
    fit = seen_in_sample(summary, found, goal, ceiling, single)
    fit.bound_met = all(
        goal_of(one, goal.totals).met(int(found.selected), int(found.true_positives), found.gain)
        for one in options.target.each
    )
    return FittedBoundary(model=describe(summary, found, fit), goal=goal)
