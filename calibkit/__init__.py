"""Calibration and decision boundaries for score files.

``import calibkit as ck`` is the command line for frames: ``ck.fit_boundary(frame, precision=0.9)``
returns the model that ``calibkit boundary`` writes.  Frames are polars (also lazy), pyarrow, pandas,
DuckDB or whatever else has the Arrow C stream interface.  Nothing is loaded before it is used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibkit.version import __version__

if TYPE_CHECKING:
    from calibkit.api import plot as plot
    from calibkit.api.alpha import fit_alpha as fit_alpha
    from calibkit.api.binning import bin as bin
    from calibkit.api.boundary import compare as compare
    from calibkit.api.boundary import fit_boundary as fit_boundary
    from calibkit.api.bundling import bundle as bundle
    from calibkit.api.calibrator import fit_calibrator as fit_calibrator
    from calibkit.api.evaluation import evaluate as evaluate
    from calibkit.api.evaluation import report as report
    from calibkit.api.exporting import export as export
    from calibkit.api.gates import diff as diff
    from calibkit.api.gates import gate as gate
    from calibkit.api.hetcal import fit_hetcal as fit_hetcal
    from calibkit.api.simulation import simulate_partitions as simulate_partitions
    from calibkit.api.simulation import simulate_posterior as simulate_posterior
    from calibkit.api.simulation import simulate_raters as simulate_raters
    from calibkit.api.simulation import simulate_selection as simulate_selection
    from calibkit.api.vad import fit_vad as fit_vad
    from calibkit.api.validation import validate as validate
    from calibkit.bundles.model import BundleModel as BundleModel
    from calibkit.errors import CalibkitError as CalibkitError
    from calibkit.errors import CalibkitWarning as CalibkitWarning
    from calibkit.errors import DataError as DataError
    from calibkit.errors import InfeasibleError as InfeasibleError
    from calibkit.errors import ModelError as ModelError
    from calibkit.errors import ResourceError as ResourceError
    from calibkit.errors import UsageError as UsageError
    from calibkit.maps.calibrator import CalibratorModel as CalibratorModel
    from calibkit.measures.result import Metrics as Metrics
    from calibkit.methods.boundary.result.model import BoundaryModel as BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel as HetcalModel
    from calibkit.methods.raters.model import AlphaModel as AlphaModel
    from calibkit.methods.vad.model import VadModel as VadModel
    from calibkit.models.model import Model as Model
    from calibkit.models.model import load as load

#: Where each public name is defined; it is loaded when it is first asked for.
_PLACES = {
    "AlphaModel": "calibkit.methods.raters.model",
    "BoundaryModel": "calibkit.methods.boundary.result.model",
    "BundleModel": "calibkit.bundles.model",
    "CalibkitError": "calibkit.errors",
    "CalibkitWarning": "calibkit.errors",
    "CalibratorModel": "calibkit.maps.calibrator",
    "DataError": "calibkit.errors",
    "HetcalModel": "calibkit.methods.hetcal.model",
    "InfeasibleError": "calibkit.errors",
    "Metrics": "calibkit.measures.result",
    "Model": "calibkit.models.model",
    "ModelError": "calibkit.errors",
    "ResourceError": "calibkit.errors",
    "UsageError": "calibkit.errors",
    "VadModel": "calibkit.methods.vad.model",
    "bin": "calibkit.api.binning",
    "compare": "calibkit.api.boundary",
    "bundle": "calibkit.api.bundling",
    "diff": "calibkit.api.gates",
    "evaluate": "calibkit.api.evaluation",
    "export": "calibkit.api.exporting",
    "fit_alpha": "calibkit.api.alpha",
    "fit_boundary": "calibkit.api.boundary",
    "fit_calibrator": "calibkit.api.calibrator",
    "fit_hetcal": "calibkit.api.hetcal",
    "fit_vad": "calibkit.api.vad",
    "gate": "calibkit.api.gates",
    "load": "calibkit.models.model",
    "plot": "calibkit.api.plot",
    "report": "calibkit.api.evaluation",
    "simulate_partitions": "calibkit.api.simulation",
    "simulate_posterior": "calibkit.api.simulation",
    "simulate_raters": "calibkit.api.simulation",
    "simulate_selection": "calibkit.api.simulation",
    "validate": "calibkit.api.validation",
}

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'calibkit' has no attribute {name!r}")
    module = import_module(place)
    found = module if place.endswith(f".{name}") else getattr(module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
