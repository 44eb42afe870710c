"""`Model.apply` and `Model.drift`, `bundle` and `export`: what is done with models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from fnmatch import fnmatchcase
from os import PathLike
from typing import TYPE_CHECKING, Any

from calibkit.api.functions import dialect_of, opened, options_function, refuse_unknown, tell
from calibkit.errors import UsageError
from calibkit.files.frames import Array, Frame, frame_of_arrays, is_array, open_frame, returned
from calibkit.models.model import Model
from calibkit.options.apply import ApplyOptions, ExportOptions
from calibkit.options.option import Options, names_of, tagged
from calibkit.options.shared import ModelLike, model_of
from calibkit.options.watch import DriftOptions
from calibkit.words import in_python

if TYPE_CHECKING:
    from calibkit.bundles.model import BundleModel
    from calibkit.drift.drift import Drift


@in_python()
def apply_to_frame(
    model: Model, frame: Frame | Array | None = None, *others: Any, **given: Any
) -> Any:
    """Return the rows with the model's columns; see `calibkit.models.model.Model.apply`."""
    from calibkit.apply.apply import apply_model

    if others:
        raise UsageError(
            "Model.apply: takes a frame or an array, and all else by keyword: score=…."
        )
    dialect = dialect_of("Model.apply", frame, given)
    refuse_unknown("Model.apply", ApplyOptions, given)
    roles = {role: given.get(role) for role in ("score", "uncertainty", "probs", "key")}
    if (
        model.kind == "boundary"
        and "uncertainty" not in model.columns
        and is_array("uncertainty", roles["uncertainty"])
    ):  # whether a boundary reads it is chosen by its fit, which a caller need not ask about
        roles["uncertainty"] = None
    first = "probs" if "probs" in model.columns else "score"
    rows: Any = frame
    if is_array("score", frame):
        if roles[first] is not None:
            raise UsageError(f"Model.apply: got {first} twice; give other columns as a frame.")
        rows, roles[first] = None, frame
    if rows is None and model.kind == "bundle":
        raise UsageError("a bundle is applied to a frame, not to arrays.")
    whole, arrays = frame_of_arrays(roles, rows)
    options = ApplyOptions(**{**given, **roles, **arrays})
    applied = apply_model(model, open_frame(whole, dialect=dialect), options)
    tell(applied.warnings, options)
    found, added = applied.frame, applied.added
    if rows is None:
        calibrated = [name for name in added if first == "probs" and name.startswith("calibrated_")]
        made = found.select(calibrated) if calibrated else found[added[0]]
        return made.to_numpy(writable=True)
    joined = [
        name
        for name in found.columns
        if name in added or any(fnmatchcase(name, str(array)) for array in arrays.values())
    ]
    return returned(rows, found, joined, applied.chosen)


def drift_of_frame(model: Model, frame: Frame | None = None, **given: Any) -> Drift:
    """Return how far rows are from those of the fit; see `calibkit.models.model.Model.drift`."""
    from calibkit.drift import drift

    with in_python(names_of(DriftOptions)):
        source, options = opened("Model.drift", DriftOptions, (frame,), {"model": model, **given})
        found = drift.fit(options, source)
    tell(found.warnings, options)
    return found


@in_python()
def bundle(
    parts: Mapping[str, ModelLike] | Sequence[ModelLike | tuple[str, ModelLike]],
    *,
    tags: dict[str, str] | None = None,
) -> BundleModel:
    """Bundle models into one, applied in order; boundaries with a name make the action of a row.

    Parameters
    ----------
    parts
        Models (or their files), those with a name as pairs: ``[calibrator, ("block", boundary)]``;
        or all of them by name: ``{"block": boundary, "review": other}``.
    tags
        Copied into the model.

    Raises
    ------
    UsageError, DataError
        Parts that cannot be applied one after the other, see docs/bundle.md.

    Examples
    --------
    >>> import calibkit as ck
    >>> rows = ck.simulate_posterior(2_000, seed=1)
    >>> block = ck.fit_boundary(rows, precision=0.8, method="st")
    >>> review = ck.fit_boundary(rows, recall=0.8, method="st")
    >>> service = ck.bundle({"block": block, "review": review})
    >>> sorted(service.apply(rows)["action"].unique())
    ['block', 'pass', 'review']
    """
    from calibkit.bundles import model as bundles

    several: Any = [parts] if isinstance(parts, Model | str | PathLike) else parts
    if isinstance(parts, Mapping):
        several = parts.items()
    pairs = [one if isinstance(one, tuple) else (None, one) for one in several]
    named = [(name, model_of(one, "parts")) for name, one in pairs]
    model = bundles.bundle(named, tags=tagged(tags or {}, "tags"))
    tell(bundles.misread(model), Options())
    return model


@options_function(ExportOptions)
def export(options: ExportOptions) -> str:
    """Return a model as code that needs no calibkit: SQL, polars, or plain Python.

    SQL is one SELECT of every column of the table and the columns that `apply` would add. Python has
    a function `apply`: of a polars frame, or of one row as a dictionary.

    Returns str: The text that ``calibkit export`` writes.

    >>> model = ck.fit_boundary(ck.simulate_posterior(2_000, seed=1), precision=0.8, method="st")
    >>> text = ck.export(model, to="sql", dialect="postgres", table="risk.scores")
    >>> 'FROM "risk"."scores"' in text
    True
    """
    from calibkit.exports.export import export

    rows = options.check_on
    return export(options, None if rows is None else open_frame(rows, "check_on"))[0]
