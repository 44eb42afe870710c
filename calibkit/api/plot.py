"""Pictures on matplotlib axes: ``ck.plot.roc(frame, ax=ax)``, a function a kind.

Without ``ax`` a new figure of pyplot is drawn, as ``calibkit plot`` draws it.

Examples
--------
>>> import calibkit as ck
>>> rows = ck.simulate_posterior(2_000, seed=1)
>>> ax = ck.plot.reliability(rows, bins=10, title="")
>>> ax.get_ylabel()
'share of positives'
>>> ax.figure.savefig("reliability.svg")  # doctest: +SKIP
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from calibkit.api.functions import FrameFunction, python_function, tell
from calibkit.api.words import python_words
from calibkit.files.sources import Source
from calibkit.options import grid_plots as of_grids
from calibkit.options import plot as kinds
from calibkit.options.option import names_of
from calibkit.reports import plots

if TYPE_CHECKING:
    from matplotlib.axes import Axes

P = ParamSpec("P")
Asked = TypeVar("Asked", bound=kinds.PlotOptions)

_FLAG = re.compile(r"(?<=`)(--[a-z0-9-]+)(?=`)")

_RETURNS = """

Returns
-------
matplotlib.axes.Axes
    The axes with the picture; where it has several panels, the first. ``ax.figure`` has all of them."""


def _drawn(options: Callable[P, Asked]) -> FrameFunction[P, Axes]:
    """Return the function that draws the kind of picture of a class of options."""
    kind: Any = options

    def draw(source: Source, own: Asked) -> Axes:
        shown = plots.points(source, own)
        tell(shown.warnings, kind)
        return plots.axes(shown, own)

    draw.__name__ = draw.__qualname__ = "plot." + kind.KIND.replace("-", "_")
    text = str(inspect.getdoc(kind))
    draw.__doc__ = _FLAG.sub(lambda one: python_words(one[1], names_of(kind)), text) + _RETURNS
    return python_function(options)(draw)


reliability = _drawn(kinds.ReliabilityOptions)
precision_recall = _drawn(kinds.PrecisionRecallOptions)
roc = _drawn(kinds.RocOptions)
decision_curve = _drawn(kinds.DecisionCurveOptions)
cost_curve = _drawn(kinds.CostCurveOptions)
risk_coverage = _drawn(kinds.RiskCoverageOptions)
threshold = _drawn(kinds.ThresholdOptions)
positivity = _drawn(of_grids.PositivityOptions)
heatmap = _drawn(of_grids.HeatmapOptions)
regions = _drawn(of_grids.RegionsOptions)
recall_gain = _drawn(of_grids.RecallGainOptions)
ece_at = _drawn(of_grids.EceAtOptions)
bias = _drawn(kinds.BiasOptions)
dispersion = _drawn(kinds.DispersionOptions)
disagreement = _drawn(kinds.DisagreementOptions)
auc_lift = _drawn(kinds.AucLiftOptions)
watch = _drawn(kinds.WatchPlotOptions)
