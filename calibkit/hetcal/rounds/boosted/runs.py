"""Boosting in rounds: all runs grow their trees together, a level of one tree of each run a round.

The score of a row after some trees is a function of the row and of these trees alone, so nothing but
the trees goes from one round to the next.  What the rows left out lose by a tree is summed with the
first level of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.hetcal import boosted
from calibkit.hetcal.grow import Rules
from calibkit.hetcal.model import Line as Before
from calibkit.hetcal.rounds.boosted.known import BOOST, LINE_UP, SUM_UP, Bud, Run
from calibkit.hetcal.rounds.boosted.trees import grown_tree, largest_move, tree_text
from calibkit.hetcal.rounds.edges import first_edges, refined
from calibkit.hetcal.rounds.end import before_of
from calibkit.hetcal.rounds.grow import (
    MOST_CELLS,
    Bins,
    best_split,
    fork_of,
    left_sums,
    side_by_side,
)
from calibkit.hetcal.rounds.known import EVERYONE, Known
from calibkit.hetcal.rounds.lines import Counts, line_from, worth
from calibkit.hetcal.rounds.tables import What, array_of, values_of
from calibkit.hetcal.spec import HetcalSpec
from calibkit.hetcal.states import HetcalProblem
from calibkit.hetcal.trees import Routes
from calibkit.rounds.protocol import Sums
from calibkit_kernels import tree as splits

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]

#: How rows find their node by their bins, and the step of each node.
Binned = tuple[Routes, Floats]

#: What is summed in each bin: weight, gradient and Hessian.
CHANNELS = 3

#: What is summed over the rows left out: losses, and the weight of all and of the positive ones.
HELD_SUMS = 3


@dataclass(frozen=True)
class Boosting:
    """What all runs share.

    Attributes
    ----------
    known, spec
        What the rounds have found so far; what is fitted.
    before
        The map that all scores go through first.
    bins
        Of all features and, last, of the scores.
    categories
        How many categories each of them has.
    scale, rules
        How many units of the sums of gradients one is; when nodes are split.
    """

    known: Known
    spec: HetcalSpec
    before: Before
    bins: Bins
    categories: tuple[int, ...]
    scale: float
    rules: Rules

    def binned(self, text: str) -> Binned:
        """Return a tree for the bins of rows, as it is in memory while it grows: routes and steps.

        A bin that held no row of a node may lie on both sides of its cut: all of it goes left.
        """
        grown = grown_tree(text, self.categories)
        return self.on_bins(grown.routes), grown.steps

    def on_bins(self, routes: Routes) -> Routes:
        """Return the routes of rows by their bins."""
        cuts = routes.cuts.copy()
        for node in np.flatnonzero((routes.links[:, 0] >= 0) & (routes.links[:, 4] < 0)):
            lows = self.bins.lows[routes.links[node, 0]]
            cuts[node] = np.searchsorted(lows, cuts[node], "right") - 1
        return replace(routes, cuts=cuts)

    def learns(self, run: Run, part: NDArray[np.uint8]) -> NDArray[np.bool_]:
        """Return from which rows a run learns, by the part that each was dealt to."""
        if run.part == EVERYONE:
            return np.ones(part.size, np.bool_)
        return part < run.part if self.known.times is not None else part != run.part

    def drawn(self, run: Run) -> NDArray[np.int64]:
        """Return the features that the tree may use that grows in a run."""
        chosen = boosted.drawn_features(len(self.categories), self.spec.seed, len(run.trees))
        return np.flatnonzero(chosen)

    def asked(self, run: Run) -> list[int]:
        """Return the nodes whose histograms the next round sums: as many as there is room for."""
        sums = self.bins.some(self.drawn(run)).cells * CHANNELS
        room = max(1, MOST_CELLS // (sums * len(self.known.runs)))
        return [place for place, bud in enumerate(run.growing) if bud.open][:room]

    def ends(self) -> tuple[float, float]:
        """Return what scores lie in between before the first tree."""
        seen = self.known.rows
        low, high = (self.before.a * score + self.before.b for score in (seen.low, seen.high))
        return min(low, high), max(low, high)

    def bound(self, run: Run) -> float:
        """Return how large a score after the trees of a run is at most."""
        return max(map(abs, self.ends())) + largest_move(run, self.categories)

    def worth(self, run: Run) -> float:
        """Return how many units of the sum of losses one is."""
        return worth(self.bound(run) + 1.0, self.known.rows.counts[0])


def boosting_of(known: Known, spec: HetcalSpec) -> Boosting:
    """Return what all runs share, once the bins of all features and scores are known."""
    assert known.scores is not None
    scale, size = boosted.scale_of(known.rows.weight), known.rows.size
    return Boosting(
        known,
        spec,
        before_of(known, spec),
        side_by_side([*known.edges, known.scores], [*known.categories, None]),
        (*(len(names or ()) for names in known.categories), 0),
        scale,
        boosted.rules_of(spec, scale, size),
    )


def left_out(run: Run) -> bool:
    """Tell whether a run leaves out rows, which say when to stop."""
    return run.part != EVERYONE


def to_judge(run: Run) -> bool:
    """Tell whether the losses after the last tree are to be summed."""
    return left_out(run) and len(run.losses) <= len(run.trees)


def ended(run: Run) -> bool:
    """Tell whether nothing is to be found any more."""
    return not run.growing and not to_judge(run)


def after_order(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn the bins of the scores, as far as this round tells; then begin all runs."""
    table, place, most = sums.table, len(known.columns), problem.spec.bins
    if known.scores is None:
        many = bool(array_of(table, What.MANY, 1, place)[0])
        known.scores = first_edges(table, place, many, most)
    else:
        known.scores = refined(known.scores, table, place, 1, most)
    if known.scores.lows is None:
        return
    parts = list(known.judged)
    if known.rows.rows > boosted.FEW_ROWS:
        parts = parts[-1:]
    if len(parts) != 1:
        parts.append(EVERYONE)
    growing = boosted.depth_of(problem.spec) > 0
    known.runs = [Run(part, growing=[Bud(0, [])] if growing else []) for part in parts]
    known.step = BOOST
    _go_on(known, problem.spec)


def after_boost(known: Known, problem: HetcalProblem, sums: Sums) -> None:
    """Learn what a round tells of each run: split the nodes of a level, judge the last tree."""
    table = sums.table
    _know_highest(known, table)
    shared = boosting_of(known, problem.spec)
    for place, run in enumerate(known.runs):
        if to_judge(run):
            loss, *held = array_of(table, What.GAIN, HELD_SUMS, place).tolist()
            run.losses.append(loss / shared.worth(run))
            run.held = held
            if len(run.trees) - 1 - _best(run) >= boosted.PATIENCE:
                run.growing = []
        asked = shared.asked(run)
        if asked:
            cells = shared.bins.some(shared.drawn(run)).cells
            hist = array_of(table, What.CELL, len(asked) * cells * CHANNELS, place)
            _grow(run, asked, hist.reshape(len(asked), cells, CHANNELS), shared)
    _go_on(known, problem.spec)


def _best(run: Run) -> int:
    """Return the number of the tree after which the rows left out lose least."""
    return max(boosted.best_count([run.losses[1:]]) - 1, 0)


def _know_highest(known: Known, table: pl.DataFrame) -> None:
    """Learn the greatest score in each bin."""
    edges, place = known.scores, len(known.columns)
    if edges is not None and edges.lows is not None and edges.highs is None:
        keys = array_of(table, What.HIGHEST, len(edges.lows), place)
        edges.highs = values_of(keys).tolist()


def _grow(run: Run, asked: list[int], hist: Int64s, shared: Boosting) -> None:
    """Split nodes by their histograms; where none is left, begin the next tree."""
    drawn = shared.drawn(run)
    bins = shared.bins.some(drawn)
    for place, own in zip(asked, hist, strict=True):
        bud = run.growing[place]
        if not bud.sums:
            bud.sums = bins.take(0, own).sum(axis=0).tolist()
        hists = [(feature, bins.take(at, own)) for at, feature in enumerate(drawn.tolist())]
        run.growing += _split(bud, hists, shared.bins, shared.rules)
    if any(bud.open for bud in run.growing):
        return
    if len(run.growing) == 1:  # no split brings anything
        run.growing = []
        return
    sums = np.array([bud.sums for bud in run.growing], np.int64)
    steps = boosted.newton_steps(sums, shared.scale, shared.known.rows.size)
    if not run.trees:
        run.rows = [bud.sums[0] for bud in run.growing]
        run.gains = [bud.gain for bud in run.growing]
    run.trees.append(tree_text(run.growing, steps, shared.categories))
    run.growing = [Bud(0, [])]


def _split(bud: Bud, hists: Sequence[tuple[int, Int64s]], bins: Bins, rules: Rules) -> list[Bud]:
    """Write the best split into a node; return its children, none where there is no split."""
    bud.open = False
    total = np.array(bud.sums, np.int64)
    if total[0] < 2 * rules.min_leaf:
        return []
    best = best_split(hists, bins, total, rules)
    if best is None:
        return []
    feature, split = best
    own = dict(hists)[feature]
    fork = fork_of(feature, split, own, bins, rules)
    bud.feature, bud.cut, bud.gain = feature, fork.cut, fork.gain
    bud.missing_left, bud.categories = fork.missing_left, fork.categories
    left = left_sums(fork, int(split[splits.LOW]), own)
    children = [Bud(bud.depth + 1, sums.tolist()) for sums in (left, total - left)]
    for child in children:
        child.open = child.depth < rules.max_depth and child.sums[0] >= 2 * rules.min_leaf
    return children


def _go_on(known: Known, spec: HetcalSpec) -> None:
    """Stop runs that have trees enough; where all have ended, go on to the end."""
    judged = [run for run in known.runs if left_out(run)]
    lengths = [len(run.trees) for run in judged if ended(run)]
    most = min([boosted.trees_at_most(spec), *lengths])
    if judged and len(lengths) == len(judged):
        most = tree_count(known)
    for run in known.runs:
        if len(run.trees) >= most:
            run.growing = []
    if not all(map(ended, known.runs)):
        return
    known.step = SUM_UP
    if judged:
        shared = boosting_of(known, spec)
        most_moved = max(largest_move(run, shared.categories) for run in judged)
        low, high = shared.ends()
        known.correction = line_from(1.0, 0.0, low - most_moved, high + most_moved)
        known.step = LINE_UP


def tree_count(known: Known) -> int:
    """Return how many trees the model has."""
    judged = [run.losses[1:] for run in known.runs if left_out(run)]
    return boosted.best_count(judged) if judged else len(known.runs[0].trees)


def held_counts(known: Known) -> Counts:
    """Return how many rows are left out by some run, and how many positive ones."""
    weight, hits = np.array([run.held for run in known.runs if left_out(run)]).sum(axis=0).tolist()
    return weight * known.rows.size, hits * known.rows.size
