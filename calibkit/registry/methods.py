"""Every method: its models, what applies, exports and shows them, its fit and its states.

This is the one place that knows all methods.  Each table names modules, of which that of the entry that
is asked for is loaded, and no other; the rooms below look them up through `calibkit.models.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from calibkit.models.kinds import KINDS, VIEWS, Applier, Kind

if TYPE_CHECKING:
    from calibkit.summaries.states import Run, State

#: How models of a kind are shown, or results of a class.
_VIEWS: Final = {
    "alpha": "calibkit.methods.raters.view",
    "boundary": "calibkit.methods.boundary.view",
    "bundle": "calibkit.bundles.view",
    "calibrator": "calibkit.maps.view",
    "hetcal": "calibkit.methods.hetcal.view",
    "vad": "calibkit.methods.vad.view",
    "Drift": "calibkit.drift.view",
    "Metrics": "calibkit.evaluation.view",
    "Report": "calibkit.validation.view",
    "Watched": "calibkit.methods.watch.view",
}

#: The classes of the models of each kind.
_STRUCTURES: Final = {
    "alpha": ("calibkit.methods.raters.model", "AlphaModel"),
    "boundary": ("calibkit.methods.boundary.result.model", "BoundaryModel"),
    "bundle": ("calibkit.bundles.model", "BundleModel"),
    "calibrator": ("calibkit.maps.model", "CalibratorModel"),
    "hetcal": ("calibkit.methods.hetcal.model", "HetcalModel"),
    "vad": ("calibkit.methods.vad.model", "VadModel"),
}

#: What a model of a kind does with rows.
_APPLIERS: Final = {
    "alpha": ("calibkit.methods.raters.application", "AlphaApplier"),
    "boundary": ("calibkit.methods.boundary.result.application", "BoundaryApplier"),
    "bundle": ("calibkit.bundles.model", "BundleApplier"),
    "calibrator": ("calibkit.maps.application", "calibrator_applier"),
    "hetcal": ("calibkit.methods.hetcal.application", "HetcalApplier"),
    "vad": ("calibkit.methods.vad.application", "VadApplier"),
}

#: What writes a model of a kind into a program.
_TRANSLATORS: Final = {
    "alpha": ("calibkit.exports.maps", "translate_alpha"),
    "boundary": ("calibkit.exports.boundary", "translate"),
    "bundle": ("calibkit.exports.export", "translate_bundle"),
    "calibrator": ("calibkit.exports.maps", "translate_calibrator"),
    "hetcal": ("calibkit.exports.hetcal", "translate"),
    "vad": ("calibkit.exports.maps", "translate_vad"),
}

#: What makes the result of rows, or of a state, for each command that writes states.
_RUNS: Final = {
    "alpha-cal": "calibkit.methods.raters.run",
    "bin": "calibkit.bins",
    "boundary": "calibkit.methods.boundary.run",
    "calibrate": "calibkit.methods.calibrators.run",
    "drift": "calibkit.drift.drift",
    "evaluate": "calibkit.evaluation.evaluate",
    "hetcal": "calibkit.methods.hetcal.run",
    "vad": "calibkit.methods.vad.run",
}

_SCORES: Final = ("calibkit.summaries.score_summary", "ScoreState")
#: The classes of the states of each command: of class probabilities rows are kept, not sums.
_STATES: Final = {
    "alpha-cal": ("calibkit.methods.raters.run", "AlphaState"),
    "bin": _SCORES,
    "boundary": _SCORES,
    "calibrate": _SCORES,
    "calibrate --probs": ("calibkit.methods.calibrators.classes", "ClassState"),
    "drift": ("calibkit.drift.drift", "DriftState"),
    "evaluate": _SCORES,
    "evaluate --probs": ("calibkit.evaluation.evaluate", "ClassesState"),
    "hetcal": ("calibkit.methods.hetcal.run", "HetcalState"),
    "vad": ("calibkit.methods.vad.run", "VadState"),
}

#: The structures of other JSON files, and of the header of a state.
_FILES: Final = {
    "drift": ("calibkit.drift.drift", "DriftFile"),
    "metrics": ("calibkit.measures.result", "Metrics"),
    "state": ("calibkit.summaries.states", "Header"),
    "watch": ("calibkit.methods.watch.watch", "WatchFile"),
    "watch-state": ("calibkit.methods.watch.state", "WatchState"),
}

#: The commands that write states.
STATES: Final = tuple(_STATES)


def loaded(module: str, name: str) -> Any:
    """Return what a module has under a name."""
    return getattr(import_module(module), name)


def _applier(kind: str, model: Any) -> Applier:
    return loaded(*_APPLIERS[kind])(model)


def run(name: str) -> Run[Any, Any]:
    """Return what makes the result of rows, or of a state, for the command that writes states."""
    found: Any = import_module(_RUNS[name.removesuffix(" --probs")])
    return found


def state(name: str) -> type[State]:
    """Return the class of the states of a command."""
    return loaded(*_STATES[name])


def schemas() -> dict[str, Callable[[], dict[str, Any]]]:
    """Return what describes a kind of JSON file, by its name: each model, and what else is written."""
    from calibkit.models.model import schema_of

    return {
        **{name: kind.structure().schema for name, kind in KINDS.items()},
        **{name: partial(schema_of, loaded(*place)) for name, place in _FILES.items()},
    }


def give() -> None:
    """Fill the tables of `calibkit.models.kinds`."""
    for name, place in _STRUCTURES.items():
        translate = partial(loaded, *_TRANSLATORS[name])
        KINDS[name] = Kind(partial(loaded, *place), partial(_applier, name), translate)
    for name, module in _VIEWS.items():
        VIEWS[name] = partial(import_module, module)
