"""What the rounds of a boosted fit sum over the rows of a shard, block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.boosted import leaf_numbers
from calibkit.hetcal.cells import BINS
from calibkit.hetcal.rounds.boosted import (
    CHANNELS,
    HELD_SUMS,
    Boosting,
    boosting_of,
    held_counts,
    to_judge,
    tree_count,
)
from calibkit.hetcal.rounds.boosted_end import final_line, final_run, first_tree, held_unit
from calibkit.hetcal.rounds.boosted_known import BOOST, LINE_UP, ORDER, SUM_UP, Run
from calibkit.hetcal.rounds.boosted_scores import RunScores
from calibkit.hetcal.rounds.boosted_trees import tree_of
from calibkit.hetcal.rounds.counts import Counter, FinishCounter
from calibkit.hetcal.rounds.edges import Look, Refine, limits
from calibkit.hetcal.rounds.end import ending
from calibkit.hetcal.rounds.grow import Bins, Shared
from calibkit.hetcal.rounds.growing import add_lines, tell_lines
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.lines import LineSums, line_array
from calibkit.hetcal.rounds.rows import Block, dealt, losses_of
from calibkit.hetcal.rounds.tables import Numbers, What, keys_of
from calibkit.hetcal.states import HetcalProblem
from calibkit.rounds.kept import Kept
from calibkit_kernels import boosting, leaf_maps
from calibkit_kernels import rounds as kernels
from calibkit_kernels import tree as splits

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]
Codes = NDArray[np.uint16]


class OrderCounter:
    """Counts the values of scores, as those of a feature, where their quantiles are sought."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        self.place, self.before = len(known.columns), ending(known, problem.spec).before
        self.look = self.refine = None
        if known.scores is None:
            self.look = Look(limits(problem.spec.bins)[0])
        else:
            self.refine = Refine(known.scores, 1)

    def add(self, block: Block) -> None:
        """Add some rows."""
        seeker = self.look or self.refine
        assert seeker is not None
        seeker.add(self.before.a * block.score + self.before.b)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the counts."""
        seeker = self.look or self.refine
        assert seeker is not None
        seeker.tell(numbers, self.place)
        if self.look is not None:
            many = np.array([self.look.keys is None], np.int64)
            numbers.add(What.MANY, np.zeros(1, np.int64), many, self.place)
        return {}


class Level:
    """Sums the histograms of some nodes of the tree that grows in a run."""

    def __init__(self, run: Run, shared: Boosting) -> None:
        self.run, self.shared = run, shared
        self.asked = shared.asked(run)
        self.drawn = shared.drawn(run)
        self.bins: Bins = shared.bins.some(self.drawn)
        self.routes = tree_of(run.growing).routes(shared.categories)
        self.slots = np.full(len(run.growing), -1, np.int32)
        self.slots[self.asked] = np.arange(len(self.asked))
        self.hist = np.zeros((len(self.asked), self.bins.cells, CHANNELS), np.int64)

    def add(
        self, block: Block, held: NDArray[np.bool_], score: Floats, values: Floats, codes: Codes,
        threads: Shared,
    ) -> None:  # fmt: skip
        """Add some rows.

        Parameters
        ----------
        block, held
            The rows, and which of them the run leaves out.
        score, values, codes
            Their scores after its last tree; their features and first scores; the bins of these.
        threads
            What shares the features.
        """
        payload = np.empty((score.size, CHANNELS), np.int64)
        boosting.newton_rows(score, block.label, block.weight, self.shared.scale, payload)
        slot = self.slots[self.routes.ends(values)]
        slot[held] = -1
        spans, rows = np.empty((len(self.asked), 2), np.int64), np.empty(slot.size, np.int32)
        leaf_maps.rows_by_leaf(slot, spans, rows)

        def work(own: Int64s) -> None:
            kernels.count_bins(
                codes[self.drawn[own]], payload, rows, spans, self.bins.starts[own], self.hist
            )

        threads.over(self.drawn.size, work)


class BoostCounter:
    """Sums the next level of the tree of each run, and the losses after the tree before."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        self.known, self.problem, self.threads = known, problem, threads
        self.shared = boosting_of(known, problem.spec)
        trees = tuple(tuple(run.trees) for run in known.runs)
        self.scores = RunScores(trees, self.shared.categories, threads, kept)
        self.levels = [Level(run, self.shared) for run in known.runs]
        wanted = {place for level in self.levels if level.asked for place in level.drawn.tolist()}
        edges = known.scores
        assert edges is not None and edges.lows is not None
        self.highest = None if edges.highs is not None else np.full(len(edges.lows), -np.inf)
        if self.highest is not None:
            wanted.add(len(known.columns))
        self.wanted = np.array(sorted(wanted), np.int64)
        self.judged = [place for place, run in enumerate(known.runs) if to_judge(run)]
        self.units = {place: self.shared.worth(known.runs[place]) for place in self.judged}
        self.held = np.zeros((len(known.runs), HELD_SUMS), np.int64)

    def add(self, block: Block) -> None:
        """Add some rows."""
        values = with_scores(block, self.shared)
        part = parts_of(block, self.known, self.problem)
        codes = self._codes(values)
        if self.highest is not None:
            np.maximum.at(self.highest, codes[-1], values[-1])
        for place, score in enumerate(self.scores.of(values)):
            level = self.levels[place]
            held = part == level.run.part
            if place in self.judged:
                self.held[place] += held_sums(block, held, score, self.units[place])
            if level.asked:
                level.add(block, held, score, values, codes, self.threads)

    def _codes(self, values: Floats) -> Codes:
        """Return the bins of the features that are wanted; of others what was there."""
        found = np.empty(values.shape, np.uint16)

        def work(own: Int64s) -> None:
            for place in self.wanted[own].tolist():
                splits.bin_codes(values[place], self.shared.bins.lows[place], found[place])

        self.threads.over(self.wanted.size, work)
        return found

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        self.scores.done()
        for place, level in enumerate(self.levels):
            numbers.add_all(What.CELL, level.hist, place)
            numbers.add_all(What.GAIN, self.held[place], place)
        if self.highest is not None:
            seen = np.flatnonzero(self.highest > -np.inf)
            numbers.add(What.HIGHEST, seen, keys_of(self.highest[seen]), len(self.known.columns))
        return {}


@dataclass(frozen=True)
class After:
    """Scores of a block after the trees of the model.

    Attributes
    ----------
    values
        The features, and the scores before.
    linear, held
        Of each row by the run that left it out, and whether there is one.
    model
        Of each row by the model's own trees.
    """

    values: Floats
    linear: Floats
    held: NDArray[np.bool_]
    model: Floats


class AllScores:
    """Finds scores after as many trees as the model has, block after block."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        self.known, self.problem = known, problem
        self.shared, count = boosting_of(known, problem.spec), tree_count(known)
        trees = tuple(tuple(run.trees[:count]) for run in known.runs)
        self.runs = RunScores(trees, self.shared.categories, threads, kept)
        self.final = known.runs.index(final_run(known))

    def of(self, block: Block) -> After:
        """Return the scores of a block."""
        values, part = with_scores(block, self.shared), parts_of(block, self.known, self.problem)
        scores = self.runs.of(values)
        linear, held = values[-1].copy(), np.zeros(part.size, np.bool_)
        for run, score in zip(self.known.runs, scores, strict=True):
            own = part == run.part
            linear[own] = score[own]
            held |= own
        return After(values, linear, held, scores[self.final])


class LineUpCounter:
    """Sums the line from the scores that held-out rows have to their labels."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        assert known.correction is not None
        self.scores = AllScores(known, problem, threads, kept)
        self.lines = LineSums(line_array([known.correction], [held_counts(known)]))

    def add(self, block: Block) -> None:
        """Add some rows."""
        after = self.scores.of(block)
        rows = np.flatnonzero(after.held).astype(np.int32)
        span = np.array([[0, rows.size]], np.int64)
        add_lines(self.lines, np.zeros(1, np.int64), block, after.linear, rows, span)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        self.scores.runs.done()
        tell_lines(self.lines, numbers)
        return {}


class SumUpCounter(FinishCounter):
    """Sums what a boosted model says of its fit, and what it loses on the rows left out."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        super().__init__(known, problem)
        self.scores = AllScores(known, problem, threads, kept)
        self.final = final_line(known)
        self.first = first_tree(known, self.scores.shared.categories)
        self.numbers = leaf_numbers(self.first)
        self.routes = self.first.routes(self.scores.shared.categories)
        self.cells = np.zeros(((int(self.numbers.max()) + 1) * BINS, 3), np.int64)
        self.unit, self.aside = held_unit(known, self.scores.shared), 0

    def add(self, block: Block) -> None:
        """Add some rows."""
        after = self.scores.of(block)
        leaf = self.numbers[self.routes.ends(after.values)]
        found, line = np.empty(leaf.size), np.array([[self.final.a, self.final.b]])
        leaf_maps.leaf_probabilities(after.model, np.zeros_like(leaf), line, found)
        self.count(block, after.values[-1], leaf, found)
        linear = self.final.a * after.linear + self.final.b
        self.aside += int(held_sums(block, after.held, linear, self.unit)[0])

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        self.scores.runs.done()
        numbers.add_all(What.GAIN, np.array([self.aside]))
        return super().tell(numbers)


def with_scores(block: Block, shared: Boosting) -> Floats:
    """Return the features of a block, and its scores before the first tree."""
    return np.vstack([block.features.values, shared.before.a * block.score + shared.before.b])


def parts_of(block: Block, known: Known, problem: HetcalProblem) -> NDArray[np.int64]:
    """Return the part of each row."""
    if not known.folds:
        return np.zeros(block.label.size, np.int64)
    return dealt(block, problem, known.folds)[0].astype(np.int64)


def held_sums(block: Block, held: NDArray[np.bool_], linear: Floats, unit: float) -> Int64s:
    """Return what some rows lose, in units, their weight, and that of the positive ones."""
    weight = block.weight * held
    losses = np.rint(block.masses[0] * held * losses_of(linear, block.label) * unit)
    return np.array(
        [losses.astype(np.int64).sum(), weight.sum(), (weight * block.label).sum()], np.int64
    )


#: What sums for each round.
COUNTERS: Final[dict[str, Callable[[Known, HetcalProblem, Shared, Kept | None], Counter]]] = {
    ORDER: OrderCounter,
    BOOST: BoostCounter,
    LINE_UP: LineUpCounter,
    SUM_UP: SumUpCounter,
}
