"""Every method: its models, what applies, exports and shows them, its fit and its states.

This is the one place that knows all methods.  Each table loads the entry that is asked for, and no
other; the rooms below look them up through `calibkit.models.kinds`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from calibkit.models.kinds import KINDS, VIEWS, Kind, View

if TYPE_CHECKING:
    from calibkit.models.kinds import Applier
    from calibkit.models.model import Model
    from calibkit.summaries.states import Run, State


def view(name: str) -> View:
    """Return how models of a kind are shown, or results of a class."""
    found: View
    match name:
        case "alpha":
            from calibkit.views import alpha as found
        case "boundary":
            from calibkit.views import boundary as found
        case "bundle":
            from calibkit.views import bundle as found
        case "calibrator":
            from calibkit.views import calibrator as found
        case "hetcal":
            from calibkit.views import hetcal as found
        case "vad":
            from calibkit.views import vad as found
        case "Drift":
            from calibkit.views import drift as found
        case "Metrics":
            from calibkit.views import metrics as found
        case "Report":
            from calibkit.views import validation as found
        case "Watched":
            from calibkit.views import watch as found
    return found


def structure(name: str) -> type[Model]:
    """Return the class of the models of a kind."""
    found: type[Model]
    match name:
        case "alpha":
            from calibkit.methods.raters.model import AlphaModel as found
        case "boundary":
            from calibkit.methods.boundary.result.model import BoundaryModel as found
        case "bundle":
            from calibkit.bundles.model import BundleModel as found
        case "calibrator":
            from calibkit.maps.model import CalibratorModel as found
        case "hetcal":
            from calibkit.methods.hetcal.model import HetcalModel as found
        case "vad":
            from calibkit.methods.vad.model import VadModel as found
    return found


def applier(name: str, model: Any) -> Applier:
    """Return what a model of a kind does with rows."""
    found: Callable[[Any], Applier]
    match name:
        case "alpha":
            from calibkit.methods.raters.application import AlphaApplier as found
        case "boundary":
            from calibkit.methods.boundary.application import BoundaryApplier as found
        case "bundle":
            from calibkit.bundles.model import BundleApplier as found
        case "calibrator":
            from calibkit.maps.application import calibrator_applier as found
        case "hetcal":
            from calibkit.methods.hetcal.application import HetcalApplier as found
        case "vad":
            from calibkit.methods.vad.application import VadApplier as found
    return found(model)


def translate(name: str) -> Callable[..., dict[str, Any]]:
    """Return what writes a model of a kind into a program."""
    found: Callable[..., dict[str, Any]]
    match name:
        case "alpha":
            from calibkit.exports.maps import translate_alpha as found
        case "boundary":
            from calibkit.exports.boundary import translate as found
        case "bundle":
            from calibkit.exports.export import translate_bundle as found
        case "calibrator":
            from calibkit.exports.maps import translate_calibrator as found
        case "hetcal":
            from calibkit.exports.hetcal import translate as found
        case "vad":
            from calibkit.exports.maps import translate_vad as found
    return found


def run(name: str) -> Run[Any, Any]:
    """Return what makes the result of rows, or of a state, for the command that writes states."""
    found: Run[Any, Any]
    match name.removesuffix(" --probs"):
        case "alpha-cal":
            from calibkit.methods.raters import run as found
        case "bin":
            from calibkit.bins import run as found
        case "boundary":
            from calibkit.methods.boundary import run as found
        case "calibrate":
            from calibkit.methods.calibrators import run as found
        case "drift":
            from calibkit.drift import drift as found
        case "evaluate":
            from calibkit.evaluation import evaluate as found
        case "hetcal":
            from calibkit.methods.hetcal import run as found
        case "vad":
            from calibkit.methods.vad import run as found
    return found


def state(name: str) -> type[State]:
    """Return the class of the states of a command: of class probabilities rows are kept, not sums."""
    found: type[State]
    match name:
        case "alpha-cal":
            from calibkit.methods.raters.run import AlphaState as found
        case "bin" | "boundary" | "calibrate" | "evaluate":
            from calibkit.summaries.score_summary import ScoreState as found
        case "calibrate --probs":
            from calibkit.methods.calibrators.classes import ClassState as found
        case "drift":
            from calibkit.drift.drift import DriftState as found
        case "evaluate --probs":
            from calibkit.evaluation.evaluate import ClassesState as found
        case "hetcal":
            from calibkit.methods.hetcal.run import HetcalState as found
        case "vad":
            from calibkit.methods.vad.run import VadState as found
    return found


#: The kinds of models.
MODELS: Final = ("alpha", "boundary", "bundle", "calibrator", "hetcal", "vad")

#: The commands that write states.
STATES: Final = (
    *("alpha-cal", "bin", "boundary", "calibrate", "calibrate --probs", "drift"),
    *("evaluate", "evaluate --probs", "hetcal", "vad"),
)


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
    for name in MODELS:
        KINDS[name] = Kind(
            partial(structure, name), partial(applier, name), partial(translate, name)
        )
    for name in (*MODELS, "Drift", "Metrics", "Report", "Watched"):
        VIEWS[name] = partial(view, name)
