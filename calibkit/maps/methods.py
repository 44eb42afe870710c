"""The methods that map scores, and the choice among them.

A new one has its fit beside those of its family, a line here, and its entry in
`calibkit.options.maps.SCORE_METHODS`; nothing else names it.

A choice judges candidates on rows they were not fitted on, and takes the first of the good ones.  Which
rows judge a map, and which it is fitted on, is dealt by chance, by groups, or forward in time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from calibkit.errors import DataError
from calibkit.maps import lines, steps
from calibkit.maps.method import Float64s, Method, Points, together
from calibkit.maps.model import Candidate
from calibkit.numerics.streams import FOLD, salt_of
from calibkit.options.maps import SCORE_METHODS, MapOptions
from calibkit.runtime import progress

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

#: Rows to fit a map on, and rows to judge it by.
Split = tuple[Points, Points]

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
#: they are where rows are few.  A quarter leaves perfect scores alone in about nine files of ten.
BEHIND: Final = 1.0
NONE_BEHIND: Final = 0.25
#: Probabilities are moved so far inside (0, 1) for the logarithmic loss.
_LEAST: Final = 1e-15


def choose(
    dealings: list[list[Split]],
    rows: Points,
    options: MapOptions,
    *,
    measure: str = "log_loss",
    clip: float | None = None,
    left_out: Mapping[str, str] | None = None,
) -> tuple[str, list[Candidate]]:
    """Return the name of the method chosen for some rows, and what was found of each.

    Chosen is the first whose mean loss on held-out rows is within one standard error, that of the
    difference on the same rows, of the least; to leave scores alone within a quarter of it.  Where
    nothing can be compared, scores are left as they are; raw ones, which are no probabilities, get
    ``platt``.

    Parameters
    ----------
    dealings
        See `splits`.
    measure
        What is compared, ``log_loss`` or ``brier``.
    clip
        How far results stay inside (0, 1); None: as the method says.
    left_out
        Candidates that are not for the caller, and why.
    """
    reasons = {**_reasons(rows, dealings), **(left_out or {})}
    judged = {
        name: reasons.get(name) or _judged(METHODS[name], dealings, options, clip)
        for name in progress.steps(CANDIDATES, len(CANDIDATES), "candidates judged")
    }
    table = compared(judged, measure)
    return first_good(table, measure) or ("platt" if rows.scale == "raw" else "none"), table


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
    found = {one.method: getattr(one, measure) for one in table if one.reason is None}
    if not found:
        return ""
    least = min(found.values())
    return next(
        one.method
        for one in table
        if one.method in found
        and found[one.method]
        <= least + (NONE_BEHIND if one.method == "none" else BEHIND) * (one.error or 0.0)
    )


@dataclass(frozen=True)
class HeldOut:
    """The losses of a map on each point of each fold, fitted on the other folds.

    They have two rows, of a positive and of a negative row, as has what these weigh at each point; or
    there is one of each row.  `times` is how often each row was held out.
    """

    log_loss: Float64s
    brier: Float64s
    weight: Float64s
    times: int

    def mean(self, measure: str) -> float:
        """Return the mean loss of a row."""
        return _mean(getattr(self, measure), self.weight)

    def error_against(self, other: HeldOut, measure: str) -> float:
        """Return the standard error of the mean difference to another map on the same rows.

        Rows held out again add nothing that is new.
        """
        apart = getattr(self, measure) - getattr(other, measure)
        mean = _mean(apart, self.weight)
        spread = _mean((apart - mean) ** 2, self.weight)
        return math.sqrt(spread * self.times / float(np.add.reduce(self.weight.ravel())))


def _mean(values: Float64s, weight: Float64s) -> float:
    total = float(np.add.reduce(weight.ravel()))
    return float(np.add.reduce((values * weight).ravel())) / total


def _reasons(rows: Points, dealings: list[list[Split]]) -> dict[str, str]:
    """Return in words why some candidates are left out."""
    rarer = min(float(rows.positives), float(rows.rows) - float(rows.positives))
    reasons = {}
    for name, fewest in CANDIDATES.items():
        if SCORE_METHODS[name].probabilities and rows.scale == "raw":
            reasons[name] = "it needs probabilities or their logits"
        elif rarer < fewest:
            reasons[name] = (
                f"it takes {fewest} rows of each class; there are {rarer:.6g} of the rarer"
            )
        elif not all(dealings):
            reasons[name] = "there are too few rows for folds"
    return reasons


def _judged(
    method: Method, dealings: list[list[Split]], options: MapOptions, clip: float | None
) -> HeldOut | str:
    """Return the losses of a candidate; in words why it cannot be fitted."""
    losses, weights = [], []
    for others, own in (split for pairs in dealings for split in pairs):
        try:
            one, _ = method.fitted(others, options, [], clip)
        except DataError as error:
            return str(error)
        value = method.mapped(one, own.score, own.scale, options.workers)[0]
        near = value.clip(_LEAST, 1.0 - _LEAST)
        losses.append([-np.log(near), -np.log(1.0 - near), (1.0 - value) ** 2, value**2])
        weights.append(own.weights(options.workers))
    all_losses, weight = np.hstack(losses), np.hstack(weights)
    return HeldOut(all_losses[:2], all_losses[2:], weight, len(dealings))


def splits(
    deal: Callable[[int, int], list[Points]],
    rows: float,
    seed: int,
    *,
    forward: bool = False,
    once: bool = False,
) -> list[list[Split]]:
    """Return the splits of each dealing: what a map is fitted on, and the rows that judge it.

    A choice looks at about `MOST_ROWS` rows: at a part of many rows, at few of them several times,
    for on few rows the choice would hang on how they were dealt.

    Parameters
    ----------
    deal
        Takes a number of parts to which rows are dealt, and a seed; returns the points of the folds,
        which are the first of these parts.
    rows
        How many rows there are.
    forward
        Whether folds follow each other in time: there is one more, and each is judged by what came
        before it.
    once
        Whether there is one way only to deal rows.
    """
    parts = parts_of_many(rows)
    times = 1 if forward or once else max(1, min(TIMES, int(MOST_ROWS // max(rows, 1.0))))
    found = []
    for number in range(times):
        held = [part for part in deal(parts, int(salt_of(seed, FOLD, number))) if part.score.size]
        pairs = []
        for place, judge in enumerate(held):
            others = [*held[:place], *([] if forward else held[place + 1 :])]
            if others:
                pairs.append((together(others), judge))
        found.append(pairs)
    return found


def parts_of_many(rows: float) -> int:
    """Return into how many parts rows are dealt; the first `FOLDS` are the folds."""
    return min(FOLDS * max(1, math.ceil(rows / MOST_ROWS)), MOST_PARTS)
