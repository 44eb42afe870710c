"""What is odd about scores though they can be used: said by every fit, and by ``validate``.

Each remark is about rows that no method can make good: a score that says nothing, or the contrary of
what it should, or that is on another scale than claimed.  Good data get none.
"""

from __future__ import annotations

from math import sqrt
from typing import Final

import numpy as np

from calibkit.arrays import Numbers
from calibkit.columns.weights import in_units

#: Of fewer rows nothing is said: too little is known.
FEWEST: Final = 20

#: Fewer rows of a class tell nothing of the order.
_FEWEST_OF_A_CLASS: Final = 5
#: Of more distinct scores neighbours are counted together.
_BLOCKS: Final = 1 << 16

#: From this sum on weights were rounded: `calibkit.columns.weights`.
_ROUNDED: Final = 2**60
#: Units that the weights of a class should come to: then half a unit is below 1e-9 of them.
_ENOUGH_UNITS: Final = 2**29

#: How many standard errors below 1/2 an AUC has to be to be called inverted.
_CERTAIN: Final = 4.0


def looks_like_probabilities(low: float, high: float, scale: str) -> str | None:
    """Say that scores claimed to be logits or percentages look like probabilities, else None.

    `low` and `high` are the least and the greatest as they stand in the file.
    """
    claimed = {"logit": "logits", "percent": "percentages"}.get(scale)
    if claimed is None or not 0.0 <= low < high <= 1.0:
        return None
    return (
        f"scores from {low:.6g} to {high:.6g} look like probabilities, not like {claimed}; is --scale "
        "probability meant?"
    )


def inverted(rows: Numbers, positives: Numbers, size: int | None = None) -> str | None:
    """Say that higher scores go with fewer positives; None where they do not.

    Rows and positive rows (or their weights, of so many rows) are those of each distinct score, in
    rising order of scores.  The AUC of a score without any relation to the label has the variance
    ``(n + 1) / (12 P N)`` (Mann and Whitney, "On a test of whether one of two random variables is
    stochastically larger than the other"; ties make it smaller).
    """
    hits = positives.astype(np.float64)
    misses = rows.astype(np.float64) - hits
    total_hits, total_misses = float(hits.sum()), float(misses.sum())
    if not total_hits or not total_misses:
        return None
    below = np.cumsum(misses) - misses
    auc = float(((below + 0.5 * misses) * hits).sum()) / (total_hits * total_misses)
    if size is not None:
        scale = size / (total_hits + total_misses)
        total_hits, total_misses = scale * total_hits, scale * total_misses
    if min(total_hits, total_misses) < _FEWEST_OF_A_CLASS:
        return None
    spread = sqrt((total_hits + total_misses + 1) / (12 * total_hits * total_misses))
    if auc > 0.5 - _CERTAIN * spread:
        return None
    return (
        f"higher scores go with fewer positives (AUC {auc:.3f}); is the score that of the other class, "
        "or --positive VALUE the wrong one?"
    )


def far_apart(rows: int, hits: int) -> list[str]:
    """Say where one class is too light, in units, beside the other to be added up to nine digits."""
    lighter = min(hits, rows - hits)
    if rows < _ROUNDED or not 0 < lighter < _ENOUGH_UNITS:
        return []
    kind, other = ("positive", "negative") if hits == lighter else ("negative", "positive")
    return [
        f"weights: {kind} rows together weigh {lighter / (rows - lighter):.0e} of the {other} ones; "
        f"their sums are rounded, by up to {0.5 / lighter:.0e} of them; weights of whole numbers or "
        "less far apart are exact"
    ]


def of_weights(label: Numbers, weight: Numbers | None) -> list[str]:
    """Return the remark on the weights of rows in any order, if there is one."""
    if weight is None or not weight.any():
        return []
    units, _ = in_units(weight, label)
    return far_apart(int(units.sum()), int(units[label == 1].sum()))


def of_tally(
    name: str, scale: str, falling: Numbers, count: Numbers, positive: Numbers, size: int
) -> list[str]:
    """Return the remarks on scores that were counted: so many rows.

    Scores fall, equal ones next to each other; with them comes the weight of their rows and of their
    positive rows.
    """
    score, rows, hits = falling[::-1], count[::-1], positive[::-1]
    if score.size > _BLOCKS:  # neighbours counted together: the AUC is as good, and it is cheap
        starts = np.arange(0, score.size, score.size // _BLOCKS)
        ends = score[[0, -1]]
    else:
        starts = np.flatnonzero(np.append(True, score[1:] != score[:-1]))
        ends = score[starts]
    rows, hits = (np.add.reduceat(part, starts, dtype=np.int64) for part in (rows, hits))
    if ends.size > 1 and ends[0] == ends[-1]:
        ends = ends[:1]
    odd: list[str | None] = []
    if ends.size == 1 and size >= FEWEST:
        odd = ["every row has the same score"]
    elif size >= FEWEST:
        low, high = (float(end) * (100.0 if scale == "percent" else 1.0) for end in ends[[0, -1]])
        odd = [looks_like_probabilities(low, high, scale), inverted(rows, hits, size)]
    weights = far_apart(int(rows.sum()), int(hits.sum()))
    return weights + [f"column {name!r}: {one}" for one in odd if one is not None]
