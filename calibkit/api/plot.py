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

import functools
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from calibkit.api.functions import Asked, FrameFunction, P, python_function, tell
from calibkit.methods.watch.watch import are_states
from calibkit.options import plot as kinds
from calibkit.reports import plots
from calibkit.words import in_python

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from calibkit.files.sources import Source


def _drawn(options: Callable[P, Asked]) -> FrameFunction[P, Axes]:
    """Return the function that draws the kind of picture of a class of options."""
    kind: Any = options

    def draw(source: Source, own: Any) -> Axes:
        """See `options`.

        Returns matplotlib.axes.Axes: The axes with the picture; where it has several panels, the
        first. ``ax.figure`` has all of them.
        """
        shown = plots.points(source, own)
        tell(shown.warnings, own)
        return plots.axes(shown, own)

    draw.__name__ = draw.__qualname__ = "plot." + kind.KIND.replace("-", "_")
    return python_function(options)(draw)


reliability = _drawn(kinds.ReliabilityOptions)
precision_recall = _drawn(kinds.PrecisionRecallOptions)
roc = _drawn(kinds.RocOptions)
decision_curve = _drawn(kinds.DecisionCurveOptions)
cost_curve = _drawn(kinds.CostCurveOptions)
risk_coverage = _drawn(kinds.RiskCoverageOptions)
threshold = _drawn(kinds.ThresholdOptions)
positivity = _drawn(kinds.PositivityOptions)
heatmap = _drawn(kinds.HeatmapOptions)
regions = _drawn(kinds.RegionsOptions)
recall_gain = _drawn(kinds.RecallGainOptions)
ece_at = _drawn(kinds.EceAtOptions)
bias = _drawn(kinds.BiasOptions)
dispersion = _drawn(kinds.DispersionOptions)
disagreement = _drawn(kinds.DisagreementOptions)
auc_lift = _drawn(kinds.AucLiftOptions)
_nights = _drawn(kinds.WatchPlotOptions)


def __dir__() -> list[str]:
    return sorted(name for name in globals() if name.replace("_", "-") in kinds.KINDS)


@functools.wraps(_nights)
def watch(frame: Any = None, **options: Any) -> Axes:
    """Draw nights, or those of the files of states."""
    files = frame if isinstance(frame, list | tuple) else [frame]
    paths = [os.fspath(one) for one in files if isinstance(one, str | os.PathLike)]
    if paths and are_states(paths):
        with in_python():
            frame = plots.nights_of(paths)
    return _nights(frame, **options)
