"""Choosing a map: candidates judged on rows they were not fitted on, the first of the good ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from calibkit.maps.held_out import HeldOut, Split, held_out
from calibkit.maps.methods import METHODS
from calibkit.maps.points import Points
from calibkit.maps.score_map import Candidate
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.maps import SCORE_METHODS

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


def choose(
    dealings: list[list[Split]], rows: Points, options: CalibrateOptions
) -> tuple[str, list[Candidate]]:
    """Return the name of the method chosen for some rows, and what was found of each.

    Chosen is the first whose mean loss on held-out rows is within one standard error, that of the
    difference on the same rows, of the least; to leave scores alone within a quarter of it.  Where
    nothing can be compared, scores are left as they are; raw ones, which are no probabilities, get
    ``platt``.
    """
    measure = options.optimize or "log_loss"
    rarer = min(float(rows.positives), float(rows.rows) - float(rows.positives))
    judged = {name: _judged(name, dealings, rarer, options) for name in CANDIDATES}
    losses = {name: found for name, found in judged.items() if isinstance(found, HeldOut)}
    if not losses:
        table = [Candidate(method=name, reason=str(found)) for name, found in judged.items()]
        return ("platt" if options.scale == "raw" else "none"), table
    best = min(losses.values(), key=lambda found: found.mean(measure))
    table = [_candidate(name, found, best, measure) for name, found in judged.items()]
    return first_good(table, measure), table


def first_good(table: Sequence[Candidate], measure: str) -> str:
    """Return the name of the first that is within its share of an error of the least loss."""
    found = {one.method: getattr(one, measure) for one in table if one.reason is None}
    least = min(found.values())
    return next(
        one.method
        for one in table
        if one.method in found
        and found[one.method]
        <= least + (NONE_BEHIND if one.method == "none" else BEHIND) * (one.error or 0.0)
    )


def _candidate(name: str, found: HeldOut | str, best: HeldOut, measure: str) -> Candidate:
    if isinstance(found, str):
        return Candidate(method=name, reason=found)
    return Candidate(
        method=name,
        log_loss=found.mean("log_loss"),
        brier=found.mean("brier"),
        error=found.error_against(best, measure),
    )


def _judged(
    name: str, dealings: list[list[Split]], rarer: float, options: CalibrateOptions
) -> HeldOut | str:
    """Return the losses of a candidate, or why it is left out."""
    if SCORE_METHODS[name].probabilities and options.scale == "raw":
        return "it needs probabilities or their logits"
    if rarer < CANDIDATES[name]:
        return f"it takes {CANDIDATES[name]} rows of each class; there are {rarer:.6g} of the rarer"
    return held_out(METHODS[name], dealings, options.chosen(name))
