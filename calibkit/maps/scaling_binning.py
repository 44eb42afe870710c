"""Scaling-binning: a Platt line whose results are averaged within bins.

A. Kumar, P. Liang, T. Ma, Verified uncertainty calibration, 2019.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from calibkit.maps.histogram import equal_edges
from calibkit.maps.method import Float64s, Floats, Found, Method, Writer
from calibkit.maps.platt import falling_note, platt_line
from calibkit.maps.points import Points
from calibkit.maps.score_map import ScoreMap
from calibkit.maps.steps import without_repeats, write_steps
from calibkit.options.maps import MapOptions
from calibkit_kernels.maps import LEAST, line_map
from calibkit_kernels.reliability import loss_sums

if TYPE_CHECKING:
    from calibkit.expressions.nodes import Node
    from calibkit.maps.formulas import Maker


def fit(points: Points, options: MapOptions, parts: list[Points]) -> Found:
    """Fit g = expit(a x + b) on one part, its bins on the next, and the mean of g on the third.

    The parts are thirds of the rows, or all rows three times.  A bin without rows in the third part
    takes the mean over the second one, an equal-width bin without rows in both its midpoint.
    """
    first, second, third = parts or [points] * 3
    a, b = platt_line(first, "smoothed", options.workers)
    bins = options.bin_count
    width = options.bin_strategy == "equal-width"
    lines = [_falling(part, a, b) for part in (second, third)]
    edges = equal_edges(bins) if width else lines[0][1].quantiles(bins, lines[0][0])
    sums = [_bin_means(*line, edges) for line in lines]
    middle = (edges + np.append(edges[1:], 1.0)) / 2
    values = np.where(np.isnan(sums[1]), sums[0], sums[1])
    values = np.where(np.isnan(values), middle, values)
    if not width:
        held = ~np.isnan(sums[0])
        edges, values = edges[held], values[held]
    return Found({"a": a, "b": b, **without_repeats(edges, values)}, falling_note(points, a))


def _falling(points: Points, a: float, b: float) -> tuple[Float64s, Points]:
    """Return g of each point from high to low, and the points in this order."""
    g = np.empty(points.score.size)
    line_map(points.score, a, b, points.is_probability, LEAST, 0.0, g)
    if a < 0.0:
        backwards = (points.score[::-1], points.count[::-1].copy(), points.positive[::-1].copy())
        return g[::-1].copy(), Points(*backwards, points.unit, points.scale)
    return g, points


def _bin_means(g: Float64s, points: Points, edges: Float64s) -> Float64s:
    """Return the mean of g in each bin, NaN where no row is."""
    cuts = [0, *np.searchsorted(g[::-1], edges[1:], side="left").tolist(), g.size]
    means = np.full(edges.size, np.nan)
    for k in range(edges.size):
        own = slice(g.size - cuts[k + 1], g.size - cuts[k])
        rows = int(points.count[own].sum(dtype=np.int64))
        if rows:
            mass, _, _ = loss_sums(g[own], points.count[own], points.positive[own])
            means[k] = mass / rows
    return means


def writer(one: ScoreMap, scale: str) -> Writer:
    """Return what writes the value of the bin of g."""
    line, steps = _line(one, scale), write_steps(one, scale)

    def write(score: Floats, out: tuple[Float64s, ...]) -> None:
        steps(line(score), out)

    return write


def _line(one: ScoreMap, scale: str) -> Callable[[Floats], Float64s]:
    """Return g = expit(a x + b) as a function of scores."""
    assert one.a is not None and one.b is not None  # the model was checked
    a, b, given = one.a, one.b, scale == "probability"

    def g(score: Floats) -> Float64s:
        out = np.empty(score.size)
        line_map(score, a, b, given, LEAST, 0.0, out)
        return out

    return g


def program(maker: Maker) -> tuple[Node, ...]:
    """Return the value of the bin of g, its edges as edges of the score."""
    return (maker.steps_of("step", lambda one, scale: (_line(one, scale), one.a or 0.0)),)


METHOD = Method(fit, writer, program, takes_logits=True, splits=True)
