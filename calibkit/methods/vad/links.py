"""Links: the scale on which replicate predictions are compared and shrunk."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from calibkit_kernels.decide import LEAST
from calibkit_kernels.reliability import expit
from calibkit_kernels.vad import clipped_logits

Floats = NDArray[Any]

LINKS: Final = ("logit", "identity")

#: Numbers beyond this have squares that float64 does not hold.
LARGEST: Final = 1e150


def to_link(
    values: Floats,
    scale: str,
    link: str,
    out: NDArray[np.float64],
    clipped: NDArray[np.uint8],
) -> None:
    """Write values of a scale on the scale of a link.

    Probabilities are clipped to [1e-6, 1 - 1e-6] before their logit is taken, and
    `clipped` is set to 1 there.  Logits and raw numbers are never clipped.
    """
    if link == "logit" and scale == "probability":
        clipped_logits(values, LEAST, out, clipped)
    elif link == "identity" and scale == "logit":
        expit(values, out)
    else:
        out[:] = values


def from_link(values: NDArray[np.float64], scale: str, link: str) -> NDArray[np.float64]:
    """Return values on the scale of a link as probabilities; raw numbers stay what they are."""
    if link == "logit":
        found = np.empty_like(values)
        expit(values, found)
        return found
    return values if scale == "raw" else np.clip(values, 0.0, 1.0)
