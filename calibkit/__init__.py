"""Calibration and decision boundaries for score files.

``import calibkit as ck`` is the command line for frames: ``ck.fit_boundary(frame, precision=0.9)``
returns the model that ``calibkit boundary`` writes.  Frames are polars (also lazy), pyarrow, pandas,
DuckDB or whatever else has the Arrow C stream interface.  Nothing is loaded before it is used.
"""

from __future__ import annotations

from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from calibkit.models.kinds import IN_PYTHON as _IN_PYTHON
from calibkit.registry.methods import give as _give
from calibkit.registry.methods import loaded as _loaded
from calibkit.version import __version__

if TYPE_CHECKING:
    from calibkit.api import plot as plot
    from calibkit.api.commands import bin as bin
    from calibkit.api.commands import compare as compare
    from calibkit.api.commands import diff as diff
    from calibkit.api.commands import evaluate as evaluate
    from calibkit.api.commands import fit_alpha as fit_alpha
    from calibkit.api.commands import fit_boundary as fit_boundary
    from calibkit.api.commands import fit_calibrator as fit_calibrator
    from calibkit.api.commands import fit_hetcal as fit_hetcal
    from calibkit.api.commands import fit_vad as fit_vad
    from calibkit.api.commands import gate as gate
    from calibkit.api.commands import report as report
    from calibkit.api.commands import simulate_partitions as simulate_partitions
    from calibkit.api.commands import simulate_posterior as simulate_posterior
    from calibkit.api.commands import simulate_raters as simulate_raters
    from calibkit.api.commands import simulate_selection as simulate_selection
    from calibkit.api.commands import validate as validate
    from calibkit.api.commands import watch as watch
    from calibkit.api.models import bundle as bundle
    from calibkit.api.models import export as export
    from calibkit.bundles.model import BundleModel as BundleModel
    from calibkit.errors import CalibkitError as CalibkitError
    from calibkit.errors import CalibkitWarning as CalibkitWarning
    from calibkit.errors import DataError as DataError
    from calibkit.errors import InfeasibleError as InfeasibleError
    from calibkit.errors import ModelError as ModelError
    from calibkit.errors import ResourceError as ResourceError
    from calibkit.errors import UsageError as UsageError
    from calibkit.maps.model import CalibratorModel as CalibratorModel
    from calibkit.measures.result import Metrics as Metrics
    from calibkit.methods.boundary.result.model import BoundaryModel as BoundaryModel
    from calibkit.methods.hetcal.model import HetcalModel as HetcalModel
    from calibkit.methods.raters.model import AlphaModel as AlphaModel
    from calibkit.methods.vad.model import VadModel as VadModel
    from calibkit.models.model import Model as Model
    from calibkit.models.model import load as load

#: The public names by the module that defines them; each is loaded when it is first asked for.
_NAMES = {
    "calibkit.api.commands": "bin compare diff evaluate fit_alpha fit_boundary fit_calibrator "
    "fit_hetcal fit_vad gate report simulate_partitions simulate_posterior simulate_raters "
    "simulate_selection validate watch",
    "calibkit.api.models": "bundle export",
    "calibkit.api.plot": "plot",
    "calibkit.bundles.model": "BundleModel",
    "calibkit.errors": "CalibkitError CalibkitWarning DataError "
    "InfeasibleError ModelError ResourceError UsageError",
    "calibkit.measures.result": "Metrics",
    "calibkit.maps.model": "CalibratorModel",
    "calibkit.methods.boundary.result.model": "BoundaryModel",
    "calibkit.methods.hetcal.model": "HetcalModel",
    "calibkit.methods.raters.model": "AlphaModel",
    "calibkit.methods.vad.model": "VadModel",
    "calibkit.models.model": "Model load",
}
_PLACES = {name: module for module, names in _NAMES.items() for name in names.split()}

__all__ = ["__version__", *_PLACES]


def __getattr__(name: str) -> Any:
    """Load a public name from the module that defines it."""
    place = _PLACES.get(name)
    if place is None:
        raise AttributeError(f"module 'calibkit' has no attribute {name!r}")
    found = import_module(place) if place.endswith(f".{name}") else _loaded(place, name)
    globals()[name] = found
    return found


# Models reach nothing above themselves: what applies them and shows them is given to them here.
_give()
_IN_PYTHON.update(
    apply=partial(_loaded, "calibkit.api.models", "apply_to_frame"),
    drift=partial(_loaded, "calibkit.api.models", "drift_of_frame"),
    html=partial(_loaded, "calibkit.reports.html", "plain"),
)


def __dir__() -> list[str]:
    return sorted(__all__)
