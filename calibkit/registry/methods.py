"""Every method, an entry each: its models, what is made of them, its fit and its states.

This is the one place that knows all methods.  An entry says where its parts stand, and loads each when
it is asked for; the tables are what rooms below (through `calibkit.models.kinds`) and above look up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from calibkit.models.kinds import IN_PYTHON, VIEWS, View
from calibkit.models.kinds import KINDS as GIVEN

if TYPE_CHECKING:
    from calibkit.models.applier import Applier
    from calibkit.summaries.runs import Fit
    from calibkit.summaries.states import State

#: A module, and what is meant in it.
Place = tuple[str, str]


def _loaded(place: Place) -> Any:
    module, name = place
    return getattr(import_module(module), name)


@dataclass(frozen=True, kw_only=True)
class Method:
    """Where the parts of a method stand; what makes no model has fewer.

    Attributes
    ----------
    model, applies
        The class of its models, and what makes of one an `Applier`.
    exports
        What writes a model into a program.
    shows
        The module of its view.
    runs
        The module of its fit.
    states
        The class of its states.
    """

    model: Place = ("", "")
    applies: Place = ("", "")
    exports: Place = ("", "")
    shows: str = ""
    runs: str = ""
    states: Place = ("", "")

    def structure(self) -> Any:
        """Return the class of its models."""
        return _loaded(self.model)

    def applier(self, model: Any) -> Applier:
        """Return what a model does with rows."""
        found: Applier = _loaded(self.applies)(model)
        return found

    def translate(self) -> Callable[..., dict[str, Any]]:
        """Return what writes a model into a program, from which exports are printed."""
        found: Callable[..., dict[str, Any]] = _loaded(self.exports)
        return found

    def view(self) -> View:
        """Return how a result is shown."""
        found: Any = import_module(self.shows)
        return found  # type: ignore[no-any-return]

    def run(self) -> Fit[Any, Any]:
        """Return what makes the result of rows, or of a state."""
        found: Any = import_module(self.runs)
        return found  # type: ignore[no-any-return]

    def state(self) -> type[State]:
        """Return the class of its states."""
        found: type[State] = _loaded(self.states)
        return found


_SCORE_STATE = ("calibkit.summaries.score_states", "ScoreState")

alpha = Method(
    model=("calibkit.methods.raters.model", "AlphaModel"),
    applies=("calibkit.methods.raters.application", "AlphaApplier"),
    exports=("calibkit.exports.maps", "translate_alpha"),
    shows="calibkit.views.alpha",
    runs="calibkit.methods.raters.run",
    states=("calibkit.methods.raters.run", "AlphaState"),
)
boundary = Method(
    model=("calibkit.methods.boundary.result.model", "BoundaryModel"),
    applies=("calibkit.methods.boundary.application", "BoundaryApplier"),
    exports=("calibkit.exports.boundary", "translate"),
    shows="calibkit.views.boundary",
    runs="calibkit.methods.boundary.run",
    states=_SCORE_STATE,
)
bundle = Method(
    model=("calibkit.bundles.model", "BundleModel"),
    applies=("calibkit.bundles.application", "BundleApplier"),
    exports=("calibkit.exports.bundle", "translate"),
    shows="calibkit.views.bundle",
)
calibrator = Method(
    model=("calibkit.maps.calibrator", "CalibratorModel"),
    applies=("calibkit.maps.application", "calibrator_applier"),
    exports=("calibkit.exports.maps", "translate_calibrator"),
    shows="calibkit.views.calibrator",
    runs="calibkit.methods.calibrators.run",
    states=_SCORE_STATE,
)
hetcal = Method(
    model=("calibkit.methods.hetcal.model", "HetcalModel"),
    applies=("calibkit.methods.hetcal.application", "HetcalApplier"),
    exports=("calibkit.exports.hetcal", "translate"),
    shows="calibkit.views.hetcal",
    runs="calibkit.methods.hetcal.run",
    states=("calibkit.methods.hetcal.run", "HetcalState"),
)
vad = Method(
    model=("calibkit.methods.vad.model", "VadModel"),
    applies=("calibkit.methods.vad.application", "VadApplier"),
    exports=("calibkit.exports.maps", "translate_vad"),
    shows="calibkit.views.vad",
    runs="calibkit.methods.vad.run",
    states=("calibkit.methods.vad.run", "VadState"),
)
evaluation = Method(
    shows="calibkit.views.metrics", runs="calibkit.evaluation.run", states=_SCORE_STATE
)
comparison = Method(
    shows="calibkit.views.drift",
    runs="calibkit.drift.drift",
    states=("calibkit.drift.drift", "DriftState"),
)
grid = Method(runs="calibkit.bins.run", states=_SCORE_STATE)

#: The kinds of models.
KINDS: Final[Mapping[str, Method]] = {
    "alpha": alpha,
    "boundary": boundary,
    "bundle": bundle,
    "calibrator": calibrator,
    "hetcal": hetcal,
    "vad": vad,
}

#: What has states, by the command that writes them.
STATES: Final[Mapping[str, Method]] = {
    "alpha-cal": alpha,
    "bin": grid,
    "boundary": boundary,
    "calibrate": calibrator,
    "calibrate --probs": replace(
        calibrator, states=("calibkit.methods.calibrators.run", "ClassState")
    ),
    "drift": comparison,
    "evaluate": evaluation,
    "hetcal": hetcal,
    "vad": vad,
}


def schemas() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what describes a kind of JSON file, by its name: each model, and what else is written."""
    from calibkit.drift.drift import DriftFile
    from calibkit.measures.result import Metrics
    from calibkit.methods.watch.state import WatchState
    from calibkit.methods.watch.watch import WatchFile
    from calibkit.models.model import schema_of
    from calibkit.summaries.states import Header

    others = {
        "drift": DriftFile,
        "metrics": Metrics,
        "state": Header,
        "watch": WatchFile,
        "watch-state": WatchState,
    }
    return {
        **{name: kind.structure().schema for name, kind in KINDS.items()},
        **{name: partial(schema_of, structure) for name, structure in others.items()},
    }


def give() -> None:
    """Fill the tables of `calibkit.models.kinds`."""
    GIVEN.update(KINDS)
    VIEWS.update({"Drift": comparison.view, "Metrics": evaluation.view})
    VIEWS["Report"] = Method(shows="calibkit.views.validation").view
    VIEWS["Watched"] = Method(shows="calibkit.views.watch").view
    IN_PYTHON["html"] = partial(_loaded, ("calibkit.reports.html", "plain"))
