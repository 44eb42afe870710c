"""Every method, an entry each: its models, what is made of them, its fit and its states.

This is the one place that knows all methods.  Each function loads what it returns, when it is used;
the tables at the end are what the rooms below (through `calibkit.models.kinds`) and above look up.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final, Protocol

from calibkit.models.kinds import IN_PYTHON, VIEWS, Applier, Kind, View
from calibkit.models.kinds import KINDS as GIVEN

if TYPE_CHECKING:
    from calibkit.bins.run import Binned
    from calibkit.bundles.model import BundleModel
    from calibkit.drift.drift import Drift
    from calibkit.evaluation.findings import Evaluated
    from calibkit.maps.calibrator import CalibratorModel
    from calibkit.methods.boundary.result.model import BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel
    from calibkit.methods.raters.model import AlphaModel
    from calibkit.methods.vad.model import VadModel
    from calibkit.models.page import Page
    from calibkit.options.alpha_cal import AlphaOptions
    from calibkit.options.bin import BinOptions
    from calibkit.options.boundary import BoundaryOptions
    from calibkit.options.calibrate import CalibrateOptions
    from calibkit.options.drift import DriftOptions
    from calibkit.options.evaluate import EvaluateOptions
    from calibkit.options.hetcal import HetcalOptions
    from calibkit.options.vad import VadOptions
    from calibkit.summaries.runs import Fit, Run
    from calibkit.summaries.states import State

Translate = Callable[..., dict[str, Any]]


class Method(Protocol):
    """What has states."""

    def run(self) -> Run[Any, Any]:
        """Return what makes the result of rows, or of a state."""

    def state(self) -> type[State]:
        """Return the class of its states."""


class OfScores:
    """What counts its rows by score."""

    def state(self) -> type[State]:
        from calibkit.summaries.score_states import ScoreState

        return ScoreState


class Alpha:
    """``alpha-cal``: distributions over class probabilities, from votes."""

    def structure(self) -> type[AlphaModel]:
        from calibkit.methods.raters.model import AlphaModel

        return AlphaModel

    def applier(self, model: AlphaModel) -> Applier:
        from calibkit.methods.raters.application import AlphaApplier

        return AlphaApplier(model)

    def translate(self) -> Translate:
        from calibkit.exports.maps import translate_alpha

        return translate_alpha

    def view(self) -> View:
        from calibkit.views import alpha

        return alpha

    def run(self) -> Fit[AlphaOptions, AlphaModel]:
        from calibkit.methods.raters import run

        return run

    def state(self) -> type[State]:
        from calibkit.methods.raters.run import AlphaState

        return AlphaState


class Boundary(OfScores):
    """``boundary``: score thresholds, one an uncertainty level."""

    def structure(self) -> type[BoundaryModel]:
        from calibkit.methods.boundary.result.model import BoundaryModel

        return BoundaryModel

    def applier(self, model: BoundaryModel) -> Applier:
        from calibkit.methods.boundary.application import BoundaryApplier

        return BoundaryApplier(model)

    def translate(self) -> Translate:
        from calibkit.exports.boundary import translate

        return translate

    def view(self) -> View:
        from calibkit.views import boundary

        return boundary

    def run(self) -> Fit[BoundaryOptions, BoundaryModel]:
        from calibkit.methods.boundary import run

        return run


class Bundle:
    """``bundle``: several models as one; it is put together, not fitted."""

    def structure(self) -> type[BundleModel]:
        from calibkit.bundles.model import BundleModel

        return BundleModel

    def applier(self, model: BundleModel) -> Applier:
        from calibkit.bundles.application import BundleApplier

        return BundleApplier(model)

    def translate(self) -> Translate:
        from calibkit.exports.bundle import translate

        return translate

    def view(self) -> View:
        from calibkit.views import bundle

        return bundle


class Calibrator(OfScores):
    """``calibrate``: a map from scores, or from class probabilities, to probabilities."""

    def structure(self) -> type[CalibratorModel]:
        from calibkit.maps.calibrator import CalibratorModel

        return CalibratorModel

    def applier(self, model: CalibratorModel) -> Applier:
        from calibkit.maps.application import calibrator_applier

        return calibrator_applier(model)

    def translate(self) -> Translate:
        from calibkit.exports.maps import translate_calibrator

        return translate_calibrator

    def view(self) -> View:
        from calibkit.views import calibrator

        return calibrator

    def run(self) -> Fit[CalibrateOptions, CalibratorModel]:
        from calibkit.methods.calibrators import run

        return run


class ClassCalibrator(Calibrator):
    """``calibrate --probs``: the rows of class probabilities are kept, not counted."""

    def state(self) -> type[State]:
        from calibkit.methods.calibrators.run import ClassState

        return ClassState


class Hetcal:
    """``hetcal``: a partition of the rows by their features, each part with a map of its own."""

    def structure(self) -> type[HetcalModel]:
        from calibkit.methods.hetcal.model import HetcalModel

        return HetcalModel

    def applier(self, model: HetcalModel) -> Applier:
        from calibkit.methods.hetcal.application import HetcalApplier

        return HetcalApplier(model)

    def translate(self) -> Translate:
        from calibkit.exports.hetcal import translate

        return translate

    def view(self) -> View:
        from calibkit.views import hetcal

        return hetcal

    def run(self) -> Fit[HetcalOptions, HetcalModel]:
        from calibkit.methods.hetcal import run

        return run

    def state(self) -> type[State]:
        from calibkit.methods.hetcal.run import HetcalState

        return HetcalState


class Vad:
    """``vad``: scores without the bias of selection."""

    def structure(self) -> type[VadModel]:
        from calibkit.methods.vad.model import VadModel

        return VadModel

    def applier(self, model: VadModel) -> Applier:
        from calibkit.methods.vad.application import VadApplier

        return VadApplier(model)

    def translate(self) -> Translate:
        from calibkit.exports.maps import translate_vad

        return translate_vad

    def view(self) -> View:
        from calibkit.views import vad

        return vad

    def run(self) -> Fit[VadOptions, VadModel]:
        from calibkit.methods.vad import run

        return run

    def state(self) -> type[State]:
        from calibkit.methods.vad.run import VadState

        return VadState


class Evaluation(OfScores):
    """``evaluate``: metrics, which are no model."""

    def view(self) -> View:
        from calibkit.views import metrics

        return metrics

    def run(self) -> Run[EvaluateOptions, Evaluated]:
        from calibkit.evaluation import evaluate

        return evaluate


class ClassEvaluation(Evaluation):
    """``evaluate --probs``: the rows of class probabilities are kept, not counted."""

    def state(self) -> type[State]:
        from calibkit.evaluation.evaluate import ClassesState

        return ClassesState


class Comparison:
    """``drift``: new rows against those of a fit, which is no model."""

    def view(self) -> View:
        from calibkit.views import drift

        return drift

    def run(self) -> Run[DriftOptions, Drift]:
        from calibkit.drift import drift

        return drift

    def state(self) -> type[State]:
        from calibkit.drift.drift import DriftState

        return DriftState


class Grid(OfScores):
    """``bin``: a table of counts, which is no model."""

    def run(self) -> Run[BinOptions, Binned]:
        from calibkit.bins import run

        return run


alpha, boundary, bundle, calibrator = Alpha(), Boundary(), Bundle(), Calibrator()
hetcal, vad, evaluation, comparison, grid = Hetcal(), Vad(), Evaluation(), Comparison(), Grid()


def watch_view() -> View:
    """Return how a watch is shown."""
    from calibkit.views import watch

    return watch


def report_view() -> View:
    """Return how the findings of ``validate`` are shown."""
    from calibkit.views import validation

    return validation


def html_of_page() -> Callable[[Page], str]:
    """Return what shows a page in a notebook."""
    from calibkit.reports.html import plain

    return plain


#: The kinds of models.
KINDS: Final[Mapping[str, Kind]] = {
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
    "calibrate --probs": ClassCalibrator(),
    "drift": comparison,
    "evaluate": evaluation,
    "evaluate --probs": ClassEvaluation(),
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
    VIEWS.update({"Drift": comparison.view, "Metrics": evaluation.view, "Report": report_view})
    VIEWS["Watched"] = watch_view
    IN_PYTHON["html"] = html_of_page
