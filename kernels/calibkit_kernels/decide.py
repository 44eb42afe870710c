"""How far a score lies beyond its threshold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._jit import kernel

#: Probabilities are moved this far inside (0, 1) where a fit takes their logit.
LEAST = 1e-6


@kernel
def logit(p: float) -> float:
    """Return ``log(p / (1 - p))`` for p in [0, 1]; -inf and inf at the ends."""
    if p <= 0.0:
        return -math.inf
    if p >= 1.0:
        return math.inf
    return math.log(p / (1.0 - p))


@kernel
def margins(
    score: NDArray[Any],
    level: NDArray[np.uint16],
    thresholds: NDArray[np.float64],
    probability: bool,
) -> NDArray[np.float64]:
    """Return score minus the threshold of its level, as a difference of logits for probabilities.

    Equal values give 0.  NaN where the threshold is NaN (never) or -inf (always).
    """
    out = np.empty(score.size, np.float64)
    for i in range(score.size):
        s, t = float(score[i]), thresholds[level[i]]
        if math.isnan(t) or t == -math.inf:
            out[i] = math.nan
        elif s == t:
            out[i] = 0.0
        elif probability:
            out[i] = logit(s) - logit(t)
            if out[i] == 0.0:  # neighbours whose logits round to one number: keep the sign
                out[i] = (s - t) / (t * (1.0 - t))
        else:
            out[i] = s - t
    return out


@kernel
def reaches(
    score: NDArray[Any], level: NDArray[np.uint16], thresholds: NDArray[np.float64]
) -> NDArray[np.uint8]:
    """Return 1 where a score reaches the threshold of its level; NaN is never reached."""
    out = np.empty(score.size, np.uint8)
    for i in range(score.size):
        out[i] = score[i] >= thresholds[level[i]]
    return out
