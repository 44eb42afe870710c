"""Prior shift: undoing that training rows kept only a share of the negatives."""

from __future__ import annotations

import math

from calibkit.calibrators.method import Float64s, Floats, Found, Method
from calibkit.calibrators.model import ScoreMap
from calibkit.calibrators.points import Points
from calibkit.calibrators.spec import CalibratorSpec
from calibkit_kernels.maps import line_map


def fit(points: Points, spec: CalibratorSpec, _: list[Points]) -> Found:
    """Return the share of negatives kept: nothing is fitted."""
    return Found({"negatives_kept": spec.negatives_kept})


def apply(one: ScoreMap, score: Floats, scale: str, out: tuple[Float64s, ...]) -> None:
    """Write r s / (r s + 1 - s), r the share kept: the logit moves by ln r."""
    assert one.negatives_kept is not None  # the model was checked
    shift = math.log(one.negatives_kept)
    line_map(score, 1.0, shift, scale == "probability", 0.0, one.clip, out[0])


METHOD = Method(fit, apply)
