"""Maps by knots of the score, steps or lines between them: the methods that count rows near a score.

Histogram binning: B. Zadrozny, C. Elkan, Obtaining calibrated probability estimates from decision trees
and naive Bayesian classifiers, 2001.  Scaling-binning: A. Kumar, P. Liang, T. Ma, Verified uncertainty
calibration, 2019.  Isotonic regression, the rising step function of least squared error (and least log
loss): B. Zadrozny, C. Elkan, Transforming classifier scores into accurate multiclass probability
estimates, 2002; centred, it goes from the centre of a pool to that of the next, and rises strictly
between the outer ones (A. Oron, N. Flournoy, Centered isotonic regression, 2017).  Venn-Abers
predictors give two probabilities a score, one for each label it might have: V. Vovk, I. Petej,
Venn-Abers predictors, 2014; the inductive form, as tables of V. Vovk, I. Petej, V. Fedorova,
Large-scale probabilistic predictors with and without guarantees of validity, 2015.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from calibkit.arrays import Floats, Int64s, Numbers
from calibkit.errors import DataError
from calibkit.maps.lines import falling_note, platt_line
from calibkit.maps.method import Found, Method, Points, Writer
from calibkit.maps.model import ScoreMap
from calibkit.numerics.isotonic import pool, pool_block
from calibkit.numerics.sums import cut, each_block
from calibkit.options.calibrate import DEFAULTS, MapOptions
from calibkit.runtime.threads import later
from calibkit.summaries.edges import equal_width_edges, falling_quantiles
from calibkit_kernels.maps import LEAST, line_map, logit
from calibkit_kernels.metrics import range_sums
from calibkit_kernels.rates import added_row_fits, next_corners
from calibkit_kernels.tally import assign_levels

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker


def write_steps(one: ScoreMap, _: str) -> Writer:
    """Return what writes the value of the greatest knot at or below; below all the first value."""
    assert one.knots is not None and one.values is not None  # the model was checked
    knots, values = np.array(one.knots[1:]), np.array(one.values)  # below the second: the first
    return partial(_write_values, knots, values.clip(one.clip, 1.0 - one.clip))


def _write_values(knots: Floats, values: Floats, score: Numbers, out: Floats) -> None:
    """Write the value after as many knots as are at or below each score."""
    reached = np.empty(score.size, np.uint32)
    assign_levels(score, -np.inf, knots, reached)
    np.take(values, reached, out=out, mode="clip")  # other modes make a copy first


def steps_program(maker: Maker) -> tuple[Node, ...]:
    """Return the value of the greatest knot at or below; below all the first value."""
    return (maker.steps("step", lambda one: ((one.knots or [])[1:], one.values or [])),)


def without_repeats(knots: Floats, values: Floats) -> dict[str, Floats]:
    """Return the fields of a map without steps of no width and without steps that change nothing.

    `knots` do not fall; of equal ones the last one holds.
    """
    kept = np.append(knots[1:] > knots[:-1], True)
    knots, values = knots[kept], values[kept]
    changes = np.append(True, values[1:] != values[:-1])
    return {"knots": knots[changes], "values": values[changes]}


def broken_line(one: ScoreMap) -> tuple[Floats, Floats]:
    """Return the knots, and of the pieces they part: knot, value and slope there.

    The first and the last piece are flat; so is one too narrow for a slope that is a number.
    """
    knots, values = np.array(one.knots), np.array(one.values)
    with np.errstate(over="ignore", divide="ignore"):
        rises = np.diff(values) / np.diff(knots)
    slopes = np.concatenate([[0.0], np.where(np.isfinite(rises), rises, 0.0), [0.0]])
    starts, levels = np.append(knots[:1], knots), np.append(values[:1], values)
    return knots, np.array([starts, levels, slopes])


def write_broken_line(one: ScoreMap, _: str) -> Writer:
    """Return what writes the line between the knots on both sides of each score."""
    knots, (starts, levels, slopes) = broken_line(one)

    def write(score: Numbers, out: Floats) -> None:
        x = score.astype(np.float64)
        piece = np.searchsorted(knots, x, side="right")
        value = slopes[piece] * (x - starts[piece]) + levels[piece]
        np.clip(value, one.clip, 1.0 - one.clip, out=out)

    return write


def broken_line_program(maker: Maker) -> tuple[Node, ...]:
    """Return the line between the knots on both sides of the score."""
    from calibkit.expressions.nodes import clipped

    found = [broken_line(one) for one in maker.maps]
    away = maker.program.bind("away", maker.score - maker.of_piece("knot", maker.score, found, 0))
    slope = maker.of_piece("slope", maker.score, found, 2)
    value = slope * away + maker.of_piece("level", maker.score, found, 1)
    value = maker.program.bind("line", value)
    return (clipped(value, 0.0, 1.0),)


def fit_histogram(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit the mean label of each bin; an empty bin of equal width has its midpoint."""
    edges, middle = _bins(points.score, points, options)
    own, width = edges, options.bin_strategy == "equal-width"
    if width and points.scale == "logit":  # bins of the probability, found by the logit
        own = np.array([logit(float(edge)) for edge in edges])
        own[0] = min([float(points.score[-1]), *(own[1:2] - 1.0)])
    rows, hits = (
        np.array([counts[own].sum(dtype=np.int64) for own in _places(points.score, own)])
        for counts in (points.count, points.positive)
    )
    values = np.where(rows > 0, hits / np.maximum(rows, 1), middle)
    if not width:  # an empty quantile bin has no width
        own, values = own[rows > 0], values[rows > 0]
    return Found(without_repeats(own, values))


def _bins(falling: Numbers, points: Points, options: MapOptions) -> tuple[Floats, Floats]:
    """Return the lower edges of bins of values that fall with the scores, and their midpoints."""
    bins = options.bins or DEFAULTS["bins"]
    if options.bin_strategy == "equal-width":
        edges = np.append(0.0, equal_width_edges(0.0, 1.0, bins))
    else:
        edges = falling_quantiles(falling, points.count, bins)
    return edges, (edges + np.append(edges[1:], 1.0)) / 2


def _places(falling: Numbers, edges: Floats) -> list[slice]:
    """Return where the values of each bin stand, in values that fall."""
    cuts = np.searchsorted(falling[::-1], edges[1:], side="left")
    ends = falling.size - np.array([0, *cuts, falling.size])
    return [slice(*pair) for pair in zip(ends[1:].tolist(), ends[:-1].tolist(), strict=True)]


def fit_scaling_binning(points: Points, options: MapOptions, parts: list[Points]) -> Found:
    """Fit g = expit(a x + b) on one part, its bins on the next, and the mean of g on the third.

    The parts are thirds of the rows, or all rows three times.  A bin without rows in the third part
    takes the mean over the second one, an equal-width bin without rows in both its midpoint.
    """
    first, *others = parts or [points] * 3
    a, b = platt_line(first, "smoothed", options.workers)
    (g, second), third = (_falling(part, a, b) for part in others)
    edges, middle = _bins(g, second, options)
    means, values = (_bin_means(*line, edges) for line in ((g, second), third))
    values = np.where(np.isnan(values), means, values)
    values = np.where(np.isnan(values), middle, values)
    if options.bin_strategy != "equal-width":
        held = ~np.isnan(means)
        edges, values = edges[held], values[held]
    return Found({"a": a, "b": b, **without_repeats(edges, values)}, falling_note(points, a))


def _falling(points: Points, a: float, b: float) -> tuple[Floats, Points]:
    """Return g of each point from high to low, and the points in this order."""
    g = _line(a, b, points.scale)(points.score)
    if a >= 0.0:
        return g, points
    return g[::-1].copy(), points.backwards()


def _bin_means(g: Floats, points: Points, edges: Floats) -> Floats:
    """Return the mean of g in each bin, NaN where no row is."""
    means = np.full(edges.size, np.nan)
    for k, own in enumerate(_places(g, edges)):
        rows, _, mass = range_sums(g[own], points.count[own], points.positive[own])
        if rows:
            means[k] = mass / rows
    return means


def _line(a: float, b: float, scale: str) -> Callable[[Numbers], Floats]:
    """Return g = expit(a x + b) as a function of scores."""

    def g(score: Numbers) -> Floats:
        out = np.empty(score.size)
        line_map(score, a, b, scale == "probability", LEAST, 0.0, out)
        return out

    return g


def write_line_steps(one: ScoreMap, scale: str) -> Writer:
    """Return what writes the value of the bin of g."""
    line, steps = _line(one.a or 0.0, one.b or 0.0, scale), write_steps(one, scale)
    return lambda score, out: steps(line(score), out)


def line_steps_program(maker: Maker) -> tuple[Node, ...]:
    """Return the value of the bin of g, its edges as edges of the score."""
    made = []
    for one in maker.maps:
        slope = one.a or 0.0
        inverse = maker.inverse(_line(slope, one.b or 0.0, maker.scale), slope)
        made.append(inverse.steps((one.knots or [])[1:], one.values or []))
    return (maker.of_segment("step", made),)


def fit_isotonic(points: Points, options: MapOptions, __: list[Points]) -> Found:
    """Fit by pooling adjacent violators, exactly; a knot is the lowest score of its pool.

    With ``interpolate`` it has a knot at its highest score, too.
    """
    _, low, high, values = _pools(points, options.workers)
    if not options.interpolate:
        return Found({"knots": low, "values": values})
    knots, twice = np.stack([low, high], axis=1).ravel(), np.repeat(values, 2)
    kept = np.append(True, knots[1:] > knots[:-1])
    return Found({"knots": knots[kept], "values": twice[kept], "interpolate": True})


def fit_centred(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit by pooling adjacent violators; a knot is the mean score of the rows of a pool."""
    places, low, high, values = _pools(points, options.workers)
    knots = np.empty(values.size)
    for k, own in enumerate(places):
        count = points.count[own].astype(np.float64)
        with np.errstate(over="ignore"):
            away = np.add.reduce(count * (points.score[own].astype(np.float64) - low[k]))
        knots[k] = low[k] + away / np.add.reduce(count)
    return Found({"knots": knots.clip(low, high), "values": values})


def _pools(points: Points, threads: int) -> tuple[list[slice], Floats, Floats, Floats]:
    """Return the places, the lowest and highest score, and the value of each pool, rising."""
    blocks = cut(0, points.score.size)
    found = pool(each_block(pool_block, (points.count, points.positive), blocks, threads))[::-1]
    ends = np.cumsum(found[::-1, 2])[::-1]
    starts = ends - found[:, 2]
    own = [slice(*pair) for pair in zip(starts.tolist(), ends.tolist(), strict=True)]
    low, high = (points.score[at].astype(np.float64) for at in (ends - 1, starts))
    return own, low, high, found[:, 1] / found[:, 0]


def write_isotonic(one: ScoreMap, scale: str) -> Writer:
    """Return what writes steps, or lines between them, as in scikit-learn."""
    return (write_broken_line if one.interpolate else write_steps)(one, scale)


def isotonic_program(maker: Maker) -> tuple[Node, ...]:
    """Return steps, or lines between them; the maps of segments are of one kind."""
    lines = any(one.interpolate for one in maker.maps)
    return (broken_line_program if lines else steps_program)(maker)


def fit_venn_abers(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fill the tables: the isotonic fit at each score with one row added there, label 0 and 1.

    Between two scores a row of label 0 is pooled as if it had the lower one, a row of label 1 as if
    it had the higher one; so the tables answer for every score.

    Raises `DataError` for weights so small that one row outweighs what integers hold.
    """
    size = max(points.unit.size, 2.0**-63)
    weight = max(1, round(1.0 / size))
    if weight + points.totals[0] >= 2**63:
        raise DataError(
            f"{points.what} have weights too small for venn-abers, where a new row has weight 1; "
            "multiply the weights so that a row has about weight 1"
        )
    negative = points.count.astype(np.int64) - points.positive
    below = later(options.workers, _added, points.count, negative, weight, True)
    high = _added(points.count[::-1], points.positive[::-1], weight, False)
    low = below()[::-1]
    score = points.score[::-1].astype(np.float64)
    first = np.append(low[:1] > 0.0, low[1:] != low[:-1])
    last = np.append(high[1:] != high[:-1], high[-1:] < 1.0)
    lower = {"low_knots": score[first], "low": low[first]}
    return Found(lower | {"high_knots": score[last], "high": high[last]})


def _added(count: Int64s, positive: Int64s, weight: int, complement: bool) -> Floats:
    """Return the isotonic fit at each point with a positive row added there, or 1 minus it."""
    rows, hits = np.zeros((2, count.size + 1), np.int64)
    np.cumsum(count, dtype=np.int64, out=rows[1:])
    np.cumsum(positive, dtype=np.int64, out=hits[1:])
    corners, out = np.empty(rows.size, np.int64), np.empty(count.size)
    next_corners(rows, hits, corners)
    added_row_fits(rows, hits, corners, weight, complement, out)
    return out


def write_venn_abers(one: ScoreMap, _: str) -> Writer:
    """Return what writes the merged probability p1 / (1 - p0 + p1), p0 and p1."""
    low_values, high_values = np.append(0.0, one.low or []), np.append(one.high or [], 1.0)
    low_knots = np.array(one.low_knots or [])
    high_knots = np.nextafter(np.array(one.high_knots or []), np.inf)  # a step begins right above

    def write(score: Numbers, calibrated: Floats, low: Floats, high: Floats) -> None:
        _write_values(low_knots, low_values, score, low)
        _write_values(high_knots, high_values, score, high)
        whole = 1.0 - low + high
        calibrated[:] = 0.5  # of (1, 0)
        np.divide(high, whole, out=calibrated, where=whole > 0.0)
        for out in (calibrated, low, high):
            np.clip(out, one.clip, 1.0 - one.clip, out=out)

    return write


def venn_abers_program(maker: Maker) -> tuple[Node, ...]:
    """Return the merged probability p1 / (1 - p0 + p1), which is 1/2 where that is 0 / 0, p0 and p1."""
    from calibkit.expressions.nodes import when

    def low(one: ScoreMap) -> tuple[list[float], list[float]]:
        return one.low_knots or [], [0.0, *(one.low or [])]

    def high(one: ScoreMap) -> tuple[list[float], list[float]]:
        return one.high_knots or [], [*(one.high or []), 1.0]

    p0 = maker.program.bind("low", maker.steps("low", low))
    p1 = maker.program.bind("high", maker.steps("high", high, strict=True))
    whole = maker.program.bind("whole", 1.0 - p0 + p1)
    return when(whole > 0.0, p1 / whole, 0.5), p0, p1


HISTOGRAM = Method(fit_histogram, write_steps, steps_program)
SCALING_BINNING = Method(
    fit_scaling_binning, write_line_steps, line_steps_program, takes_logits=True
)
ISOTONIC = Method(fit_isotonic, write_isotonic, isotonic_program)
CENTRED = Method(fit_centred, write_broken_line, broken_line_program)
VENN_ABERS = Method(
    fit_venn_abers,
    write_venn_abers,
    venn_abers_program,
    added=("calibrated", "calibrated_low", "calibrated_high"),
)
