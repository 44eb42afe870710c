"""A fit of ``alpha-cal`` from its rows to its model: see `calibkit.summaries.states.Run`.

How far apart raters are is the strength of a Dirichlet distribution: a row with class probabilities z
gets the distribution Dirichlet(alpha0 z) over class probabilities.  Its mean stays z, and alpha0 says
how much raters agree beyond it.  Fitted to votes by the Dirichlet-multinomial likelihood.  Mimori et
al., "Diagnostic uncertainty calibration", appendix D.2.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import pairwise
from typing import Final

import numpy as np
from msgspec import UNSET, Struct
from msgspec.structs import replace

from calibkit.arrays import Bools, Floats, Int64s, blocks
from calibkit.columns.patterns import number_columns
from calibkit.errors import UsageError
from calibkit.files.sources import Source
from calibkit.maps.class_rows import LEAST_PROBABILITY, RaterOptions, used_roles
from calibkit.maps.logit_maps import LogitMap, StoredRows, class_state, read_rater_rows
from calibkit.methods.raters.application import log_strength, own_features, with_steps
from calibkit.methods.raters.model import AlphaFit, AlphaModel, DisagreementMap
from calibkit.numerics.isotonic import pool_block
from calibkit.numerics.solve import FLAT_OF_MANY, Minimum, quasi_newton, rising_root
from calibkit.numerics.votes import (
    Targets,
    added_bin_sums,
    disagreement_shares,
    losses,
    predicted_disagreement,
)
from calibkit.options.alpha_cal import OWN_FEATURES, AlphaOptions
from calibkit.runtime.memory import Memory
from calibkit.runtime.threads import in_order
from calibkit.summaries.row_states import RowState, sources_of
from calibkit.summaries.states import Fitted, Plan, State, about, finished, options_of, recorded
from calibkit_kernels.classes import (
    BLOCK_ROWS,
    NO_ROWS,
    column_sums,
    histogram_costs,
    outer_sums,
)
from calibkit_kernels.logistic import NARROWEST

#: Names of columns; the name of features that are made of the probabilities; None without any.
AlphaFeatures = list[str] | str | None

#: Units in which shares of raters are counted for the isotonic step: exact, and summed exactly.
SHARE_UNITS: Final = 2**32

#: Where ln alpha0 of a constant strength is looked for.
LEAST_LOG, MOST_LOG = -15.0, 25.0
_STEP: Final = 1.0
#: How many rows valleys are looked for on, and how far off their bottoms may be expected there.
SAMPLE: Final = 8192
_NEAR: Final = 1 / 16
#: Over so little of ln alpha0 the slope is a line: its curvature is of the order of 1.
_STRAIGHT: Final = 1e-9
#: Predictions nearer to each other than this are one.
_ROUNDING: Final = 1e-12
#: Rows whose costs are added up together.
_BLOCK_ROWS: Final = 8192


def fit(options: AlphaOptions, source: Source) -> Fitted[AlphaModel]:
    """Return the model of all rows."""
    return recorded(_fit(options, source, source.memory), source)


def plan(options: AlphaOptions, source: Source) -> Plan:
    """Return what a fit would do."""
    features = feature_names(source, options.patterns)
    return Plan(used_roles(source, _columns(options, features)), options.steps(features))


class AlphaState(RowState):
    """Rows for ``alpha-cal``."""

    KIND, OPTIONS = "alpha-cal", AlphaOptions


def state(options: AlphaOptions, source: Source) -> State:
    """Return the rows of a shard, with the features that patterns stand for there."""
    features = feature_names(source, options.patterns)
    names = (features,) if isinstance(features, str) else features
    kept = dataclasses.replace(options, features=names)
    return class_state(AlphaState, kept, source, _columns(options, features))


def finish(state: State, memory: Memory, threads: int) -> Fitted[AlphaModel]:
    """Return the model of the rows of a merged state."""
    options = options_of(state, AlphaOptions, threads)
    return finished(_fit(options, sources_of(state)[0], memory), state)


def _fit(options: AlphaOptions, source: Source, memory: Memory | None) -> Fitted[AlphaModel]:
    features = feature_names(source, options.patterns)
    rows = read_rater_rows(source, _columns(options, features), memory)
    return fit_alpha(rows, options, features)


def _columns(options: AlphaOptions, features: AlphaFeatures) -> RaterOptions:
    others = tuple(features) if isinstance(features, list) else ()
    counts = options.counts or "count_*"
    return options.part(RaterOptions, probs=(options.pattern,), counts=counts, others=others)


def feature_names(source: Source, patterns: Sequence[str]) -> AlphaFeatures:
    """Return the columns that patterns stand for, in natural order; None without patterns.

    `OWN_FEATURES` stand for themselves, unless a column has that name.
    """
    if not patterns:
        return None
    own = [name for name in patterns if name in OWN_FEATURES and name not in source.schema]
    if own and len(patterns) > 1:
        raise UsageError(f"--features {own[0]} stands alone; leave the other patterns out.")
    if own:
        return own[0]
    return number_columns(source, patterns, "--features", "give columns of numbers")


def fit_alpha(rows: StoredRows, options: AlphaOptions, named: AlphaFeatures) -> Fitted[AlphaModel]:
    """Fit an alpha-calibration on class probabilities and votes.

    `rows`: the rows, with the features that are columns. `options`: what to fit. `named`: what
    alpha0 depends on: ``probs`` or ``sorted-probs`` for the logarithms of the probabilities (in the
    order of the classes, or falling), or the names of columns.
    """
    mapped: LogitMap | None = None
    probabilities, width = rows.probabilities, len(rows.classes)
    if options.map != "none":
        mapped = rows.fit_map(options.map, options.penalties, options.seed)
        of = mapped.probabilities
        probabilities = rows.made(width, lambda block: of(rows.logits[block]))
    features = None if named is None else rows.features
    if isinstance(named, str):
        features = rows.made(width, lambda block: own_features(named, probabilities[block]))
    strength = fit_strength(
        rows.made(width, lambda block: positive_probabilities(probabilities[block])),
        rows.counts,
        features,
        regularization=options.regularization,
        threads=options.workers,
        empty=rows.arrays.empty,
    )

    def disagreement(block: slice) -> Floats:
        own, z = None if features is None else features[block], probabilities[block]
        log_alpha0 = log_strength(own, z.shape[0], strength.weights, strength.intercept)
        return predicted_disagreement(z, np.exp(log_alpha0))[:, :1]

    def before(block: slice) -> Floats:
        return predicted_disagreement(rows.probabilities[block])[:, :1]

    def after(block: slice) -> Floats:
        return phi[block] if steps is None else with_steps(phi[block], steps)

    phi, steps = rows.made(1, disagreement), None
    several = sum(int((rows.counts[block].sum(axis=1) >= 2).sum()) for block in rows.blocks)
    if several and options.disagreement_map == "isotonic":
        steps = _steps(rows, phi, several)
    constant = strength.weights.size == 0
    shaped = ("map", "regularization", "disagreement_map", "seed")
    more: dict[str, object] = {"features": named}
    if options.map not in ("none", "temperature"):
        more["map_regularization"] = options.penalties or "cv"
    model = AlphaModel(
        **about(AlphaModel, options, shaped, rows.rows, rows.hash, rows.source.paths, **more),
        columns={"probs": rows.column},
        classes=list(rows.classes),
        features=named,
        log_alpha0=strength.intercept if constant else UNSET,
        weights=UNSET if constant else strength.weights.tolist(),
        intercept=UNSET if constant else strength.intercept,
        logit_map=None if mapped is None else mapped.stored(),
        disagreement_map=steps,
        regularization=options.regularization,
        objective=strength.ended.value,
        fit=AlphaFit(
            rows=rows.rows,
            votes=rows.votes,
            rows_two_raters=several,
            constant_objective=strength.constant_objective,
            **strength.ended.told,
            disagreement_loss=_loss(rows, after) if several else None,
            disagreement_loss_before=_loss(rows, before) if several else None,
        ),
    )
    of_map = () if mapped is None else mapped.warnings("--map-regularization")
    return Fitted(model, (*rows.warnings, *of_map, *_warnings(model.fit)))


def _judging(rows: StoredRows) -> Iterator[tuple[slice, Bools, Floats]]:
    """Yield by block which rows have two votes or more, and which share of their raters differ."""
    for block in rows.blocks:
        several = rows.counts[block].sum(axis=1) >= 2
        yield block, several, disagreement_shares(rows.counts[block][several])[:, :1]


def _steps(rows: StoredRows, phi: Floats, size: int) -> DisagreementMap:
    """Return the isotonic map of predicted disagreements, of so many rows with two votes or more."""
    predicted, units = rows.arrays.empty(size, np.float64), rows.arrays.empty(size, np.int64)
    end = 0
    for block, several, shares in _judging(rows):
        begin, end = end, end + shares.size
        predicted[begin:end] = phi[block, 0][several]
        units[begin:end] = np.rint(shares[:, 0] * SHARE_UNITS)
    return isotonic_steps(predicted, units)


def _loss(rows: StoredRows, predict: Callable[[slice], Floats]) -> float:
    """Return the mean squared distance of a predicted disagreement and that of two raters."""
    judged = ((predict(block)[several], shares) for block, several, shares in _judging(rows))
    targets = (Targets(own, shares, np.zeros_like(own)) for own, shares in judged)
    return float(losses(added_bin_sums(targets, 1)).squared[0])


def _warnings(fit: AlphaFit) -> Iterator[str]:
    if not fit.rows_two_raters:
        yield "no row has two votes: so this file cannot show how far raters differ"
    if not fit.converged:
        yield (
            f"the fit did not converge (gradient {fit.gradient:.1e} after {fit.iterations} steps): "
            "try a larger --regularization"
        )


def isotonic_steps(phi: Floats, units: Int64s) -> DisagreementMap:
    """Return the isotonic regression of observed shares of differing pairs on predictions.

    Shares are counted in units of 2^-32 and pooled in exact arithmetic.  Predictions that rounding
    may have parted are one, and a knot lies halfway between two: one that is computed again, and
    differs in the last digit, stays on its side.
    """
    order = np.argsort(phi)
    phi = phi[order]
    starts = np.flatnonzero(np.append(True, np.diff(phi) > _ROUNDING))
    rows = np.diff(np.append(starts, phi.size))
    hits = np.add.reduceat(units[order], starts)
    counts, hits, entries = pool_block(rows[::-1].copy(), hits[::-1].copy()).T
    values = hits / counts / SHARE_UNITS
    distinct = phi[starts]
    lower = np.append(distinct[0], distinct[:-1])
    middle = np.maximum(lower + (distinct - lower) / 2, np.nextafter(lower, np.inf))
    knots = np.minimum(middle, distinct)[::-1][np.cumsum(entries) - 1]
    return DisagreementMap(knots=knots[::-1].tolist(), values=values[::-1].tolist())


class Strength(Struct, frozen=True, kw_only=True):
    """ln alpha0 = weights . features + intercept; no weights for a constant strength.

    `ended` is the minimum, over standardised features, of the mean over rows of negative
    log-likelihood (without the multinomial coefficient) plus penalty; `constant_objective` the least
    value of a constant strength.
    """

    weights: Floats
    intercept: float
    constant_objective: float
    ended: Minimum


def positive_probabilities(probabilities: Floats) -> Floats:
    """Return probabilities of at least `LEAST_PROBABILITY`, normalised again.

    A class without probability could not have been voted for at all.
    """
    lifted = np.maximum(probabilities, LEAST_PROBABILITY)
    total = np.cumsum(lifted, axis=1)[:, -1:]  # in order, as everywhere
    return np.ascontiguousarray(lifted / total)


def fit_strength(
    probabilities: Floats,
    counts: Int64s,
    features: Floats | None = None,
    *,
    regularization: float = 0.005,
    threads: int = 1,
    empty: Callable[..., Floats] = np.empty,
) -> Strength:
    """Fit the strength to votes.

    Probabilities (see `positive_probabilities`) and counts are rows x classes, in an order that is as
    good as random, and every row has a vote; features are rows x features, or None for a constant
    strength.  `regularization` is the penalty of (ln alpha0)^2, a row: both it and the likelihood are
    averaged over rows, so its strength depends neither on the number of rows nor on that of votes.
    The result depends on no thread.  `empty` makes an array as large as the features.

    Rows with one vote say nothing about alpha0: with such rows only, ln alpha0 is 0 under a penalty
    and not determined without one.  The objective need not be convex: the best constant is looked
    for between e^-15 and e^25, and the search on features starts there.
    """
    objective = Objective(probabilities, counts, regularization, threads)
    constant = found = _best_constant(objective)
    weights, shift = np.empty(0), 0.0
    if features is not None:
        mean, factor = standard(features)
        start = np.append(np.zeros(features.shape[1]), constant.point)
        standardised = empty(features.shape, np.float64)
        for block in blocks(features.shape[0], BLOCK_ROWS):
            standardised[block] = (features[block] - mean) * factor
        objective = replace(objective, features=standardised)
        found = quasi_newton(objective.at, start, tolerance=FLAT_OF_MANY)
        weights = found.point[:-1] * factor
        shift = float(np.cumsum(weights * mean)[-1])
    return Strength(
        weights=weights,
        intercept=float(found.point[-1]) - shift,
        constant_objective=constant.value,
        ended=found,
    )


def standard(features: Floats) -> tuple[Floats, Floats]:
    """Return mean and factor of features: factor (x - mean) has standard deviation 1.

    They are summed block by block; a feature that does not vary has the factor 0.
    """
    rows, width = features.shape
    mean, variance, own = np.zeros(width), np.zeros(width), np.empty(width)
    for block in blocks(rows, BLOCK_ROWS):
        column_sums(features[block], NO_ROWS, own)
        mean += own
    mean /= rows
    # A power of two, which changes no digit, lest squares leave the range of floats.
    unit = np.ldexp(0.5, np.frexp(np.maximum(features.max(axis=0), -features.min(axis=0)))[1])
    for block in blocks(rows, BLOCK_ROWS):
        apart = (features[block] - mean) / unit
        column_sums(apart, apart, own)
        variance += own
    scale = unit * np.sqrt(variance / rows)
    varies = scale > np.maximum(1e-12 * np.abs(mean), NARROWEST)
    return mean, np.where(varies, 1.0 / np.where(varies, scale, 1.0), 0.0)


class Objective(Struct, frozen=True):
    """The mean cost of rows as a function of weights and intercept, with its gradient.

    Rows are taken in fixed blocks, whose sums are added in order: the same result for any number of
    threads.  Without features one strength is that of all rows.
    """

    probabilities: Floats
    counts: Int64s
    regularization: float
    threads: int
    features: Floats | None = None

    def at(self, point: Floats) -> tuple[float, Floats]:
        """Return the mean cost at weights and intercept (last), and its gradient in them."""
        rows = self.counts.shape[0]
        value, gradient = 0.0, np.zeros(point.size)
        threads, each = min(self.threads, -(-rows // _BLOCK_ROWS)), blocks(rows, _BLOCK_ROWS)
        for cost, slopes in in_order(threads, lambda block: self._block(block, point), each):
            value += cost
            gradient += slopes
        return value / rows, gradient / rows

    def slope(self, log_alpha0: float) -> float:
        """Return the derivative of the mean cost in one ln alpha0 for all rows."""
        return float(self.at(np.array([log_alpha0]))[1][0])

    def _block(self, rows: slice, point: Floats) -> tuple[float, Floats]:
        """Return the cost of a block of rows, and its gradient."""
        counts = self.counts[rows]
        features = None if self.features is None else self.features[rows]
        log_alpha0 = log_strength(features, counts.shape[0], point[:-1], float(point[-1]))[:, None]
        cost, slope = np.empty((2, counts.shape[0], 1))
        probabilities = self.probabilities[rows]
        histogram_costs(probabilities, counts, log_alpha0[:, 0], cost[:, 0], slope[:, 0])
        cost += self.regularization * log_alpha0 * log_alpha0
        slope += 2.0 * self.regularization * log_alpha0
        gradient, total = np.empty(point.size), np.empty(1)
        if features is not None:
            outer_sums(slope, features, gradient[:-1].reshape(1, -1))
        column_sums(slope, NO_ROWS, gradient[-1:])
        column_sums(cost, NO_ROWS, total)
        return float(total[0]), gradient


def _best_constant(objective: Objective) -> Minimum:
    """Return the best ln alpha0 for all rows together.

    Valleys and their bottoms are looked for on a sample, the first rows in an order that is as good
    as random, and around each bottom all rows are asked for theirs.
    """
    probabilities, counts = objective.probabilities[:SAMPLE], objective.counts[:SAMPLE]
    sample = replace(objective, probabilities=probabilities, counts=counts)
    places = np.arange(LEAST_LOG, MOST_LOG + _STEP / 2, _STEP).tolist()
    slopes = [sample.slope(place) for place in places]
    steps = zip(pairwise(places), pairwise(slopes), strict=True)
    valleys = [ends for ends, (before, after) in steps if before < 0.0 <= after]
    valleys += [(LEAST_LOG, LEAST_LOG)] if slopes[0] >= 0.0 else []
    valleys += [(MOST_LOG, MOST_LOG)] if slopes[-1] < 0.0 else []
    near = [rising_root(sample.slope, *valley, straight=_NEAR) for valley in valleys]
    return min((_bottom(objective, place) for place in near), key=lambda one: one.value)


def _bottom(objective: Objective, near: float) -> Minimum:
    """Return the least point of the valley in which a sample has its own."""
    slope, step = cache(objective.slope), _NEAR
    low, high = max(near - step, LEAST_LOG), min(near + step, MOST_LOG)
    while low > LEAST_LOG and slope(low) >= 0.0:
        step *= 2.0
        low, high = max(low - step, LEAST_LOG), low
    while high < MOST_LOG and slope(high) < 0.0:
        step *= 2.0
        low, high = high, min(high + step, MOST_LOG)
    found = rising_root(slope, low, high, straight=_STRAIGHT)
    value, gradient = objective.at(np.array([found]))
    inside = LEAST_LOG < found < MOST_LOG
    return Minimum(np.array([found]), value, abs(float(gradient[0])), 0, converged=inside)
