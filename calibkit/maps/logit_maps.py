"""Linear maps of logits that calibrate class probabilities: temperature, vector and matrix scaling.

C. Guo et al., "On calibration of modern neural networks"; M. Kull et al., "Beyond temperature
scaling"; Mimori et al., "Diagnostic uncertainty calibration", appendix D.1.
"""

from __future__ import annotations

from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from calibkit.errors import ModelError
from calibkit.options.calibrate import CLASS_METHODS

Floats = NDArray[np.float64]

#: Probabilities below this count as it before their logarithm is taken.
LEAST_PROBABILITY: Final = 1e-12


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

    def arrays(self, classes: int) -> tuple[Floats, Floats]:
        """Return weights (of a temperature one number) and intercept."""
        if self.method in ("none", "temperature"):
            beta = 1.0 if self.method == "none" else 0.0
            if isinstance(self.temperature, float):
                beta = 1.0 / self.temperature
            return np.array([beta]), np.zeros(classes)
        return np.array(self.weights, np.float64), np.array(self.intercept, np.float64)

    def probabilities(self, logits: Floats) -> Floats:
        """Return the class probabilities of rows of logits."""
        return softmax(mapped_logits(logits, *self.arrays(logits.shape[1])))


def logits_of(probabilities: Floats) -> Floats:
    """Return logarithms of probabilities, each at least `LEAST_PROBABILITY`."""
    return np.log(np.maximum(probabilities, LEAST_PROBABILITY))


def softmax(logits: Floats) -> Floats:
    """Return the probabilities that logits stand for, each row with the sum 1."""
    from calibkit_kernels.dense import softmax_rows

    out = np.empty_like(logits)
    softmax_rows(np.ascontiguousarray(logits), out)
    return out


def mapped_logits(logits: Floats, weights: Floats, intercept: Floats) -> Floats:
    """Return logits after a map: weights are classes x classes, a diagonal, or one for all."""
    from calibkit_kernels.dense import affine_rows

    out = np.empty_like(logits)
    if weights.ndim == 2:
        affine_rows(logits, weights, intercept, out)
    else:
        np.multiply(logits, weights, out=out)
        out += intercept
    return out
