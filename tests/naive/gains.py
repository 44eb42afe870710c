"""The worths of entries, of prefixes and of boundaries, slow and obvious."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np

Entry = tuple[float, int, int, int]


def group_gains(
    score: list[float], level: list[int], weight: list[int], part: list[int], gain: list[int]
) -> list[int]:
    """Return what the rows of each distinct (score, level, part) are worth, in their order."""
    sums: dict[tuple[float, int, int], int] = {}
    for row, units in enumerate(weight):
        if units:
            place = (-score[row], level[row], part[row])
            sums[place] = sums.get(place, 0) + gain[row]
    return [sums[place] for place in sorted(sums)]


def prefix_gains(
    entries: list[Entry], cuts: list[list[float]], excluded: int, *, together: bool
) -> list[list[int]]:
    """Return, per level, what entries (score, level, part, gain) from each cut up are worth."""
    kept = [entry for entry in entries if entry[2] != excluded]
    return [
        [sum(e[3] for e in kept if e[0] >= cut and (together or e[1] == level)) for cut in own]
        for level, own in enumerate(cuts)
    ]


Totals = tuple[int, int, Fraction]


def all_boundaries(
    score: list[float], level: list[int], label: list[int], weight: list[int], worth: list[Fraction]
) -> list[Totals]:
    """Return (rows, positive rows, worth) of every boundary: one threshold a level, or none."""
    places = sorted(set(level))
    choices = []
    for own in places:
        rows = [row for row, at in enumerate(level) if at == own]
        cuts = [None, *sorted({score[row] for row in rows})]
        totals = set()
        for cut in cuts:
            taken = [row for row in rows if cut is not None and score[row] >= cut]
            totals.add(
                (
                    sum(weight[row] for row in taken),
                    sum(weight[row] * label[row] for row in taken),
                    sum((weight[row] * worth[row] for row in taken), Fraction(0)),
                )
            )
        choices.append(sorted(totals))
    return [
        (
            sum(t[0] for t in chosen),
            sum(t[1] for t in chosen),
            sum((t[2] for t in chosen), Fraction(0)),
        )
        for chosen in itertools.product(*choices)
    ]


def influence_error(cells: list[tuple[float, int, int]], figure: str) -> float:
    """Return the linearised error of precision or recall from rows (weight, label, decision)."""
    base = [(w, y, d) for w, y, d in cells if (y if figure == "recall" else d)]
    whole = sum(w for w, _, _ in base)
    value = sum(w for w, y, d in base if y and d) / whole
    return float(np.sqrt(sum((w * ((y and d) - value) / whole) ** 2 for w, y, d in base)))
