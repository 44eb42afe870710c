"""Growing classification trees: split histograms, the best cut of each, rows sent to their sides.

Rows are integer vectors (`payload`): a count first, then what the criterion needs, so that every sum
is exact and no result depends on the order of rows or on threads.  A feature is a bin number a row;
the bin after the last is that of missing values, which take whichever side is better.
"""

from __future__ import annotations

import numpy as np

from ._jit import kernel
from .arrays import Floats, Int32s, Int64s, UInt8s, UInt16s
from .criteria import NEWTON, is_better, split_gain

Codes = UInt8s | UInt16s


#: The columns of a split: gain, the bins (or the number of categories) on both sides of the cut,
#: whether missing values go left, the left side's count and second sum.
GAIN, LOW, HIGH, MISSING_LEFT, LEFT_COUNT, LEFT_SECOND = range(6)
SPLIT_WIDTH = 6

#: Columns of a node after its rows; see `search_splits`.
SLOT, PARENT, SIBLING, NEEDED = range(2, 6)
NODE_WIDTH = 6

#: A gain below this share of the best one need not be compared exactly.
_SURELY_LESS = 0.999

#: Gains that say: do not search here; nothing found.
SKIP, NONE = -2.0, -1.0


@kernel
def gather_nodes(order: Int32s, out: Int64s, payload: Int64s, spans: Int64s) -> Int64s:
    """Write the vectors of rows in their order, and return the sums of each node.

    Those of a node are ``spans[node, 0]`` up to ``spans[node, 1]``.
    """
    totals = np.zeros((spans.shape[0], payload.shape[1]), np.int64)
    for node in range(spans.shape[0]):
        if payload.shape[1] == 3:  # boosting: written out it takes two thirds of the time
            first = second = third = np.int64(0)
            for i in range(spans[node, 0], spans[node, 1]):
                row = order[i]
                a, b, c = payload[row, 0], payload[row, 1], payload[row, 2]
                out[i, 0], out[i, 1], out[i, 2] = a, b, c
                first, second, third = first + a, second + b, third + c
            totals[node, 0], totals[node, 1], totals[node, 2] = first, second, third
            continue
        for i in range(spans[node, 0], spans[node, 1]):
            for c in range(payload.shape[1]):
                out[i, c] = payload[order[i], c]
                totals[node, c] += payload[order[i], c]
    return totals


@kernel
def fill_histogram(codes: Codes, order: Int32s, payload: Int64s, hist: Int64s) -> None:
    """Add rows to the bins they are in; `payload` is in the order of `order`."""
    # The widths that matter most are written out: three times as fast as the loop over columns.
    if payload.shape[1] == 2:
        for i in range(order.size):
            b = codes[order[i]]
            hist[b, 0] += payload[i, 0]
            hist[b, 1] += payload[i, 1]
        return
    if payload.shape[1] == 3:
        for i in range(order.size):
            b = codes[order[i]]
            hist[b, 0] += payload[i, 0]
            hist[b, 1] += payload[i, 1]
            hist[b, 2] += payload[i, 2]
        return
    for i in range(order.size):
        b = codes[order[i]]
        for c in range(payload.shape[1]):
            hist[b, c] += payload[i, c]


@kernel
def scan_order(hist: Int64s, bins: int, by_rate: bool, rules: Floats, out: Int64s) -> int:
    """Write the bins that hold rows in the order of a scan; return how many there are.

    `by_rate`: categories, by rising second sum a row (the positive rate), ties in their own order.
    Under the Newton criterion by the step each would take: gradient by Hessian and ridge.
    """
    used = 0
    for b in range(bins):
        if hist[b, 0] > 0:
            out[used] = b
            used += 1
    if by_rate and used > 1:
        rate = np.empty(used, np.float64)
        newton = int(rules[0]) == NEWTON
        for i in range(used):
            below = float(hist[out[i], 0])
            if newton:  # a Hessian can round to 0 where a probability is next to 0 or 1
                below = max(float(hist[out[i], 2]) + rules[3] / rules[2], 1.0)
            rate[i] = float(hist[out[i], 1]) / below
        places = np.argsort(rate, kind="mergesort")
        ranked = np.empty(used, np.int64)
        for i in range(used):
            ranked[i] = out[places[i]]
        out[:used] = ranked
    return used


@kernel
def best_cut(
    hist: Int64s, ranks: Int64s, missing: Int64s, total: Int64s, rules: Floats, best: Floats
) -> None:
    """Write the best split of a node along the ranked bins into `best`, whose gain comes in as `NONE`.

    `ranks` are the bins of the histogram in the order of the scan; `missing` and `total` the sums of
    the rows without a value, and of all rows of the node; for `rules` see `criteria.split_gain`.
    """
    channels = total.size
    left = np.zeros(channels, np.int64)
    tried = np.zeros(channels, np.int64)
    candidate = np.empty(SPLIT_WIDTH, np.float64)
    for i in range(ranks.size):
        for c in range(channels):
            left[c] += hist[ranks[i], c]
        last = i + 1 == ranks.size
        if last and missing[0] == 0:
            return
        # Missing values to the right, then to the left; all values left only against them.
        for side in range(2 if missing[0] > 0 and not last else 1):
            for c in range(channels):
                tried[c] = left[c] + side * missing[c]
            rest = total[0] - tried[0]
            if tried[0] < rules[1] or rest < rules[1]:
                continue
            candidate[GAIN] = split_gain(tried, total, rules)
            if candidate[GAIN] < best[GAIN] * _SURELY_LESS:
                continue
            if missing[0] == 0:
                candidate[MISSING_LEFT] = 1.0 if tried[0] >= rest else 0.0
            else:
                candidate[MISSING_LEFT] = float(side)
            candidate[LOW] = float(ranks[i])
            candidate[HIGH] = -1.0 if last else float(ranks[i + 1])
            candidate[LEFT_COUNT] = float(tried[0])
            candidate[LEFT_SECOND] = float(tried[1])
            if is_better(candidate, best, total, int(rules[0])):
                best[:] = candidate


@kernel
def node_histogram(
    codes: Codes, order: Int32s, payload: Int64s, node: Int64s, bins: int, kept: Int64s
) -> None:
    """Write the histogram of a node into its slot of `kept`: from its rows, or as a difference.

    `node` as `search_splits` takes it; `kept` holds the slots of one feature.
    """
    hist = kept[node[SLOT]]
    if node[SIBLING] >= 0:
        whole, other = kept[node[PARENT]], kept[node[SIBLING]]
        for b in range(bins + 1):
            for c in range(payload.shape[1]):
                hist[b, c] = whole[b, c] - other[b, c]
        return
    hist[: bins + 1] = 0
    low, high = node[0], node[1]
    fill_histogram(codes, order[low:high], payload[low:high], hist)


@kernel
def sparse_histogram(
    codes: Codes, order: Int32s, payload: Int64s, marks: UInt8s, hist: Int64s, out: Int64s
) -> int:
    """Write the histogram of the bins that rows are in, and of the last one: that of missing values.

    `out` gets the other bins that hold rows, rising; returns how many there are.  `marks` are zero
    before and after, a byte a bin and more up to a multiple of eight: bins without rows, mostly the
    most of them, are passed over eight at a time.
    """
    last, used = hist.shape[0] - 1, 0
    hist[last] = 0
    marks[last] = 1
    for i in range(order.size):
        b = codes[order[i]]
        if marks[b] == 0:
            marks[b] = 1
            hist[b] = 0
        for c in range(payload.shape[1]):
            hist[b, c] += payload[i, c]
    marks[last] = 0
    words = marks.view(np.uint64)
    for word in range(words.size):
        if words[word] == 0:
            continue
        for b in range(8 * word, 8 * word + 8):
            if marks[b] == 1 and hist[b, 0] > 0:
                out[used] = b
                used += 1
        words[word] = 0
    return used


@kernel
def search_splits(
    codes: Codes,
    order: Int32s,
    payload: Int64s,
    nodes: Int64s,
    kind: Int64s,
    rules: Floats,
    kept: Int64s,
    out: Floats,
) -> None:
    """Write the best split of every node on a feature.

    `codes` has the bin of each row; `order` the rows of the nodes, and `payload` their vectors in this
    order.  Of each node `nodes` has where its rows begin and end; the slot of its histogram; the slots
    of its parent and its sibling, of which it is the difference (-1: it is counted); and whether its
    histogram is of use to others.  `kind` is how many bins the feature has, and whether they are
    categories; `kept`, slot x bin x sum, the histograms: one slot where none is of use to others.  In
    `out`, node x split, the gain `SKIP` says that the node is not searched.
    """
    size = kind[0]
    ranks = np.empty(size + 1, np.int64)
    marks = np.zeros((size // 8 + 1) * 8, np.uint8)
    missing = np.empty(payload.shape[1], np.int64)
    total = np.empty(payload.shape[1], np.int64)
    # Those that are counted first: the others are differences of them.
    for turn in range(2 * nodes.shape[0]):
        node = turn % nodes.shape[0]
        if (nodes[node, SIBLING] >= 0) != (turn >= nodes.shape[0]):
            continue
        skipped = out[node, GAIN] == SKIP
        if skipped and nodes[node, NEEDED] == 0:
            continue
        hist = kept[nodes[node, SLOT], : size + 1]
        low, high = nodes[node, 0], nodes[node, 1]
        if kept.shape[0] == 1 and kind[1] == 0:
            rows = order[low:high], payload[low:high]
            used = sparse_histogram(codes, rows[0], rows[1], marks, hist, ranks)
        else:
            node_histogram(codes, order, payload, nodes[node], size, kept)
            used = 0 if skipped else scan_order(hist, size, kind[1] == 1, rules, ranks)
        if skipped:
            continue
        missing[:] = hist[size]
        total[:] = missing
        for i in range(used):
            for c in range(total.size):
                total[c] += hist[ranks[i], c]
        best_cut(hist, ranks[:used], missing, total, rules, out[node])


@kernel
def choose_splits(splits: Floats, totals: Int64s, kind: int, out: Int64s) -> None:
    """Write the feature of the best split of each node, -1 where there is none; ties: the first."""
    best = np.empty(SPLIT_WIDTH, np.float64)
    for node in range(totals.shape[0]):
        out[node] = -1
        best[GAIN] = NONE
        for feature in range(splits.shape[0]):
            if splits[feature, node, GAIN] > 0.0 and is_better(
                splits[feature, node], best, totals[node], kind
            ):
                best[:] = splits[feature, node]
                out[node] = feature


@kernel
def split_rows(codes: Codes, order: Int32s, left: UInt8s, spare: Int32s) -> int:
    """Bring the rows of a node whose bin is in `left` to the front, in order; return their number."""
    front, back = 0, 0
    for i in range(order.size):
        row = order[i]
        if left[codes[row]]:
            order[front] = row
            front += 1
        else:
            spare[back] = row
            back += 1
    for i in range(back):
        order[front + i] = spare[i]
    return front


@kernel
def route_rows(values: Floats, links: Int32s, cuts: Floats, sides: UInt8s, out: Int32s) -> None:
    """Write the node without children that each row ends in.

    `values` has a row of values a feature, NaN where there is none; categories are their numbers.  Of
    each node `links` has the feature (-1: no children), left and right child, whether rows without a
    value go left, and where its categories begin in `sides` (-1: values up to the cut go left).
    """
    for i in range(out.size):
        node = 0
        while links[node, 0] >= 0:
            x = values[links[node, 0], i]
            if x != x:
                left = links[node, 3] == 1
            elif links[node, 4] >= 0:
                left = sides[links[node, 4] + int(x)] == 1
            else:
                left = x <= cuts[node]
            node = links[node, 1] if left else links[node, 2]
        out[i] = node
