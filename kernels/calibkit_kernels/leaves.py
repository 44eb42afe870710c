"""Maps of leaves: a Platt map for each at once, shrinkage, forests, boosting, the check of cells.

Where rows are counted by node of a tree, ranges of the score order are *cells*.  A cell's rows count as
rows of one score; where each distinct score is a cell, nothing is lost.
"""

from __future__ import annotations

import math

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int32s, Int64s, UInt8s, UInt16s
from .classes import bin_of
from .logistic import BLOCK, add_blocks, plane_sums, spread
from .maps import expit_of, inside, knots_reached
from .metrics import CLIP
from .newton import AHEAD, DIAGONAL_SHARE, FLAT, FOUND, GO, MATRIX, POINT, begin, newton


@kernel
def rows_by_leaf(leaf: Int32s, spans: Int64s, out: Int32s) -> None:
    """Write the rows sorted by leaf, those of a leaf in their own order, and where each leaf stands.

    Rows whose leaf is negative are left out.  `spans` gets the first row and the end of each leaf.
    """
    spans[:] = 0
    for i in range(leaf.size):
        if leaf[i] >= 0:
            spans[leaf[i], 1] += 1
    filled = 0
    for j in range(spans.shape[0]):
        spans[j, 0] = filled
        filled += spans[j, 1]
        spans[j, 1] = spans[j, 0]
    for i in range(leaf.size):
        if leaf[i] >= 0:
            out[spans[leaf[i], 1]] = i
            spans[leaf[i], 1] += 1


@kernel
def fit_leaf_lines(
    score: Floats,
    label: UInt8s,
    weight: Floats,
    order: Int32s,
    spans: Int64s,
    starts: Floats,
    room: Floats,
    out: Floats,
) -> None:
    """Write Platt's map of each leaf: a, b, the weight of its rows and that of its positives.

    Rows come in score order, which makes the sums a function of the set of rows; for `order` and
    `spans` see `rows_by_leaf`.  `starts`, leaf x 2, are a and b from which to start, NaN where nothing
    is known; `room` is 3 x the most rows of a leaf; a leaf without rows gets NaN for a and b.
    """
    x, ones, zeros = room[0], room[1], room[2]
    for leaf in range(spans.shape[0]):
        size = 0
        for i in range(spans[leaf, 0], spans[leaf, 1]):
            row = order[i]
            if weight[row] <= 0.0:
                continue
            if size == 0 or score[row] != x[size - 1]:  # rows of one score are one point
                x[size], ones[size], zeros[size] = score[row], 0.0, 0.0
                size += 1
            if label[row] == 1:
                ones[size - 1] += weight[row]
            else:
                zeros[size - 1] += weight[row]
        fit_platt(x[:size], ones[:size], zeros[:size], starts[leaf], out[leaf])


@kernel
def fit_platt(x: Floats, ones: Floats, zeros: Floats, start: Floats, out: Floats) -> None:
    """Write Platt's map of points that weigh so much as positives and as negatives; see above.

    `ones` and `zeros` are changed.
    """
    own = hits = 0.0
    for i in range(x.size):
        own += ones[i] + zeros[i]
        hits += ones[i]
    out[0], out[1], out[2], out[3] = math.nan, math.nan, own, hits
    if own <= 0.0:
        return
    # Platt's targets: there is a minimum even where the leaf has one class.
    above = (hits + 1.0) / (hits + 2.0)
    below = 1.0 / (own - hits + 2.0)
    for i in range(x.size):
        positive = ones[i] * above + zeros[i] * below
        zeros[i] = ones[i] * (1.0 - above) + zeros[i] * (1.0 - below)
        ones[i] = positive
    fit_line(x, ones, zeros, start, out)


@kernel
def fit_line(x: Floats, positive: Floats, negative: Floats, start: Floats, out: Floats) -> None:
    """Write slope and intercept of the logistic regression on one feature, by Newton's method.

    Points carry weights of positive and negative rows, both classes some.  Constant x: slope 0.
    `start` is a slope and an intercept near the minimum, or NaN.
    """
    shift, width = spread(x, positive, negative)
    total = rate = 0.0
    for i in range(x.size):
        total += positive[i] + negative[i]
        rate += positive[i]
    line = np.empty(4)
    line[0], line[1], line[2], line[3] = 0.0, math.log(rate / (total - rate)), shift, 0.0
    if width > 0.0:
        line[3] = 1.0 / width
        found = False
        if not math.isnan(start[0]):
            line[0], line[1] = start[0] * width, start[1] + start[0] * shift
            found = newton_line(x, positive, negative, total, line)
        if not found:  # steps from far away can end where the loss is flat
            line[0], line[1] = 0.0, math.log(rate / (total - rate))
            newton_line(x, positive, negative, total, line)
    out[0] = line[0] * line[3]
    out[1] = line[1] - out[0] * shift


@kernel
def newton_line(x: Floats, positive: Floats, negative: Floats, total: float, line: Floats) -> bool:
    """Move ``line`` (a, c, shift, scale) to the minimum of the loss.

    Returns whether the minimum was reached.
    """
    blocks = (x.size + BLOCK - 1) // BLOCK
    parts, sums, state = np.empty((blocks, 10)), np.empty(10), np.empty(8)
    points, hessian, kinds = np.empty((MATRIX + 2, 2)), np.empty((2, 2)), np.zeros(2, np.int64)
    nothing, plane, gradient = np.empty(0), np.zeros(7), np.empty(2)
    plane[3], plane[5] = line[2], line[3]
    begin(total, FLAT, 0.0, DIAGONAL_SHARE, state)
    points[AHEAD, 0], points[AHEAD, 1] = line[0], line[1]
    said = GO
    while said == GO:
        plane[0], plane[2] = points[AHEAD, 0], points[AHEAD, 1]
        plane_sums(x, nothing, positive, negative, plane, 0, blocks, parts)
        add_blocks(parts, sums)
        gradient[0], gradient[1] = sums[1], sums[3]
        hessian[0, 0], hessian[1, 0], hessian[1, 1] = sums[4], sums[6], sums[9]
        said = newton(sums[0], gradient, hessian, kinds, points, state)
    place = AHEAD if said == FOUND else POINT
    line[0], line[1] = points[place, 0], points[place, 1]
    return said == FOUND


@kernel
def score_losses(score: Floats, label: UInt8s, weight: Floats, out: Floats) -> None:
    """Write the weighted log loss of each row under its linear score."""
    for i in range(score.size):
        out[i] = weight[i] * label_loss(score[i], label[i] == 1)


@kernel
def probability_losses(probability: Floats, label: UInt8s, weight: Floats, out: Floats) -> None:
    """Write the weighted log loss of each row; probabilities are kept `CLIP` from 0 and 1."""
    for i in range(probability.size):
        p = probability[i] if label[i] == 1 else 1.0 - probability[i]
        out[i] = -weight[i] * math.log(inside(p, CLIP))


@kernel
def sum_in_order(values: Floats) -> float:
    """Return the sum of values, by blocks, in the order given."""
    total = 0.0
    for start in range(0, values.size, BLOCK):
        part = 0.0
        for i in range(start, min(start + BLOCK, values.size)):
            part += values[i]
        total += part
    return total


@kernel
def cell_gaps(
    probability: Floats, label: UInt8s, weight: Floats, leaf: Int32s, edges: Floats, cells: Floats
) -> tuple[float, float, int]:
    """Return the largest and the mean gap of the cells (leaf, bin of probability), and their number.

    A gap is ``|mean probability - positive rate|``; the mean is the sum of ``weight of the cell /
    weight of all rows * gap``.  Rows come in an order that does not depend on the files; for `edges`
    see `classes.bin_of`. `cells` has room for the sums of each cell, zero: leaves * bins x (weight,
    positives, probabilities, squared weights).
    """
    total = 0.0
    for i in range(probability.size):
        cell = leaf[i] * edges.size + bin_of(probability[i], edges)
        cells[cell, 0] += weight[i]
        cells[cell, 1] += weight[i] * float(label[i])
        cells[cell, 2] += weight[i] * probability[i]
        cells[cell, 3] += weight[i] * weight[i]
        total += weight[i]
    largest = mean = 0.0
    counted = 0
    for cell in range(cells.shape[0]):
        own = cells[cell, 0]
        if own <= 0.0:
            continue
        gap = abs(cells[cell, 2] - cells[cell, 1]) / own
        largest = max(largest, gap)
        mean += own / total * gap
        counted += 1
    return largest, mean, counted


@kernel
def leaf_steps(
    score: Floats, leaf: Int32s, starts: Int64s, knots: Floats, values: Floats, out: Floats
) -> None:
    """Write the value of the greatest knot of each row's leaf up to its score, the first below all.

    The knots of leaf j are ``starts[j]`` up to ``starts[j + 1]``, increasing, at least one.
    """
    for i in range(score.size):
        first, end = starts[leaf[i]], starts[leaf[i] + 1]
        out[i] = values[knots_reached(score[i], knots, first + 1, end) - 1]


@kernel
def label_loss(score: float, positive: bool) -> float:
    """Return the log loss of one label under a linear score, without overflow."""
    away = -score if positive else score
    return max(away, 0.0) + math.log1p(math.exp(-abs(away)))


@kernel
def newton_rows(score: Floats, label: UInt8s, weight: Int64s, out: Int64s, scale: float) -> None:
    """Write weight, gradient and Hessian of each row, the latter two in units of ``1 / scale``.

    The gradient is that of the log likelihood: label minus probability.
    """
    for i in range(score.size):
        p = expit_of(score[i])
        w = float(weight[i]) * scale
        out[i, 0] = weight[i]
        out[i, 1] = math.floor((float(label[i]) - p) * w + 0.5)
        out[i, 2] = math.floor(p * (1.0 - p) * w + 0.5)


@kernel
def move_scores(score: Floats, ends: Int32s, steps: Floats) -> None:
    """Apply the map ``a score + b`` of the node that each row ends in; `steps` holds (a, b)."""
    for i in range(score.size):
        score[i] = steps[ends[i], 0] * score[i] + steps[ends[i], 1]


@kernel
def total_loss(score: Floats, label: UInt8s, weight: Int64s) -> float:
    """Return the weighted sum of the log losses of rows, in the order given."""
    loss = 0.0
    for i in range(score.size):
        if weight[i] > 0:
            loss += float(weight[i]) * label_loss(score[i], label[i] == 1)
    return loss


@kernel
def add_probabilities(
    score: Floats,
    part: Int32s,
    ends: Int32s,
    above: Int32s,
    lines: Floats,
    shrinkages: Floats,
    out: Floats,
) -> None:
    """Add the probability of each row under the map of its node at each depth, each shrinkage.

    `part` and `ends` are of rows: the lines that are theirs (-1: the row is left out), and the node
    that each ends in.  `above`, depth x node, is the node of the cut-off tree that rows of a node end
    in. `lines`, part x node x 4, are a, b, rows and positives of Platt's maps, the first node's of all
    rows; they are averaged with the first node's with weights rows and shrinkage.  `out`: depth x
    shrinkage x row.
    """
    for i in range(score.size):
        if part[i] < 0:
            continue
        own = lines[part[i]]
        pooled = own[0, 0] * score[i] + own[0, 1]
        for d in range(above.shape[0]):
            line = own[above[d, ends[i]]]
            for r in range(shrinkages.size):
                z = pooled
                if line[2] > 0.0:
                    share = line[2] / (line[2] + shrinkages[r])
                    z += share * (line[0] * score[i] + line[1] - pooled)
                out[d, r, i] += expit_of(z)


#: The columns of a sum: negatives and positives that are learnt from, those that are held out, and
#: the squares of the latter where a row stands for as many as it weighs.
KNOWN, HELD, SQUARES = 0, 2, 4
#: The code of a row that is neither.
NEITHER = 65_535


@kernel
def count_cells(
    order: Int32s,
    spans: Int64s,
    children: Int32s,
    codes: UInt16s,
    mass: Floats,
    places: Int64s,
    cells: Int32s,
    sums: Floats,
) -> None:
    """Write the sums of the rows of each node, cell by cell, those of inner nodes too.

    For `order` and `spans`, of nodes without children, see `rows_by_leaf`; `children`, node x 2, stand
    after the node (-1: none).  The code of a row is four times its cell, its first column (`KNOWN` or
    `HELD`) and its label added up, or `NEITHER`; its mass what it weighs.  `places`, node x 2, gets
    where a node's entries begin and end, `cells` and `sums` these: the cell, rising, and the sums of
    its rows.
    """
    filled = 0
    for node in range(spans.shape[0] - 1, -1, -1):
        places[node, 0] = filled
        if children[node, 0] < 0:
            for i in range(spans[node, 0], spans[node, 1]):
                row = order[i]
                if codes[row] == NEITHER:
                    continue
                cell, kind = codes[row] >> 2, codes[row] & 3
                if filled == places[node, 0] or cells[filled - 1] != cell:
                    cells[filled] = cell
                    sums[filled] = 0.0
                    filled += 1
                sums[filled - 1, kind] += mass[row]
                if kind >= HELD and sums.shape[1] > SQUARES:
                    sums[filled - 1, kind + SQUARES - HELD] += mass[row] * mass[row]
        else:
            left, right = children[node, 0], children[node, 1]
            filled = merge_cells(places[left], places[right], filled, cells, sums)
        places[node, 1] = filled


@kernel
def merge_cells(left: Int64s, right: Int64s, filled: int, cells: Int32s, sums: Floats) -> int:
    """Write the entries of two nodes together from `filled` on; return where they end."""
    i, j = left[0], right[0]
    while i < left[1] or j < right[1]:
        first = j == right[1] or (i < left[1] and cells[i] <= cells[j])
        second = i == left[1] or (j < right[1] and cells[j] <= cells[i])
        cells[filled] = cells[i] if first else cells[j]
        for c in range(sums.shape[1]):
            sums[filled, c] = (sums[i, c] if first else 0.0) + (sums[j, c] if second else 0.0)
        i += int(first)
        j += int(second)
        filled += 1
    return filled


@kernel
def fit_cell_lines(
    score: Floats, places: Int64s, cells: Int32s, sums: Floats, parents: Int32s, out: Floats
) -> None:
    """Write Platt's map of each node as `fit_leaf_lines` does, from known rows by cell.

    `score` is that of each cell; a fit starts from the line of the node's parent (-1: none), which
    stands before it.
    """
    most = 0
    for node in range(places.shape[0]):
        most = max(most, places[node, 1] - places[node, 0])
    x, ones, zeros, nothing = np.empty(most), np.empty(most), np.empty(most), np.full(2, math.nan)
    for node in range(places.shape[0]):
        size = 0
        for e in range(places[node, 0], places[node, 1]):
            if sums[e, KNOWN] + sums[e, KNOWN + 1] > 0.0:
                x[size] = score[cells[e]]
                zeros[size], ones[size] = sums[e, KNOWN], sums[e, KNOWN + 1]
                size += 1
        start = nothing if parents[node] < 0 else out[parents[node], :2]
        fit_platt(x[:size], ones[:size], zeros[:size], start, out[node])


@kernel
def cell_gains(
    score: Floats,
    places: Int64s,
    cells: Int32s,
    sums: Floats,
    lines: Floats,
    shrinkages: Floats,
    out: Floats,
) -> None:
    """Write how much the loss of the held-out rows of each node falls from the first node's line.

    `lines` as `fit_cell_lines` writes them; `out` gets, node x shrinkage, the sum over rows of the fall
    under the node's line shrunk towards the first one, and the sum of squares.
    """
    extra = SQUARES - HELD if sums.shape[1] > SQUARES else 0
    out[:] = 0.0
    for node in range(places.shape[0]):
        for e in range(places[node, 0], places[node, 1]):
            zeros, ones = sums[e, HELD], sums[e, HELD + 1]
            if zeros + ones <= 0.0:
                continue
            s = score[cells[e]]
            before = lines[0, 0] * s + lines[0, 1]
            above = math.log1p(math.exp(-abs(before))) + max(before, 0.0)  # the loss of a negative
            for r in range(shrinkages.size):
                share = 0.0
                if lines[node, 2] > 0.0:
                    share = lines[node, 2] / (lines[node, 2] + shrinkages[r])
                z = before
                if share > 0.0:
                    z += share * (lines[node, 0] * s + lines[node, 1] - before)
                fall = above - math.log1p(math.exp(-abs(z))) - max(z, 0.0)
                gain = fall + z - before  # of a positive
                out[node, r, 0] += zeros * fall + ones * gain
                out[node, r, 1] += (
                    sums[e, HELD + extra] * fall * fall + sums[e, HELD + 1 + extra] * gain * gain
                )
