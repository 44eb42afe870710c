"""What follows from the sums of each round: the next question."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.hetcal.rounds import leaves, look, times, trained
from calibkit.hetcal.rounds.boosted.known import ORDER
from calibkit.hetcal.rounds.choose import candidates, chosen_by, first_correction, judged_counts
from calibkit.hetcal.rounds.edges import refined
from calibkit.hetcal.rounds.grow import (
    Bins,
    bins_of,
    first_nodes,
    open_nodes,
    split_node,
    vectors_in,
)
from calibkit.hetcal.rounds.growing import SCORES, histograms
from calibkit.hetcal.rounds.known import (
    CORRECT,
    COUNT,
    GROW,
    GROWN,
    JUDGE,
    REFINE,
    Known,
    Line,
    Spot,
    grid_of,
)
from calibkit.hetcal.rounds.lines import Counts, line_array, line_from, moved
from calibkit.hetcal.rounds.tables import (
    What,
    array_of,
    values_of,
)
from calibkit.hetcal.states import HetcalProblem
from calibkit.rounds.protocol import Sums
from calibkit.rows.remarks import FEWEST, constant_score, of_tally
from calibkit_kernels import rounds as kernels

Int64s = NDArray[np.int64]


def after_look(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Go on from the first look at all rows."""
    look.learn(known, problem, sums)
    _begin_trees(known, problem)


def _begin_trees(known: Known, problem: HetcalProblem) -> None:
    """Go on to the growth of trees, or to those that have grown, once all bins and parts are known."""
    if seeks(known):
        known.step = REFINE
        return
    if known.grown is not None:
        known.step, known.nodes = COUNT, trained.nodes_of(known.grown, known.judged)
        known.grown.nodes = []
        return
    known.step = GROW
    if problem.spec.partition == "boosted":  # only the map of all rows: no tree has this root
        known.nodes = first_nodes(range(0), 0)
    else:
        known.nodes = first_nodes(known.judged, len(grid_of(problem.spec).leaf_sizes))


def seeks(known: Known) -> bool:
    """Tell whether bins, or parts in time, are still sought."""
    gaps = known.times is not None and known.times.gaps
    return bool(gaps) or any(edges.lows is None for edges in known.edges)


def after_refinement(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Go on from a closer look at what is sought."""
    refine(known, problem, sums)
    _begin_trees(known, problem)


def refine(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn the bins of features, and the parts in time, whose quantiles were sought."""
    for place, edges in enumerate(known.edges):
        if edges.lows is None:
            known.edges[place] = refined(
                edges, sums.table, place, len(known.columns), problem.spec.bins
            )
    if known.times is not None and known.times.gaps:
        times.learn(known.times, sums, known.rows.rows, len(known.columns))


def after_growth(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn the histograms of nodes and the steps of their lines: split, step, go on."""
    table, spec, bins = sums.table, problem.spec, bins_of(known)
    width = vectors_in(known, spec).width
    asked = open_nodes(known, bins.cells * width)
    hist = histograms(table, len(asked), bins, width)
    totals = _totals(hist, bins)
    move_lines(known, table)
    if not known.fingerprint:
        know_bins(known, table, bins)
        know_rows(known, problem, sums)
        known.rows.weight, known.rows.hits = totals[0]
        bins = bins_of(known)
        if not known.folds:
            del known.nodes[1:]
    sizes = [max(1, math.ceil(size / known.rows.size)) for size in grid_of(spec).leaf_sizes]
    there = len(known.nodes)
    for place, own, total in zip(asked, hist, totals, strict=True):
        if place >= there:
            continue  # of a part, where parts turned out to be empty
        node = known.nodes[place]
        if node.depth == 0:
            node.rows, node.hits = total
        elif (node.rows, node.hits) != total:
            raise ModelError("a damaged state: its rows are not those of the plan")
        known.nodes += split_node(known, node, own, bins, spec, sizes)
    if not known.apart:
        begin_lines(known, spec.max_depth)
    if any(node.open or (node.line and not node.line.done) for node in known.nodes):
        return
    if known.apart:
        known.step = GROWN
    elif spec.partition == "boosted":
        known.step = ORDER
    elif known.folds:
        known.step = JUDGE
    else:
        leaves.begin(known, problem)


def after_count(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Go on to the maps of trees that were grown on other rows."""
    rows, hits = (array_of(sums.table, what, len(known.nodes)) for what in (What.ROWS, What.HITS))
    _check_counts(rows, hits)
    for node, own, positives in zip(known.nodes, rows.tolist(), hits.tolist(), strict=True):
        node.rows, node.hits = own, positives
    know_rows(known, problem, sums)
    known.rows.weight, known.rows.hits = known.nodes[0].rows, known.nodes[0].hits
    if not grid_of(problem.spec).open:
        known.judge_nothing()  # there is nothing to choose, and no boldness to correct
    if not known.folds:
        known.nodes = trained.of_everyone(known.nodes)
    begin_lines(known, problem.spec.max_depth)
    known.step = GROW


def _totals(hist: Int64s, bins: Bins) -> list[tuple[int, int]]:
    """Return the rows and positives of nodes, which are the same in the bins of any feature."""
    _check_counts(hist[:, :, 0], hist[:, :, 1])
    sums = np.add.reduceat(hist[:, :, :2], bins.starts[:-1], axis=1)
    if not (sums == sums[:, :1]).all() or (sums < 0).any():
        raise ModelError("a damaged state: its features have different rows")
    return [(rows, hits) for rows, hits in sums[:, 0].tolist()]


def _check_counts(rows: Int64s, hits: Int64s) -> None:
    """Raise `ModelError` where there are more positives than rows."""
    if not ((hits >= 0) & (hits <= rows)).all():
        raise ModelError("a damaged state: it has more positives than rows")


def know_bins(known: Known, table: pl.DataFrame, bins: Bins) -> None:
    """Learn the greatest value in each bin."""
    for place, edges in enumerate(known.edges):
        if known.categories[place] is None and edges.highs is None:
            keys = array_of(table, What.HIGHEST, bins.lows[place].size, place)
            edges.highs = values_of(keys).tolist()


def know_rows(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn what the first round over the trees tells of all rows: hash, scores, parts."""
    known.fingerprint = sums.payload["hash"]
    if known.apart:
        return
    seen = known.rows
    said = seen.warnings.pop() if not known.folds else None
    seen.warnings += _of_scores(known, problem, sums.table)
    if said is not None:
        seen.warnings.append(said)
    parts = array_of(sums.table, What.PART, known.parts)
    if known.folds and not parts.all():
        column = problem.spec.groups or problem.spec.time
        why = "different rows are" if column is None else f"the values of column {column!r} are"
        seen.warnings.append(look.too_few(why, problem.spec.folds))
        known.judge_nothing()


def _of_scores(known: Known, problem: HetcalProblem, table: pl.DataFrame) -> list[str]:
    """Return what is odd about the scores."""
    seen, columns = known.rows, problem.columns
    if seen.low == seen.high:
        return [constant_score(columns.score)] if seen.rows >= FEWEST else []
    scores = np.linspace(seen.low, seen.high, SCORES)
    rows, hits = (array_of(table, what, SCORES) for what in (What.SCORES, What.POSITIVES))
    if (int(rows.sum()), int(hits.sum())) != (seen.rows, seen.positives):
        raise ModelError("a damaged state: its scores are not those of all rows")
    used = np.flatnonzero(rows)[::-1]
    return of_tally(columns.score, columns.scale, scores[used], rows[used], hits[used], seen.rows)


def begin_lines(known: Known, depth: int | None) -> None:
    """Begin the search for the maps of nodes, each where that of the node above is now."""
    seen, above = known.rows, dict[int, Line]()
    for place, node in enumerate(known.nodes):
        if node.line is None and node.rows and _may_be_leaf(node, depth):
            start = above.get(place)
            if start is None:
                own, hits = known.counts(node)
                rate = (hits + 1.0) / (own + 2.0)
                node.line = line_from(0.0, math.log(rate / (1.0 - rate)), seen.low, seen.high)
            else:
                node.line = line_from(start.slope, start.intercept, start.low, start.high)
        nearest = node.line or above.get(place)
        for fork in node.forks:
            if nearest is not None:
                above[fork.left] = above[fork.right] = nearest


def _may_be_leaf(node: Spot, depth: int | None) -> bool:
    """Tell whether a node is a leaf of some tree that may be chosen, or a root."""
    if depth is None or node.depth in (0, depth):
        return True
    follow = {size for fork in node.forks for size in fork.sizes}
    return not node.open and not follow.issuperset(node.sizes)


def move_lines(known: Known, table: pl.DataFrame) -> None:
    """Take a Newton step in all searches."""
    moving = [node for node in known.nodes if node.line and not node.line.done]
    lines = [node.line for node in moving if node.line]
    counts = [known.counts(node) for node in moving]
    found = moved_lines(lines, counts, table)
    for node, line in zip(moving, found, strict=True):
        node.line = line


def moved_lines(lines: Sequence[Line], counts: Sequence[Counts], table: pl.DataFrame) -> list[Line]:
    """Return some lines after a step each; `counts` are the rows and positives of each."""
    size = len(lines)
    sums = array_of(table, What.LINE, size * kernels.SUMS).reshape(size, kernels.SUMS)
    lows, highs = (array_of(table, what, size).tolist() for what in (What.LOW, What.HIGH))
    asked = line_array(lines, counts)
    return [
        moved(line, count, row, own, low, high)
        for line, count, row, own, low, high in zip(
            lines, counts, asked, sums, lows, highs, strict=True
        )
    ]


def after_judgement(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Choose, by what each candidate brought on the rows left out."""
    shape = candidates(known, problem.spec).lines.shape
    found = array_of(sums.table, What.GAIN, math.prod(shape)).reshape(shape)
    known.chosen = chosen_by(known, problem.spec, found)
    if known.grown is not None or problem.spec.map in ("histogram", "isotonic"):
        # Rows that grew no tree are not judged too boldly, and steps are not corrected.
        leaves.begin(known, problem)
        return
    known.correction = first_correction(known, problem.spec)
    known.step = CORRECT


def after_correction(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Take a step towards the map of held-out scores."""
    assert known.correction is not None
    known.correction = moved_lines([known.correction], [judged_counts(known)], sums.table)[0]
    if known.correction.done:
        leaves.begin(known, problem)
