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
from dataclasses import dataclass, replace
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.bins.grid_table import GridTable
from calibkit.columns.columns import ScoreRows
from calibkit.errors import InfeasibleError
from calibkit.methods.boundary.certificate.dealing import (
    Split,
    check_certifiable,
    deal_rows,
    fitting_share,
    limits_of,
    written_out,
)
from calibkit.methods.boundary.certificate.evidence import Ground, Stretch, chain_of
from calibkit.methods.boundary.certificate.paths import CURVED, Path, fit_path
from calibkit.methods.boundary.certificate.tests import Binomials, Chain, Quantity, walk_all
from calibkit.methods.boundary.problem.found import Found
from calibkit.methods.boundary.problem.target import goal_of
from calibkit.methods.boundary.result.describe import describe, flatten
from calibkit.methods.boundary.result.fit import FittedBoundary, score_only, seen_in_sample
from calibkit.methods.boundary.result.parts import Certificate, Promise
from calibkit.methods.boundary.segments import judge_together, side_by_side, split_rows
from calibkit.methods.boundary.solvers.methods import METHODS, best_choice
from calibkit.methods.boundary.solvers.summary import Stack, Summary, summarise
from calibkit.options.boundary import AUTO, LIMITS, BoundaryOptions
from calibkit.options.objective import Target

#: A first test is made if it is expected to reject so many times as often as it may reject wrongly.
LEAST_POWER = 1.5


def certificate_steps(options: BoundaryOptions, data: ScoreRows | GridTable) -> list[str]:
    """Return in words what a certified fit will do.

    Raises
    ------
    UsageError
        What cannot be certified.
    """
    rows = written_out(check_certifiable(options, data), options)[0]
    method = "a curved logistic surface" if options.method == AUTO else options.method
    share = f"{fitting_share(rows.score.size):.1%} of the rows"
    share = f"the first {share}, by {options.time}" if options.time else share
    of_each = "" if options.by is None else f" for each {options.by}"
    bets = ground_of(rows, options).bets_on(options.target.each[0].option)
    return [
        f"fit a nested path of boundaries{of_each} by {method} on {share}",
        f"certify {options.target.text} with confidence {options.confidence_level} along it on the "
        f"others, by {'bets' if bets else 'exact binomial tests'} in a fixed sequence",
    ]


def ground_of(rows: ScoreRows, options: BoundaryOptions) -> Ground:
    """Return what the rows of a certificate are."""
    return Ground(options, rows.weight is not None)


@dataclass(frozen=True)
class Segment:
    """A segment of the rows: its part of the data, and its path; None where nothing could be fitted."""

    rows: NDArray[np.int64]
    stretch: Stretch | None


def certify_boundary(data: ScoreRows | GridTable, options: BoundaryOptions) -> FittedBoundary:
    """Return a boundary whose bounds hold on new data with the confidence of the specification.

    Parameters
    ----------
    data
        Rows that are independent draws of what the boundary will be applied to, or groups of rows that
        are.
    options
        What to fit, with a confidence.

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
    data = check_certifiable(options, data)
    rows, index = written_out(data, options)
    split = deal_rows(rows, options)
    _need_classes(data, options, split)
    assumed = limits_of(split, options)
    ground = Ground(options, rows.weight is not None, assumed)
    stack = Stack(("",), (), (np.arange(data.score.size),))
    if options.by is not None:
        # As the part that fits has them: the other one must not say what is tested on it.
        times = np.bincount(index[split.fits], minlength=data.score.size) / split.fits.mean()
        stack = split_rows(data, options, times)
    code = np.empty(data.score.size, np.int64)
    for own, places in enumerate(stack.rows):
        code[places] = own
    stretches = [_stretch(split, code[index] == own, options) for own in range(len(stack.names))]
    chains, members = _chains(stretches, split, ground)
    _certify(chains, options, ground.level, rows.score.size)
    fitted = _segments_fitted(data, options, stack, stretches, chains, members)
    certificate = _certificate(options, split, assumed)
    if options.by is None:
        model = fitted[""].model
    else:
        model, goal = _assembled(data, options, stack, fitted)
        warnings: tuple[str, ...] = ()
        if options.bound == "each":
            certificate.failed = [name for name in stack.names if name not in fitted]
            warnings = _failed(certificate.failed)
        fitted[""] = FittedBoundary(model=model, warnings=warnings, goal=goal)
    model.fit.certificate = certificate
    model.objective.subject_to = {
        one.option: float(one.bound) for one in options.target.each if one.bound is not None
    }
    return fitted[""]


def _certificate(options: BoundaryOptions, split: Split, assumed: dict[str, float]) -> Certificate:
    """Return what is promised, by which rows, and what that assumes."""
    each = [_promise(one.option, float(one.bound or 0.0)) for one in options.target.each]
    first, confidence = each[0], options.confidence_level
    assert confidence is not None
    found = Certificate(
        confidence=float(confidence),
        quantity=first.quantity,
        bound=first.bound,
        side=first.side,
        rows=int(split.certifying.score.size),
    )
    if len(each) > 1:
        found.promises = each
    said: dict[str, int | float | str] = {
        name: int(limit) if float(limit).is_integer() else limit for name, limit in assumed.items()
    }
    if options.time is not None:
        assert split.certifying.others is not None
        said["certified_from"] = str(split.certifying.others[options.time].min())
    if said:
        found.assumes = said
    return found


def _promise(quantity: str, bound: float) -> Promise:
    return Promise(
        quantity=quantity, bound=bound, side="upper" if quantity in ("fpr", "capacity") else "lower"
    )


def _need_classes(data: ScoreRows, options: BoundaryOptions, split: Split) -> None:
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


def _stretch(split: Split, own: NDArray[np.bool_], options: BoundaryOptions) -> Stretch | None:
    """Fit the path of a segment; None where its part that fits has one class only."""
    fitting, testing = own[split.fits], own[~split.fits]
    part = split.fitting.only(np.flatnonzero(fitting)) if not fitting.all() else split.fitting
    assert part.label is not None
    positives = int(np.count_nonzero(part.label))
    if positives in (0, part.label.size) and not own.all():
        return None
    method = CURVED if options.method == AUTO else options.method
    sizes = Ground(options, part.weight is not None).sizes(part)
    path = fit_path(_in_quarters(part), method, options.levels, sizes)
    return Stretch(path, np.flatnonzero(fitting), np.flatnonzero(testing))


def _in_quarters(rows: ScoreRows) -> ScoreRows:
    """Return rows with weights in quarters of the mean: what a path needs to know of them."""
    if rows.weight is None or not rows.weight.any():
        return replace(rows, weight=None)
    quarters = np.rint(4.0 * rows.weight / rows.weight.mean())
    return replace(rows, weight=np.maximum(quarters, rows.weight > 0.0))


def _chains(
    stretches: list[Stretch | None], split: Split, ground: Ground
) -> tuple[list[Chain], list[tuple[list[int], NDArray[np.int64]]]]:
    """Return what is tested by itself, and of each the segments with their places on its path."""
    options = ground.options
    known = [own for own, one in enumerate(stretches) if one is not None]
    together = [[own] for own in known] if options.bound == "each" else [known]
    chains, members = [], []
    for owns in together:
        parts = [one for one in (stretches[own] for own in owns) if one is not None]
        chain, table = chain_of(parts, split, ground, ground.level / len(together))
        chains.append(chain)
        members.append((owns, table))
    return chains, members


def _certify(chains: list[Chain], options: BoundaryOptions, level: float, rows: int) -> None:
    """Walk along all chains, or raise with what would be needed if none of them gets anywhere."""
    # Else it would be luck to be certified, much as it is for a boundary that breaks its promise.
    hopeful = [one for one in chains if one.power >= LEAST_POWER * level]
    walk_all(hopeful, level)
    if not any(one.certifies for one in chains):
        best = max(chains, key=lambda one: one.power)
        raise _nothing(best, options, rows, tested=bool(hopeful))


def _nothing(chain: Chain, options: BoundaryOptions, rows: int, *, tested: bool) -> InfeasibleError:
    target = options.target
    needed = chain.rows_needed(rows)
    looser = "raise" if target.each[0].option in ("fpr", "capacity") else "lower"
    together = _together(chain, target) if target.beside else ""
    quantities = [Quantity(one.option, one.bound) for one in target.each if one.bound is not None]
    if any(one.impossible for one in quantities):
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
        few = "" if tested else "too few rows: "
        advice = (
            f"{few}about {needed:,} rows like these would be needed (there are {rows:,}); or "
            f"{together or f'{looser} the bound'}, or the confidence"
        )
    return InfeasibleError(
        f"nothing can be certified: {target.text} with confidence {options.confidence_level}; "
        f"{advice}."
    )


def _together(chain: Chain, target: Target) -> str:
    """Say what each bound could be so that it is expected to be certified with the others."""
    said = []
    for own, one in enumerate(target.each):
        test = chain.tests[own]
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


def _segments_fitted(
    data: ScoreRows,
    options: BoundaryOptions,
    stack: Stack,
    stretches: list[Stretch | None],
    chains: list[Chain],
    members: list[tuple[list[int], NDArray[np.int64]]],
) -> dict[str, FittedBoundary]:
    """Return the boundary of each segment for which one was certified, by name."""
    found = {}
    for chain, (owns, table) in zip(chains, members, strict=True):
        if not chain.certifies:
            continue
        for column, own in enumerate(owns):
            place, stretch = int(table[chain.place, column]), stretches[own]
            if place < 0 or stretch is None:
                continue
            part = data if options.by is None else data.only(stack.rows[own])
            found[stack.names[own]] = _fitted(part, options, stretch.path, place)
    order = {name: place for place, name in enumerate(stack.names)}
    return dict(sorted(found.items(), key=lambda pair: order[pair[0]]))


def _assembled(
    data: ScoreRows, options: BoundaryOptions, stack: Stack, found: dict[str, FittedBoundary]
) -> tuple[Any, Any]:
    """Return the boundaries of segments as one model, and the goal of all rows."""
    model = side_by_side(data, options, stack, found, None)
    first = next(iter(found.values())).model
    plain = replace(_plain(options, first.method), by=options.by, bound=options.bound)
    goal = judge_together(data, plain, model, list(found.values()), None)
    if options.bound == "overall":
        model.fit.bound_met = all(_met(model, one) for one in options.target.each)
    assert model.provenance is not None and first.provenance is not None
    said = {**first.provenance.options, "by": options.by, "bound": options.bound}
    said["min_group_positives"] = options.min_group_positives
    model.provenance = msgspec.structs.replace(model.provenance, options=said)
    return model, goal


def _met(model: Any, target: Target) -> bool:
    """Return whether all rows together meet a bound, but for rounding."""
    seen, bound = model.fit.in_sample, float(target.bound or 0.0)
    share = seen.selected / model.fit.rows
    name = "false_positive_rate" if target.option == "fpr" else target.option
    value = share if name == "capacity" else getattr(seen, name) or 0.0
    slack = value - bound if target.option in ("precision", "recall") else bound - value
    return bool(slack >= -1e-12)


def _failed(names: list[str]) -> tuple[str, ...]:
    return tuple(
        f"segment {name!r}: nothing can be certified, and none of its rows is selected"
        for name in names
    )


def _plain(options: BoundaryOptions, method: str) -> BoundaryOptions:
    """Return what fits the same without a certificate: what its figures are counted by."""
    unset: dict[str, Any] = dict.fromkeys([name for name, _ in options.target.beside])
    unset |= dict.fromkeys(LIMITS)
    return replace(
        options.at_levels(None),
        method="logistic" if method == CURVED else method,
        confidence=None,
        groups=None,
        time=None,
        by=None,
        bound="overall",
        min_group_positives=None,
        **unset,
    )


def _summary(data: ScoreRows, options: BoundaryOptions, path: Path) -> Summary:
    """Count all rows over the levels of the path, for the figures and the outline of the model."""
    plain = _plain(options, path.method)
    summary = summarise(data, plain, path.levels)
    summary.need_classes()
    planned = replace(
        summary.planned,
        method=replace(METHODS[plain.method], name=path.method),
        levels=path.levels.count,
    )
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
    return replace(summary, planned=planned, levels=path.levels, origin=origin)


def _fitted(data: ScoreRows, options: BoundaryOptions, path: Path, place: int) -> FittedBoundary:
    """Return a boundary of a path as a fit, with its figures on all rows."""
    summary = _summary(data, options, path)
    tally, goal = summary.aim()
    thresholds = path.thresholds[place]
    counted = tally.selected(thresholds), tally.gained(thresholds)
    cut = math.nan if path.cuts is None else float(path.cuts[place])
    found = Found(thresholds, *counted[0], gain=counted[1], surface=path.surface, cut=cut)
    summary, found = flatten(summary, found)
    tally = summary.problem.tally.reweighted(goal.totals.classes)
    ceiling = best_choice(tally.points(), goal, cap=1).ceiling
    single = score_only(summary.problem.tally, goal)
    fit = seen_in_sample(summary, found, goal, ceiling, single)
    fit.bound_met = all(
        goal_of(one, goal.totals).met(int(found.selected), int(found.true_positives), found.gain)
        for one in options.target.each
    )
    return FittedBoundary(model=describe(summary, found, fit), goal=goal)
