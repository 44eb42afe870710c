"""`Model.apply`: a model applied to a frame."""

from __future__ import annotations

import polars as pl

from calibkit.api.options import tell
from calibkit.apply import ApplySpec, apply_model
from calibkit.errors import UsageError
from calibkit.files.frames import Frame, Names, names, open_frame
from calibkit.maths.bounds import decimal_bound
from calibkit.models import Model


def apply_to_frame(
    model: Model,
    frame: Frame,
    *,
    score: str | None = None,
    uncertainty: str | None = None,
    probs: str | None = None,
    keep: Names | None = None,
    selected: bool = False,
    column: str | None = None,
    overwrite_columns: bool = False,
    key: str | None = None,
    seed: int | None = None,
    on_missing: str = "error",
    max_missing: float | str | None = None,
) -> pl.DataFrame:
    """Return the rows with the model's columns; see `calibkit.models.Model.apply`."""
    if on_missing not in ("error", "null"):
        raise UsageError(f"--on-missing {on_missing!r} is not known; use one of error, null.")
    if max_missing is not None and on_missing != "null":
        raise UsageError("--max-missing goes with --on-missing null.")
    given = {"score": score, "uncertainty": uncertainty, "probs": probs}
    spec = ApplySpec(
        columns={role: name for role, name in given.items() if name is not None},
        keep=names(keep) or None,
        selected=selected,
        rename=column,
        overwrite=overwrite_columns,
        key=key,
        seed=seed,
        on_missing=on_missing,
        max_missing=None if max_missing is None else decimal_bound(max_missing, "--max-missing"),
    )
    applied = apply_model(model, open_frame(frame), spec)
    tell(applied.warnings, depth=4)
    return applied.frame
