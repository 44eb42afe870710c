"""Pictures that matplotlib draws, as parts of a page: in its colours, and with words for them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace

import polars as pl

from calibkit.errors import CalibkitError
from calibkit.evaluation.evaluate import Evaluated
from calibkit.evaluation.slices import ALL
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.grid_plots import HeatmapOptions
from calibkit.options.plot import DispersionOptions, PrecisionRecallOptions, RocOptions
from calibkit.reports import plots, reliability
from calibkit.reports.html import Markup, escaped, figure, number
from calibkit.reports.judged import curves_of
from calibkit.reports.points import MOST_LINES, Points

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
    "reliability": "Where scores hold what they say, the line lies on the diagonal. Dots are bins "
    "with their intervals, the step line is isotonic regression (CORP), bars count rows.",
    "precision-recall": "What each threshold would reach: precision against recall.",
    "roc": "Recall against the false positive rate; the diagonal is chance.",
    "heatmap": "How often rows are positive over score and uncertainty, and the line from which on "
    "the boundary selects.",
    "dispersion": "What the distance from the raters consists of: calibration, which a map can mend, "
    "and dispersion, which it cannot.",
    "disagreement": "How often two raters differ, against the predicted chance that they do.",
}


def pictures(
    source: Source | None,
    options: EvaluateOptions,
    found: Evaluated,
    boundary: BoundaryModel | None,
) -> list[Markup]:
    """Return the pictures of an evaluation that `found` and its rows allow, as figures.

    Parameters
    ----------
    source, options
        The rows, and what was evaluated on them.  None: rows too many to be read again; what the
        evaluation itself has found is drawn.
    found
        What was found, with its curves.
    boundary
        The boundary that was judged, read from the file that `options` name.
    """
    drawn: list[Markup] = []
    for make in _kinds(source, options, found, boundary):
        try:
            shown = make()
        except CalibkitError:  # raw scores, one class, too many lines: there is no such picture
            continue
        drawn.append(_figure(shown, len(drawn), found))
    return drawn


def _kinds(
    source: Source | None,
    options: EvaluateOptions,
    found: Evaluated,
    boundary: BoundaryModel | None,
) -> Iterator[Callable[[], Points]]:
    """Yield what makes the points of each picture."""
    if found.curves is not None:
        own = replace(found, curves=found.curves.filter(pl.col("slice") == ALL))
        yield lambda: reliability.of_evaluated(own, options)
    if source is None:
        return
    if options.counts is not None:
        yield lambda: plots.points(source, options.part(DispersionOptions, probs=options.patterns))
    if options.patterns or len(options.ranked) > MOST_LINES:
        return
    yield lambda: plots.points(source, curves_of(PrecisionRecallOptions, options))
    yield lambda: plots.points(source, curves_of(RocOptions, options))
    if boundary is not None and "uncertainty" in boundary.columns:
        yield lambda: plots.points(source, _grid(options, boundary))


def _grid(options: EvaluateOptions, boundary: BoundaryModel) -> HeatmapOptions:
    """Return the grid under a boundary: over the columns that it reads."""
    score, uncertainty = (boundary.columns[name] for name in ("score", "uncertainty"))
    return options.part(
        HeatmapOptions,
        score=score.name,
        scale=score.scale or "probability",
        uncertainty=options.uncertainty or uncertainty.name,
    )


def _figure(shown: Points, place: int, found: Evaluated) -> Markup:
    title = plots.KINDS[shown.kind].title
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
