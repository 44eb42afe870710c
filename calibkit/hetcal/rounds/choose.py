"""Cross-validation in rounds: what each map would bring on rows left out, and the choice."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.hetcal.choose import best_place, discounted
from calibkit.hetcal.maps import shrunk
from calibkit.hetcal.rounds.grow import leaves_of
from calibkit.hetcal.rounds.known import EVERYONE, Chosen, Known, Line, grid_of
from calibkit.hetcal.rounds.lines import Counts, line_from, worth
from calibkit.hetcal.spec import HetcalSpec

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


@dataclass(frozen=True)
class Candidates:
    """The maps that are judged.

    Attributes
    ----------
    nodes
        The nodes that may be leaves.
    lines
        Node x line x (a, b): the map of all rows the tree was grown on, then one for each shrinkage.
    units
        Node x 2: how many units of a sum a loss and a squared loss have in one.
    """

    nodes: list[int]
    lines: Floats
    units: Floats


def candidates(known: Known, spec: HetcalSpec) -> Candidates:
    """Return the maps that the rows left out judge."""
    grid = grid_of(spec)
    nodes = [
        place
        for place, node in enumerate(known.nodes)
        if node.part != EVERYONE and (node.line or not node.rows)
    ]
    lines = np.empty((len(nodes), 1 + len(grid.shrinkages), 2))
    fitted, roots = node_maps(known, nodes), root_maps(known)
    for part, pooled in roots.items():
        own = [index for index, place in enumerate(nodes) if known.nodes[place].part == part]
        lines[own, 0] = pooled
        for column, shrinkage in enumerate(grid.shrinkages, 1):
            lines[own, column] = shrunk(fitted[own], pooled, shrinkage)
    seen = known.rows
    most, (rows, _) = max(abs(seen.low), abs(seen.high)), seen.counts
    times = seen.heaviest if seen.sampled else 1.0
    units = np.empty((len(nodes), 2))
    for index, (slopes, intercepts) in enumerate(np.abs(lines).transpose(0, 2, 1)):
        bound = float((slopes * most + intercepts).max()) + 1.0
        units[index] = worth(bound, rows), worth(bound * bound * times, rows)
    return Candidates(nodes, lines, units)


def node_maps(known: Known, nodes: list[int]) -> Floats:
    """Return a, b, rows and positives of nodes; NaN for a and b where there are no rows."""
    found = np.empty((len(nodes), 4))
    for row, place in zip(found, nodes, strict=True):
        node, line = known.nodes[place], (math.nan, math.nan)
        if node.line is not None:
            line = node.line.slope, node.line.intercept
        elif node.rows:
            raise ModelError("a damaged plan: a leaf has no map")
        row[:] = *line, *known.counts(node)
    return found


def root_maps(known: Known) -> dict[int, Floats]:
    """Return (a, b) of all rows that the trees of each part were grown on."""
    roots = [place for place, node in enumerate(known.nodes) if node.depth == 0]
    maps = node_maps(known, roots)[:, :2]
    return {known.nodes[place].part: line.copy() for place, line in zip(roots, maps, strict=True)}


def judged_counts(known: Known) -> Counts:
    """Return how many rows there are in the parts that are judged, and how many positive ones."""
    seen = known.rows
    if known.times is None:
        return seen.counts
    # Of the parts that follow each other the first is judged by nothing, and judges the second.
    first = next(node for node in known.nodes if node.part == known.judged.start)
    return (seen.weight - first.rows) * seen.size, (seen.hits - first.hits) * seen.size


def chosen_by(known: Known, spec: HetcalSpec, sums: Int64s) -> Chosen:
    """Return the choice by the sums of all candidates, as in `calibkit.hetcal.choose.choose`."""
    grid, asked = grid_of(spec), candidates(known, spec)
    at = {place: index for index, place in enumerate(asked.nodes)}
    found = sums / asked.units[:, None, :]
    shape = (len(grid.leaf_sizes), len(grid.depths), len(grid.shrinkages), 2)
    total = np.zeros(shape)
    roots = [place for place in asked.nodes if known.nodes[place].depth == 0]
    for size, depth in np.ndindex(shape[:2]):
        spots = [
            leaf for root in roots for leaf in leaves_of(known, root, size, grid.depths[depth])
        ]
        if not at.keys() >= set(spots):
            raise ModelError("a damaged plan: a leaf has no map")
        leaves = [at[leaf] for leaf in spots]
        for weight, which in np.ndindex(shape[2:]):
            total[size, depth, weight, which] = math.fsum(found[leaves, 1 + weight, which])
    together = math.fsum(found[[at[root] for root in roots], 0, 0])
    mass, _ = judged_counts(known)
    size, depth, weight = best_place(discounted(total, mass), grid)
    losses = (together - total[..., 0]) / mass
    return Chosen(
        size,
        depth,
        weight,
        float(losses[size, depth, weight]),
        together / mass,
        {str(value): float(losses[:, place].min()) for place, value in enumerate(grid.depths)},
    )


def correction_lines(known: Known, spec: HetcalSpec) -> tuple[list[int], Floats]:
    """Return the leaves of the trees that were chosen, in order, and the map of each: leaf x (a, b)."""
    grid, chosen = grid_of(spec), known.chosen
    if chosen is None:
        raise ModelError("a damaged plan: nothing was chosen")
    depth, shrinkage = grid.depths[chosen.depth], grid.shrinkages[chosen.shrinkage]
    roots = root_maps(known)
    leaves, maps = list[int](), dict[int, Floats]()
    for place, node in enumerate(known.nodes):
        if node.depth == 0 and node.part != EVERYONE:
            own = leaves_of(known, place, chosen.size, depth)
            lines = shrunk(node_maps(known, own), roots[node.part], shrinkage)
            maps |= dict(zip(own, lines, strict=True))
            leaves += own
    leaves.sort()
    return leaves, np.array([maps[leaf] for leaf in leaves])


def first_correction(known: Known, spec: HetcalSpec) -> Line:
    """Return where the search for the map of held-out scores begins."""
    _, maps = correction_lines(known, spec)
    seen = known.rows
    ends = np.concatenate([maps[:, 0] * score + maps[:, 1] for score in (seen.low, seen.high)])
    return line_from(1.0, 0.0, float(ends.min()), float(ends.max()))
