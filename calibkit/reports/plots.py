"""All kinds of pictures: what each shows, and how it is drawn.

    points(source, options) -> Points         the numbers, a table; no matplotlib needed
    draw(points, look) -> Figure              the picture of these numbers
    axes(points, options) -> Axes             the same on axes, for more to be drawn there
    to_bytes(figure, "svg") -> bytes          its bytes, the same each time

A kind is a class of options in `calibkit.options.plot.KINDS`, and here two functions:
``points(source, options)`` and ``draw(points, sheet)``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

import polars as pl

from calibkit.errors import UsageError
from calibkit.evaluation.rows import columns_used
from calibkit.files.sources import Source
from calibkit.methods.watch.watch import are_states, merged
from calibkit.options import plot as kinds
from calibkit.options.plot import KINDS, Look, PlotOptions
from calibkit.reports import comparisons, curves, grids, heatmap, reliability
from calibkit.reports.style import (
    ALONE,
    AxesSheet,
    Points,
    Sheet,
    need_matplotlib,
    settings,
    to_bytes,
)
from calibkit.summaries.binning import is_grid_table
from calibkit.summaries.score_rows import resolve

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

#: Of each kind what it shows, and how that is drawn.
_KINDS: Final[Mapping[str, tuple[Callable[..., Points], Callable[[Points, Sheet], None]]]] = {
    "reliability": (reliability.points, reliability.draw),
    "precision-recall": (curves.rate_points, curves.draw_rates),
    "roc": (curves.rate_points, curves.draw_rates),
    "decision-curve": (curves.worth_points, curves.draw_worth),
    "cost-curve": (curves.worth_points, curves.draw_worth),
    "risk-coverage": (curves.risk_points, curves.draw_risk),
    "threshold": (curves.rate_points, curves.draw_thresholds),
    "positivity": (grids.points, grids.draw),
    "heatmap": (heatmap.heatmap_points, heatmap.draw_heatmap),
    "regions": (heatmap.region_points, heatmap.draw_regions),
    "recall-gain": (comparisons.gain_points, comparisons.draw_gain),
    "ece-at": (comparisons.ece_points, comparisons.draw_ece),
    "bias": (comparisons.bias_points, comparisons.draw_bias),
    "dispersion": (comparisons.dispersion_points, comparisons.draw_dispersion),
    "disagreement": (reliability.disagreement_points, reliability.draw),
    "auc-lift": (comparisons.lift_points, comparisons.draw_lift),
    "watch": (comparisons.watch_points, comparisons.draw_watch),
}


def opened(inputs: Sequence[str], options: PlotOptions) -> Source | None:
    """Return what a picture shows of inputs that are no rows: states of a watch; None for rows."""
    if not isinstance(options, kinds.WatchPlotOptions) or not are_states(inputs):
        return None
    return Source.from_frame(nights_of(inputs), inputs[0])


def nights_of(states: Sequence[str]) -> pl.DataFrame:
    """Return what the states of a watch say, night by night."""
    table = merged(list(states)).history()
    if not table.height:
        raise UsageError(f"{states[0]}: no night has been counted yet; there is nothing to draw.")
    return table


def points(source: Source, options: PlotOptions) -> Points:
    """Return what a picture of rows shows: that of the class of its options."""
    return _KINDS[options.KIND][0](source, options)


def columns(source: Source, options: PlotOptions) -> dict[str, str]:
    """Return the column of each role that a picture reads."""
    if isinstance(options, kinds.WatchPlotOptions):
        return comparisons.night_columns(source)
    if isinstance(options, kinds.RegionsOptions):
        return heatmap.region_columns(source, options)
    if isinstance(options, kinds.JudgedPlot):
        return columns_used(options.judged, source)
    assert isinstance(options, kinds.GridPlot | kinds.RecallGainOptions | kinds.EceAtOptions)
    if is_grid_table(source):
        return {name: name for name in ("count", "positives", "mean_score")}
    return resolve(source, options.columns, label=True, uncertainty=True).roles


def draw(shown: Points, look: Look | None = None, figure: Figure | None = None) -> Figure:
    """Return the picture of some points: on a new figure, or one that is empty and of its size."""
    look = look or Look()
    size = _size(shown, look)
    with settings(look, size):
        sheet = Sheet(look, size, KINDS[shown.kind].HEADING, figure)
        _KINDS[shown.kind][1](shown, sheet)
        return sheet.finish()


def axes(shown: Points, options: PlotOptions) -> Axes:
    """Return the main axes of a picture: those of the options, else of a new figure of pyplot."""
    need_matplotlib()
    import matplotlib
    from matplotlib import pyplot

    if options.ax is None:
        figure = pyplot.figure(figsize=_size(shown, options.look))
        draw(shown, options.look, figure)
        return figure.axes[0]
    if not isinstance(options.ax, matplotlib.axes.Axes):
        raise UsageError(f"ax is {type(options.ax).__name__}; expected axes of matplotlib.")
    with (
        ALONE,
        matplotlib.rc_context({"text.parse_math": False}),
    ):  # a dollar in a name is no formula
        sheet = AxesSheet(options.ax, options.title)
        _KINDS[shown.kind][1](shown, sheet)
        sheet.finish()
    return sheet.main


def _size(shown: Points, look: Look) -> tuple[float, float]:
    own = KINDS[shown.kind].SIZE
    return look.width or own[0], look.height or own[1]


def picture(shown: Points, look: Look | None = None, format: str = "svg") -> bytes:  # noqa: A002 (the word of options)
    """Return the picture of some points as ``svg``, ``png`` or ``pdf``."""
    return to_bytes(draw(shown, look), format)
