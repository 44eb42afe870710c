"""Levels with their thresholds, and figures, as lines of a table."""

from __future__ import annotations

import struct
from decimal import Decimal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from calibkit.methods.boundary.result.model import BoundaryModel

#: The figures of a table.
RATES = ("selected", "precision", "recall", "false_positive_rate")


def level_rows(model: BoundaryModel, rows: list[int | float] | list[None]) -> list[list[object]]:
    """Return a line a level: its limits, its rows, and from which score on it is positive."""
    score = model.columns["score"]
    edges: list[object] = [None, *model.uncertainty_edges, None]
    table = []
    step = max(1, model.levels // 10) if model.method == "logistic" else 1
    for level, threshold in list(enumerate(model.score_thresholds))[::step]:
        if threshold is None:
            rule = "never"
        elif threshold == "-inf":
            rule = "always"
        else:
            rule = f"{score.said} >= {_shortest(threshold, score.dtype)}"
        rule += _chance(model, level)
        limits = edges[level : level + 2] if model.levels > 1 and not model.partition else []
        table.append([level, *limits, rows[level], rule])
    return table


def rule_rows(model: BoundaryModel) -> list[list[object]]:
    """Return a line for each box of a partition of several uncertainties: its level and its rule."""
    assert model.partition
    edges, shape = model.partition.edges, model.partition.shape
    names = [model.columns[role].name for role in model.spreads]
    lines: list[list[object]] = []
    for level, boxes in enumerate(_boxes(model.partition.leaves, shape, model.levels)):
        for place, box in enumerate(boxes):
            words = [
                _interval(name, own, first, last)
                for name, own, (first, last) in zip(names, edges, box, strict=True)
            ]
            rule = " and ".join(filter(None, words)) or "everywhere"
            lines.append([level if not place else None, rule if not place else f"or {rule}"])
    return lines


def _interval(name: str, edges: list[float], first: int, last: int) -> str:
    """Return in words where a column lies in some of its bins; nothing where it is in all."""
    low = f"{edges[first - 1]:g} <= " if first else ""
    high = f" < {edges[last]:g}" if last < len(edges) else ""
    return f"{low}{name}{high}" if low or high else ""


def _boxes(
    leaves: list[int], shape: tuple[int, ...], levels: int
) -> list[list[tuple[tuple[int, int], ...]]]:
    """Return boxes of cells that cover each level: first and last bin of each column."""
    import numpy as np

    left = np.array(leaves).reshape(shape)
    found: list[list[tuple[tuple[int, int], ...]]] = [[] for _ in range(levels)]
    while (left >= 0).any():
        start = np.unravel_index(int(np.argmax(left >= 0)), shape)
        level, box = int(left[start]), [slice(int(at), int(at) + 1) for at in start]
        for axis in reversed(range(len(shape))):
            while box[axis].stop < shape[axis]:
                wider = [*box]
                wider[axis] = slice(box[axis].stop, box[axis].stop + 1)
                if not (left[tuple(wider)] == level).all():
                    break
                box[axis] = slice(box[axis].start, box[axis].stop + 1)
        left[tuple(box)] = -1
        found[level].append(tuple((own.start, own.stop - 1) for own in box))
    return found


def spread(table: list[list[object]], most: int) -> list[list[object]]:
    """Return at most so many lines of a table: the first, the last and some between."""
    if len(table) <= most:
        return table
    return [table[place * (len(table) - 1) // (most - 1)] for place in range(most)]


def _chance(model: BoundaryModel, level: int) -> str:
    """Say what a stochastic boundary leaves to chance in a level."""
    chances, wide = model.tie_probability, model.random_thresholds
    if not chances or not wide or not 0.0 < chances[level] < 1.0:
        return ""
    if model.randomise == "tie":
        return f", on it with probability {chances[level]:.6g}"
    low = wide[level]
    shown = low if low is None else _shortest(low, model.columns["score"].dtype)
    return f", from {shown} up with probability {chances[level]:.6g}"


def _shortest(threshold: float | str, dtype: str | None) -> str:
    """Return the fewest digits that read back as the threshold in the dtype of the scores."""
    if isinstance(threshold, str):
        return threshold
    text = repr(float(threshold))
    if dtype == "float32":
        own = _single(threshold)
        tried = (f"{own:.{digits}g}" for digits in range(1, 10))
        text = next((few for few in tried if _single(float(few)) == own), text)
    if 1e-6 <= abs(threshold) < 1e16:  # as people write numbers, without an exponent
        text = format(Decimal(text), "f")
        return text if "." in text else f"{text}.0"
    return repr(float(text))


def _single(value: float) -> float:
    """Return the float32 next to a number."""
    return float(struct.unpack("f", struct.pack("f", value))[0])


def rates(figures: object) -> list[object]:
    """Return the figures of a table."""
    return [getattr(figures, name, None) for name in RATES]
