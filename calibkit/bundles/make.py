"""Making a bundle of models."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from calibkit.bundles.model import (
    BundleModel,
    Part,
    check_chain,
    impossible,
    outside_columns,
    step_of,
)
from calibkit.errors import ModelError, UsageError
from calibkit.models.model import Model


def bundle(
    parts: Sequence[tuple[str | None, Model]], *, tags: Mapping[str, str] | None = None
) -> BundleModel:
    """Return several models as one, applied in this order.

    Parameters
    ----------
    parts
        Each model with its name; None keeps the names of its columns.  A boundary needs a name: its
        columns become ``decision_NAME`` and ``margin_NAME``, and rows that it selects get the action
        NAME unless an earlier boundary fired.
    tags
        Copied into the model.

    Raises
    ------
    UsageError
        Parts that cannot be one bundle: boundaries without a name, a name twice or ``pass``, two
        parts that add one column, a part that comes before the one whose column it reads, a bundle.
    ModelError
        A part that was fitted on a column of another model than the one in the bundle.
    """
    try:
        steps = [step_of(name, model) for name, model in parts]
    except ModelError as error:
        raise UsageError(f"{error}.") from None
    problem = impossible(steps)
    if problem is not None:
        raise UsageError(f"{problem}.")
    check_chain(steps)
    return BundleModel(
        kind=BundleModel.KIND,
        version=BundleModel.VERSION,
        columns=outside_columns(steps),
        parts=[Part(model=step.model.as_dict(), name=step.name) for step in steps],
        tags=dict(tags or {}),
    )


def misread(model: BundleModel) -> list[str]:
    """Return what may not be meant: a part reads of the input what a part before it has renamed."""
    found, renamed = [], dict[str, tuple[str, str]]()
    outside = {column.name for column in model.columns.values()}
    for step in model.steps():
        for column in step.reads.values():
            if column.name in outside & renamed.keys():
                label, name = renamed[column.name]
                found.append(
                    f"{step.label} reads the input's column {column.name!r}, not what {label} adds, "
                    f"{name!r}: leave that name out if it was meant to"
                )
        renamed |= {own: (step.label, name) for own, name in step.columns.items() if own != name}
    return found
