"""Linear maps of logits that calibrate class probabilities: temperature, vector and matrix scaling.

C. Guo et al., "On calibration of modern neural networks"; M. Kull et al., "Beyond temperature
scaling"; Mimori et al., "Diagnostic uncertainty calibration", appendix D.1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Self

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.options.maps import CLASS_METHODS

Floats = NDArray[np.float64]

#: Probabilities below this count as it before their logarithm is taken.
LEAST_PROBABILITY: Final = 1e-12
#: The largest inverse temperature: beyond, predictions are certain whatever the logits say.
MOST_INVERSE_TEMPERATURE: Final = 1e6


@dataclass(frozen=True, kw_only=True)
class LogitMap:
    """z = softmax(W u + b) of logits u.

    Attributes
    ----------
    weights
        Classes x classes; a diagonal as one number a class; one number for a temperature.
    intercept
        One number a class.
    objective
        The minimised loss, penalties included.
    loss, loss_before
        Mean negative log-likelihood of a vote, after the map and of the logits themselves.
    regularization
        The penalties of intercept and of weights off the diagonal.
    gradient, iterations, converged
        How the minimisation ended; see `calibkit.numerics.newton.Minimum`.
    """

    method: str
    weights: Floats
    intercept: Floats
    objective: float
    loss: float
    loss_before: float = 0.0
    regularization: tuple[float, float] = (0.0, 0.0)
    gradient: float = 0.0
    iterations: int = 0
    converged: bool = True

    def logits(self, inputs: Floats) -> Floats:
        """Return the logits after the map, rows x classes."""
        out = np.empty_like(inputs)
        map_logits(inputs, self.weights, self.intercept, out)
        return out

    def probabilities(self, inputs: Floats) -> Floats:
        """Return the class probabilities of rows of logits."""
        return softmax(self.logits(inputs))


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

    @classmethod
    def of(cls, fitted: LogitMap) -> Self:
        """Return what a model says of a fitted map."""
        if fitted.method == "none":
            return cls(method="none", loss=fitted.loss)
        if fitted.method == "temperature":
            beta = float(fitted.weights[0])
            return cls(
                method="temperature",
                temperature=None if beta == 0.0 else 1.0 / beta,
                loss=fitted.loss,
            )
        return cls(
            method=fitted.method,
            weights=fitted.weights.tolist(),
            intercept=fitted.intercept.tolist(),
            loss=fitted.loss,
            regularization=list(fitted.regularization),
        )

    def check(self, classes: int) -> None:
        """Raise `ModelError` where the fields contradict each other or the number of classes."""
        if self.method not in CLASS_METHODS:
            raise ModelError(
                f"unknown map of logits {self.method!r}; known: {', '.join(CLASS_METHODS)}"
            )
        if self.method == "none":
            return
        if self.method == "temperature":
            if self.temperature is msgspec.UNSET or (self.temperature or 1.0) <= 0.0:
                raise ModelError("a temperature must be positive, or null for an infinite one")
            return
        shape = (classes,) if self.method == "vector" else (classes, classes)
        try:
            found = np.array(self.weights, np.float64).shape, np.array(self.intercept).shape
        except (TypeError, ValueError):
            found = ((), ())
        if found != (shape, (classes,)):
            raise ModelError(f"weights and intercept do not fit {classes} classes")

    def fitted(self, classes: int) -> LogitMap:
        """Return the map, ready to be applied."""
        if self.method == "none":
            weights, intercept = np.ones(1), np.zeros(classes)
        elif self.method == "temperature":
            assert self.temperature is not msgspec.UNSET  # `check` holds it
            beta = 0.0 if self.temperature is None else 1.0 / self.temperature
            weights, intercept = np.array([beta]), np.zeros(classes)
        else:
            weights = np.array(self.weights, np.float64)
            intercept = np.array(self.intercept, np.float64)
        return LogitMap(
            method=self.method, weights=weights, intercept=intercept, objective=0.0, loss=0.0
        )


def logits_of(probabilities: Floats) -> Floats:
    """Return logarithms of probabilities, each at least `LEAST_PROBABILITY`."""
    return np.log(np.maximum(probabilities, LEAST_PROBABILITY))


def softmax(logits: Floats) -> Floats:
    """Return the probabilities that logits stand for, each row with the sum 1."""
    from calibkit_kernels.dense import softmax_rows

    out = np.empty_like(logits)
    softmax_rows(np.ascontiguousarray(logits), out)
    return out


def map_logits(inputs: Floats, weights: Floats, intercept: Floats, out: Floats) -> None:
    """Fill in the logits after a map; weights as those of `LogitMap`."""
    from calibkit_kernels.dense import affine_rows

    if weights.ndim == 2:
        affine_rows(inputs, weights, intercept, out)
    else:
        np.multiply(inputs, weights, out=out)
        out += intercept
