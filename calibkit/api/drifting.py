"""`Model.drift`: new rows compared with those of the fit."""

from __future__ import annotations

from calibkit.api.options import tell
from calibkit.api.words import in_python
from calibkit.drift.drift import Drift, drift
from calibkit.drift.rows import DriftSpec
from calibkit.errors import UsageError
from calibkit.files.frames import Frame, open_frame
from calibkit.models import Model


@in_python()
def drift_of_frame(
    model: Model,
    frame: Frame,
    *,
    score: str | None = None,
    uncertainty: str | None = None,
    label: str | None = None,
    positive: str | None = None,
    unlabelled: str = "error",
    weight: str | None = None,
    confidence: float = 0.95,
) -> Drift:
    """Return how far rows are from those of the fit; see `calibkit.models.Model.drift`."""
    if label is None and (positive is not None or unlabelled != "error"):
        raise UsageError("--positive and --unlabelled say how --label is read; name it.")
    if not 0.0 < confidence < 1.0:
        raise UsageError(f"--confidence is {confidence:g}; expected a number above 0 and below 1.")
    elsewhere = {"score": score, "uncertainty": uncertainty}
    spec = DriftSpec(
        columns={role: name for role, name in elsewhere.items() if name is not None},
        label=label,
        positive=positive,
        unlabelled=unlabelled,
        weight=weight,
        confidence=confidence,
    )
    found = drift(model, open_frame(frame), spec)
    tell(found.warnings, depth=5)
    return found
