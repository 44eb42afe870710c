"""Forests in rounds: what follows from the sums of each round.

The trees of all numbers grow together, then the maps of their leaves take Newton steps together.  If
there is something to choose, small forests do so first, of one leaf size after another, and are judged
on the rows left out.  All of it is what `calibkit.hetcal.forest` does in memory, from sums.
"""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from calibkit.hetcal.grow import Rules
from calibkit.hetcal.rounds import leaves as after_trees
from calibkit.hetcal.rounds import look
from calibkit.hetcal.rounds.after import (
    begin_lines,
    know_bins,
    know_rows,
    move_lines,
    moved_lines,
    refine,
    seeks,
)
from calibkit.hetcal.rounds.forest.grow import (
    UNKNOWN,
    BranchCounter,
    asked_nodes,
    cells_of,
    rules_of,
    split_nodes,
)
from calibkit.hetcal.rounds.forest.judge import chosen_by, judged_by, shape_of
from calibkit.hetcal.rounds.forest.known import Forest, Grove
from calibkit.hetcal.rounds.forest.maps import (
    Leaves,
    is_judged,
    parts_used,
    settled,
    tallied,
    tree_count,
)
from calibkit.hetcal.rounds.forest.packed import (
    as_bytes,
    grove_of,
    lines_as_bytes,
    need_room,
    trees_of,
)
from calibkit.hetcal.rounds.grow import Shared, bins_of, first_nodes, vectors_in
from calibkit.hetcal.rounds.known import (
    BEND,
    BRANCH,
    GROWN,
    LOOK,
    POOL,
    RATE,
    REFINE,
    SEEK,
    SETTLE,
    TALLY,
    WEIGH,
    Grown,
    Known,
    Line,
    grid_of,
)
from calibkit.hetcal.rounds.lines import line_from
from calibkit.hetcal.rounds.tables import What, array_of
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem
from calibkit.hetcal.trees import Node, Tree
from calibkit.rounds.protocol import Sums

#: What a map that is not Platt's may hold, at most, or while it is sought.
_STEPS: Final = 16


def after_look(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Go on from the first look at all rows."""
    look.learn(known, problem, sums)
    _begin(known, problem.spec)


def after_refinement(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Go on from a closer look at features whose quantiles are sought."""
    refine(known, problem, sums)
    _begin(known, problem.spec)


def _begin(known: Known, spec: HetcalSpec) -> None:
    """Go on to the trees, once all bins are known; where trees are there already, to all rows."""
    if seeks(known):
        known.step = REFINE
        return
    known.nodes, known.forest, known.step = first_nodes(known.judged, 1), Forest(), BRANCH
    for node in known.nodes:
        node.open = False
    if known.grown is None:
        _sow(known, spec)


def _sow(known: Known, spec: HetcalSpec) -> None:
    """Go on to the growth of trees of a leaf size."""
    trees = list[Tree]()
    known.wood.searched = []
    _add_roots(trees, known, spec)
    known.wood.grove, known.step = grove_of(trees), BRANCH


def _add_roots(trees: list[Tree], known: Known, spec: HetcalSpec) -> None:
    """Begin as many trees as there are to be."""
    more = tree_count(known, spec) - len(trees)
    trees += [Tree([Node(UNKNOWN, 0, 0)]) for _ in range(more)]
    known.wood.searched += [0] * more


def _take(known: Known, spec: HetcalSpec, grown: Grown) -> None:
    """Go on to the maps of trees of a leaf size that other rows grew."""
    chosen, wood = known.chosen, known.wood
    place, depth = wood.size if chosen is None else chosen.size, _deepest(known, spec)
    trees = trees_of(grown.groves[place], known.categories)[: tree_count(known, spec)]
    wood.grove, known.step = grove_of([tree.pruned(depth) for tree in trees]), TALLY
    if not is_judged(known, spec):
        grown.groves = []  # these are the trees of the model


def _deepest(known: Known, spec: HetcalSpec) -> int:
    """Return how deep the trees grow now."""
    if known.apart or is_judged(known, spec):
        return max(grid_of(spec).depths)
    return settled(known, spec)[0]


def rules_for(known: Known, spec: HetcalSpec) -> Rules:
    """Return when and how the nodes of the trees that grow now are split."""
    sizes = grid_of(spec).leaf_sizes
    of_size = known.apart or is_judged(known, spec)
    least = sizes[known.wood.size] if of_size else settled(known, spec)[1]
    return rules_of(known, spec, _deepest(known, spec), least)


def branch_counter(known: Known, problem: HetcalProblem, shared: Shared) -> BranchCounter:
    """Return what sums for a round of growth."""
    return BranchCounter(known, problem, shared, rules_for(known, problem.spec))


def after_branching(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn the histograms of nodes and the steps of the maps of all rows: split, step, go on."""
    spec, wood, bins = problem.spec, known.wood, bins_of(known)
    trees = trees_of(wood.grove, known.categories)
    asked = asked_nodes(trees, wood.searched, bins, rules_for(known, spec), spec.seed)
    cells, columns = cells_of(asked), range(vectors_in(known, spec).width)
    hist = np.stack([array_of(sums.table, What.CELL, cells, one) for one in columns], axis=1)
    move_lines(known, sums.table)
    if not known.fingerprint:
        know_bins(known, sums.table, bins)
        _know_rows(known, problem, sums)
        bins = bins_of(known)
        if known.grown is None:
            _add_roots(trees, known, spec)  # more of them where parts turned out to be empty
    rules = rules_for(known, spec)
    split_nodes(trees, wood.searched, asked, hist, bins, rules)
    open_yet = asked_nodes(trees, wood.searched, bins, rules, spec.seed)
    if open_yet or any(node.line and not node.line.done for node in known.nodes):
        wood.grove = grove_of(trees)
    elif known.grown is not None:
        _take(known, spec, known.grown)
    else:
        wood.grove, wood.searched = grove_of([tree.pruned(rules.max_depth) for tree in trees]), []
        _grown(known, spec)


def _know_rows(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn what the first round over the trees tells of all rows, and begin their maps."""
    totals = array_of(sums.table, What.TOTAL, 2 * known.parts).reshape(-1, 2)
    know_rows(known, problem, sums)
    known.rows.weight, known.rows.hits = totals.sum(axis=0).tolist()
    if known.apart:
        return
    if not grid_of(problem.spec).open:
        known.judge_nothing()  # there is nothing to choose
    del known.nodes[known.folds + 1 :]
    parts = np.arange(len(totals))
    for node in known.nodes:
        used = parts_used(known, parts, node.part)
        node.rows, node.hits = totals[used].sum(axis=0).tolist()
    begin_lines(known, 0)


def _grown(known: Known, spec: HetcalSpec) -> None:
    """Go on from trees that have grown."""
    wood = known.wood
    if not known.apart:
        known.step = TALLY
        return
    wood.groves.append(wood.grove)
    wood.grove = Grove()
    if len(wood.groves) == len(grid_of(spec).leaf_sizes):
        known.step = GROWN
        return
    wood.size += 1
    _sow(known, spec)


def after_tally(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn how many rows the maps are of; each begins where the map of all rows is."""
    leaves = Leaves(known, problem)
    counts = tallied(leaves, sums.table)
    start = known.nodes[0].line
    assert start is not None
    line = line_from(start.slope, start.intercept, start.low, start.high)
    nothing = Line(0.0, 0.0, 0.0, 0.0, 0.0, 1.0, done=True)
    known.wood.counts = as_bytes(counts)
    known.wood.lines = lines_as_bytes([line if rows else nothing for rows in counts[:, 0].tolist()])
    known.step = SETTLE


def after_settling(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Take a Newton step in all searches."""
    leaves = Leaves(known, problem)
    lines, counts = leaves.lines(), leaves.counts()
    moving = [place for place, one in enumerate(lines) if not one.done]
    found = moved_lines(
        [lines[place] for place in moving], [counts[place] for place in moving], sums.table
    )
    for place, line in zip(moving, found, strict=True):
        lines[place] = line
    known.wood.lines = lines_as_bytes(lines)
    if not all(line.done for line in lines):
        return
    if is_judged(known, problem.spec):
        known.step = WEIGH
        return
    if problem.spec.map != "platt":
        need_room(leaves.count * _STEPS)
    after_trees.begin(known, problem)


def after_weighing(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn what a leaf size brings; go on to the next one, or choose and grow the forest."""
    spec, wood = problem.spec, known.wood
    shape = shape_of(spec)
    found = array_of(sums.table, What.GAIN, math.prod(shape)).reshape(shape)
    wood.judged.append(judged_by(known, spec, found))
    if len(wood.judged) < len(grid_of(spec).leaf_sizes):
        wood.size += 1
    else:
        together = int(array_of(sums.table, What.TOTAL, 1)[0])
        known.chosen = chosen_by(known, spec, together)
    if known.grown is None:
        _sow(known, spec)
    else:
        _take(known, spec, known.grown)


def after_pooling(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn where the blocks of isotonic maps begin, as far as this round tells."""
    after_trees.after_pooling(known, problem, sums)
    need_room(sum(len(one.lows) for one in known.stretches))


#: What follows each round of a forest.
FOLLOWING = {
    LOOK: after_look,
    REFINE: after_refinement,
    BRANCH: after_branching,
    TALLY: after_tally,
    SETTLE: after_settling,
    WEIGH: after_weighing,
    BEND: after_trees.after_bending,
    SEEK: after_trees.after_seeking,
    RATE: after_trees.after_rating,
    POOL: after_pooling,
}
