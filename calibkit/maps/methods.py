"""The methods that map scores, and the choice among them.

A new one has its fit beside those of its family, a line here, and its entry in
`calibkit.options.calibrate.SCORE_METHODS`; nothing else names it.

A choice judges candidates on rows they were not fitted on, and takes the first of the good ones.  Which
rows judge a map, and which it is fitted on, is dealt by chance, by groups, or forward in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from types import MappingProxyType
from typing import Final

import numpy as np
from msgspec import Struct

from calibkit.arrays import Floats
from calibkit.errors import DataError
from calibkit.maps import lines, steps
from calibkit.maps.method import Method, Points, together
from calibkit.maps.model import Candidate
from calibkit.numerics.hashes import FOLD, salt_of
from calibkit.options.calibrate import SCORE_METHODS, MapOptions
from calibkit.runtime import progress
from calibkit_kernels.metrics import CLIP

METHODS: Final[Mapping[str, Method]] = {
    "beta": lines.BETA,
    "platt": lines.PLATT,
    "quadratic": lines.QUADRATIC,
    "spline": lines.SPLINE,
    "isotonic": steps.ISOTONIC,
    "centred-isotonic": steps.CENTRED,
    "histogram": steps.HISTOGRAM,
    "scaling-binning": steps.SCALING_BINNING,
    "venn-abers": steps.VENN_ABERS,
    "temperature": lines.TEMPERATURE,
    "prior-shift": lines.PRIOR_SHIFT,
    "none": lines.NONE,
}

#: Into how many parts rows are dealt, and how often.
FOLDS: Final = 5
TIMES: Final = 3
#: The most rows, about, that a choice looks at; of more rows so many are dealt.
MOST_ROWS: Final = 200_000
MOST_PARTS: Final = 255

#: What is compared, in order of preference, and how many rows of a class it takes to be compared.
#: The penalised spline comes before lines and curves of fixed form: with few rows it is a line, and
#: bends as far as rows ask for it, so that another form has to be better beyond noise.
CANDIDATES: Final[Mapping[str, int]] = {
    "none": 0,
    "spline": 5,
    "platt": 5,
    "temperature": 5,
    "beta": 10,
    "quadratic": 20,
    "venn-abers": 500,
    "isotonic": 1000,
}

#: How many standard errors behind the best each may be.  A map with slope and level of its own gains
#: a whole error on perfect scores in one file of 200: to ask as much of it leaves most bad scores as
#: they are where rows are few.  A quarter leaves perfect scores alone in about eight files of ten.
BEHIND: Final = 1.0
NONE_BEHIND: Final = 0.25


def choose(
    points: Points,
    deal: Callable[[int, int], list[Points]],
    options: MapOptions,
    *,
    forward: bool = False,
    once: bool = False,
    measure: str = "log_loss",
    clip: float | None = None,
    left_out: Mapping[str, str] = MappingProxyType({}),
) -> tuple[str, list[Candidate]]:
    """Return the name of the method chosen for some rows, and what was found of each.

    Chosen is the first whose mean loss on held-out rows is within one standard error, that of the
    difference on the same rows, of the least; to leave scores alone within a quarter of it.  Where
    nothing can be compared, scores are left as they are; raw ones, which are no probabilities, get
    ``platt``.

    A choice looks at about `MOST_ROWS` rows: at a part of many rows, at few of them several times,
    for on few rows the choice would hang on how they were dealt.

    `deal` takes a number of parts to which rows are dealt, and a seed, and returns the points of the
    folds, which are the first of these parts.  `forward`: folds follow each other in time, so that
    there is one more, and each is judged by what came before it; `once`: there is one way only to deal
    rows.  `measure` is what is compared, ``log_loss`` or ``brier``; results stay `clip` inside (0, 1),
    None: as the method says; `left_out` are candidates that are not for the caller, and why.
    """
    rows, positives = float(points.rows), float(points.positives)
    times = 1 if forward or once else max(1, min(TIMES, int(MOST_ROWS // max(rows, 1.0))))
    seeds = (int(salt_of(options.seed, FOLD, number)) for number in range(times))
    dealings = [_splits(deal(parts_of_many(rows), seed), forward=forward) for seed in seeds]
    rarer = min(positives, rows - positives)

    def losses_of(method: Method) -> HeldOut | str:
        losses, weights = [], []
        for others, own in chain.from_iterable(dealings):
            try:
                one, _ = method.fitted(others, options, [], clip)
            except DataError as error:  # why it cannot be fitted
                return str(error)
            value = method.mapped(one, own.score, own.scale, options.workers)[0]
            near = value.clip(CLIP, 1.0 - CLIP)
            losses.append([-np.log(near), -np.log(1.0 - near), (1.0 - value) ** 2, value**2])
            weights.append(own.weights(options.workers))
        all_losses, weight = np.hstack(losses), np.hstack(weights)
        return HeldOut(all_losses[:2], all_losses[2:], weight, len(dealings))

    judged: dict[str, HeldOut | str] = {}
    for name in progress.steps(CANDIDATES, len(CANDIDATES), "candidates judged"):
        if name in left_out:
            judged[name] = left_out[name]
        elif SCORE_METHODS[name].probabilities and points.scale == "raw":
            judged[name] = "it needs probabilities or their logits"
        elif rarer < CANDIDATES[name]:
            fewest = f"it takes {CANDIDATES[name]} rows of each class"
            judged[name] = f"{fewest}; there are {rarer:.6g} of the rarer"
        elif not all(dealings):
            judged[name] = "there are too few rows for folds"
        else:
            judged[name] = losses_of(METHODS[name])
    table = compared(judged, measure)
    return first_good(table, measure) or ("platt" if points.scale == "raw" else "none"), table


def _splits(parts: Sequence[Points], *, forward: bool) -> list[tuple[Points, Points]]:
    """Return the rows that judge a map after those that it is fitted on, for each fold."""
    held = [part for part in parts if part.score.size]
    others = [[*held[:k], *([] if forward else held[k + 1 :])] for k in range(len(held))]
    return [(together(own), judge) for own, judge in zip(others, held, strict=True) if own]


def compared(judged: Mapping[str, HeldOut | str], measure: str) -> list[Candidate]:
    """Return what was found of each candidate; of one that was left out, why."""
    found = [own for own in judged.values() if isinstance(own, HeldOut)]
    best = min(found, key=lambda own: own.mean(measure), default=None)
    return [
        Candidate(method=name, reason=str(own))
        if isinstance(own, str) or best is None
        else Candidate(
            method=name,
            log_loss=own.mean("log_loss"),
            brier=own.mean("brier"),
            error=own.error_against(best, measure),
        )
        for name, own in judged.items()
    ]


def first_good(table: Sequence[Candidate], measure: str) -> str:
    """Return the name of the first that is within its share of an error of the least loss.

    An empty name where none was compared.
    """
    found = {
        one.method: (getattr(one, measure), one.error or 0.0) for one in table if not one.reason
    }
    least = min((loss for loss, _ in found.values()), default=0.0)
    for name, (loss, error) in found.items():
        if loss <= least + (NONE_BEHIND if name == "none" else BEHIND) * error:
            return name
    return ""


class HeldOut(Struct, frozen=True, dict=True):
    """The losses of a map on each point of each fold, fitted on the other folds.

    They have two rows, of a positive and of a negative row, as has what these weigh at each point; or
    there is one of each row.  `times` is how often each row was held out.
    """

    log_loss: Floats
    brier: Floats
    weight: Floats
    times: int

    @cached_property
    def _total(self) -> float:
        return float(np.add.reduce(self.weight.ravel()))

    def _mean(self, values: Floats) -> float:
        return float(np.add.reduce((values * self.weight).ravel())) / self._total

    def mean(self, measure: str) -> float:
        """Return the mean loss of a row."""
        return self._mean(getattr(self, measure))

    def error_against(self, other: HeldOut, measure: str) -> float:
        """Return the standard error of the mean difference to another map on the same rows.

        Rows held out again add nothing that is new.
        """
        apart = getattr(self, measure) - getattr(other, measure)
        spread = self._mean((apart - self._mean(apart)) ** 2)
        return math.sqrt(spread * self.times / self._total)


def parts_of_many(rows: float) -> int:
    """Return into how many parts rows are dealt; the first `FOLDS` are the folds."""
    return min(FOLDS * max(1, math.ceil(rows / MOST_ROWS)), MOST_PARTS)
