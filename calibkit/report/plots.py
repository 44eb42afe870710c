"""All kinds of pictures: what each shows, its size and title, and how it is drawn.

    points(kind, source, spec) -> Points      the numbers, a table; no matplotlib needed
    draw(points, look) -> Figure              the picture of these numbers
    to_svg(figure), to_png(figure) -> bytes   its bytes, the same each time

A kind is a module with ``points(source, spec)`` and ``draw(points, sheet)``.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Any

from calibkit.errors import UsageError, nearest
from calibkit.files.sources import Source
from calibkit.report.look import Look
from calibkit.report.points import Points
from calibkit.report.style import Sheet, settings, to_png, to_svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["KINDS", "Kind", "Look", "Points", "draw", "picture", "points", "to_png", "to_svg"]


@dataclass(frozen=True)
class Kind:
    """A kind of picture: its module, title, and size in inches."""

    module: str
    title: str
    size: tuple[float, float]


#: All kinds, in the order of the help.
KINDS = {
    "reliability": Kind("reliability", "Reliability diagram", (5.0, 5.2)),
    "precision-recall": Kind("precision_recall", "Precision and recall", (5.5, 4.5)),
    "roc": Kind("roc", "ROC curve", (5.0, 4.8)),
    "positivity": Kind("positivity", "Positivity by score and uncertainty", (5.5, 4.8)),
    "heatmap": Kind("heatmap", "Positivity over score and uncertainty", (6.0, 4.5)),
    "recall-gain": Kind("recall_gain", "Recall gained by uncertainty", (5.5, 5.0)),
    "ece-at": Kind("ece_at", "Calibration error by score bin", (5.5, 5.0)),
    "bias": Kind("bias", "Calibration among the highest scores", (5.5, 5.0)),
    "dispersion": Kind("dispersion", "Calibration-dispersion map", (5.5, 4.8)),
    "disagreement": Kind("disagreement", "Reliability of predicted disagreement", (5.0, 5.2)),
    "auc-lift": Kind("auc_lift", "AUC lift", (5.0, 4.2)),
}


def points(kind: str, source: Source, spec: Any) -> Points:
    """Return what a picture of rows shows.

    Parameters
    ----------
    kind
        A key of `KINDS`.
    source
        The rows.
    spec
        What to show, as the function ``points`` of the kind's module takes it.

    Raises
    ------
    UsageError
        A kind that does not exist, columns that are not there, options that do not fit.
    DataError
        Values that are missing, out of range or of the wrong type.
    """
    found: Points = _module(kind).points(source, spec)
    return found


def draw(shown: Points, look: Look | None = None) -> Figure:
    """Return the picture of some points.

    Raises
    ------
    UsageError
        Where matplotlib is not installed.
    """
    look, kind = look or Look(), KINDS[shown.kind]
    size = (look.width or kind.size[0], look.height or kind.size[1])
    with settings(look, size):
        sheet = Sheet(look, size, kind.title)
        _module(shown.kind).draw(shown, sheet)
        return sheet.finish()


def picture(shown: Points, look: Look | None = None, format: str = "svg") -> bytes:  # noqa: A002 (the word of options)
    """Return the picture of some points as ``svg`` or ``png``."""
    return {"svg": to_svg, "png": to_png}[format](draw(shown, look))


def _module(kind: str) -> ModuleType:
    if kind not in KINDS:
        raise UsageError(
            f"there is no plot {kind!r}{nearest(kind, KINDS)}; the kinds are {', '.join(KINDS)}."
        )
    return importlib.import_module(f"calibkit.report.{KINDS[kind].module}")
