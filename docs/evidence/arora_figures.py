"""Figures 3 and 9 of Arora and others, drawn in the style of ``calibkit plot``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from boundary_study import Floats
from pages import FOLDER as PAGES

from calibkit.options.plot import Look
from calibkit.reports.style import Sheet, settings, to_bytes

FOLDER = PAGES / "figures"
SIZE = (5.0, 4.4)


@dataclass(frozen=True)
class Curve:
    """A line of a figure, and points beside it."""

    name: str
    x: Floats
    y: Floats
    points_x: Sequence[float] | Floats = ()
    points_y: Sequence[float] | Floats = ()


def write(
    file: str,
    title: str,
    axes: tuple[str, str],
    curves: Sequence[Curve],
    *,
    diagonal: bool = False,
    log: bool = False,
) -> None:
    """Draw curves as docs/evidence/figures/FILE.

    Points of a curve (simulated ones, say) have its marker, the curve itself has none.  `diagonal`
    draws what calibrated scores would be; `log` has x by its logarithm.
    """
    look = Look(title=title)
    with settings(look, SIZE):
        sheet = Sheet(look, SIZE, title)
        (panel,) = sheet.panels()
        for place, curve in enumerate(curves):
            own = sheet.line(place)
            panel.plot(curve.x, curve.y, **{**own, "marker": ""}, zorder=3)
            shown = {**own, "marker": own["marker"] if len(curve.points_x) else ""}
            if len(curve.points_x):
                dots = {**own, "ls": "none", "ms": 3.5}
                panel.plot(curve.points_x, curve.points_y, **dots, **sheet.rim, zorder=4)
            sheet.entry(curve.name, **shown)
        if diagonal:
            ends = np.array([0.0, 1.0])
            panel.plot(ends, ends, zorder=1, **sheet.guide)
            sheet.entry("calibrated", **sheet.guide)
        if log:
            panel.set_xscale("log")
            panel.set_xticks(curves[0].x, [f"{x:,.10g}" for x in curves[0].x])
            panel.minorticks_off()
        sheet.label(panel, x=axes[0], y=axes[1])
        picture = to_bytes(sheet.finish())
    (FOLDER / file).write_bytes(picture)
