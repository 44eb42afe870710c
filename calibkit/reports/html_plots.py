"""Pictures that matplotlib draws, as parts of a page: in its colours, and with words for them."""

from __future__ import annotations

import re

from calibkit.evaluation.evaluate import Evaluated
from calibkit.evaluation.slices import ALL
from calibkit.reports import plots
from calibkit.reports.html import Markup, escaped, figure, number
from calibkit.reports.points import Points

#: What the light style draws with, and the names of these colours on the page.
_COLOURS = {
    "#1a1a1a": "--ink",
    "#000000": "--ink",
    "#d9d9d9": "--line",
    "#ffffff": "--ground",
    "#0072b2": "--series",
}

_BEFORE = re.compile(r"^.*?(?=<svg )", re.DOTALL)
_STYLE = re.compile(r"<defs><style.*?</style></defs>", re.DOTALL)
_LABEL = re.compile(r'aria-label="[^"]*"')
_SPACES = re.compile(r' xmlns(:xlink)?="[^"]*"')  # HTML knows them
_NAMES = re.compile(r'(\bid="|url\(#|href="#)')

#: What each kind of picture says, below it.
_WORDS = {
    "reliability": "Calibrated scores lie on the diagonal. Dots are bins "
    "with their intervals, the step line is isotonic regression (CORP), bars count rows.",
    "threshold": "Precision, recall and the share of rows that raise an alert, at every threshold; "
    "bands are intervals.",
    "precision-recall": "What each threshold would reach: precision against recall.",
    "roc": "Recall against the false positive rate; the diagonal is chance.",
    "heatmap": "How often rows are positive over score and uncertainty, and the line from which on "
    "the boundary selects.",
    "dispersion": "What the distance from the raters consists of: calibration, which a map can "
    "correct, and dispersion, which it cannot.",
    "disagreement": "How often two raters differ, against the predicted chance that they do.",
}


def figure_of(shown: Points, place: int, found: Evaluated) -> Markup:
    """Return the picture of some points of an evaluation, the `place`-th of its page, as a figure."""
    title = plots.KINDS[shown.kind].HEADING
    words = f"{title}. {_WORDS[shown.kind]}"
    svg = plots.picture(shown, plots.Look(title="", transparent=True)).decode()
    alt = f"{title}{_spoken(shown, found)}."
    return figure(inline(svg, alt, f"picture{place}-"), words)


def _spoken(shown: Points, found: Evaluated) -> str:
    """Return the main numbers behind a picture, for people who do not see it."""
    metric = {"reliability": "ece", "precision-recall": "average_precision", "roc": "auc"}
    name = metric.get(shown.kind, "epistemic_loss")
    parts = [
        f"{score}: {name} {number(slices[ALL][name])}"
        for score, slices in found.metrics.metrics.items()
        if slices[ALL].get(name) is not None
    ]
    return f" ({'; '.join(parts)})" if parts else ""


def inline(svg: str, alt: str, prefix: str) -> Markup:
    """Return an SVG file of the light style as an element of a page, in the page's colours.

    Its names get a prefix, because two pictures of one page may not share any.
    """
    element = _STYLE.sub("", _BEFORE.sub("", svg, count=1), count=1)
    element = _SPACES.sub("", element, count=2)
    element = _NAMES.sub(lambda found: f"{found[1]}{prefix}", element)
    for colour, name in _COLOURS.items():
        element = element.replace(colour, f"var({name})")
    return Markup(_LABEL.sub(f'aria-label="{escaped(alt)}"', element, count=1).strip())
