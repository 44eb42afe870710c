"""`Model.apply`: a model applied to a frame, or to arrays."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

from calibkit.api.options import tell
from calibkit.api.words import in_python
from calibkit.apply import ApplySpec, apply_model
from calibkit.errors import UsageError
from calibkit.files.frames import (
    Array,
    Frame,
    Names,
    frame_of_arrays,
    is_array,
    names,
    open_frame,
    returned,
)
from calibkit.maths.bounds import decimal_bound
from calibkit.models import Model


@in_python()
def apply_to_frame(
    model: Model,
    frame: Frame | Array | None = None,
    *,
    score: str | Array | None = None,
    uncertainty: str | Array | None = None,
    probs: str | Array | None = None,
    keep: Names | None = None,
    selected: bool = False,
    column: str | None = None,
    overwrite_columns: bool = False,
    key: str | None = None,
    seed: int | None = None,
    on_missing: str = "error",
    max_missing: float | str | None = None,
) -> Any:
    """Return the rows with the model's columns; see `calibkit.models.Model.apply`."""
    columns: dict[str, Any] = {"score": score, "uncertainty": uncertainty, "probs": probs}
    first = "probs" if "probs" in model.columns else "score"
    given: Any = frame
    if is_array("score", given):
        given, columns[first] = None, frame
    if given is None and model.kind == "bundle":
        raise UsageError("a bundle is applied to a frame, not to arrays.")
    rows, arrays = frame_of_arrays(columns, given)
    columns |= arrays
    if on_missing not in ("error", "null"):
        raise UsageError(f"--on-missing {on_missing!r} is not known; use one of error, null.")
    if max_missing is not None and on_missing != "null":
        raise UsageError("--max-missing goes with --on-missing null.")
    spec = ApplySpec(
        columns={role: name for role, name in columns.items() if name is not None},
        keep=names(keep) or None,
        selected=selected,
        rename=column,
        overwrite=overwrite_columns,
        key=key,
        seed=seed,
        on_missing=on_missing,
        max_missing=None if max_missing is None else decimal_bound(max_missing, "--max-missing"),
    )
    applied = apply_model(model, open_frame(rows), spec)
    tell(applied.warnings, depth=5)
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
