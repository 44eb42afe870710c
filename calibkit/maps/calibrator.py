"""The model that ``calibrate`` writes: a map of scores, one for each segment, or one of classes."""

from __future__ import annotations

import sys
from typing import Annotated, ClassVar, Final

import msgspec

from calibkit.errors import ModelError
from calibkit.maps.logit_maps import LogitMapModel
from calibkit.maps.score_map import Candidate, MapFit, ScoreMap
from calibkit.models.model import Model, Provenance, known
from calibkit.options.calibrate import SCORE_METHODS

#: The version of a calibrator of scores.
SCORE_VERSION: Final = 1
#: The role of the column of segments.
SEGMENTS: Final = "by"


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
            one.check(self.method, SCORE_METHODS[self.method].fields)
