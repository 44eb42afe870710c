"""Sums for trees and their maps that grow in rounds: integers, so that batches and shards add up.

Rows come in blocks.  A block is first sent through all trees at once, which share what they have in
common: a node may be parted in several ways (*forks*), one for each tree that goes on differently.
Then every node sums over its own rows.  A real number is counted in units of a power of two.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel
from .boosting import label_loss

Int64s = NDArray[np.int64]
Floats = NDArray[np.float64]
Labels = NDArray[np.uint8]
Places = NDArray[np.int32]

#: Columns of a node: its first fork (-1: none), whether its rows are asked for, how a tree begins
#: in it, and the part of the rows that this is about.
FORK, WANTED, BEGINS, PART = range(4)
NODE_WIDTH = 4

#: How a tree begins in a node: not at all, with the rows of all other parts, with those of its part,
#: with none, with those of earlier parts.
NOT, OTHERS, OWN, NONE, EARLIER = range(5)

#: Columns of a fork: feature, both children (-1: nobody asks), whether rows without a value go left,
#: where its categories begin (-1: a number is compared), and the next fork of the node.
FEATURE, LEFT, RIGHT, MISSING_LEFT, SIDES, NEXT = range(6)
FORK_WIDTH = 6

#: Columns of a line: ``z = a (x - shift) scale + c``, and the targets of both labels.
A, C, SHIFT, SCALE, ABOVE, BELOW, UNITS = range(7)

#: The sums of a line: loss; d/da, d/dc; aa, ac, cc; the standardised score and its square.
SUMS = 8
LINE_WIDTH = UNITS + SUMS

#: Where the units of a curve begin: before them stand both slopes and the level over standardised
#: features, their shifts, their scales, and the targets of both labels.
CURVE_UNITS = 9

#: The sums of a curve: loss; the gradient; the Hessian above its diagonal, row by row.
CURVE_SUMS = 10
CURVE_WIDTH = CURVE_UNITS + CURVE_SUMS


@kernel
def goes_left(x: float, fork: Int64s, cut: float, sides: Labels) -> bool:
    """Tell whether a value goes left at a fork."""
    if x != x:
        return bool(fork[MISSING_LEFT] == 1)
    if fork[SIDES] >= 0:
        return bool(sides[fork[SIDES] + int(x)] == 1)
    return bool(x <= cut)


@kernel
def visit_rows(
    values: Floats,
    part: Labels,
    nodes: Int64s,
    forks: Int64s,
    cuts: Floats,
    sides: Labels,
    spans: Int64s,
    out: Places,
) -> None:
    """Count the rows that come through each node, or write them one node after the other.

    Parameters
    ----------
    values
        A row of values a feature, NaN where there is none; categories as their numbers.
    part
        The part that each row was dealt to.
    nodes, forks
        The trees; those in which a tree begins come first.
    cuts, sides
        Of each fork: values up to the cut go left; whether a category goes left.
    spans
        Where the rows of each node begin and end in `out`: with an empty `out` the second column
        grows by the rows of each node that is asked for; else it comes in as the first.
    out
        Rows in their own order; empty: they are counted only.
    """
    stack = np.empty(nodes.shape[0] + 1, np.int64)
    for i in range(part.size):
        first = 0
        while first < nodes.shape[0] and nodes[first, BEGINS] != NOT:
            begins, about = nodes[first, BEGINS], nodes[first, PART]
            if (
                (begins == OTHERS and part[i] != about)
                or (begins == OWN and part[i] == about)
                or (begins == EARLIER and part[i] < about)
            ):
                stack[0], left = first, 1
                while left > 0:
                    left -= 1
                    node = stack[left]
                    if nodes[node, WANTED] == 1:
                        if out.size > 0:
                            out[spans[node, 1]] = i
                        spans[node, 1] += 1
                    fork = nodes[node, FORK]
                    while fork >= 0:
                        x = values[forks[fork, FEATURE], i]
                        side = RIGHT
                        if goes_left(x, forks[fork], cuts[fork], sides):
                            side = LEFT
                        if forks[fork, side] >= 0:
                            stack[left] = forks[fork, side]
                            left += 1
                        fork = forks[fork, NEXT]
            first += 1


@kernel
def count_bins(
    codes: NDArray[np.uint16],
    payload: Int64s,
    rows: Places,
    spans: Int64s,
    starts: Int64s,
    hist: Int64s,
) -> None:
    """Add the rows of each node to the bins they are in.

    Parameters
    ----------
    codes
        A row of bin numbers a feature.
    payload
        The integer vector of each row.
    rows, spans
        The rows of each node.
    starts
        Where the bins of each feature begin among those of a node.
    hist
        Node x bin x sum.
    """
    for node in range(spans.shape[0]):
        for feature in range(codes.shape[0]):
            first = starts[feature]
            for j in range(spans[node, 0], spans[node, 1]):
                place = first + codes[feature, rows[j]]
                for c in range(payload.shape[1]):
                    hist[node, place, c] += payload[rows[j], c]


@kernel
def in_units(value: float, worth: float) -> int:
    """Return a number in units of which `worth` make one, rounded to a whole one."""
    return math.floor(value * worth + 0.5)


@kernel
def loss_terms(z: float, target: float) -> tuple[float, float, float]:
    """Return the log loss of a score against a target in [0, 1], and its two derivatives."""
    e = math.exp(-abs(z))
    most = 1.0 / (1.0 + e)
    least = e * most
    loss = math.log(1.0 + e)
    if z >= 0.0:
        loss += (1.0 - target) * z
        residual = (1.0 - target) * most - target * least
    else:
        loss -= target * z
        residual = (1.0 - target) * least - target * most
    return loss, residual, most * least


@kernel
def sum_lines(
    score: Floats,
    label: Labels,
    mass: Floats,
    rows: Places,
    spans: Int64s,
    lines: Floats,
    sums: Int64s,
    ranges: Floats,
) -> None:
    """Add loss, gradient and Hessian of a line over the rows of each node.

    Parameters
    ----------
    score, label, mass
        Rows, and how many equal ones each counts as.
    rows, spans
        The rows of each node.
    lines
        Node x `LINE_WIDTH`: the line, the targets, and how many units each sum has in one.
    sums
        Node x `SUMS`.
    ranges
        Node x 2: the least and the greatest score of its rows so far.
    """
    found = np.empty(SUMS, np.float64)
    for node in range(spans.shape[0]):
        a, c = lines[node, A], lines[node, C]
        shift, scale = lines[node, SHIFT], lines[node, SCALE]
        for j in range(spans[node, 0], spans[node, 1]):
            row = rows[j]
            if mass[row] == 0.0:
                continue
            ranges[node, 0] = min(ranges[node, 0], score[row])
            ranges[node, 1] = max(ranges[node, 1], score[row])
            target = lines[node, ABOVE] if label[row] == 1 else lines[node, BELOW]
            u = (score[row] - shift) * scale
            found[0], residual, bend = loss_terms(a * u + c, target)
            found[1], found[2] = residual * u, residual
            found[3], found[4], found[5] = bend * u * u, bend * u, bend
            found[6], found[7] = u, u * u
            for k in range(SUMS):
                sums[node, k] += in_units(mass[row] * found[k], lines[node, UNITS + k])


@kernel
def sum_curves(
    features: Floats,
    label: Labels,
    mass: Floats,
    rows: Places,
    spans: Int64s,
    curves: Floats,
    sums: Int64s,
) -> None:
    """Add loss, gradient and Hessian of a regression on two features over the rows of each node.

    Parameters
    ----------
    features
        2 x row.
    label, mass, rows, spans
        As `sum_lines` takes them.
    curves
        Node x `CURVE_WIDTH`: the curve, the targets, and how many units each sum has in one.
    sums
        Node x `CURVE_SUMS`.
    """
    found = np.empty(CURVE_SUMS, np.float64)
    for node in range(spans.shape[0]):
        curve = curves[node]
        for j in range(spans[node, 0], spans[node, 1]):
            row = rows[j]
            if mass[row] == 0.0:
                continue
            target = curve[7] if label[row] == 1 else curve[8]
            u = (features[0, row] - curve[3]) * curve[5]
            v = (features[1, row] - curve[4]) * curve[6]
            found[0], residual, bend = loss_terms(curve[0] * u + curve[1] * v + curve[2], target)
            found[1], found[2], found[3] = residual * u, residual * v, residual
            found[4], found[5], found[6] = bend * u * u, bend * u * v, bend * u
            found[7], found[8], found[9] = bend * v * v, bend * v, bend
            for k in range(CURVE_SUMS):
                sums[node, k] += in_units(mass[row] * found[k], curve[CURVE_UNITS + k])


@kernel
def sum_gains(
    score: Floats,
    label: Labels,
    masses: Floats,
    rows: Places,
    spans: Int64s,
    lines: Floats,
    units: Floats,
    sums: Int64s,
) -> None:
    """Add how much lower the log loss of each candidate is than that of the first line.

    Parameters
    ----------
    score, label, rows, spans
        As `sum_lines` takes them.
    masses
        What the loss of each row counts as, and what its square does: 2 x row.
    lines
        Node x line x (a, b): the first is what the others are compared with.
    units
        Node x 2: how many units a loss and a squared loss have in one.
    sums
        Node x line x 2: the gain of each candidate and its square; of the first its loss and 0.
    """
    for node in range(spans.shape[0]):
        for j in range(spans[node, 0], spans[node, 1]):
            row = rows[j]
            x, hit = score[row], label[row] == 1
            once, squared = masses[0, row], masses[1, row]
            before = label_loss(lines[node, 0, 0] * x + lines[node, 0, 1], hit)
            sums[node, 0, 0] += in_units(once * before, units[node, 0])
            for k in range(1, lines.shape[1]):
                z = lines[node, k, 0] * x + lines[node, k, 1]
                fall = before - label_loss(z, hit)
                sums[node, k, 0] += in_units(once * fall, units[node, 0])
                sums[node, k, 1] += in_units(squared * fall * fall, units[node, 1])
