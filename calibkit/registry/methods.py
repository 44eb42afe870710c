"""Every method, an entry each: its models, what is made of them, its fit and its states.

This is the one place that knows all methods.  What an entry names is loaded when it is used;
the tables at the end are what the rooms below (through `calibkit.models.kinds`) and above look up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from calibkit.models.kinds import IN_PYTHON, VIEWS, Kind, load
from calibkit.models.kinds import KINDS as GIVEN

if TYPE_CHECKING:
    from calibkit.bins.run import Binned
    from calibkit.drift.drift import Drift
    from calibkit.evaluation.findings import Evaluated
    from calibkit.maps.calibrator import CalibratorModel
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel
    from calibkit.options.alpha_cal import AlphaOptions
    from calibkit.options.bin import BinOptions
    from calibkit.options.boundary import BoundaryOptions
    from calibkit.options.calibrate import CalibrateOptions
    from calibkit.options.drift import DriftOptions
    from calibkit.options.evaluate import EvaluateOptions
    from calibkit.options.hetcal import HetcalOptions
    from calibkit.options.vad import VadOptions
    from calibkit.summaries.runs import Fit, Run

#: The states of what counts its rows by score.
_COUNTED = "calibkit.summaries.score_states", "ScoreState"

alpha: Kind[Fit[AlphaOptions, AlphaModel]] = Kind(
    models=("calibkit.methods.raters.model", "AlphaModel"),
    applied=("calibkit.methods.raters.application", "AlphaApplier"),
    exported=("calibkit.exports.maps", "translate_alpha"),
    shown="calibkit.views.alpha",
    fitted="calibkit.methods.raters.run",
    states=("calibkit.methods.raters.run", "AlphaState"),
)
boundary: Kind[Fit[BoundaryOptions, BoundaryModel]] = Kind(
    models=("calibkit.methods.boundary.result.model", "BoundaryModel"),
    applied=("calibkit.methods.boundary.application", "BoundaryApplier"),
    exported=("calibkit.exports.boundary", "translate"),
    shown="calibkit.views.boundary",
    fitted="calibkit.methods.boundary.run",
    states=_COUNTED,
)
#: Several models as one: it is put together, not fitted.
bundle: Kind[Any] = Kind(
    models=("calibkit.bundles.model", "BundleModel"),
    applied=("calibkit.bundles.application", "BundleApplier"),
    exported=("calibkit.exports.bundle", "translate"),
    shown="calibkit.views.bundle",
)
calibrator: Kind[Fit[CalibrateOptions, CalibratorModel]] = Kind(
    models=("calibkit.maps.calibrator", "CalibratorModel"),
    applied=("calibkit.maps.application", "calibrator_applier"),
    exported=("calibkit.exports.maps", "translate_calibrator"),
    shown="calibkit.views.calibrator",
    fitted="calibkit.methods.calibrators.run",
    states=_COUNTED,
)
#: The rows of class probabilities are kept, not counted.
of_classes = replace(calibrator, states=("calibkit.methods.calibrators.run", "ClassState"))
hetcal: Kind[Fit[HetcalOptions, HetcalModel]] = Kind(
    models=("calibkit.methods.hetcal.model", "HetcalModel"),
    applied=("calibkit.methods.hetcal.application", "HetcalApplier"),
    exported=("calibkit.exports.hetcal", "translate"),
    shown="calibkit.views.hetcal",
    fitted="calibkit.methods.hetcal.run",
    states=("calibkit.methods.hetcal.run", "HetcalState"),
)
vad: Kind[Fit[VadOptions, VadModel]] = Kind(
    models=("calibkit.methods.vad.model", "VadModel"),
    applied=("calibkit.methods.vad.application", "VadApplier"),
    exported=("calibkit.exports.maps", "translate_vad"),
    shown="calibkit.views.vad",
    fitted="calibkit.methods.vad.run",
    states=("calibkit.methods.vad.run", "VadState"),
)

# What is no model: metrics, new rows against those of a fit, and a table of counts.
evaluation: Kind[Run[EvaluateOptions, Evaluated]] = Kind(
    shown="calibkit.views.metrics", fitted="calibkit.evaluation.evaluate", states=_COUNTED
)
comparison: Kind[Run[DriftOptions, Drift]] = Kind(
    shown="calibkit.views.drift",
    fitted="calibkit.drift.drift",
    states=("calibkit.drift.drift", "DriftState"),
)
grid: Kind[Run[BinOptions, Binned]] = Kind(fitted="calibkit.bins.run", states=_COUNTED)


#: The kinds of models.
KINDS: Final[Mapping[str, Kind[Any]]] = {
    "alpha": alpha,
    "boundary": boundary,
    "bundle": bundle,
    "calibrator": calibrator,
    "hetcal": hetcal,
    "vad": vad,
}

#: What has states, by the command that writes them.
STATES: Final[Mapping[str, Kind[Any]]] = {
    "alpha-cal": alpha,
    "bin": grid,
    "boundary": boundary,
    "calibrate": calibrator,
    "calibrate --probs": of_classes,
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
    VIEWS["Report"] = partial(load, "calibkit.views.validation")
    VIEWS["Watched"] = partial(load, "calibkit.views.watch")
    IN_PYTHON["html"] = partial(load, "calibkit.reports.html", "plain")
