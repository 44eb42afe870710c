"""The model that alpha-calibration writes."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import msgspec
import numpy as np

from calibkit.arrays import Floats
from calibkit.errors import ModelError
from calibkit.maps.model import LogitMapModel
from calibkit.models.model import Column, Model, features_of, known


class DisagreementMap(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A rising step function of the predicted disagreement: the value of the greatest knot <= x."""

    knots: list[float]
    values: list[float]

    def mapped(self, phi: Floats) -> Floats:
        """Return the value of each predicted disagreement; below all knots the first value."""
        place = np.searchsorted(np.array(self.knots), phi, side="right") - 1
        return np.array(self.values)[np.maximum(place, 0)]


class AlphaFit(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """How an alpha-calibration came about.

    `objective` counts a row once, however many votes it has: the mean over rows of the negative
    log-likelihood (without the multinomial coefficient) plus regularization (ln alpha0)^2.
    """

    rows: int
    votes: int
    rows_two_raters: int
    constant_objective: float
    gradient: float
    iterations: int
    converged: bool
    disagreement_loss: float | None
    disagreement_loss_before: float | None


class AlphaModel(Model, kw_only=True):
    """Dirichlet distributions over class probabilities: alpha = alpha0 z.

    Since version 2 `apply` adds class probabilities only where a map changes them, and columns of
    classes in the order of the input's.
    """

    KIND: ClassVar[str] = "alpha"
    VERSION: ClassVar[int] = 2

    classes: list[str]
    features: list[str] | Annotated[str, known(("probs", "sorted-probs"))] | None
    log_alpha0: float | msgspec.UnsetType = msgspec.UNSET
    weights: list[float] | msgspec.UnsetType = msgspec.UNSET
    intercept: float | msgspec.UnsetType = msgspec.UNSET
    logit_map: LogitMapModel | None
    disagreement_map: DisagreementMap | None
    regularization: float
    objective: float
    fit: AlphaFit

    def check(self) -> None:
        """Raise `ModelError` where the fields contradict each other."""
        if "probs" not in self.columns or len(self.classes) < 2:
            raise ModelError("an alpha model needs the column pattern 'probs' and two classes")
        constant = self.log_alpha0 is not msgspec.UNSET
        if constant == (self.weights is not msgspec.UNSET) or constant == (
            self.intercept is not msgspec.UNSET
        ):
            raise ModelError("an alpha model has either log_alpha0, or weights and intercept")
        if isinstance(self.features, list) and not self.features:
            raise ModelError("'features' names columns, or is null")
        if not constant and len(self.weights) != self.width:  # type: ignore[arg-type]  # weights are there unless constant
            raise ModelError(f"{self.width} weights were expected, one a feature")
        if self.logit_map is not None:
            self.logit_map.check(len(self.classes))
        steps = self.disagreement_map
        if steps is not None and (
            not steps.knots
            or len(steps.knots) != len(steps.values)
            or any(b <= a for a, b in zip(steps.knots, steps.knots[1:], strict=False))
        ):
            raise ModelError("the disagreement map needs as many values as knots, which rise")

    def inputs(self) -> dict[str, Column]:
        """Return the columns that it reads when it is applied, by role."""
        named = self.features if isinstance(self.features, list) else []
        return super().inputs() | features_of(map(Column, named))

    @property
    def calibrates(self) -> bool:
        """Whether class probabilities are among what it adds: others than it was given."""
        return self.version == 1 or self.logit_map is not None

    @property
    def width(self) -> int:
        """The number of features."""
        if self.features is None:
            return 0
        return len(self.classes) if isinstance(self.features, str) else len(self.features)

    def strength(self) -> tuple[Floats, float]:
        """Return weights and intercept; no weights for a constant strength."""
        if isinstance(self.log_alpha0, float):
            return np.empty(0), self.log_alpha0
        values: Any = self.weights
        assert isinstance(self.intercept, float)
        return np.array(values, np.float64), self.intercept
