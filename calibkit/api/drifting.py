"""`Model.drift`: new rows compared with those of the fit."""

from __future__ import annotations

from typing import Any

from calibkit.api.functions import tell
from calibkit.api.words import in_python
from calibkit.drift.drift import Drift, drift
from calibkit.files.frames import Frame, open_frame
from calibkit.models.model import Model
from calibkit.options.drift import DriftOptions
from calibkit.options.option import names_of


def drift_of_frame(model: Model, frame: Frame, **given: Any) -> Drift:
    """Return how far rows are from those of the fit; see `calibkit.models.model.Model.drift`."""
    with in_python(names_of(DriftOptions)):
        found = drift(DriftOptions(model=model, **given), open_frame(frame))
    tell(found.warnings, DriftOptions)
    return found
