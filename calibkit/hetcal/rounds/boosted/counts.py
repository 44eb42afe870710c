"""What the rounds of a boosted fit sum over the rows of a shard, block by block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.rounds.boosted.end import final_line, held_unit
from calibkit.hetcal.rounds.boosted.known import BOOST, LINE_UP, ORDER, SUM_UP, Run
from calibkit.hetcal.rounds.boosted.rows import BinnedRows, RowStore, binned_rows
from calibkit.hetcal.rounds.boosted.runs import (
    CHANNELS,
    HELD_SUMS,
    Boosting,
    boosting_of,
    held_counts,
    left_out,
    to_judge,
    tree_count,
)
from calibkit.hetcal.rounds.boosted.scores import RunScores
from calibkit.hetcal.rounds.boosted.trees import tree_of
from calibkit.hetcal.rounds.counts import Counter, FinishCounter
from calibkit.hetcal.rounds.edges import Look, Refine, limits
from calibkit.hetcal.rounds.end import before_of
from calibkit.hetcal.rounds.grow import Bins, Shared
from calibkit.hetcal.rounds.growing import add_lines, tell_lines
from calibkit.hetcal.rounds.known import Known
from calibkit.hetcal.rounds.lines import LineSums, line_array
from calibkit.hetcal.rounds.rows import Block, losses_of, read_block
from calibkit.hetcal.rounds.tables import Numbers, What, keys_of
from calibkit.hetcal.states import HetcalProblem
from calibkit.rounds.kept import Kept
from calibkit.rounds.passes import Pass
from calibkit.rounds.protocol import Counted, Sums
from calibkit.rows.rows import NothingLeft
from calibkit_kernels import boosting, leaf_maps
from calibkit_kernels import rounds as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


class OrderCounter:
    """Counts the values of scores, as those of a feature, where their quantiles are sought."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        self.place, self.before = len(known.columns), before_of(known, problem.spec)
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
        self.routes = shared.on_bins(tree_of(run.growing).routes(shared.categories))
        self.slots = np.full(len(run.growing), -1, np.int32)
        self.slots[self.asked] = np.arange(len(self.asked))
        self.hist = np.zeros((len(self.asked), self.bins.cells, CHANNELS), np.int64)

    def add(self, rows: BinnedRows, score: Floats, bins: Floats, threads: Shared) -> None:
        """Add some rows.

        Parameters
        ----------
        rows, score, bins
            The rows; their scores after the last tree of the run; their bins as numbers.
        threads
            What shares the features.
        """
        payload = np.empty((score.size, CHANNELS), np.int64)
        boosting.newton_rows(score, rows.label, rows.weight, self.shared.scale, payload)
        slot = self.slots[self.routes.ends(bins)]
        slot[~self.shared.learns(self.run, rows.part)] = -1
        spans, order = np.empty((len(self.asked), 2), np.int64), np.empty(slot.size, np.int32)
        leaf_maps.rows_by_leaf(slot, spans, order)

        def work(own: Int64s) -> None:
            kernels.count_bins(
                rows.codes[self.drawn[own]], payload, order, spans, self.bins.starts[own], self.hist
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
        self.scores = RunScores(trees, self.shared, threads, kept)
        self.levels = [Level(run, self.shared) for run in known.runs]
        edges = known.scores
        assert edges is not None and edges.lows is not None
        self.highest = None if edges.highs is not None else np.full(len(edges.lows), -np.inf)
        self.judged = [place for place, run in enumerate(known.runs) if to_judge(run)]
        self.units = {place: self.shared.worth(known.runs[place]) for place in self.judged}
        self.held = np.zeros((len(known.runs), HELD_SUMS), np.int64)

    def binned(self, block: Block) -> BinnedRows:
        """Return the rows of a block by their bins."""
        return binned_rows(block, self.known, self.problem, self.shared, self.threads)

    def add(self, rows: BinnedRows) -> None:
        """Add some rows."""
        if self.highest is not None:
            np.maximum.at(self.highest, rows.codes[-1], rows.first)
        bins = rows.numbers(self.shared)
        for place, score in enumerate(self.scores.of(bins, rows.first)):
            level = self.levels[place]
            if place in self.judged:
                held = rows.part == level.run.part
                self.held[place] += held_sums(rows, held, score, self.shared, self.units[place])
            if level.asked:
                level.add(rows, score, bins, self.threads)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        self.scores.end()
        for place, level in enumerate(self.levels):
            numbers.add_all(What.CELL, level.hist, place)
            numbers.add_all(What.GAIN, self.held[place], place)
        if self.highest is not None:
            seen = np.flatnonzero(self.highest > -np.inf)
            numbers.add(What.HIGHEST, seen, keys_of(self.highest[seen]), len(self.known.columns))
        return {}


@dataclass(frozen=True)
class After:
    """Scores of a block after as many trees as the model has.

    Attributes
    ----------
    rows
        The rows.
    linear, held
        Of each row by the run that left it out, and whether there is one.
    """

    rows: BinnedRows
    linear: Floats
    held: NDArray[np.bool_]


class HeldScores:
    """Finds the scores that rows left out have, after as many trees as the model has."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        self.known, self.problem, self.threads = known, problem, threads
        self.shared, count = boosting_of(known, problem.spec), tree_count(known)
        self.judged = [run for run in known.runs if left_out(run)]
        trees = tuple(tuple(run.trees[:count]) for run in self.judged)
        self.runs = RunScores(trees, self.shared, threads, kept)

    def of(self, block: Block) -> After:
        """Return the scores of a block."""
        rows = binned_rows(block, self.known, self.problem, self.shared, self.threads)
        linear, any_held = rows.first.copy(), np.zeros(rows.first.size, np.bool_)
        scores = self.runs.of(rows.numbers(self.shared), rows.first)
        for run, score in zip(self.judged, scores, strict=True):
            held = rows.part == run.part
            linear[held] = score[held]
            any_held |= held
        return After(rows, linear, any_held)


class LineUpCounter:
    """Sums the line from the scores that held-out rows have to their labels."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        assert known.correction is not None
        self.scores = HeldScores(known, problem, threads, kept)
        self.lines = LineSums(line_array([known.correction], [held_counts(known)]))

    def add(self, block: Block) -> None:
        """Add some rows."""
        after = self.scores.of(block)
        rows = np.flatnonzero(after.held).astype(np.int32)
        span = np.array([[0, rows.size]], np.int64)
        add_lines(self.lines, np.zeros(1, np.int64), block, after.linear, rows, span)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        self.scores.runs.end()
        tell_lines(self.lines, numbers)
        return {}


class SumUpCounter(FinishCounter):
    """Sums what a boosted model says of its fit, and what it loses on the rows left out."""

    def __init__(
        self, known: Known, problem: HetcalProblem, threads: Shared, kept: Kept | None
    ) -> None:
        super().__init__(known, problem)
        self.scores = HeldScores(known, problem, threads, kept)
        self.final = final_line(known)
        self.unit, self.aside = held_unit(known, self.scores.shared), 0

    def add(self, block: Block) -> None:
        """Add some rows."""
        super().add(block)
        after = self.scores.of(block)
        linear = self.final.a * after.linear + self.final.b
        sums = held_sums(after.rows, after.held, linear, self.scores.shared, self.unit)
        self.aside += int(sums[0])

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        self.scores.runs.end()
        numbers.add_all(What.GAIN, np.array([self.aside]))
        return super().tell(numbers)


def held_sums(
    rows: BinnedRows, held: NDArray[np.bool_], linear: Floats, shared: Boosting, unit: float
) -> Int64s:
    """Return what some rows lose, in units, their weight, and that of the positive ones."""
    weight = rows.weight * held
    losses = np.rint(weight * shared.known.rows.size * losses_of(linear, rows.label) * unit)
    return np.array(
        [losses.astype(np.int64).sum(), weight.sum(), (weight * rows.label).sum()], np.int64
    )


#: What sums for each round but those of `BOOST`.
_OTHERS: Final[dict[str, Callable[[Known, HetcalProblem, Shared, Kept | None], Counter]]] = {
    ORDER: OrderCounter,
    LINE_UP: LineUpCounter,
    SUM_UP: SumUpCounter,
}


def answered(
    known: Known, problem: HetcalProblem, passing: Pass, threads: Shared, kept: Kept | None
) -> Counted:
    """Return what a shard answers; rows that this process has kept are not read again."""
    blocks = (
        block
        for block in passing.through(lambda window: read_block(window, problem, known))
        if not isinstance(block, NothingLeft)
    )
    numbers = Numbers()
    if known.step != BOOST:
        other = _OTHERS[known.step](known, problem, threads, kept)
        for block in blocks:
            other.add(block)
        payload = other.tell(numbers)
        return Counted(Sums(payload, numbers.table()), passing.hash, passing.read)
    counter = BoostCounter(known, problem, threads, kept)
    store = RowStore(known, counter.shared, kept)
    shard = store.shard
    if shard is not None:
        for rows in store.read():
            counter.add(rows)
            passing.source.progress(store.told, passing.source.rows)
    else:
        for block in blocks:
            rows = counter.binned(block)
            store.write(rows)
            counter.add(rows)
        shard = passing.hash, passing.read
        store.end(shard)
    return Counted(Sums(counter.tell(numbers), numbers.table()), *shard)
