"""What the studies of boundaries on score files share: parts of rows, gains at equal effort."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray
from pages import signed

from calibkit.methods.boundary.result.application import decide
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.summaries.score_rows import ScoreRows

Floats = NDArray[np.float64]

#: What one threshold recalls at the bounds of a study.
RECALLS = (0.2, 0.5, 0.8)


def part(rows: ScoreRows, kept: NDArray[np.int64]) -> ScoreRows:
    """Return some of the rows."""
    assert rows.label is not None and rows.uncertainty is not None
    return replace(
        rows, score=rows.score[kept], label=rows.label[kept], uncertainty=rows.uncertainty[kept]
    )


def single_threshold(score: NDArray[Any], label: NDArray[np.uint8]) -> tuple[Floats, Floats]:
    """Return positives and rows from each distinct score up, by falling score."""
    order = np.argsort(-score, kind="stable")
    last = np.append(score[order][1:] != score[order][:-1], True)
    hits = np.cumsum(label[order].astype(np.float64))
    return hits[last], np.arange(1.0, order.size + 1)[last]


def recall_beyond(
    score: NDArray[Any], label: NDArray[np.uint8], selected: float, reached: float
) -> float:
    """Return the recall of some selected rows beyond that of one threshold that selects as many.

    Between two thresholds that one goes along the line.
    """
    hits, count = (np.append(0.0, curve) for curve in single_threshold(score, label))
    return float((reached - np.interp(selected, count, hits)) / hits[-1])


def bounds(score: NDArray[Any], label: NDArray[np.uint8]) -> list[str]:
    """Return the precision of the single thresholds that recall the shares `RECALLS` of all rows."""
    hits, count = single_threshold(score, label)
    places = [int(np.searchsorted(hits, recall * hits[-1])) for recall in RECALLS]
    return [f"{hits[place] / count[place]:.3f}" for place in places]


@dataclass(frozen=True)
class Gain:
    """True positives of a boundary beyond those of one threshold that selects as many rows."""

    positives: float
    error: float

    def text(self) -> str:
        """Return the gain as a cell of a table."""
        return f"{signed(self.positives, 0)} ± {self.error:.0f}"

    def side(self) -> int:
        """Return 1 or -1 where the gain is beyond two standard errors, else 0."""
        return int(np.sign(self.positives)) if abs(self.positives) > 2 * self.error else 0


def gain(model: BoundaryModel, rows: ScoreRows) -> Gain:
    """Return what a boundary finds beyond one threshold at the same number of selected rows.

    The threshold is placed by that number alone; rows tied at it count in part.  The standard error
    is that of the rows which only one of the two selects, each with its side's rate of positives.
    """
    assert rows.label is not None
    selected = decide(model, rows.score, rows.uncertainty)[0].astype(np.float64)
    count = int(selected.sum())
    share = np.zeros(rows.score.size)
    if count:
        cut = np.sort(rows.score)[-count]
        above, tied = rows.score > cut, rows.score == cut
        share = above + tied * ((count - above.sum()) / tied.sum())
    differs, label = selected - share, rows.label.astype(np.float64)
    variance = 0.0
    for side in (np.maximum(differs, 0.0), np.maximum(-differs, 0.0)):
        if side.any():
            rate = math.fsum(side * label) / math.fsum(side)
            variance += rate * (1.0 - rate) * math.fsum(side * side)
    return Gain(math.fsum(differs * label), math.sqrt(variance))
