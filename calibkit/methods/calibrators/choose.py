"""Choosing a map: candidates judged on rows they were not fitted on, the simplest of the good ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final

from calibkit.maps import spline
from calibkit.maps.held_out import Fit, HeldOut, held_out, simplest
from calibkit.maps.method import Method
from calibkit.maps.methods import METHODS
from calibkit.maps.points import Points
from calibkit.maps.score_map import Candidate
from calibkit.options.calibrate import CalibrateOptions
from calibkit.options.maps import SCORE_METHODS

#: What is compared, from simple to complex, and how many rows of a class it takes to be compared.
CANDIDATES: Final[Mapping[str, int]] = {
    "none": 0,
    "platt": 5,
    "temperature": 5,
    "beta": 10,
    "quadratic": 20,
    "spline": 50,
    "venn-abers": 500,
    "isotonic": 1000,
}


def choose(folds: list[Points], options: CalibrateOptions) -> tuple[str, list[Candidate]]:
    """Return the name of the method chosen for some rows, and what was found of each.

    Chosen is the simplest whose mean loss on held-out rows is within one standard error, that of the
    difference on the same rows, of the least.  Where nothing can be compared, scores are left as
    they are; raw ones, which are no probabilities, get ``platt``.
    """
    measure = options.optimize or "log_loss"
    losses: dict[str, HeldOut] = {}
    reasons: dict[str, str] = {}
    for name in CANDIDATES:
        found = _judged(name, folds, options, measure)
        if isinstance(found, str):
            reasons[name] = found
        else:
            losses[name] = found
    place, errors = simplest(list(losses.values()), measure) if losses else (0, [])
    left = dict(zip(losses, errors, strict=True))
    table = [
        Candidate(
            method=name,
            log_loss=losses[name].mean("log_loss"),
            brier=losses[name].mean("brier"),
            error=left[name],
        )
        if name in losses
        else Candidate(method=name, reason=reasons[name])
        for name in CANDIDATES
    ]
    if losses:
        return list(losses)[place], table
    return ("platt" if options.scale == "raw" else "none"), table


def _judged(
    name: str, folds: list[Points], options: CalibrateOptions, measure: str
) -> HeldOut | str:
    """Return the losses of a candidate, or why it is left out."""
    if SCORE_METHODS[name].probabilities and options.scale == "raw":
        return "it needs probabilities or their logits"
    hits = sum(float(part.positives) for part in folds)
    rarer = min(hits, sum(float(part.rows) for part in folds) - hits)
    if rarer < CANDIDATES[name]:
        return f"it takes {CANDIDATES[name]} rows of each class; there are {rarer:.6g} of the rarer"
    method = METHODS[name]
    asked = replace(options, method=name, optimize=None)
    found = [held_out(method, fit, folds, asked) for fit in _fits(name, method)]
    judged = [one for one in found if isinstance(one, HeldOut)]
    if judged:
        return judged[simplest(judged, measure)[0]]
    return str(found[0])


def _fits(name: str, method: Method) -> Sequence[Fit]:
    """Return the fits of a candidate: of a spline one for each number of knots."""
    return spline.fits_of_counts() if name == "spline" else [method.fit]
