"""What is shown of an evaluation: its picture, and its page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from typing import Final

from calibkit.errors import CalibkitError
from calibkit.evaluation.evaluate import Evaluated
from calibkit.evaluation.slices import ALL
from calibkit.files.inputs import Part
from calibkit.files.sources import Source
from calibkit.methods.boundary.result.model import BoundaryModel
from calibkit.models.kinds import view_of
from calibkit.models.model import Model
from calibkit.models.page import Page, Table
from calibkit.options.evaluate import EvaluateOptions
from calibkit.options.grid_plots import HeatmapOptions
from calibkit.options.plot import (
    CurveOptions,
    DispersionOptions,
    PrecisionRecallOptions,
    RocOptions,
    ThresholdOptions,
)
from calibkit.reports import plots, reliability
from calibkit.reports.html import Markup
from calibkit.reports.html_boundary import beside, in_short
from calibkit.reports.html_plots import figure_of
from calibkit.reports.html_report import report
from calibkit.reports.points import MOST_LINES, Points
from calibkit.views.answer import rule

_NO_PICTURES: Final = (
    "More pictures (precision and recall, ROC, the boundary over score and uncertainty) come with the "
    "extra calibkit[plot]: pip install 'calibkit[plot]'."
)

_TOO_MANY: Final = (
    "Pictures that need all rows at once are left out: the rows do not fit into the memory given "
    "(--memory)."
)


def picture_of(options: EvaluateOptions, source: Source, found: Evaluated, format: str) -> bytes:  # noqa: A002 (the word of options)
    """Return the picture of an evaluation with curves, over all rows, as ``svg`` or ``png``.

    A reliability diagram; of votes that of the predicted disagreement; of raw scores the ROC curve.

    Raises
    ------
    DataError
        Where there is nothing to draw.
    """
    if options.scale == "raw" and not options.patterns:
        shown = plots.points(source, _curves(RocOptions, options))
    else:
        shown = _reliability(options, found)
    return plots.picture(shown, format=format)


def page_of(options: EvaluateOptions, source: Source, found: Evaluated) -> bytes:
    """Return the HTML page of an evaluation with curves; pictures of all rows where these fit."""
    model = options.model
    drawn: list[Markup] = []
    remark = _NO_PICTURES
    if find_spec("matplotlib") is not None:
        fits = source.memory is None or source.rows <= source.memory.entries
        for make in _shown(options, source if fits else None, found):
            try:
                shown = make()
            except CalibkitError:  # raw scores, one class, too many lines: no such picture
                continue
            drawn.append(figure_of(shown, len(drawn), found))
        remark = "" if fits else _TOO_MANY
    return report(
        found,
        inputs=[_named(part) for part in source.parts],
        confidence=options.confidence if options.intervals else None,
        short=in_short(model if isinstance(model, BoundaryModel) else None, found.metrics),
        story=[] if model is None else [*_story(model, found)],
        pictures=drawn,
        remark=remark,
    )


def _shown(
    options: EvaluateOptions, source: Source | None, found: Evaluated
) -> Iterator[Callable[[], Points]]:
    """Yield what makes the points of each picture of a page; without a source, of `found` alone."""
    if found.curves is not None:
        yield lambda: _reliability(options, found)
    if source is None:
        return
    if options.counts is not None:
        yield lambda: plots.points(source, options.part(DispersionOptions, probs=options.patterns))
    if options.patterns or len(options.ranked) > MOST_LINES:
        return
    if len(options.ranked) == 1:
        yield lambda: plots.points(source, _thresholds(options))
    yield lambda: plots.points(source, _curves(PrecisionRecallOptions, options))
    yield lambda: plots.points(source, _curves(RocOptions, options))
    model = options.model
    if isinstance(model, BoundaryModel) and "uncertainty" in model.columns:
        yield lambda: plots.points(source, _grid(options, model))


def _reliability(options: EvaluateOptions, found: Evaluated) -> Points:
    """Return the reliability of all rows: of votes that of the predicted disagreement."""
    whole = found.curves
    if whole is not None:
        whole = whole.filter(whole["slice"] == ALL)
    return reliability.of_evaluated(replace(found, curves=whole), options)


def _curves(kind: type[CurveOptions], options: EvaluateOptions) -> CurveOptions:
    """Return which curves to draw of what was evaluated."""
    boundary = () if options.boundary is None else options.boundary
    return options.part(kind, scores=options.ranked, boundary=boundary)


def _thresholds(options: EvaluateOptions) -> ThresholdOptions:
    """Return what a threshold of the score gives, with those that were judged."""
    model = options.model
    one = isinstance(model, BoundaryModel) and not model.groups and len(model.score_thresholds) == 1
    boundary = options.boundary if one and options.boundary is not None else ()
    return options.part(ThresholdOptions, scores=options.ranked, boundary=boundary, decision=None)


def _grid(options: EvaluateOptions, boundary: BoundaryModel) -> HeatmapOptions:
    """Return the grid under a boundary: over the columns that it reads."""
    score, uncertainty = (boundary.columns[name] for name in ("score", "uncertainty"))
    return options.part(
        HeatmapOptions,
        score=score.name,
        scale=score.scale or "probability",
        uncertainty=options.uncertainty or uncertainty.name,
    )


def _named(part: Part) -> str:
    return "standard input" if part.path == "-" else part.relative or part.path


def _story(model: Model, found: Evaluated) -> Iterator[str | Table]:
    """Yield what a boundary led to expect beside what was found, and all that is to say of it."""
    if isinstance(model, BoundaryModel):
        yield from beside(model, found.metrics)
    page = Page(everything=True)
    view_of(model).view(model, page)
    if isinstance(model, BoundaryModel):  # what to expect on new data stands beside what was found
        page.parts[0] = rule(model)
    yield from filter(None, page.parts)  # an empty line parts paragraphs, as HTML does anyway
