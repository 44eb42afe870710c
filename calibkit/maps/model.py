"""The model that ``calibrate`` writes: a map of scores, one for each segment, or one of classes.

It loads no arrays: a model that is only shown does not need them.
"""

from __future__ import annotations

import itertools
import sys
from typing import TYPE_CHECKING, Annotated, ClassVar, Final

import msgspec

from calibkit.errors import ModelError
from calibkit.models.model import Model, Provenance, Resolution, known
from calibkit.options.calibrate import CLASS_METHODS, SCORE_METHODS

if TYPE_CHECKING:
    from calibkit.arrays import Floats

#: The version of a calibrator of scores.
SCORE_VERSION: Final = 1
#: The role of the column of segments.
SEGMENTS: Final = "by"


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

    def check(self, method: str) -> None:
        """Raise `ModelError` for a map that is none of a method."""
        for name in SCORE_METHODS[method].fields:
            if getattr(self, name) is (msgspec.UNSET if name == "temperature" else None):
                raise ModelError(f"a calibrator of method {method} needs {name!r}")
        if not 0.0 <= self.clip < 0.5:
            raise ModelError(f"clip is {self.clip}; expected 0 or more, below 0.5")
        if self.temperature not in (None, msgspec.UNSET) and not float(self.temperature) > 0.0:
            raise ModelError("a temperature must be positive, or null for an infinite one")
        if self.negatives_kept is not None and not 0.0 < self.negatives_kept <= 1.0:
            raise ModelError("negatives_kept must be above 0 and at most 1")
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
        if self.logit_knots is None or self.logits is None or self.slopes is None:
            return
        if not len(self.logit_knots) == len(self.logits) == len(self.slopes) > 0:
            raise ModelError("logit_knots, logits and slopes differ in number, or there are none")
        if not min(self.slopes) >= 0.0:
            raise ModelError("slopes must be 0 or more")
        if not all(a < b for a, b in itertools.pairwise(self.logit_knots)):
            raise ModelError("logit_knots must rise")
        if not all(a <= b for a, b in itertools.pairwise(self.logits)):
            raise ModelError("logits must rise")


class LogitMapModel(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A linear map of logits: softmax(weights u + intercept).

    `temperature` divides the logits (null: infinite, all classes alike); `weights` is one number a
    class (vector) or one list a class (matrix).
    """

    method: str
    temperature: float | msgspec.UnsetType | None = msgspec.UNSET
    weights: list[float | list[float]] | msgspec.UnsetType = msgspec.UNSET
    intercept: list[float] | msgspec.UnsetType = msgspec.UNSET
    loss: float | None = None
    regularization: list[float] | None = None

    def check(self, classes: int) -> None:
        """Raise `ModelError` where the fields contradict each other or the number of classes."""
        if self.method not in CLASS_METHODS:
            raise ModelError(
                f"unknown map of logits {self.method!r}; known: {', '.join(CLASS_METHODS)}"
            )
        if self.method == "none":
            return
        if self.method == "temperature":
            if self.temperature is not None and not (self.temperature or 0.0) > 0.0:
                raise ModelError("a temperature must be positive, or null for an infinite one")
            return
        import numpy as np

        shape = (classes,) if self.method == "vector" else (classes, classes)
        try:
            found = np.array(self.weights, np.float64).shape, np.array(self.intercept).shape
        except (TypeError, ValueError):
            found = ((), ())
        if found != (shape, (classes,)):
            raise ModelError(f"weights and intercept do not fit {classes} classes")

    def arrays(self, classes: int) -> tuple[Floats, Floats]:
        """Return weights (of a temperature one number) and intercept."""
        import numpy as np

        if self.method in ("none", "temperature"):
            beta = 1.0 if self.method == "none" else 0.0
            if isinstance(self.temperature, float):
                beta = 1.0 / self.temperature
            return np.array([beta]), np.zeros(classes)
        return np.array(self.weights, np.float64), np.array(self.intercept, np.float64)


class CalibratorModel(Model, kw_only=True, omit_defaults=True):
    """A calibrator: the map of all rows, and those of segments.

    The fields of the map of all rows are those of a `ScoreMap`; `groups` has one for each segment
    that was large enough, `pooled_groups` names those that use the map of all rows, as values of
    the column that were not seen do; `candidates` are the methods that ``auto`` compared.  A
    calibrator of class probabilities has `classes` and a `temperature`, or `weights` and
    `intercept`, instead; since its version 2 `apply` adds columns in the order of the input's.
    """

    KIND: ClassVar[str] = "calibrator"
    #: Of class probabilities; calibrators of scores are still of version 1.
    VERSION: ClassVar[int] = 2

    # Written even if empty, as by other kinds.
    provenance: Provenance | None = msgspec.field(default_factory=lambda: None)
    tags: dict[str, str] = msgspec.field(default_factory=lambda: {})  # noqa: PIE807 (dict is omitted)

    method: str
    clip: float
    fit: MapFit
    out_of_range: Annotated[str, known(("error", "clip"))] = "error"
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
    candidates: list[Candidate] | msgspec.UnsetType = msgspec.UNSET
    groups: dict[str, ScoreMap] | msgspec.UnsetType = msgspec.UNSET
    pooled_groups: list[str] | msgspec.UnsetType = msgspec.UNSET
    classes: list[str] | msgspec.UnsetType = msgspec.UNSET
    weights: list[float | list[float]] | msgspec.UnsetType = msgspec.UNSET
    intercept: list[float] | msgspec.UnsetType = msgspec.UNSET
    regularization: list[float] | msgspec.UnsetType = msgspec.UNSET

    @property
    def logit_map(self) -> LogitMapModel:
        """The map of class probabilities."""
        return LogitMapModel(
            method=self.method,
            temperature=self.temperature,
            weights=self.weights,
            intercept=self.intercept,
        )

    @property
    def own_map(self) -> ScoreMap:
        """The map of all rows."""
        names = ScoreMap.__struct_fields__
        return ScoreMap(**{name: getattr(self, name) for name in names if name != "fit"})

    def __post_init__(self) -> None:
        # A default is left out by its identity, which another process does not keep.
        self.out_of_range = sys.intern(self.out_of_range)

    def check(self) -> None:
        """Raise `ModelError` where the fields contradict each other."""
        if self.classes is not msgspec.UNSET:
            if "probs" not in self.columns or len(self.classes) < 2:
                raise ModelError(
                    "a calibrator of class probabilities needs 'probs' and two classes"
                )
            self.logit_map.check(len(self.classes))
            if self.regularization is not msgspec.UNSET and len(self.regularization) != 2:
                raise ModelError("'regularization' has two penalties: intercept and weights")
            return
        if self.version != SCORE_VERSION:
            raise ModelError(
                f"version {self.version} of a calibrator of scores is unknown here; this calibkit "
                f"reads version {SCORE_VERSION}: update calibkit, or fit the model again"
            )
        if self.method not in SCORE_METHODS:
            raise ModelError(
                f"unknown method {self.method!r} of a calibrator; known: {', '.join(SCORE_METHODS)}"
            )
        if "score" not in self.columns or (self.groups is not msgspec.UNSET) != (
            "by" in self.columns
        ):
            raise ModelError("a calibrator names its score column, and one of segments for groups")
        if (self.fit.log_loss is None) != (self.fit.brier is None):
            raise ModelError("'fit' has both 'log_loss' and 'brier', or null for both")
        maps = [] if self.groups is msgspec.UNSET else list(self.groups.values())
        for one in (self.own_map, *maps):
            one.check(self.method)
