"""What the rounds sum in which trees grow, and the first look at the rows of trees that have grown."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import polars as pl
from numpy.typing import NDArray

from calibkit.hetcal.rounds.grow import Bins, Shared, bins_of, open_nodes, vectors_in, visits_of
from calibkit.hetcal.rounds.known import (
    Known,
)
from calibkit.hetcal.rounds.lines import LineSums, line_array
from calibkit.hetcal.rounds.rows import Block, dealt
from calibkit.hetcal.rounds.tables import Numbers, What, array_of, keys_of
from calibkit.hetcal.states import HetcalProblem
from calibkit_kernels import rounds as kernels

Floats = NDArray[np.float64]
Int64s = NDArray[np.int64]


#: Stretches of equal width in which scores are counted.
SCORES: Final = 1 << 16


class GrowCounter:
    """Sums the histograms and the lines of nodes; at first also what bins and parts hold."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.known, self.problem, self.shared = known, problem, shared
        self.bins, self.vectors = bins_of(known), vectors_in(known, problem.spec)
        self.open = open_nodes(known, self.bins.cells * self.vectors.width)
        self.moving = [
            place for place, node in enumerate(known.nodes) if node.line and not node.line.done
        ]
        self.first = not known.fingerprint
        self.visits = visits_of(known, {*self.open, *self.moving}, kernels.OTHERS)
        self.hist = np.zeros((len(self.open), self.bins.cells, self.vectors.width), np.int64)
        lines, counts = [], []
        for place in self.moving:
            node = known.nodes[place]
            assert node.line is not None
            lines.append(node.line)
            counts.append(known.counts(node))
        self.lines = LineSums(line_array(lines, counts))
        self.highest = [np.full(low.size, -np.inf) for low in self.bins.lows]
        self.overview = Overview(known)

    def add(self, block: Block) -> None:
        """Add some rows."""
        part, total = dealt(block, self.problem, self.known.folds)
        codes = self.bins.codes(block.features) if self.open else None
        if self.first:
            assert codes is not None
            self.overview.add(block, part, total)
            for values, highest, own in zip(
                block.features.values, self.highest, codes, strict=True
            ):
                present = own < highest.size  # a shard that has changed may hold what none had
                np.maximum.at(highest, own[present], values[present])
        spans, rows = self.visits.rows(block.features, part, self.shared)
        at = {place: index for index, place in enumerate(self.visits.wanted)}
        if codes is not None:
            payload = self.vectors.of(block.score, block.label, block.weight)
            own_spans = spans[[at[place] for place in self.open]]
            self.shared.over(
                len(self.open), lambda own: self._count(own, codes, payload, rows, own_spans)
            )
        if self.moving:
            line_spans = spans[[at[place] for place in self.moving]]
            self.shared.over(len(self.moving), lambda own: self._sum(own, block, rows, line_spans))

    def _count(
        self,
        own: Int64s,
        codes: NDArray[np.uint16],
        payload: Int64s,
        rows: NDArray[np.int32],
        spans: Int64s,
    ) -> None:
        for node in own:
            kernels.count_bins(
                codes, payload, rows, spans[node : node + 1], self.bins.starts,
                self.hist[node : node + 1],
            )  # fmt: skip

    def _sum(self, own: Int64s, block: Block, rows: NDArray[np.int32], spans: Int64s) -> None:
        add_lines(self.lines, own, block, block.score, rows, spans)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        for (what, column), sums in zip(
            columns_of(self.vectors.width), np.moveaxis(self.hist, 2, 0), strict=True
        ):
            numbers.add_all(what, sums, column)
        tell_lines(self.lines, numbers)
        if not self.first:
            return {}
        for place, (highest, edges) in enumerate(zip(self.highest, self.known.edges, strict=True)):
            if edges.highs is None and edges.lows is not None:
                seen = np.flatnonzero(highest > -np.inf)
                numbers.add(What.HIGHEST, seen, keys_of(highest[seen]), place)
        return self.overview.tell(numbers)


def columns_of(width: int) -> list[tuple[What, int]]:
    """Return what the sums of histograms are told as, and beside which number."""
    return [(What.ROWS, 0), (What.HITS, 0), *((What.MOMENT, place) for place in range(width - 2))]


def histograms(table: pl.DataFrame, nodes: int, bins: Bins, width: int) -> Int64s:
    """Return the histograms that shards told: node x bin x sum."""
    columns = [
        array_of(table, what, nodes * bins.cells, place) for what, place in columns_of(width)
    ]
    return np.stack(columns, axis=1).reshape(nodes, bins.cells, width)


class CountCounter:
    """Sums the rows of all nodes of trees that were grown on others."""

    def __init__(self, known: Known, problem: HetcalProblem, shared: Shared) -> None:
        self.known, self.problem, self.shared = known, problem, shared
        self.visits = visits_of(known, range(len(known.nodes)), kernels.OTHERS)
        self.sums = np.zeros((len(known.nodes), 2), np.int64)
        self.overview = Overview(known)

    def add(self, block: Block) -> None:
        """Add some rows."""
        part, total = dealt(block, self.problem, self.known.folds)
        self.overview.add(block, part, total)
        spans, rows = self.visits.rows(block.features, part, self.shared)
        payload = np.stack([block.weight, block.weight * block.label])
        for column, values in enumerate(payload):
            through = np.append(0, np.cumsum(values[rows]))
            self.sums[:, column] += through[spans[:, 1]] - through[spans[:, 0]]

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        numbers.add_all(What.ROWS, self.sums[:, 0])
        numbers.add_all(What.HITS, self.sums[:, 1])
        return self.overview.tell(numbers)


class Overview:
    """What the first round over the trees tells besides: the hash of the rows, their parts, scores."""

    def __init__(self, known: Known) -> None:
        self.known = known
        self.parts, self.hash = np.zeros(known.parts, np.int64), 0
        self.scores = np.zeros((2, SCORES), np.int64)

    def add(self, block: Block, part: NDArray[np.uint8], total: int) -> None:
        """Add some rows; their scores are counted roughly, to tell whether they rank badly."""
        self.hash += total
        self.parts += np.bincount(part, minlength=self.parts.size)
        seen = self.known.rows
        width = seen.high - seen.low
        if width > 0.0:
            away = np.rint((block.score - seen.low) / width * (SCORES - 1))
            away = np.clip(away, 0, SCORES - 1).astype(np.int64)
            for counts, chosen in zip(self.scores, (away, away[block.label == 1]), strict=True):
                counts += np.bincount(chosen, minlength=SCORES)

    def tell(self, numbers: Numbers) -> dict[str, Any]:
        """Tell the sums."""
        numbers.add_all(What.PART, self.parts)
        numbers.add_all(What.SCORES, self.scores[0])
        numbers.add_all(What.POSITIVES, self.scores[1])
        return {"hash": f"{self.hash % 2**64:016x}"}


def add_lines(
    lines: LineSums,
    own: Int64s,
    block: Block,
    score: Floats,
    rows: NDArray[np.int32],
    spans: Int64s,
) -> None:
    """Add the rows of some nodes to the sums of their lines."""
    sums, ranges = lines.sums[own], lines.ranges[own]
    kernels.sum_lines(
        score, block.label, block.masses[0], rows, spans[own], lines.lines[own], sums, ranges
    )
    lines.sums[own], lines.ranges[own] = sums, ranges


def tell_lines(lines: LineSums, numbers: Numbers) -> None:
    """Tell the sums of lines, and between which scores their rows are."""
    numbers.add_all(What.LINE, lines.sums)
    place = np.arange(len(lines.sums))
    numbers.add(What.LOW, place, lines.lows())
    numbers.add(What.HIGH, place, lines.highs())
