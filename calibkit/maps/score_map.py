"""The map of a score as a model holds it, how it fits its rows, and what it was compared with.

It loads no arrays: a model that is only shown does not need them.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec

from calibkit.errors import ModelError
from calibkit.models.model import Resolution


class MapFit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The rows of a map, and how it fits them.

    Attributes
    ----------
    rows, positives
        Sums of weights where rows are weighted.
    log_loss, brier
        Of the calibrated probabilities on the fitting rows (log loss clipped at 1e-15).
    log_loss_before, brier_before
        Of the scores as probabilities; null under ``raw``.
    inputs_clipped
        Rows whose probability was moved to 1e-6 from 0 or 1 before its logit was taken.
    outputs_clipped
        Rows that `clip` moved.
    votes, gradient, iterations, converged
        Of class probabilities: the votes fitted to (losses are means over them), and how the
        minimisation ended.
    resolution
        How coarse scores were, where the rows did not fit.
    """

    rows: int | float
    positives: int | float | None
    log_loss: float | None
    log_loss_before: float | None
    brier: float | None
    brier_before: float | None
    inputs_clipped: int | float
    outputs_clipped: int | float
    votes: int | msgspec.UnsetType = msgspec.UNSET
    gradient: float | msgspec.UnsetType = msgspec.UNSET
    iterations: int | msgspec.UnsetType = msgspec.UNSET
    converged: bool | msgspec.UnsetType = msgspec.UNSET
    resolution: Resolution | msgspec.UnsetType = msgspec.UNSET


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A method that a choice looked at.

    Attributes
    ----------
    method
        Its name.
    log_loss, brier
        Mean losses on rows of the folds that it was not fitted on; null where it was left out.
    error
        The standard error of its difference to the best one, on the same rows.
    reason
        Why it was left out; null for the others.
    """

    method: str
    log_loss: float | None = None
    brier: float | None = None
    error: float | None = None
    reason: str | None = None


class ScoreMap(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """A map from scores to probabilities; which fields it has depends on the method.

    Attributes
    ----------
    a, b, c
        platt and scaling-binning: expit(a x + b), x the logit of a probability, else the score.
        beta: expit(a ln s - b ln(1 - s) + c).
    temperature
        expit(x / temperature); null: infinite, 1/2 for all.
    negatives_kept
        prior-shift: r s / (r s + 1 - s).
    logit_knots, logits, slopes
        quadratic and spline: expit of a logit that has these values and slopes at these knots of x;
        between two knots its slope is a line, beyond the outer ones it stays.
    knots, values
        Steps: the value of the greatest knot at or below the score (of scaling-binning: at or below
        expit(a x + b)); below all knots the first value.
    interpolate
        isotonic: between two knots the value goes over in a line, as that of centred-isotonic does.
    low_knots, low
        venn-abers: the lower probability, steps as above, 0 below all knots.
    high_knots, high
        The higher one: the value of the smallest knot at or above the score, 1 above all knots.
    clip
        Results stay this far inside (0, 1).
    fit
        Of a segment's map; that of all rows is the model's.
    """

    clip: float
    a: float | None = None
    b: float | None = None
    c: float | None = None
    temperature: float | msgspec.UnsetType | None = msgspec.UNSET
    negatives_kept: float | None = None
    logit_knots: list[float] | None = None
    logits: list[float] | None = None
    slopes: list[float] | None = None
    knots: list[float] | None = None
    values: list[float] | None = None
    interpolate: bool = False
    low_knots: list[float] | None = None
    low: list[float] | None = None
    high_knots: list[float] | None = None
    high: list[float] | None = None
    fit: MapFit | None = None

    def check(self, method: str, fields: Iterable[str]) -> None:
        """Raise `ModelError` for a map that is none of a method with such fields."""
        for name in fields:
            if getattr(self, name) is (msgspec.UNSET if name == "temperature" else None):
                raise ModelError(f"a calibrator of method {method} needs {name!r}")
        if not 0.0 <= self.clip < 0.5:
            raise ModelError(f"clip is {self.clip}; expected 0 or more, below 0.5")
        if self.temperature not in (None, msgspec.UNSET) and not float(self.temperature) > 0.0:
            raise ModelError("a temperature must be positive, or null for an infinite one")
        if self.negatives_kept is not None and not 0.0 < self.negatives_kept <= 1.0:
            raise ModelError("negatives_kept must be above 0 and at most 1")
        self._check_spline()
        for name, (knots, values) in {
            "knots": (self.knots, self.values),
            "low_knots": (self.low_knots, self.low),
            "high_knots": (self.high_knots, self.high),
        }.items():
            if knots is None or values is None:
                continue
            if len(knots) != len(values) or (name == "knots" and not knots):
                raise ModelError(f"{name} and their values differ in number, or there are none")
            if not all(a < b for a, b in itertools.pairwise(knots)):
                raise ModelError(f"{name} must rise")
            if not all(0.0 <= value <= 1.0 for value in values):
                raise ModelError(f"the values of {name} must lie in [0, 1]")

    def _check_spline(self) -> None:
        if self.logit_knots is None or self.logits is None or self.slopes is None:
            return
        if not len(self.logit_knots) == len(self.logits) == len(self.slopes) > 0:
            raise ModelError("logit_knots, logits and slopes differ in number, or there are none")
        if not min(self.slopes) >= 0.0:
            raise ModelError("slopes must be 0 or more")
        for name in ("logit_knots", "logits"):
            own = getattr(self, name)
            if not all(a < b or (a == b and name == "logits") for a, b in itertools.pairwise(own)):
                raise ModelError(f"{name} must rise")
