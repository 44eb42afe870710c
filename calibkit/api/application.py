"""`Model.apply`: a model applied to a frame, or to arrays."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from calibkit.api.functions import tell
from calibkit.api.words import in_python
from calibkit.apply.apply import apply_model
from calibkit.errors import UsageError
from calibkit.files.frames import (
    Array,
    Frame,
    frame_of_arrays,
    is_array,
    open_frame,
    returned,
)
from calibkit.models.model import Model
from calibkit.options.apply import ApplyOptions


@in_python()
def apply_to_frame(
    model: Model,
    frame: Frame | Array | None = None,
    *,
    score: str | Array | None = None,
    uncertainty: str | Array | None = None,
    probs: str | Array | None = None,
    **others: Any,
) -> Any:
    """Return the rows with the model's columns; see `calibkit.models.model.Model.apply`."""
    columns: dict[str, Any] = {"score": score, "uncertainty": uncertainty, "probs": probs}
    first = "probs" if "probs" in model.columns else "score"
    given: Any = frame
    if is_array("score", given):
        given, columns[first] = None, frame
    if given is None and model.kind == "bundle":
        raise UsageError("a bundle is applied to a frame, not to arrays.")
    rows, arrays = frame_of_arrays(columns, given)
    columns |= arrays
    applied = apply_model(model, open_frame(rows), ApplyOptions(**columns, **others))
    tell(applied.warnings, ApplyOptions)
    found, added = applied.frame, applied.added
    if given is None:
        classes = getattr(model, "classes", ())
        if first == "score":
            return found[added[0]].to_numpy()
        return found.select(added[: len(classes)]).to_numpy()
    joined = [
        name
        for name in found.columns
        if name in added or any(fnmatchcase(name, str(array)) for array in arrays.values())
    ]
    return returned(given, found, joined, applied.chosen)
