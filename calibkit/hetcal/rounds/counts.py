"""What each round sums over the rows of a shard, block by block."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from calibkit.hetcal.cells import BINS
from calibkit.hetcal.maps import log_parts_of
from calibkit.hetcal.rounds.bins import RateCounter, SeekCounter
from calibkit.hetcal.rounds.choose import candidates, correction_lines, judged_counts
from calibkit.hetcal.rounds.curves import curve_array
from calibkit.hetcal.rounds.edges import Refine
from calibkit.hetcal.rounds.ends import end_of, mapped_end_of
from calibkit.hetcal.rounds.forest.after import branch_counter
from calibkit.hetcal.rounds.forest.judge import WeighCounter
from calibkit.hetcal.rounds.forest.maps import SettleCounter, TallyCounter
from calibkit.hetcal.rounds.grow import Shared, Visits, visits_of
from calibkit.hetcal.rounds.growing import CountCounter, GrowCounter, add_lines, tell_lines
from calibkit.hetcal.rounds.isotonic import PoolCounter
from calibkit.hetcal.rounds.known import (
    BEND,
    BRANCH,
    CORRECT,
    COUNT,
    FINISH,
    GROW,
    JUDGE,
    LOOK,
    POOL,
    RATE,
    REFINE,
    SEEK,
    SETTLE,
    TALLY,
    WEIGH,
    Known,
)
from calibkit.hetcal.rounds.lines import LineSums, line_array
from calibkit.hetcal.rounds.look import LookCounter
from calibkit.hetcal.rounds.protocol import End
from calibkit.hetcal.rounds.rows import Block, dealt, losses_of
from calibkit.hetcal.rounds.tables import Numbers, What
from calibkit.hetcal.rounds.times import TimeCounter
from calibkit.hetcal.states import HetcalProblem
from calibkit_kernels import leaf_maps
from calibkit_kernels import rounds as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


class Counter(Protocol):
    """Sums of one round."""

    def add(self, block: Block) -> None:
        """Add some rows."""

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums, and return what no number says."""


def counter_of(
    known: Known, problem: HetcalProblem, pool: ThreadPoolExecutor, threads: int
) -> Counter:
    """Return what sums for the round that is asked for."""
    if known.step == REFINE:
        return RefineCounter(known)
    alone: dict[str, Callable[[Known, HetcalProblem], Counter]] = {
        LOOK: LookCounter,
        RATE: RateCounter,
        FINISH: FinishCounter,
    }
    if known.step in alone:
        return alone[known.step](known, problem)
    together: dict[str, Callable[[Known, HetcalProblem, Shared], Counter]] = {
        GROW: GrowCounter,
        COUNT: CountCounter,
        JUDGE: JudgeCounter,
        CORRECT: CorrectCounter,
        BEND: BendCounter,
        SEEK: SeekCounter,
        POOL: PoolCounter,
        BRANCH: branch_counter,
        TALLY: TallyCounter,
        SETTLE: SettleCounter,
        WEIGH: WeighCounter,
    }
    return together[known.step](known, problem, Shared(pool, threads))


class RefineCounter:
    """Counts values where quantiles are sought, of features and of times."""

    def __init__(self, known: Known) -> None:
        self.seekers = {
            place: Refine(edges, len(known.columns))
            for place, edges in enumerate(known.edges)
            if edges.lows is None
        }
        times = known.times
        self.times = TimeCounter(times, len(known.columns)) if times and times.gaps else None

    def add(self, block: Block) -> None:
        """Add some rows."""
        for place, seeker in self.seekers.items():
            seeker.add(block.features.values[place])
        if self.times is not None and block.times is not None:
            self.times.add(block.times)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the counts."""
        for place, seeker in self.seekers.items():
            seeker.tell(numbers, place)
        return {} if self.times is None else self.times.tell(numbers)


class JudgeCounter:
    """Sums how much better each map does on the rows that are left out."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.known, self.problem, self.shared = known, problem, shared
        self.asked = candidates(known, problem.spec)
        self.visits = visits_of(known, self.asked.nodes, kernels.OWN)
        self.sums = np.zeros(self.asked.lines.shape, np.int64)

    def add(self, block: Block) -> None:
        """Add some rows."""
        part, _ = dealt(block, self.problem, self.known.folds)
        spans, rows = self.visits.rows(block.features, part, self.shared)

        def work(own: Int64s) -> None:
            sums = self.sums[own]
            kernels.sum_gains(
                block.score, block.label, block.masses, rows, spans[own],
                self.asked.lines[own], self.asked.units[own], sums,
            )  # fmt: skip
            self.sums[own] = sums

        self.shared.over(len(self.asked.nodes), work)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        numbers.add_all(What.GAIN, self.sums)
        return {}


class CorrectCounter:
    """Sums the line from held-out scores to labels."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.known, self.problem, self.shared = known, problem, shared
        self.leaves, self.maps = correction_lines(known, problem.spec)
        self.visits: Visits = visits_of(known, self.leaves, kernels.OWN)
        assert known.correction is not None
        self.lines = LineSums(line_array([known.correction], [judged_counts(known)]))

    def add(self, block: Block) -> None:
        """Add some rows."""
        part, _ = dealt(block, self.problem, self.known.folds)
        spans, rows = self.visits.rows(block.features, part, self.shared)
        leaf = np.zeros(block.label.size, np.int64)
        judged = [rows[low:high] for low, high in spans.tolist()]
        for place, own in enumerate(judged):
            leaf[own] = place
        linear = self.maps[leaf, 0] * block.score + self.maps[leaf, 1]
        everyone = np.concatenate(judged)
        span = np.array([[0, everyone.size]], np.int64)
        add_lines(self.lines, np.zeros(1, np.int64), block, linear, everyone, span)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        tell_lines(self.lines, numbers)
        return {}


class BendCounter:
    """Sums the beta maps of the leaves, and those of all leaves of each tree."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.shared, self.end = shared, mapped_end_of(known, problem)
        self.end.need(len(known.curves) - len(self.end.trees))
        self.curves = curve_array(known.curves, self.end.counts)
        self.open = np.flatnonzero([not curve.done for curve in known.curves])
        self.sums = np.zeros((len(self.curves), kernels.CURVE_SUMS), np.int64)

    def add(self, block: Block) -> None:
        """Add some rows."""
        features = np.stack(log_parts_of(self.end.first(block.score)))
        spans, rows = self.end.rows_by_leaf(block)
        wholes = [(spans[own][0, 0], spans[own][-1, 1]) for own in self.end.trees]
        spans = np.vstack([spans, wholes])

        def work(part: Int64s) -> None:
            own = self.open[part]
            sums = self.sums[own]
            kernels.sum_curves(
                features, block.label, block.masses[0], rows, spans[own], self.curves[own], sums
            )
            self.sums[own] = sums

        self.shared.over(self.open.size, work)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        numbers.add_all(What.LINE, self.sums)
        return {}


class FinishCounter:
    """Sums what a model says of its fit: losses, and the cells of leaf and probability."""

    def __init__(self, known: Known, problem: HetcalProblem) -> None:
        self.known, self.problem = known, problem
        self.end: End = end_of(known, problem)
        self.losses = np.zeros(3, np.int64)
        self.cells = np.zeros((self.end.cells, 3), np.int64)

    def add(self, block: Block) -> None:
        """Add some rows."""
        end, spec, mass = self.end, self.problem.spec, block.masses[0]
        leaf, probability = end.calibrated(block)
        probability = np.clip(probability, spec.clip, 1.0 - spec.clip)
        found = np.empty(probability.size)
        each = np.ones(probability.size)
        leaf_maps.probability_losses(probability, block.label, each, 1e-15, found)
        pooled = end.pooled[0] * (end.before.a * block.score + end.before.b) + end.pooled[1]
        kinds = [*(losses_of(linear, block.label) for linear in (block.score, pooled)), found]
        for place, (losses, units) in enumerate(zip(kinds, end.units, strict=True)):
            self.losses[place] += np.rint(mass * losses * units).astype(np.int64).sum()
        edges = np.arange(1, BINS) / BINS
        cell = leaf * BINS + np.searchsorted(edges, probability, "right")
        chance = np.rint(mass * probability * end.cell_unit).astype(np.int64)
        sums = np.stack([block.weight, block.weight * block.label, chance], axis=1)
        np.add.at(self.cells, cell, sums)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        numbers.add_all(What.TOTAL, self.losses)
        numbers.add_all(What.CELL, self.cells)
        return {}
