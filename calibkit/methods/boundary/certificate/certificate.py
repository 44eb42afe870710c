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

import dataclasses
import math
from typing import Any

import msgspec
import numpy as np
from msgspec.structs import replace

from calibkit.arrays import Int64s, UInt16s
from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.certificate import evidence
from calibkit.methods.boundary.certificate.paths import CURVED, Path, fit_path
from calibkit.methods.boundary.certificate.peeling import core_share, peel, peels
from calibkit.methods.boundary.certificate.tests import Binomials, Chain, walk_all
from calibkit.methods.boundary.problem.columns import in_cells
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.result.figures import apart
from calibkit.methods.boundary.result.fit import (
    FittedBoundary,
    describe,
    flatten,
    objective_of,
    score_only,
    seen_in_sample,
)
from calibkit.methods.boundary.result.parts import Certificate, GapFigures, Promise
from calibkit.methods.boundary.segments import side_by_side, split_rows
from calibkit.methods.boundary.solvers import three_way
from calibkit.methods.boundary.solvers.cells import leaves_of
from calibkit.methods.boundary.solvers.methods import METHODS, goal_of
from calibkit.methods.boundary.solvers.prefixes import solve as best_choice
from calibkit.methods.boundary.solvers.summary import Stack, summarise
from calibkit.options.boundary import AUTO, LIMITS, BoundaryOptions
from calibkit.options.objective import Target
from calibkit.summaries.binning import GridTable, uncertainty_levels
from calibkit.summaries.score_rows import ScoreRows

#: A first test is made if it is expected to reject so many times as often as it may reject wrongly.
LEAST_POWER = 1.5
#: The default number of leaves of several uncertainties.
LEAVES = 7


def certificate_steps(options: BoundaryOptions, data: ScoreRows | GridTable) -> list[str]:
    """Return in words what a certified fit will do; errors as `check_certifiable`."""
    rows = evidence.written_out(evidence.check_certifiable(options, data), options)[0]
    method = "a curved logistic surface" if options.method == AUTO else options.method
    share = f"{evidence.fitting_share(rows.score.size):.1%} of the rows"
    if peels(options, rows):
        share = f"{core_share(rows.score.size):.1%} of the rows and on those it is not to select"
    share = f"the first {share}, by {options.time}" if options.time else share
    of_each = "" if options.by is None else f" for each {options.by}"
    bets = evidence.bets_on(evidence.quantities_of(options)[0].name, rows, options)
    leaves = f" over leaves of {', '.join(options.several)}" if options.several else ""
    return [
        f"fit a nested path of boundaries{of_each} by {method}{leaves} on {share}",
        f"certify {options.target.text} with confidence {options.confidence_level} along it on the "
        f"others, by {'bets' if bets else 'exact binomial tests'} in a fixed sequence",
    ]


def certify_boundary(data: ScoreRows | GridTable, options: BoundaryOptions) -> FittedBoundary:
    """Return a boundary whose bounds hold on new data with the confidence of the options.

    Rows are independent draws of what the boundary will be applied to, or groups of rows are.

    Raises `UsageError`: what cannot be certified, see `check_certifiable`; `DataError`: weights that
    cannot be counted, or rows of one class; `InfeasibleError`: no boundary can be certified (the
    message says about how many rows it would take), or rows beyond a limit that would be assumed.
    """
    data = evidence.check_certifiable(options, data)
    rows, index = evidence.written_out(data, options)
    confidence = options.confidence_level
    assert confidence is not None
    level = (confidence.denominator - confidence.numerator) / confidence.denominator
    peeled = peel(rows, options, level) if peels(options, rows) else None
    split = evidence.deal_rows(rows, options) if peeled is None else peeled[1]
    _need_classes(data, options, split)
    leaves = np.empty(0, np.uint16)
    if options.several:
        data, split, leaves = _over_leaves(data, index, split, options)
    limits = evidence.limits_of(split, options)
    stack = Stack(("",), (), np.zeros(data.score.size, np.int64))
    if options.by is not None:
        # As the part that fits has them: the other one must not say what is tested on it.
        times = np.bincount(index[split.fits], minlength=data.score.size) / split.fits.mean()
        stack = split_rows(data, options, times)
    if peeled is None:
        known = _stretches(split, stack.code[index], options, stack)
    else:
        every = [np.arange(part.score.size) for part in (split.fitting, split.certifying)]
        known = [evidence.Stretch(0, peeled[0], *every)]
    together = [[one] for one in known] if options.bound == "each" else [known]
    tested = [
        evidence.Evidence(own, split, options, limits, level / len(together)) for own in together
    ]
    _certify([one.chain for one in tested], options, level, rows.score.size)
    fitted = {}
    for own_path in tested:
        chain = own_path.chain
        for column, stretch in enumerate(own_path.stretches if chain.certifies else ()):
            places = own_path.table[chain.place]
            if options.by is None:
                fitted[""] = _fitted(data, options, stretch.path, places.tolist(), leaves)
            elif places[column] >= 0:
                name = stack.names[stretch.segment]
                part = data.only(np.flatnonzero(stack.code == stretch.segment))
                fitted[name] = _fitted(part, options, stretch.path, [int(places[column])], leaves)
    certificate = _certificate(options, split, limits)
    found = fitted[""] if options.by is None else _assembled(data, options, stack, fitted)
    if options.by is not None and options.bound == "each":
        certificate.failed = [name for name in stack.names if name not in fitted]
        said = "nothing can be certified, and none of its rows is selected"
        warnings = tuple(f"segment {name!r}: {said}" for name in certificate.failed)
        found = replace(found, warnings=warnings)
    found.model.fit.certificate = certificate
    found.model.objective = objective_of(options.target)
    return found


def _over_leaves(
    data: ScoreRows, index: Int64s, split: evidence.Split, options: BoundaryOptions
) -> tuple[ScoreRows, evidence.Split, UInt16s]:
    """Return rows in cells of the uncertainties, the parts over leaves of these, and each cell's leaf.

    The part that certifies must not say where the leaves are.
    """
    fitting, levels = in_cells(split.fitting, options.several), options.levels or LEAVES
    data = in_cells(data, options.several, fitting.cells)
    assert data.cells is not None and data.uncertainty is not None
    leaves = np.zeros(data.cells.cells, np.uint16)
    if levels > 1 and options.method != "st":
        tally, goal = summarise(fitting, _plain(options, "exact").at_levels(levels)).aim()
        leaves = leaves_of(tally, goal, levels)
    leaf = leaves[data.uncertainty[index].astype(np.int64)].astype(np.float64)
    edges = tuple(float(own) for own in range(1, int(leaves.max()) + 1))
    rows = replace(split.rows, uncertainty=leaf, level_edges=edges or None)
    return data, replace(split, rows=rows), leaves


def _certificate(
    options: BoundaryOptions, split: evidence.Split, limits: dict[str, float]
) -> Certificate:
    """Return what is promised, by which rows, and what that assumes."""
    each = [_promise(one.name, float(one.bound)) for one in evidence.quantities_of(options)]
    if (gap := options.target.gap) is not None:
        each.append(_promise(f"gap in {gap.measure}", float(gap.most)))
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
        said["certified_from"] = str(split.certifying.other(options.time).min())
    if said:
        found.assumes = said
    return found


def _promise(quantity: str, bound: float) -> Promise:
    side = "lower" if quantity in ("precision", "recall") else "upper"
    return Promise(quantity=quantity, bound=bound, side=side)


def _need_classes(data: ScoreRows, options: BoundaryOptions, split: evidence.Split) -> None:
    """Refuse rows that lack a class they need, and parts that do."""
    for part in (split.fitting, split.certifying):
        positives = int(np.count_nonzero(part.labels))
        if positives == 0 or ("n" in options.target.needs and positives == part.labels.size):
            summarise(data, _plain(options, "st")).need_classes()
            raise InfeasibleError(
                f"nothing can be certified: {data.score.size:,} rows are too few, a part of them has "
                "one class only."
            )


def _stretches(
    split: evidence.Split, code: Int64s, options: BoundaryOptions, stack: Stack
) -> list[evidence.Stretch]:
    """Return the paths of the segments that have one; `code` has the segment of each row."""
    stretches = [_stretch(split, code, own, options) for own in range(len(stack.names))]
    known, gap = [one for one in stretches if one is not None], options.target.gap
    if not known:
        raise InfeasibleError(
            f"nothing can be certified: {split.rows.score.size:,} rows are too few, no segment has "
            "both classes among those that fit and rows among those that certify; pool segments by "
            "--min-group-positives."
        )
    if gap is not None and len(known) < len(stack.names):
        left = stack.names[stretches.index(None)]
        raise InfeasibleError(
            f"nothing can be certified: segment {left!r} has too few rows for a {gap.measure}; pool "
            "segments by --min-group-positives."
        )
    return known


def _stretch(
    split: evidence.Split, code: Int64s, segment: int, options: BoundaryOptions
) -> evidence.Stretch | None:
    """Fit the path of a segment; None where its part that fits has one class, or none is left."""
    own = code == segment
    fitting, testing = own[split.fits], own[~split.fits]
    part = split.fitting.only(np.flatnonzero(fitting)) if not fitting.all() else split.fitting
    positives = int(np.count_nonzero(part.labels))
    if (positives in (0, part.labels.size) or not testing.any()) and not own.all():
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
    looser = not evidence.quantities_of(options)[0].at_least
    looser_bound = f"{'raise' if looser else 'lower'} {'a' if target.review else 'the'} bound"
    if target.gap is not None:
        looser_bound += ", allow a larger gap"
    together = _together(chain, target) if target.beside else ""
    if any(one.impossible for one in evidence.quantities_of(options)):
        advice = "a bound that leaves no room for error can never be certified; loosen it"
    elif needed is None:
        several = target.beside or target.review or target.gap
        word = "bounds together" if several else "bound"
        advice = f"no boundary of the path is expected to meet the {word} at all: "
        advice += together or (looser_bound if looser else f"{looser_bound}, or improve the scores")
    elif needed <= rows:
        advice = "the rows that certify do not confirm what the fitting rows suggest: "
        advice += f"{together or looser_bound}, or the confidence"
    else:
        few = "" if hopeful else "too few rows: "
        about = round(needed, min(0, 3 - len(str(needed))))
        advice = (
            f"{few}about {about:,} rows like these would be needed (there are {rows:,}); add rows, "
            f"or {together or looser_bound}, or the confidence"
        )
    raise InfeasibleError(
        f"nothing can be certified: {target.text} with confidence {options.confidence_level}; "
        f"{advice}."
    )


def _together(chain: Chain, target: Target) -> str:
    """Say what each bound could be so that it is expected to be certified with the others."""
    said = []
    for test, one in zip(chain.tests, target.each, strict=False):  # that of a gap comes last
        others = [np.subtract(*other.hopes) for other in chain.tests if other is not test]
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
    return f"loosen one of them ({' or '.join(said)} may be enough)"


def _assembled(
    data: ScoreRows, options: BoundaryOptions, stack: Stack, found: dict[str, FittedBoundary]
) -> FittedBoundary:
    """Return the boundaries of segments as one."""
    first = next(iter(found.values())).model
    plain = dataclasses.replace(_plain(options, first.method), by=options.by, bound=options.bound)
    together = side_by_side(data, plain, stack, found, None)
    model = together.model
    if options.bound == "overall":
        seen, met, classes = model.fit.in_sample, [], together.goal.totals.classes
        selected, _ = classes.weigh(float(seen.selected), float(seen.true_positives))
        rows, _ = classes.weigh(float(model.fit.rows), float(model.fit.positives))
        rates = {
            "precision": seen.precision,
            "recall": seen.recall,
            "fpr": seen.false_positive_rate,
            "capacity": selected / rows,
        }
        for one in evidence.quantities_of(options):  # but for rounding
            slack = (rates[one.name] or 0.0) - float(one.bound)
            met.append((slack if one.at_least else -slack) >= -1e-12)
        model.fit.bound_met = all(met)
    assert model.provenance is not None and first.provenance is not None
    model.provenance = replace(model.provenance, options=first.provenance.options)
    if (gap := options.target.gap) is not None:
        wide = apart(gap, (own.fit.in_sample for own in (model.groups or {}).values())) or 0.0
        model.fit.gap = GapFigures(
            in_sample=wide, cross_validated=None, without_limit=None, prices=[]
        )
        model.fit.bound_met &= wide <= float(gap.most)
    return together


def _plain(options: BoundaryOptions, method: str) -> BoundaryOptions:
    """Return what fits the same without a certificate: what its figures are counted by."""
    unset: dict[str, Any] = dict.fromkeys(
        (*(name for name, _ in options.target.beside), *LIMITS, "confidence", "groups", "time")
    )
    if method == CURVED:
        method = "exact" if options.several or options.target.review is not None else "logistic"
    return dataclasses.replace(options.whole.at_levels(None), method=method, **unset)


def _fitted(
    data: ScoreRows,
    options: BoundaryOptions,
    path: Path,
    places: list[int],
    leaves: UInt16s,
) -> FittedBoundary:
    """Return a boundary of a path as a fit, with its figures on all rows over the path's levels.

    `places`: where it stands on the path, of three-way decisions also where review ends; `leaves`: the
    leaf of each cell of several uncertainties.
    """
    plain, cells = _plain(options, path.method), data.cells
    shown = path.levels if cells is None else uncertainty_levels(data, cells.cells)
    summary = summarise(data, plain, shown)
    summary.need_classes()
    method = replace(METHODS[plain.method], name=path.method)
    planned = replace(summary.planned, method=method, levels=path.levels.count)
    said = {
        **summary.origin.options,
        **options.target.said,
        "method": options.method,
        "uncertainty_bins": path.levels.count,
        "confidence": str(options.confidence_level),
        **options.limits,
    }
    said |= {name: own for name in ("groups", "time", "max_gap") if (own := getattr(options, name))}
    if options.by is not None:
        said |= {name: getattr(options, name) for name in ("by", "bound", "min_group_positives")}
    said.pop("folds", None)
    origin = replace(summary.origin, options=said)
    summary = replace(summary, planned=planned, levels=shown, origin=origin)
    tally, goal = summary.aim()
    never = np.full(path.levels.count, np.nan)
    block, *reach = (path.thresholds[one] if one >= 0 else never for one in places)
    cut = math.nan if path.cuts is None else float(path.cuts[places[0]])
    found = Found(block, 0, 0, surface=path.surface, cut=cut, review=reach[0] if reach else None)
    if cells is not None:
        found = found.spread(path.levels.of(leaves.astype(np.float64), leaves.size))
    summary, found = flatten(summary, found.counted(tally))
    tally = summary.tally.reweighted(goal.totals.classes)
    if isinstance(goal, three_way.ThreeWay):
        ceiling = three_way.solve(tally.points(every=True), goal, cap=1).ceiling
    else:
        ceiling = best_choice(tally.points(), goal, cap=1).ceiling
    single = score_only(summary.tally, goal)
    fit = seen_in_sample(summary, replace(found, ceiling=ceiling), goal, single)
    if options.target.review is None:
        fit.bound_met = all(
            goal_of(one, goal.totals).met(
                int(found.selected), int(found.true_positives), found.gain
            )
            for one in options.target.each
        )
    return FittedBoundary(model=describe(summary, found, fit), goal=goal)
