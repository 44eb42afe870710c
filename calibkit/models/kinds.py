"""What there is of each kind of model, given from above.

Models are applied, shown, exported and put into bundles by rooms that stand above them.  Whoever
needs one of these by the kind of a model asks here; `calibkit.registry.methods` fills the tables, when
calibkit is imported, with functions that load what they return when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, Protocol


class View(Protocol):
    """How a result is shown: what a module of `calibkit.views` has."""

    def view(self, result: Any, page: Any, /) -> None:
        """Put on a page (`calibkit.models.page.Page`) what a person wants to know first."""

    def headline(self, result: Any, /) -> str:
        """Return in a few words what a result is."""

    def lines(self, result: Any, /) -> list[str]:
        """Return its summary."""


class Kind(Protocol):
    """One kind of model; models and what applies them are built on this module, so are not named."""

    def structure(self) -> Any:
        """Return the class of its models, a `calibkit.models.model.Model`."""

    def applier(self, model: Any) -> Any:
        """Return what a model does with rows, a `calibkit.models.applier.Applier`."""

    def translate(self) -> Callable[..., dict[str, Any]]:
        """Return what writes a model into a program, from which exports are printed."""

    def view(self) -> View:
        """Return how a model is shown."""


#: By kind.
KINDS: Final[dict[str, Kind]] = {}

#: How results are shown that are no models, by the name of their class.
VIEWS: Final[dict[str, Callable[[], View]]] = {}

#: What methods of models and results do in Python: ``apply``, ``drift`` and ``html``.
IN_PYTHON: Final[dict[str, Callable[[], Callable[..., Any]]]] = {}


def view_of(result: Any) -> View:
    """Return how a result is shown: a model by its kind, any other by its class."""
    kind = getattr(result, "kind", None)
    return VIEWS[type(result).__name__]() if kind is None else KINDS[kind].view()
