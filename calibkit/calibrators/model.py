"""The model that ``calibrate`` writes: one map, or one for each segment."""

from __future__ import annotations

import itertools
import math
import sys
from typing import ClassVar

import msgspec

from calibkit.calibrators.spec import METHODS
from calibkit.errors import ModelError
from calibkit.models import Model, Provenance
from calibkit.raters.model import LogitMapModel
from calibkit.summaries.resolution import Resolution


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
    knots, values
        Steps: the value of the greatest knot at or below the score (of scaling-binning: at or below
        expit(a x + b)); below all knots the first value.
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
    knots: list[float] | None = None
    values: list[float] | None = None
    low_knots: list[float] | None = None
    low: list[float] | None = None
    high_knots: list[float] | None = None
    high: list[float] | None = None
    fit: MapFit | None = None


#: The fields a method's map has.
_FIELDS = {
    "beta": ("a", "b", "c"),
    "platt": ("a", "b"),
    "isotonic": ("knots", "values"),
    "histogram": ("knots", "values"),
    "scaling-binning": ("a", "b", "knots", "values"),
    "venn-abers": ("low_knots", "low", "high_knots", "high"),
    "temperature": ("temperature",),
    "prior-shift": ("negatives_kept",),
}


class CalibratorModel(Model, kw_only=True, omit_defaults=True):
    """A calibrator: the map of all rows, and those of segments.

    The fields of the map of all rows are those of a `ScoreMap`; `groups` has one for each segment
    that was large enough, `pooled_groups` names those that use the map of all rows, as values of
    the column that were not seen do.  A calibrator of class probabilities has `classes` and a
    `temperature`, or `weights` and `intercept`, instead.
    """

    KIND: ClassVar[str] = "calibrator"

    # Written even if empty, as by other kinds.
    provenance: Provenance | None = msgspec.field(default_factory=lambda: None)
    tags: dict[str, str] = msgspec.field(default_factory=lambda: {})  # noqa: PIE807 (dict is omitted)

    method: str
    clip: float
    fit: MapFit
    out_of_range: str = "error"
    a: float | None = None
    b: float | None = None
    c: float | None = None
    temperature: float | msgspec.UnsetType | None = msgspec.UNSET
    negatives_kept: float | None = None
    knots: list[float] | None = None
    values: list[float] | None = None
    low_knots: list[float] | None = None
    low: list[float] | None = None
    high_knots: list[float] | None = None
    high: list[float] | None = None
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
        if self.method not in METHODS:
            raise ModelError(
                f"unknown method {self.method!r} of a calibrator; known: {', '.join(METHODS)}"
            )
        if "score" not in self.columns or (self.groups is not msgspec.UNSET) != (
            "by" in self.columns
        ):
            raise ModelError("a calibrator names its score column, and one of segments for groups")
        if (self.fit.log_loss is None) != (self.fit.brier is None):
            raise ModelError("'fit' has both 'log_loss' and 'brier', or null for both")
        if self.out_of_range not in ("error", "clip"):
            raise ModelError(f"out_of_range is {self.out_of_range!r}; expected error or clip")
        maps = [] if self.groups is msgspec.UNSET else list(self.groups.values())
        for one in (self.own_map, *maps):
            _check_map(self.method, one)


def _check_map(method: str, one: ScoreMap) -> None:
    for name in _FIELDS[method]:
        if getattr(one, name) is (msgspec.UNSET if name == "temperature" else None):
            raise ModelError(f"a calibrator of method {method} needs {name!r}")
    if not 0.0 <= one.clip < 0.5:
        raise ModelError(f"clip is {one.clip}; expected 0 or more, below 0.5")
    if one.temperature not in (None, msgspec.UNSET) and not float(one.temperature) > 0.0:
        raise ModelError("a temperature must be positive, or null for an infinite one")
    if one.negatives_kept is not None and not 0.0 < one.negatives_kept <= 1.0:
        raise ModelError("negatives_kept must be above 0 and at most 1")
    for name, (knots, values) in {
        "knots": (one.knots, one.values),
        "low_knots": (one.low_knots, one.low),
        "high_knots": (one.high_knots, one.high),
    }.items():
        if knots is None or values is None:
            continue
        if len(knots) != len(values) or (name == "knots" and not knots):
            raise ModelError(f"{name} and their values differ in number, or there are none")
        if not all(a < b for a, b in itertools.pairwise(knots)):
            raise ModelError(f"{name} must rise")
        if not all(0.0 <= value <= 1.0 for value in values) or not all(map(math.isfinite, knots)):
            raise ModelError(f"the values of {name} must lie in [0, 1]")
