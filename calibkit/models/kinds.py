"""What there is of each kind of model, given from above.

Models are applied, shown, exported and put into bundles by rooms that stand above them.  Whoever
needs one of these by the kind of a model asks here; `calibkit.registry.methods` fills the tables, when
calibkit is imported, with what says where each is: it is loaded when it is used.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Final, Generic, Protocol, TypeVar

R = TypeVar("R")


class View(Protocol):
    """How a result is shown: what a module of `calibkit.views` has."""

    def view(self, result: Any, page: Any, /) -> None:
        """Put on a page (`calibkit.models.page.Page`) what a person wants to know first."""

    def headline(self, result: Any, /) -> str:
        """Return in a few words what a result is."""

    def lines(self, result: Any, /) -> list[str]:
        """Return its summary."""


#: A module, and the name of what is meant in it; empty: the module itself.
Place = tuple[str, str]


def load(module: str, name: str = "") -> Any:
    """Return what a module holds under a name, or the module itself."""
    found = import_module(module)
    return getattr(found, name) if name else found


@dataclass(frozen=True, kw_only=True)
class Kind(Generic[R]):
    """One method: where its parts stand, which are loaded when they are used.

    Attributes
    ----------
    models, applied, exported
        Of its models the class, what makes a `calibkit.models.applier.Applier` of one, and what writes
        one into a program, from which exports are printed; none of what is no model.
    shown, fitted
        The modules that show its results (a `View`), and that make them of rows.
    states
        The class of its states.
    """

    models: Place = "", ""
    applied: Place = "", ""
    exported: Place = "", ""
    shown: str = ""
    fitted: str = ""
    states: Place = "", ""

    def structure(self) -> Any:
        """Return the class of its models, a `calibkit.models.model.Model`."""
        return load(*self.models)

    def applier(self, model: Any) -> Any:
        """Return what a model does with rows, a `calibkit.models.applier.Applier`."""
        return load(*self.applied)(model)

    def translate(self) -> Callable[..., dict[str, Any]]:
        """Return what writes a model into a program, from which exports are printed."""
        found: Callable[..., dict[str, Any]] = load(*self.exported)
        return found

    def view(self) -> View:
        """Return how a result is shown."""
        found: View = load(self.shown)
        return found

    def run(self) -> R:
        """Return what makes the result of rows, or of a state: a `calibkit.summaries.runs.Run`."""
        found: R = load(self.fitted)
        return found

    def state(self) -> Any:
        """Return the class of its states, a `calibkit.summaries.states.State`."""
        return load(*self.states)


#: By kind.
KINDS: Final[dict[str, Kind[Any]]] = {}

#: How results are shown that are no models, by the name of their class.
VIEWS: Final[dict[str, Callable[[], View]]] = {}

#: What methods of models and results do in Python: ``apply``, ``drift`` and ``html``.
IN_PYTHON: Final[dict[str, Callable[[], Callable[..., Any]]]] = {}


def view_of(result: Any) -> View:
    """Return how a result is shown: a model by its kind, any other by its class."""
    kind = getattr(result, "kind", None)
    return VIEWS[type(result).__name__]() if kind is None else KINDS[kind].view()
