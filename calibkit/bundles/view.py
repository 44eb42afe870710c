"""How a bundle is shown: what it reads, what its parts add, what to expect of its decisions."""

from __future__ import annotations

from collections.abc import Iterable

from calibkit.bundles.model import BundleModel
from calibkit.models.kinds import PASS, view_of
from calibkit.models.page import Page, some_of

#: Columns that a line of the table names.
_SHOWN = 4


def headline(model: BundleModel) -> str:
    """Return in a few words what a bundle is."""
    return ", ".join(
        f"{step.name} ({step.model.kind})" if step.name else step.model.kind
        for step in model.steps()
    )


def lines(model: BundleModel) -> list[str]:
    """Return the summary of a bundle."""
    names = [str(step.name) for step in model.steps() if step.decides]
    inputs = _some(column.name for column in model.columns.values())
    action = f"action is the first of {', '.join(names)} that fires, else {PASS}."
    if not names:
        action = f"no part decides: action is {PASS}."
    parts = (
        f"{len(model.parts)} parts, applied in this order" if model.parts[1:] else "1 part, applied"
    )
    return [f"{parts} to {inputs}; {action}"]


def view(model: BundleModel, page: Page) -> None:
    """Print a bundle: its summary, a line a part, and what to expect of each decision."""
    steps = model.steps()
    page.say(*lines(model), "")
    rows = [
        (
            *(step.name, step.model.kind, getattr(step.model, "method", None)),
            _some(column.name for column in step.reads.values()),
            _some(step.columns.values()),
        )
        for step in steps
    ]
    page.table(["part", "kind", "method", "reads", "adds"], rows)
    page.say("")
    for step in steps:
        if step.decides:
            page.say(f"{step.name}: {view_of(step.model).lines(step.model)[0]}")


def _some(names: Iterable[str]) -> str:
    return some_of(list(dict.fromkeys(names)), _SHOWN)
