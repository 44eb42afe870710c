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

#: Columns of a node: its first fork (-1: none), how a tree begins in it, and the part of the rows
#: that this is about.
FORK, BEGINS, PART = range(3)
NODE_WIDTH = 3

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
def begins_in(node: Int64s, part: int) -> bool:
    """Tell whether rows of a part begin in a node."""
    begins, about = node[BEGINS], node[PART]
    return bool(
        (begins == OTHERS and part != about)
        or (begins == OWN and part == about)
        or (begins == EARLIER and part < about)
    )


@kernel
def part_rows(
    values: Floats,
    rows: Places,
    fork: Int64s,
    cut: float,
    sides: Labels,
    out: Places,
    spare: Places,
) -> int:
    """Write the rows that go left at a fork, then the others, each in their order; return how many do.

    Parameters
    ----------
    values
        Of the feature, by row.
    rows, fork, cut, sides
        The rows, and where they part; see `visit_rows`.
    out, spare
        As many places as there are rows; `out` may be `rows`.
    """
    # Both sides are written to each time, and one of them goes on: which one cannot be foreseen.
    missing, start = fork[MISSING_LEFT], fork[SIDES]
    left, right = 0, 0
    if start < 0:
        for i in range(rows.size):
            row = rows[i]
            x = values[row]
            here = 1 if x <= cut else 0
            here = missing if x != x else here
            out[left] = row
            spare[right] = row
            left += here
            right += 1 - here
    else:
        for i in range(rows.size):
            row = rows[i]
            x = values[row]
            here = missing if x != x else int(sides[start + int(x)])
            out[left] = row
            spare[right] = row
            left += here
            right += 1 - here
    out[left:] = spare[:right]
    return left


@kernel
def with_room(rows: Places, used: int, more: int) -> Places:
    """Return rows with room for more behind those in use: the same, or a longer copy."""
    if used + more <= rows.size:
        return rows
    longer = np.empty(max(used + more, 2 * rows.size), np.int32)
    longer[:used] = rows[:used]
    return longer


@kernel
def visit_rows(
    values: Floats,
    part: Labels,
    nodes: Int64s,
    forks: Int64s,
    cuts: Floats,
    sides: Labels,
    spans: Int64s,
) -> Places:
    """Return rows such that those that come through a node stand side by side, and write where.

    Those of a node and of its children are the same places, unless the node has further forks, which
    take a copy each.

    Parameters
    ----------
    values
        A row of values a feature, NaN where there is none; categories as their numbers.
    part
        The part that each row was dealt to.
    nodes, forks
        The trees; children come after their parents.
    cuts, sides
        Of each fork: values up to the cut go left; whether a category goes left.
    spans
        Node x 2: gets where the rows of each node begin and end.
    """
    spans[:] = 0
    used = 0
    out, spare = np.empty(part.size, np.int32), np.empty(part.size, np.int32)
    for node in range(nodes.shape[0]):
        if nodes[node, BEGINS] != NOT and nodes[node, BEGINS] != NONE:
            out = with_room(out, used, part.size)
            spans[node, 0] = used
            for i in range(part.size):
                if begins_in(nodes[node], part[i]):
                    out[used] = i
                    used += 1
            spans[node, 1] = used
        low, high = spans[node, 0], spans[node, 1]
        fork = nodes[node, FORK] if high > low else -1
        while fork >= 0:
            start = low
            if forks[fork, NEXT] >= 0:  # the next one finds the rows as they are
                out = with_room(out, used, high - low)
                start = used
                used += high - low
            end = start + high - low
            left = part_rows(
                values[forks[fork, FEATURE]], out[low:high], forks[fork], cuts[fork], sides,
                out[start:end], spare,
            )  # fmt: skip
            if forks[fork, LEFT] >= 0:
                spans[forks[fork, LEFT], 0] = start
                spans[forks[fork, LEFT], 1] = start + left
            if forks[fork, RIGHT] >= 0:
                spans[forks[fork, RIGHT], 0] = start + left
                spans[forks[fork, RIGHT], 1] = end
            fork = forks[fork, NEXT]
    return out[:used]


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
