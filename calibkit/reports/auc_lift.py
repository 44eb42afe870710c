"""AUC lift of scores over a baseline, on all rows or run by run.

Durfee, Gupta, Basu, "Heterogeneous calibration: a post-hoc model-agnostic framework for improved
generalization", figure 3: box plots of the test AUC lifts of several runs.
"""

from __future__ import annotations

import textwrap
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from calibkit.errors import UsageError
from calibkit.evaluation.evaluate import evaluate
from calibkit.evaluation.slices import ALL
from calibkit.files.sources import Source
from calibkit.options.plot import AucLiftOptions
from calibkit.reports.points import Points, in_per_cent, per_cent, undrawable
from calibkit.reports.style import Sheet, shown_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

SCHEMA = pl.Schema(
    {
        "score": pl.String,
        "slice": pl.String,
        "rows": pl.Float64,
        "auc_baseline": pl.Float64,
        "auc": pl.Float64,
        "lift": pl.Float64,
        "low": pl.Float64,
        "high": pl.Float64,
    }
)

#: From this many runs on, a box says more than the points alone.
LEAST_OF_A_BOX = 5


def points(source: Source, options: AucLiftOptions) -> Points:
    """Return AUC / AUC of the baseline - 1 for each score, on all rows and on each slice.

    ``low`` and ``high`` are those of the paired difference over the AUC of the baseline, which is
    taken as given.

    Raises
    ------
    UsageError
        Fewer than two scores; a column that is not there.
    DataError
        Rows of one class.
    """
    if len(options.names) < 2:
        raise UsageError("an AUC lift compares scores: name a --baseline and another --score.")
    spec = replace(options.judged, metrics=("count", "auc"))
    found = evaluate(spec, source)
    metrics, baseline = found.metrics, spec.ranked[0]
    rows = []
    for score in spec.ranked[1:]:
        for part, own in metrics.metrics[score].items():
            base = metrics.metrics[baseline][part]["auc"]
            paired = metrics.differences[f"{score}-{baseline}"][part]["auc"]
            known = base is not None and base > 0 and paired.value is not None
            ends = (paired.value, paired.low, paired.high)
            lift, low, high = (
                end / base if known and base and end is not None else None for end in ends
            )
            rows.append((score, part, own["count"], base, own["auc"], lift, low, high))
    table = pl.DataFrame(rows, schema=SCHEMA, orient="row")
    if table["lift"].count() == 0:
        raise undrawable(source, "no slice has rows of both classes, which an AUC needs")
    interval = per_cent(spec.confidence, spec.intervals)
    words = {"baseline": baseline, "by": spec.by or "", "interval": interval}
    return Points.of("auc-lift", table, found, **words)


def draw(shown: Points, sheet: Sheet) -> None:
    """Draw, for each score, a box over its runs with a point a run, or its lift with an interval."""
    (panel,) = sheet.panels()
    runs = shown.table.filter(pl.col("slice") != ALL, pl.col("lift").is_not_null())
    table = runs if runs.height else shown.table.filter(pl.col("lift").is_not_null())
    names = table["score"].unique(maintain_order=True).to_list()
    for place, name in enumerate(names):
        own = table.filter(pl.col("score") == name)
        _draw_one(panel, own, place, sheet)
    panel.axhline(0.0, zorder=1, **sheet.guide)
    panel.set_xlim(-0.6, len(names) - 0.4)
    each = max(6, sheet.fitting(0.8 * sheet.size[0] / len(names)))
    panel.set_xticks(range(len(names)), [_wrapped(name, each) for name in names])
    panel.grid(visible=False, axis="x")
    panel.yaxis.set_major_formatter(in_per_cent)
    words = shown.words
    over = f"one point a value of {words['by']}" if runs.height else "all rows"
    if not runs.height and "interval" in words:
        over += f", {words['interval']} interval"
    sheet.label(panel, x=over, y=f"AUC lift over {words['baseline']}")


def _draw_one(panel: Axes, own: pl.DataFrame, place: int, sheet: Sheet) -> None:
    line, lifts = sheet.line(place), own["lift"].to_numpy()
    boxed = lifts.size >= LEAST_OF_A_BOX
    if boxed:
        edge = {"color": line["color"], "lw": 1.2}
        panel.boxplot(
            [lifts],
            positions=[place],
            widths=0.45,
            showfliers=False,
            boxprops=edge,
            whiskerprops=edge,
            capprops=edge,
            medianprops={"color": sheet.ink, "lw": 1.6},
        )
    # Points of one run stand side by side in their order, so that none hides another.
    span = 0.0 if lifts.size == 1 else 0.15
    x = place + np.linspace(-span, span, lifts.size)
    if not boxed:
        sheet.whiskers(panel, place, x, own["low"], own["high"])
    sheet.series(panel, place, x, lifts, zorder=3, ls="none", ms=4.0)


def _wrapped(name: str, long: int) -> str:
    return "\n".join(textwrap.wrap(shown_name(name), long)) or name
