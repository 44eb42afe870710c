"""What a person wants to know of a model first: one view a kind.

A view is a function of a model and a console; `VIEWS` names it.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from calibkit_cli.console import Console

#: The module of each kind's view; its function `view(model, console)` prints the model.
VIEWS = {
    "alpha": "calibkit_cli.views.alpha",
    "boundary": "calibkit_cli.views.boundary",
    "bundle": "calibkit_cli.views.bundle",
    "calibrator": "calibkit_cli.views.calibrator",
    "hetcal": "calibkit_cli.views.hetcal",
    "vad": "calibkit_cli.views.vad",
}


def lines_of(model: Any) -> list[str]:
    """Return the summary of a model."""
    module = import_module(VIEWS[model.kind])
    found: list[str] = getattr(module, f"{model.kind}_lines")(model)
    return found


def view_of(kind: str) -> Callable[[Any, Console], None]:
    """Return the view of a kind of model."""
    view: Callable[[Any, Console], None] = import_module(VIEWS[kind]).view
    return view
