"""What a person wants to know first of a result: a view for each kind.

A view is a function of a result and a page, which it fills.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from calibkit.views.page import Page


def views() -> dict[str, Any]:
    """Return the module of each view: `view(result, page)`, `headline(result)`, `lines(model)`.

    They stand under the kind of a model, and under the name of a class that is none.
    """
    from calibkit.views import (
        alpha,
        boundary,
        bundle,
        calibrator,
        drift,
        hetcal,
        metrics,
        vad,
        validation,
    )

    return {
        "alpha": alpha,
        "boundary": boundary,
        "bundle": bundle,
        "calibrator": calibrator,
        "hetcal": hetcal,
        "vad": vad,
        "Drift": drift,
        "Metrics": metrics,
        "Report": validation,
    }


def view_of(kind: str) -> Callable[[Any, Page], None]:
    """Return the view of a kind of model."""
    view: Callable[[Any, Page], None] = views()[kind].view
    return view


def page_of(result: Any, page: Page) -> Page:
    """Return a page after the view of a result has filled it."""
    views()[_name(result)].view(result, page)
    return page


def headline(result: Any) -> str:
    """Return in a few words what a result is."""
    said: str = views()[_name(result)].headline(result)
    return said


def _name(result: Any) -> str:
    return str(getattr(result, "kind", type(result).__name__))
