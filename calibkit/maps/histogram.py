"""Histogram binning: the share of positive rows in each bin of the score.

B. Zadrozny, C. Elkan, Obtaining calibrated probability estimates from decision trees and naive
Bayesian classifiers, 2001.
"""

from __future__ import annotations

import numpy as np

from calibkit.maps.method import Float64s, Found, Method
from calibkit.maps.points import Points, sums_between
from calibkit.maps.steps import steps_program, without_repeats, write_steps
from calibkit.options.maps import MapOptions
from calibkit.summaries.edges import equal_width_edges
from calibkit_kernels.maps import logit


def fit(points: Points, options: MapOptions, _: list[Points]) -> Found:
    """Fit the mean label of each bin; an empty bin of equal width has its midpoint."""
    bins = options.bin_count
    width = options.bin_strategy == "equal-width"
    edges = equal_edges(bins) if width else points.quantiles(bins)
    own = edges
    if width and points.scale == "logit":  # bins of the probability, found by the logit
        own = np.array([logit(float(edge)) for edge in edges])
        own[0] = min([float(points.score[-1]), *(own[1:2] - 1.0)])
    rising = points.score[::-1]
    cuts = [0, *np.searchsorted(rising, own[1:], side="left").tolist(), rising.size]
    rows = np.array(sums_between(points.count[::-1], cuts))
    hits = np.array(sums_between(points.positive[::-1], cuts))
    middle = (edges + np.append(edges[1:], 1.0)) / 2
    values = np.where(rows > 0, hits / np.maximum(rows, 1), middle)
    if not width:  # an empty quantile bin has no width
        own, values = own[rows > 0], values[rows > 0]
    return Found(without_repeats(own, values))


def equal_edges(bins: int) -> Float64s:
    """Return 0 and the inner edges of bins of equal width over [0, 1]."""
    return np.append(0.0, equal_width_edges(0.0, 1.0, bins))


METHOD = Method(fit, write_steps, steps_program)
